"""Print how far results are from the exact value, for this project and for the usual programs, as two tables.

``python bench/accuracy.py`` (``--samples``, ``--seed``, ``--write``; it needs mpmath, and uses jax, torch, transformers,
diffusers and positional-encodings where they are installed). Counts are per distance in ulps of the exact value, measured
against mpmath with more than 1300 bits. ``--libraries`` prints the second table alone: the largest error of each library at
four magnitudes of positions, which ``--write`` puts into docs/why.md.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

import mpmath
import numpy as np
import tables

import posenc_fast as pf
from posenc_fast._core.numbers.formats import types_here

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support import exact

WIDTH = 64
RANGES = {
    "0..4095": lambda rng, n: rng.integers(0, 4096, n),
    "1e6": lambda rng, n: rng.integers(10**6, 2 * 10**6, n),
    "unix seconds": lambda rng, n: rng.integers(1_600_000_000, 1_900_000_000, n),
    "unix ms": lambda rng, n: rng.integers(1_600_000_000_000, 1_900_000_000_000, n),
    "int64": lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n),
}
CLASSES = ("0", "≤ 0.5", "≤ 1", "≤ 2", "≤ 3", "more")
# of the table of libraries: positions at and after these
STARTS = {"1e3": 10**3, "1e5": 10**5, "1e6": 10**6, "unix seconds": 1_700_000_000}
# rows that a ready table may have here
MOST_ROWS = 2**21
PACKAGES = {
    "jax": "jax",
    "torch": "torch",
    "transformers": "transformers",
    "diffusers": "diffusers",
    "positional-encodings": "positional_encodings",
}


def ours(backend, isa, call, dtype):
    """rows(positions) of one backend."""
    encoding = pf.sinusoidal(WIDTH)

    def rows(positions):
        with pf.use_backend(backend, isa):
            if call == "encode":
                return encoding.encode(positions, dtype=dtype)
            if call == "table":
                return np.concatenate([encoding.table(1, start=int(p), dtype=dtype) for p in positions])
            x = np.zeros((len(positions), WIDTH), encoding.table(0, dtype=dtype).dtype)
            return encoding.add_to(x, positions=positions)

    return rows


def numpy_rows(dtype):
    def rows(positions):
        angles = positions.astype(dtype)[:, None] * (10000.0 ** (-np.arange(0, WIDTH, 2) / WIDTH)).astype(dtype)
        return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(len(positions), WIDTH)

    return rows


def interleaved(sines_then_cosines):
    halves = np.asarray(sines_then_cosines).reshape(len(sines_then_cosines), 2, WIDTH // 2)
    return halves.transpose(0, 2, 1).reshape(-1, WIDTH)


def torch_rows(positions):
    import torch

    angles = torch.tensor(positions).float()[:, None] * torch.exp(
        torch.arange(0, WIDTH, 2) * (-np.log(10000.0) / WIDTH)
    )
    return torch.stack([torch.sin(angles), torch.cos(angles)], dim=2).reshape(len(positions), WIDTH).numpy()


def transformers_rows(positions):
    import torch
    from transformers.models.gptj.modeling_gptj import create_sinusoidal_positions

    # the table of the positions, shifted to begin at the first: its formula is linear in the index
    table = create_sinusoidal_positions(int(max(positions)) + 1, WIDTH)
    return interleaved(table[torch.tensor(positions)].numpy())


def diffusers_rows(positions):
    import torch
    from diffusers.models.embeddings import get_timestep_embedding

    return interleaved(get_timestep_embedding(torch.tensor(positions), WIDTH, downscale_freq_shift=0).numpy())


def positional_encodings_rows(positions):
    import torch
    from positional_encodings.torch_encodings import PositionalEncoding1D

    table = PositionalEncoding1D(WIDTH)(torch.zeros(1, int(max(positions)) + 1, WIDTH))[0]
    return table[torch.tensor(positions)].numpy()


def llama_rows(dtype, converted=False):
    """rows(positions) of Llama's rotary module for inputs of a dtype; converted: after ``.to(dtype)``."""

    def rows(positions):
        import torch
        from transformers import LlamaConfig
        from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

        module = LlamaRotaryEmbedding(LlamaConfig(head_dim=WIDTH))
        x = torch.zeros(1, dtype=getattr(torch, dtype))
        cos, sin = (module.to(x.dtype) if converted else module)(x, torch.tensor(positions)[None])
        return interleaved(torch.cat((sin[0, :, : WIDTH // 2], cos[0, :, : WIDTH // 2]), 1).float().numpy())

    return rows


def diffusers_rotary_rows(dtype):
    def rows(positions):
        import torch
        from diffusers.models.embeddings import get_1d_rotary_pos_embed

        cos, sin = get_1d_rotary_pos_embed(
            WIDTH, positions, use_real=True, repeat_interleave_real=False, freqs_dtype=getattr(torch, dtype)
        )
        return interleaved(torch.cat((sin[:, : WIDTH // 2], cos[:, : WIDTH // 2]), 1).numpy())

    return rows


def jax_rows(positions):
    import jax.numpy as jnp

    frequencies = jnp.exp(jnp.arange(0, WIDTH, 2) * (-np.log(10000.0) / WIDTH))
    angles = jnp.asarray(positions.astype(np.float32))[:, None] * frequencies
    return interleaved(jnp.concatenate((jnp.sin(angles), jnp.cos(angles)), 1))


def programs():
    """(name, what it computes with, package that it needs, rows, largest position) of each program."""
    anywhere, within = 2**63, MOST_ROWS
    yield "posenc_fast", "any type, any position", None, pf.sinusoidal(WIDTH).encode, anywhere
    yield "NumPy's formula", "float64 angles", None, numpy_rows(np.float64), anywhere
    yield "NumPy's formula", "float32 angles", None, numpy_rows(np.float32), anywhere
    yield "PyTorch's tutorial", "float32 angles", "torch", torch_rows, anywhere
    yield "the same in jax", "float32 angles", "jax", jax_rows, anywhere
    yield "transformers, GPT-J's table", "float32 angles", "transformers", transformers_rows, within
    yield "transformers, Llama", "float32 angles", "transformers", llama_rows("float32"), anywhere
    yield "transformers, Llama, bfloat16 tables", "float32 angles", "transformers", llama_rows("bfloat16"), anywhere
    yield (
        "transformers, Llama, after `.to(torch.bfloat16)`",
        "**bfloat16 frequencies**",
        "transformers",
        llama_rows("bfloat16", converted=True),
        anywhere,
    )
    yield "diffusers, timesteps", "float32 angles", "diffusers", diffusers_rows, anywhere
    yield "diffusers, rotary", "float32 angles", "diffusers", diffusers_rotary_rows("float32"), anywhere
    yield "diffusers, rotary of Flux", "float64 angles", "diffusers", diffusers_rotary_rows("float64"), anywhere
    yield (
        "positional-encodings",
        "float32 angles",
        "positional-encodings",
        positional_encodings_rows,
        within,
    )


def libraries(rng, samples):
    """Return the table of libraries: the largest error of each at STARTS."""
    drawn = {name: start + rng.integers(0, start // 1000 + samples, samples) for name, start in STARTS.items()}
    true = {name: exact_rows(positions) for name, positions in drawn.items()}
    lines = [f"| library | computes with | {' | '.join(STARTS)} |", "|---|---|" + "---:|" * len(STARTS)]
    for name, arithmetic, package, rows, most in programs():
        if package is not None and importlib.util.find_spec(PACKAGES[package]) is None:
            continue
        cells = [
            shown(largest_error(rows(positions), true[title])) if positions.max() <= most else ""
            for title, positions in drawn.items()
        ]
        lines.append(f"| {name} | {arithmetic} | {' | '.join(cells)} |")
    return "\n".join(lines)


def largest_error(got, true):
    with mpmath.workprec(exact.PRECISION):
        return max(
            float(abs(mpmath.mpf(float(value)) - exactly))
            for row, values in zip(got, true, strict=True)
            for value, exactly in zip(row, values, strict=True)
        )


def shown(error):
    return f"{error:.0e}" if error < 0.1 else f"{error:.1g}"


def implementations(brief):
    """(name, dtype, call, rows, largest position) of all that is here."""
    best = (pf.isa_levels() or (None,))[-1]
    backends = [(f"posenc_fast {isa}", "cython", isa) for isa in pf.isa_levels()] + [
        ("posenc_fast python", "python", None)
    ]
    for dtype in sorted(types_here(), key=lambda name: name != "float32"):
        for call in ("table", "encode", "add_to"):
            for name, backend, isa in backends:
                if isa != best and (brief or dtype != "float32"):
                    continue
                if not brief or call == ("table" if dtype == "float32" else "encode"):
                    yield name, dtype, call, ours(backend, isa, call, dtype), 2**63
    yield "NumPy float64 formula", "float64", "encode", numpy_rows(np.float64), 2**63
    yield (
        "NumPy float64, stored as float32",
        "float32",
        "encode",
        lambda p: numpy_rows(np.float64)(p).astype(np.float32),
        2**63,
    )
    yield "NumPy float32 angles", "float32", "encode", numpy_rows(np.float32), 2**63
    peers = {
        "torch": (torch_rows, "encode", 2**63),
        "transformers": (transformers_rows, "table", 2**13),
        "diffusers": (diffusers_rows, "encode", 2**63),
        "positional-encodings": (positional_encodings_rows, "table", 2**13),
    }
    for name, (rows, call, most) in peers.items():
        if importlib.util.find_spec(PACKAGES[name]) is not None:
            yield name, "float32", call, rows, most


def exact_rows(positions):
    frequencies = exact.schedule(WIDTH)
    return [[value for f in frequencies for value in exact.sincos(int(p), f)] for p in positions]


def measure(got, true, dtype):
    """Counts per class, and the largest absolute error."""
    counts, largest = dict.fromkeys(CLASSES, 0), 0.0
    with mpmath.workprec(exact.PRECISION):
        for row, values in zip(got, true, strict=True):
            for value, exactly in zip(row, values, strict=True):
                error = abs(mpmath.mpf(float(value)) - exactly)
                distance = float(error / (2 * exact.half_ulp(exactly, dtype))) if exactly else float(error != 0)
                # half an ulp, and the little that the promise allows beyond it
                slack = mpmath.ldexp(1, -60 if dtype == "float64" else -50)
                allowed = 0.5 + float(slack / (2 * exact.half_ulp(exactly, dtype))) if exactly else 0.5
                limits = (0.0, allowed, 1.0, 2.0, 3.0, np.inf)
                counts[CLASSES[next(i for i, limit in enumerate(limits) if distance <= limit)]] += 1
                largest = max(largest, float(error))
    return counts, largest


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=40, help="positions for each range")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--brief", action="store_true", help="of this project the best level and one call a type")
    parser.add_argument("--libraries", action="store_true", help="the table of libraries alone")
    parser.add_argument(
        "--write", action="store_true", help="put the table of --brief and that of libraries into pages"
    )
    arguments = parser.parse_args()
    skipped = [name for name, module in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if skipped:
        print(f"Not installed here, and so left out: {', '.join(skipped)}.\n")
    if not arguments.libraries:
        print_counts(arguments)
    by_library = libraries(np.random.default_rng(arguments.seed), arguments.samples)
    print(by_library)
    if arguments.write:
        tables.put("docs/why.md", "libraries", by_library)


def print_counts(arguments):
    """Print the table of counts, line by line, and put it into its page where it is to be written."""
    rng = np.random.default_rng(arguments.seed)
    drawn = {name: draw(rng, arguments.samples) for name, draw in RANGES.items()}
    true = {name: exact_rows(positions) for name, positions in drawn.items()}
    table = [f"| implementation | type | call | positions | {' | '.join(CLASSES)} | largest error |"]
    table.append("|---|---|---|---|" + "---:|" * (len(CLASSES) + 1))
    print("\n".join(table))
    for name, dtype, call, rows, most in implementations(arguments.brief or arguments.write):
        for title, positions in drawn.items():
            if abs(int(positions.max())) > most:
                continue
            counts, largest = measure(rows(positions), true[title], dtype)
            cells = " | ".join(str(counts[c] or "") for c in CLASSES)
            table.append(f"| {name} | {dtype} | {call} | {title} | {cells} | {largest:.1e} |")
            print(table[-1], flush=True)
    print()
    if arguments.write:
        tables.put("bench/README.md", "counts", "\n".join(table))


if __name__ == "__main__":
    main()
