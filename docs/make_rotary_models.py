"""Write rotary-models.md from the table that `Rotary.from_config` reads: ``python docs/make_rotary_models.py``, or ``--print``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path

from posenc_fast._rotary.config.families import FAMILIES, Family
from posenc_fast._rotary.config.models import FACTORS, HEADS, NO_ROTARY, NO_ROTATIONS, PARTS, UNREADABLE, usual_base

HEAD = """\
# Which rotary does my model use?

`Rotary.from_config` reads a model's config.json, or a part of one, or a config of transformers, and says what is missing
where it cannot tell. This page is the table that it reads, written by `docs/make_rotary_models.py`; each row is compared
with the class of transformers 5.23 in the tests.

```python
import numpy as np
import posenc_fast as pf

config = {                                              # or the path of a config.json, or AutoConfig.from_pretrained(..)
    "model_type": "gemma3_text",
    "head_dim": 256,
    "num_hidden_layers": 26,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
local = pf.Rotary.from_config(config, layer=0)          # or layer_type="sliding_attention"
whole = pf.Rotary.from_config(config, layer=5)
assert local == pf.Rotary(256)
assert whole == pf.Rotary(256, base=1000000.0, scaling={"rope_type": "linear", "factor": 8.0})
```

- A config of several parts (`text_config`, `vision_config`, ..) is read as that of its text. Others are given by
  themselves, with their `model_type`: `from_config(config["vision_config"])`.
- Where layers differ, `layer=` or `layer_type=` says which is meant. The result is None for a layer without rotary
  encoding.
- `layout=` is for weights in another order, such as original files of Llama and Mistral, and makes unknown types readable.
- dynamic and longrope need `seq_len=`, the length of the sequence, on which their frequencies depend.
- What contradicts itself, or what packages read in different ways, is refused: sections that do not fit the pairs, a base or
  a part of the width that the class does not read, null where a number is needed, keys that are misspelt.

## By model

Pairs are half of what turns apart ("half"), side by side ("interleaved"), or side by side before and half apart after
("interleaved_to_half"). A width is the first of its keys that a config has; numbers in brackets are those that a class
takes where a file has none. Where a part of the width turns, it is the first values, unless a row says otherwise.

"""

SCALINGS = """
## Other scalings

telechat3-yarn, yarn_log and theta_scale (Grok), ntk with alpha (HunYuan), openPangu's order of axes and proportional
(p-RoPE) are read where a config has them. XDRoPE turns pairs in the model's own code:

```python
scaling = {"type": "xdrope", "alpha": 1000.0, "xdrope_section": [16, 16, 16, 16]}
rotary = pf.Rotary.from_config({"head_dim": 128, "rope_scaling": scaling}, layout="half")
assert rotary == pf.Rotary(128, scaling={"rope_type": "ntk", "alpha": 1000.0}, sections=[16, 16, 16, 16])
```

Learned frequencies, and those of Resonance RoPE (whole wavelengths) or HoPE (the slowest do not turn), are given as they
are:

```python
plain = pf.Rotary(128)
resonance = pf.Rotary(128, frequencies=2 * np.pi / np.round(2 * np.pi / plain.frequencies))
hope = pf.Rotary(128, frequencies=np.where(plain.frequencies < 2 * np.pi / 4096, 0, plain.frequencies))
```

FoPE mixes cosines, and sines, of several frequencies by learned weights of each head, which is no rotation by a position
any more. Its tables turn pairs all the same:

```python
heads, length, pairs = 8, 100, 64
rng = np.random.default_rng(0)
mix_cos, mix_sin = rng.normal(0, 0.1, (2, heads, pairs, pairs)) + np.eye(pairs)     # from a checkpoint

rotary = pf.Rotary(2 * pairs)
cos, sin = rotary.tables(length, dtype=np.float64)
queries = rng.standard_normal((heads, length, 2 * pairs), np.float32)
turned = rotary.apply_tables(queries, cos @ mix_cos, sin @ mix_sin)
```

