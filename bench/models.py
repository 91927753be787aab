"""A whole model with and without `posenc_fast.transformers.accelerate`: tokens a second, and the share of rotation.

A small model of Llama's shape with random weights, on the CPU: a prompt, and a token after a cache.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import timing
import torch
import transformers
from transformers.models.llama import modeling_llama

from posenc_fast.transformers import accelerate

NAME = "apply_rotary_pos_emb"
# the name under which the methods of an accelerated model find ours
OURS = f"_posenc_fast_{NAME}"
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
PROMPT = 512


def built(dtype: torch.dtype, layers: int) -> Any:
    """A model whose weights are the same each time."""
    config = transformers.LlamaConfig(
        hidden_size=1024,
        intermediate_size=2816,
        num_hidden_layers=layers,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=1000,
        max_position_embeddings=4096,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).to(dtype).eval()


def prompt(model: Any) -> Callable[[], Any]:
    """A call that reads a prompt."""
    tokens = torch.arange(PROMPT)[None] % 1000
    return lambda: model(input_ids=tokens, use_cache=False).logits


def token(model: Any) -> Callable[[], Any]:
    """A call that adds a token to a prompt, and forgets it."""
    cache = transformers.DynamicCache(config=model.config)
    model(input_ids=torch.arange(PROMPT)[None] % 1000, past_key_values=cache)
    one = torch.tensor([[7]])

    def step() -> Any:
        logits = model(input_ids=one, past_key_values=cache).logits
        cache.crop(-1)
        return logits

    return step


def share(call: Callable[[], Any], name: str, runs: int) -> float:
    """The part of a call's time that a function of Llama's module takes: the median."""
    function, taken = getattr(modeling_llama, name), [0.0]

    def timed(*args: Any, **kwargs: Any) -> Any:
        begin = time.perf_counter()
        result = function(*args, **kwargs)
        taken[0] += time.perf_counter() - begin
        return result

    setattr(modeling_llama, name, timed)
    try:
        parts = []
        for _ in range(runs + 1):
            taken[0], begin = 0.0, time.perf_counter()
            call()
            parts.append(taken[0] / (time.perf_counter() - begin))
    finally:
        setattr(modeling_llama, name, function)
    if not taken[0]:
        sys.exit(f"{name} was not called")
    return float(np.median(parts[1:]))


def check(plain: Any, fast: Any, dtype: torch.dtype) -> None:
    """That both say the same, as well as their type can."""
    off = ((plain - fast).abs().max() / plain.abs().max()).item()
    if not off <= (1e-4 if dtype == torch.float32 else 0.1):
        sys.exit(f"logits in {dtype} differ by {off:.3g} of the largest")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=31, help="samples of each side (31)")
    parser.add_argument("--layers", type=int, default=8, help="layers of the model (8)")
    parser.add_argument("--threads", type=int, default=1, help="threads of torch (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows = []
    print("| type | | tokens a second | accelerated | times as fast (quartiles) | rotation's share | accelerated |")
    print("|---|---|---|---|---|---|---|")
    for name, dtype in TYPES.items():
        plain, fast = built(dtype, options.layers), built(dtype, options.layers)
        with torch.no_grad(), accelerate(fast):
            for phase, make, tokens in (("prompt", prompt, PROMPT), ("token", token, 1)):
                sides = {"plain": make(plain), "fast": make(fast)}
                check(sides["plain"](), sides["fast"](), dtype)
                times = timing.alternate(sides, options.runs)
                shares = [share(sides["plain"], NAME, options.runs), share(sides["fast"], OURS, options.runs)]
                rates = {side: tokens / seconds for side, seconds in timing.medians(times).items()}
                gain = timing.ratio(times, "plain", "fast")
                label = f"{PROMPT} at once" if phase == "prompt" else f"one after {PROMPT}"
                print(
                    f"| {name} | {label} | {rates['plain']:.4g} | {rates['fast']:.4g} | "
                    f"{gain.median:.3f} ({gain.low:.3f} to {gain.high:.3f}) | {shares[0]:.1%} | {shares[1]:.1%} |",
                    flush=True,
                )
                rows.append({"type": name, "phase": phase, "rates": rates, "ratio": gain._asdict(), "shares": shares})
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
