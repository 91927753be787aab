"""Write rotary-models.md from the table that `Rotary.from_config` reads: ``python docs/make_rotary_models.py``.

It also updates the number of model types in the README and the changelog. ``--print`` prints the page, and changes
nothing.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import lists

from posenc_fast import presets
from posenc_fast._models.config import rules, table
from posenc_fast._models.config.table import Row

HEAD = """\
# Which RoPE does my model use?

SEARCH
Find the RoPE of your model in this list, or read it from the config with `Rotary.from_config`. The function accepts the
path or the content of a config.json, a part of the content, or a config object of transformers. If the config is
incomplete, the error names the missing key. The list has FAMILIES entries for the TYPES model types with RoPE that
`from_config` reads. OTHERS more entries are for composite models, for models that `from_config` cannot read, and for
model types without RoPE. The tests compare the entries with the classes of transformers 5.24, except for models whose
code is elsewhere. [Port a checkpoint](port.md#read-other-formats) describes params.json, GGUF, and the configs of
torchtune and litgpt. The code blocks of this page build on each other.

```python
import numpy as np
import posenc_fast as pf

# or the path of a config.json, or AutoConfig.from_pretrained(..)
config = {
    "model_type": "gemma3_text",
    "head_dim": 256,
    "num_hidden_layers": 26,
    "rope_theta": 1000000.0,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 8.0},
}
# or layer_type="sliding_attention"
print(pf.Rotary.from_config(config, layer=0))
print(pf.Rotary.from_config(config, layer=5))
```

```text
Rotary(256)
Rotary(256, base=1000000.0, scaling={'rope_type': 'linear', 'factor': 8.0})
```

- A composite config has parts, such as `text_config` and `vision_config`. `from_config` reads the part that
  [Composite models](#composite-models) lists, usually the text part. Pass another part separately, as in
  `from_config(config["vision_config"])`. A separate part must contain its `model_type`.
- If the layers of a model differ, choose one with `layer=` or `layer_type=`. The result is None for a layer without
  RoPE.
- Use `layout=` if the weights have another layout than in transformers, as in the original files of Llama and Mistral.
  Also use it for unknown model types.
- For the scalings dynamic and longrope, pass `seq_len=`, because their frequencies depend on the length of the
  sequence.
- `from_config` raises an error for contradictory or ambiguous configs. Examples are numbers of pairs per axis that do
  not add up to all pairs, a base that the model's class does not read, null instead of a number, and misspelt keys.

## By model

The entries use these terms:

- `half`: the two values of a pair are rotary_dim/2 apart.
- `interleaved`: the two values are neighbours.
- `interleaved_to_half`: the two values are neighbours before the rotation, and rotary_dim/2 apart after it.
- rotated width, base: `from_config` reads the first of the listed keys that the config has. Numbers in parentheses are
  defaults, such as "128: qwen3" for the model type `qwen3`. A number without names is the default of the other model
  types. If the config lacks `head_dim`, a default width takes precedence over a quotient of keys.
- If only a part of a head rotates, it is the first part, unless the entry names another part.
- axes: the coordinates of a position, and the axis that each pair uses.
"""

NONE = """\
No entry matches all of these words. For an unknown model type, pass `layout=`, as in
`Rotary.from_config("config.json", layout="half")`. [`identify_rotary`](howto-rotary.md) finds the encoding from tables,
frequencies or rotated vectors. For other models, such as diffusion models, search the [presets](presets.md).
"""

SCALINGS = """
## Other scalings

Besides linear, dynamic, yarn, longrope and llama3, `from_config` reads the scalings telechat3-yarn, yarn_log and
theta_scale of Grok, ntk with alpha of HunYuan, and proportional (p-RoPE). It also reads the order of axes of openPangu,
and XDRoPE:

```python
scaling = {"type": "xdrope", "alpha": 1000.0, "xdrope_section": [16, 16, 16, 16]}
rotary = pf.Rotary.from_config({"head_dim": 128, "rope_scaling": scaling}, layout="half")
print(rotary)
```

```text
Rotary(128, scaling={'rope_type': 'ntk', 'alpha': 1000.0}, sections=(16, 16, 16, 16))
```

Pass learned frequencies as the argument `frequencies` of `Rotary`. For Resonance RoPE and HoPE, change the frequencies
of RoPE, and pass the result. Resonance RoPE rounds wavelengths to integers. In HoPE, the slowest pairs do not rotate:

```python
plain = pf.Rotary(128)
resonance = pf.Rotary(128, frequencies=2 * np.pi / np.round(2 * np.pi / plain.frequencies))
hope = pf.Rotary(128, frequencies=np.where(plain.frequencies < 2 * np.pi / 4096, 0, plain.frequencies))
print((2 * np.pi / resonance.frequencies)[:8].round(9))
print((hope.frequencies == 0).sum(), "of 64 pairs do not rotate")
```

```text
[ 6.  7.  8. 10. 11. 13. 15. 17.]
18 of 64 pairs do not rotate
```

FoPE uses weighted sums of the cosines and of the sines of several frequencies. The weights are learned for each head.
The result is not a rotation, but `apply_tables` can apply the sums to the pairs:

```python
heads, length, pairs = 8, 100, 64
rng = np.random.default_rng(0)
mix_cos, mix_sin = rng.normal(0, 0.1, (2, heads, pairs, pairs)) + np.eye(pairs)     # from a checkpoint

rotary = pf.Rotary(2 * pairs)
cos, sin = rotary.tables(length, dtype=np.float64)
queries = rng.standard_normal((heads, length, 2 * pairs), np.float32)
rotated = rotary.apply_tables(queries, cos @ mix_cos, sin @ mix_sin)
print(rotated.shape)
```

```text
(8, 100, 128)
```

"""


# keys: rules in models.txt. Values: the axis that each pair uses. COUNTS stands for the default numbers of pairs of the
# axes.
ORDERS = {
    "axial": "the first half of the pairs uses the row, the second half the column",
    "axial_columns": "the first half of the pairs uses the column, the second half the row",
    "axial_alternating": "pairs alternate between column and row",
    "axial_rows_alternating": "pairs alternate between row and column",
    "alternating": "pairs alternate between row and column",
    "axial_three": "each axis uses a third of the pairs, rounded down, one axis after the other; the remaining pairs do"
    " not rotate",
    "contiguous": "the axes use COUNTS successive pairs by default",
    "interleaved": "pairs alternate between the axes, which have COUNTS pairs by default; any further pairs use the first"
    " axis",
    "ernie": "pairs first alternate between row and column, and then use t; the default sections are COUNTS",
    "atoms": "x, y and z use `num_spatial_rope_pairs_per_axis` pairs each, the id uses the next `num_uid_rope_pairs` pairs, and the remaining pairs do not rotate",
}


def ticked(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def number(value: float) -> str:
    return f"{value:.12g}"


def grouped(values: dict[str, float]) -> str:
    """Return text with the most common value, then each other value with its models. values: {model: value}."""
    groups = by_value(values)
    most_common = max(groups, key=lambda group: len(group[1]))[0]
    others = [f"{number(value)}: {', '.join(models)}" for value, models in groups if value != most_common]
    return "; ".join([number(most_common), *others])


def by_value(values: dict[str, float]) -> list[tuple[float, list[str]]]:
    """Return (value, its models) of each distinct value, in ascending order."""
    return [(one, [model for model, value in values.items() if value == one]) for one in sorted(set(values.values()))]


def width(row: Row, types: list[Row]) -> str:
    sources = [f"`{key}`" for key in row.width]
    heads = {one.model: float(one.head) for one in types if one.head is not None and "head_dim" in row.width}
    # A class's default for head_dim takes precedence over the quotient of two keys (`row.per_head`). Some classes use
    # the quotient if head_dim is null.
    if row.per_head is not None and (len(heads) < len(types) or any(one.divides for one in types)):
        sources.append(f"`{row.per_head[0]} // {row.per_head[1]}`")
    groups = by_value(heads)
    if len(groups) == 1 and len(heads) == len(types):
        defaults = f"default: {number(groups[0][0])}"
    else:
        defaults = "; ".join(f"{number(value)}: {', '.join(models)}" for value, models in groups)
    return ", or ".join(sources) + (f" ({defaults})" if defaults else "")


def part(row: Row, types: list[Row]) -> str:
    """Return text about the keys that set which part of the width rotates, and their defaults."""
    factors = {one.model: one.factor for one in types if one.factor is not None}
    fractions = ticked(key for key in row.factor_keys if key not in row.dim_keys)
    keys = [*(f"`{key}` values" for key in row.dim_keys), *([f"the fraction {fractions}"] if fractions else [])]
    if not factors or not keys:
        return ""
    default = f"{row.default_dim} values" if row.default_dim else grouped(factors)
    groups = {name: group.factor for name, group in row.groups.items() if group.factor is not None}
    default += "".join(f"; {number(factor)} in {name} layers" for name, factor in groups.items())
    return f"; rotated part: {' or '.join(keys)} (default: {default})"


def bases(row: Row, types: list[Row]) -> str:
    if row.spectrum == "atoms":
        return "`spatial_rope_base_frequency` for x, y and z, `uid_rope_base_frequency` for the id; no defaults"
    if row.groups:
        return "; ".join(
            f"{f'{ticked(group.base_keys)} ({number(group.base)})' if group.base_keys else number(group.base)} in {name} layers"
            for name, group in row.groups.items()
        )
    defaults = grouped({one.model: one.base for one in types})
    return f"{ticked(row.base_keys)} ({defaults})" if row.base_keys else defaults


def notes(row: Row) -> str:
    result = [rules.WITHOUT[name].words for name in row.without]
    if row.switch:
        result.append(f"the layout is `{row.switch[1]}` if `{row.switch[0]}` is false")
    result += [
        f"`{need.key}` must be {json.dumps(need.required)}; other values mean {need.others_mean}"
        for need in row.needs
        if need.required != need.default
    ]
    result += [row.note] if row.note else []
    return "; ".join(result)


def axes(row: Row) -> str:
    if row.sections is None:
        return ""
    counts = row.sections.default or ()
    listed = f"{', '.join(map(str, counts[:-1]))} and {counts[-1]}" if counts else ""
    return f"{row.sections.axes}; {ORDERS[row.sections.rule].replace('COUNTS', listed)}"


def linked(source: str) -> str:
    """Return a source with links to the modules of transformers, or to another repository."""
    if not source.startswith("transformers: "):
        return lists.linked(source)

    def link(match: re.Match[str]) -> str:
        return f"[{match[0]}]({lists.TRANSFORMERS}/models/{match[1]}/{match[0]})"

    return re.sub(r"modeling_(\w+)\.py", link, source)


def card(name: str, models: list[str]) -> Iterator[str]:
    """Yield the lines of a family's entry."""
    row, types = table.family(name), [table.row(model) for model in models]
    yield f"### {name}\n"
    yield f"{ticked(models)}\n"
    rotated = "" if row.rotated == "the head" else f"; {row.rotated}"
    facts = {
        "pairs": f"`{row.layout}`",
        "rotated width": width(row, types) + part(row, types) + rotated,
        "base": bases(row, types),
        "axes": axes(row),
        "notes": notes(row),
        "source": linked(row.source),
    }
    yield from (f"- {fact}: {text}" for fact, text in facts.items() if text)
    yield ""


def search() -> str:
    """Return the search field. It also finds presets, which are on another page."""
    elsewhere = [("Presets of this name: ", "presets.html", sorted(presets.names()), ".")]
    return lists.field("model type, family or word: llama, qwen3, sections", elsewhere, NONE)


def page() -> str:
    lines = []
    for name, models in table.families().items():
        lines += card(name, models)
    lines.append(
        "## Composite models\n\nA composite config has several parts. Each entry names the part that `from_config` reads."
        ' If an entry names several parts, pass one of them, as in `from_config(config["decoder"])`. The default model'
        " type applies if the composite config is passed, and the part has no `model_type`.\n"
    )
    composites: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for model, parts in table.parts().items():
        composites.setdefault(tuple(parts.items()), []).append(model)
    for items, models in sorted(composites.items(), key=lambda one: (len(one[0]), sorted(one[1]))):
        keys = " or ".join(f"`{key}`" for key, _ in items) + ("; pass one of them" if len(items) > 1 else "")
        lines.append(f"### {', '.join(sorted(models))}\n\n- part: {keys}")
        defaults = dict.fromkeys(default for _, default in items if default)
        if defaults:
            lines.append(f"- default model type{'s' if len(defaults) > 1 else ''}: {ticked(defaults)}")
        lines.append("")
    lines.append(
        "## Not readable by from_config\n\n`from_config` raises an error for these values of `model_type` and `rope_type`.\n"
    )
    for name, why in (table.pairs("unreadable") | table.pairs("no rotations")).items():
        lines.append(f"### `{name}`\n\n{why[0].upper()}{why[1:]}.\n")
    lines.append("## Without RoPE\n\n### Model types\n")
    lines.append(
        "These model types do not use RoPE. They use learned positions, relative biases, sinusoids (see "
        "[presets](presets.md)), another encoding, or no positions: "
        f"{ticked(sorted(table.names('without')))}."
    )
    entries = "\n".join(lines) + "\n"
    numbers = {"FAMILIES": len(table.families()), "TYPES": len(table.types())}
    numbers["OTHERS"] = entries.count("\n### ") + entries.startswith("### ") - numbers["FAMILIES"]
    head = re.sub("FAMILIES|TYPES|OTHERS", lambda name: str(numbers[name[0]]), HEAD).replace("SEARCH", search())
    return head + "\n" + entries + SCALINGS.rstrip() + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write(page())
    else:
        here = Path(__file__)
        here.with_name("rotary-models.md").write_text(page(), encoding="utf-8")
        count = str(len(table.types()))
        for name, before in (("CHANGELOG.md", "reads"), ("README.md", "the RoPE of")):
            file = here.parents[1] / name
            text = re.sub(rf"(?<={before} )\d+(?= model types)", count, file.read_text(encoding="utf-8"))
            file.write_text(text, encoding="utf-8")