"""


def ticked(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def number(value: float) -> str:
    return f"{value:.12g}"


def grouped(values: dict[str, float]) -> str:
    """The usual value, and the others with the models that have them."""
    groups = by_value(values)
    usual = max(groups, key=lambda group: len(group[1]))[0]
    return "; ".join([number(usual), *(f"{number(one)}: {', '.join(names)}" for one, names in groups if one != usual)])


def by_value(values: dict[str, float]) -> list[tuple[float, list[str]]]:
    return [(one, [model for model, value in values.items() if value == one]) for one in sorted(set(values.values()))]


def of(table: dict[str, float], family: Family) -> dict[str, float]:
    return {model: table[model] for model in family.models.split() if model in table}


def width(family: Family) -> str:
    ways = [f"`{key}`" for key in family.width]
    if family.per_head is not None:
        ways.append(f"`{family.per_head[0]} // {family.per_head[1]}`")
    heads = of(dict(HEADS), family) if "head_dim" in family.width else {}
    known = "; ".join(f"{value}: {', '.join(names)}" for value, names in by_value(heads))
    return ", or ".join(ways) + (f" ({known})" if known else "")


def part(family: Family) -> str:
    if family.factor is None:
        return ""
    keys = ticked(dict.fromkeys([*family.dims, *family.factor_keys]))
    factors = {model: FACTORS.get(model, family.factor) for model in family.models.split()}
    return f"; {keys} of it ({grouped(factors)})" if keys else ""


def bases(family: Family) -> str:
    if family.groups:
        return "; ".join(
            f"{name}: {ticked(group.base_keys)}{' ' if group.base_keys else ''}({number(group.base)})"
            for name, group in family.groups.items()
        )
    usual = {model: usual_base(model) for model in family.models.split()}
    return f"{ticked(family.base_keys)} ({grouped(usual)})" if family.base_keys else grouped(usual)


def notes(family: Family) -> str:
    said = [rule.words for rule in family.without if rule.words]
    if family.switch is not None:
        said.append(f"{family.switch[1]} where `{family.switch[0]}` is false")
    said += [f"`{key}` must be {value}" for key, value, default, _ in family.needs if value != default]
    said += [family.note] if family.note else []
    return "; ".join(said)


def axes(family: Family) -> str:
    if family.sections is None:
        return ""
    counts = family.sections.default
    words = family.sections.rule.replace("_", " ")
    return f"{family.sections.axes}, {words}" + (f" {list(counts)}" if counts else "")


def row(family: Family) -> str:
    turned = "" if family.turned == "the head" else f"; {family.turned}"
    cells = [
        family.name,
        ticked(family.models.split()),
        family.layout,
        width(family) + part(family) + turned,
        bases(family),
        axes(family),
        notes(family),
        family.source,
    ]
    return "| " + " | ".join(cells) + " |"


def page() -> str:
    columns = ["family", "model_type", "pairs", "what turns", "base", "axes", "notes", "source"]
    lines = [HEAD + "| " + " | ".join(columns) + " |", "|" + " --- |" * len(columns), *map(row, FAMILIES)]
    lines.append(
        "\n## Models of several parts\n\n| model_type | read | as, where it names no type |\n| --- | --- | --- |"
    )
    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for model, parts in PARTS.items():
        alike.setdefault(tuple(parts.items()), []).append(model)
    for items, models in sorted(alike.items(), key=lambda one: (len(one[0]), sorted(one[1]))):
        keys = " or ".join(f"`{key}`" for key, _ in items) + (", which must be given" if len(items) > 1 else "")
        lines.append(
            f"| {ticked(sorted(models))} | {keys} | {ticked(dict.fromkeys(part for _, part in items if part))} |"
        )
    lines.append("\n## What is no Rotary\n\n| model_type or rope_type | why |\n| --- | --- |")
    lines += [f"| `{name}` | {why} |" for name, why in {**UNREADABLE, **NO_ROTATIONS}.items()]
    lines.append(f"\nWithout rotary encoding: {ticked(sorted(NO_ROTARY))}.")
    return "\n".join(lines) + "\n" + SCALINGS.rstrip() + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(page())
    else:
        here = Path(__file__)
        here.with_name("rotary-models.md").write_text(page(), encoding="utf-8")
        changes = here.parents[1] / "CHANGELOG.md"
        count = str(sum(len(family.models.split()) for family in FAMILIES))
        text = re.sub(r"(?<=reads )\d+(?= model types)", count, changes.read_text(encoding="utf-8"))
        changes.write_text(text, encoding="utf-8")
