"""Write presets.md from the facts that the modules of presets contain: ``python docs/make_presets.py``.

First it writes `posenc_fast/presets/_families.py`, which names the module of each preset. At the end, it updates the
number of presets in the README, the changelog and why-sines.md. ``--print`` prints both files, and changes nothing.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import lists
from formulas import typeset

from posenc_fast import presets
from posenc_fast._models.config import table
from posenc_fast.presets._catalogue import family, other_names
from posenc_fast.presets._families import FAMILIES
from posenc_fast.presets._registry import FACTS, REGISTERED, Facts

HEAD = """\
# Presets

SEARCH
Find the preset of your model or library, and call `posenc_fast.presets.NAME(...)`. It returns an `Encoding` or a
`Rotary` that computes the encoding of this model or library. `posenc-fast presets` searches the presets
[in a shell](howto-shell.md). [`identify`](port.md) finds the presets that match the table of a checkpoint. The page has
COUNT presets. BESIDE more entries [at the end](#not-available-as-presets) describe what presets cannot express. The
presets are in these families:

CONTENTS

In the formulas, $d$ is the number of columns that you request, $i$ counts frequencies and $c$ counts columns, from 0.
Frequencies are in radians per unit of position. "The paper" is Vaswani et al. 2017
([arXiv:1706.03762](https://arxiv.org/abs/1706.03762)). RoFormer is the first model with RoPE
([arXiv:2104.09864](https://arxiv.org/abs/2104.09864)). Each entry has some of these facts:

- *columns*: order of the columns.
- *positions*: positions to pass, and parts of the source's output that the preset does not compute, such as rows of
  zeros. `mask_positions`, `mask_coordinates` and `relative_positions` are functions of `posenc_fast`. Functions such as
  `positions.grid` are in the module `posenc_fast.presets.positions`.
- *widths*: the number of columns, or which numbers are valid, and what the preset does with odd numbers. "Crop" means
  that columns beyond the width are left out. For a `Rotary`, which widths of a head, or of all heads together, are
  valid.
- *pairs*: for a `Rotary`, the two values of a head that form a pair, and the axis of the position that each pair uses.
  The axes t, h and w are time, row and column.
- *axes of a position*: number of coordinates of a position.
- *source*: the code that the preset follows, usually a file and a class or function in it.
- *also*: other programs with the same encoding, except for the differences that the entry names.

<!-- written by make_presets.py -->
"""

TAIL = """
## Not available as presets

### Learned positions

BERT, RoBERTa, ELECTRA, ALBERT, BART, GPT-2, GPT-Neo, OPT, CLIP, SigLIP, ViT, DeiT, DINOv2 and Whisper's decoder have a
learned vector for each position. Copy the table from the checkpoint.

### ALiBi

In BLOOM and MPT, each head adds a constant times the distance of two tokens to its attention scores.

### Relative biases

T5, Flan-T5, mT5, Swin, BEiT and DeBERTa have a learned number or vector for each distance, or for each range of
distances.

### Convolutions

wav2vec 2.0, HuBERT and data2vec compute their position embedding with a learned convolution.

### Tables of rotary encodings

No preset returns the cosines and the sines of a rotary encoding in one `Encoding`. The presets `flaxformer_rotary`
and `speechbrain_rotary` return the sines. With `functions=("cos", "cos")`, they return the cosines. The method
`Rotary.tables` returns both.

### Pairs with two angles

In V-JEPA 2, ERNIE-Image and the HunyuanVL of transformers, the two values of a pair have different angles. This is not
a rotation. Allegro and the vision tower of Gemma 4 divide each head into one part for each axis, and rotate the parts
separately. Apply a `Rotary` to each part.

### Products and sums

[Fourier features](howto-features.md) has programs for the products of Sphere2Vec, and for the factors of the columns
in mip-NeRF and BARF. [RoPE models](rotary-models.md) has a program for the sums of FoPE.

### Other functions

- Spherical harmonics (SatCLIP) contain Legendre polynomials in the sine of the latitude.
- Bessel bases (DimeNet, NequIP, MACE) divide sines by the distance, and multiply them by a smooth cutoff.
- SIREN computes sines in every layer of a network. Only its first layer is an `Encoding`.
- Time2Vec has a column that is linear in the position.
- Hash grids, Laplacian eigenvectors and the biases of FIRE do not use frequencies.
- LieRE and ComRoPE rotate vectors by the exponential of a matrix.
- PoPE multiplies its columns by the softplus of the features.

### Sums of encodings

Mask2Former for video adds an encoding of the frame to the encoding of `detr`. Add the encoding of the frame with
`Encoding.add_to`.

### Learned frequencies

If a checkpoint contains learned frequencies, pass them to `fourier_features` or `Encoding`. `Encoding` also accepts
phases, such as the random phases of `InfinitePositionalEncoding` in trax. `InfinitePositionalEncoding` also adds random
noise to each angle. An `Encoding` does not contain this noise.
"""

REFERENCE = """
```{eval-rst}
.. container:: hidden

   .. currentmodule:: posenc_fast.presets

   .. autosummary::
      :toctree: generated
      :nosignatures:

NAMES
```
"""

NONE = """\
No preset matches all of these words. If you have the table of a checkpoint, find its preset with [`identify`](port.md)
or `posenc-fast identify FILE`. For a RoPE model with a config.json, use [`Rotary.from_config`](rotary-models.md).
"""

# keys: presets. Values: names of models that people search for, and that the facts do not contain.
MODELS = {
    "annotated_transformer": "Attention Is All You Need",
    "deepseek_v3": "DeepSeek-R1",
    "diffusers_timesteps": "SDXL, SD 1.5, SD 3 and most models of diffusers",
    "flux": "FLUX.1",
    "flux2": "FLUX.2",
    "flux_timesteps": "FLUX.1",
    "gpt_neox": "GPT-NeoX-20B",
    "gpt_oss": "gpt-oss-20b, gpt-oss-120b",
    "gptj": "GPT-J-6B",
    "guided_diffusion": "SDXL, SD 1.5 and SD 2.1",
    "llama": "Llama 2, Qwen2.5",
    "llama3": "Llama 3.1, Llama 3.3",
    "phi": "Phi-1.5, Phi-2",
    "wan": "Wan 2.1, Wan 2.2",
}


FAMILIES_HEAD = """\
\"\"\"Module of each preset. ``python docs/make_presets.py`` writes this file from the modules.\"\"\"

__all__ = ["FAMILIES"]

FAMILIES = {
"""


def listing() -> str:
    """Import all modules of presets, update `FAMILIES`, and return the new source of `_families.py`."""
    FAMILIES.clear()
    for file in Path(presets.__file__).parent.glob("_*.py"):
        importlib.import_module(f"posenc_fast.presets.{file.stem}")
    modules = {name: facts.build.__module__.rpartition(".")[2] for name, facts in REGISTERED.items()}
    FAMILIES.update(sorted(modules.items(), key=lambda item: item[1]))
    return FAMILIES_HEAD + "".join(f'    "{name}": "{module}",\n' for name, module in FAMILIES.items()) + "}\n"


def search() -> str:
    """Return the search field, which also finds model types that are on the page rotary-models."""
    elsewhere = [
        ("Rotary.from_config reads the model type ", "rotary-models.html", sorted(table.types()), "."),
        ("Model type without RoPE: ", "rotary-models.html", sorted(table.names("without")), "."),
    ]
    return lists.field("model, library or word: whisper, sdxl, zero column", elsewhere, NONE)


def families() -> list[tuple[str, list[str]]]:
    """Return (family, its presets) of each family, both in alphabetical order."""
    by_family = sorted(presets.names(), key=lambda name: (heading(family(name)).lower(), name))
    return [(about, list(names)) for about, names in groupby(by_family, family)]


def heading(about: str) -> str:
    title = about.split(":")[0]
    return title[0].upper() + title[1:]


def slug(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w\s-]", "", title.lower()).replace(" ", "-")


def coded(text: str) -> str:
    """Return a text with backticks around names that contain underscores."""
    parts = text.split("`")
    parts[0::2] = [re.sub(r"\b\w+_\w+(?:=\w+)?", r"`\g<0>`", part) for part in parts[0::2]]
    return "`".join(parts)


def entry(name: str, facts: Facts) -> Iterator[str]:
    """Yield the lines of a preset's section."""
    summary = (facts.build.__doc__ or "").splitlines()[0]
    signature = inspect.signature(facts.build)
    # show the signature without annotations, to keep it short
    shown = str(signature.replace(return_annotation=signature.empty))
    for parameter in signature.parameters.values():
        shown = shown.replace(str(parameter), str(parameter.replace(annotation=parameter.empty)))
    arguments = [each for each in signature.parameters if each not in ("frequencies", "functions")]
    yield f"### `{name}`\n"
    yield f"{summary}\n"
    yield f"{{py:func}}`{name}{shown} <posenc_fast.presets.{name}>`\n"
    yield f"- frequency *i*: {typeset(facts.frequency, arguments)}"
    yield f"- {'pairs' if facts.rotary else 'columns'}: {coded(facts.layout)}"
    if facts.differs:
        yield f"- differs from {facts.original}: {coded(facts.differs)}"
    if facts.axes != "1":
        axes = f"`{facts.axes}`" if facts.axes in arguments else facts.axes
        yield f"- axes of a position: {axes}"
    yield f"- positions: {coded(facts.positions)}"
    yield f"- widths: {coded(facts.odd)}"
    yield f"- source: {lists.linked(facts.source)}"
    if facts.also:
        yield f"- also: {facts.also}"
    if name in MODELS:
        yield f"- models: {MODELS[name]}"
    if others := other_names(name):
        yield f"- other names: {', '.join(others)}"
    yield ""


def page() -> str:
    groups = families()
    contents = "\n".join(f"- [{heading(about)}](#{slug(heading(about))}): {len(names)}" for about, names in groups)
    numbers = {"COUNT": str(len(FACTS)), "BESIDE": str(TAIL.count("\n### "))}
    head = HEAD.replace("SEARCH", search()).replace("CONTENTS", contents)
    lines = [re.sub("COUNT|BESIDE", lambda name: numbers[name[0]], head)]
    for about, names in groups:
        lines.append(f"## {heading(about)}\n")
        _, _, more = about.partition(": ")
        if more:
            lines.append(f"{more[0].upper()}{more[1:]}.\n")
        for name in names:
            lines += entry(name, FACTS[name])
    return "\n".join(lines).rstrip() + "\n" + TAIL + reference()


def reference() -> str:
    """Return the directive that lets autosummary write a page for each preset."""
    return REFERENCE.replace("NAMES", "\n".join(f"      {name}" for _, names in families() for name in names))


# the order matters, because `page` shows the presets that `listing` has found
PAGES = {"../posenc_fast/presets/_families.py": listing, "presets.md": page}


def counted(text: str) -> str:
    """Return a text in which the numbers of all presets and of rotary presets are updated."""
    all_of_them = r"\b\d+(?=\s+published)|(?<=encodings of )\d+(?= models)|(?<=tells )\d+(?= of them)"
    rotary = str(sum(facts.rotary for facts in FACTS.values()))
    return re.sub(r"\b\d+(?= of them rotary)", rotary, re.sub(all_of_them, str(len(FACTS)), text))


if __name__ == "__main__":
    if sys.argv[1:] == ["--print"]:
        sys.stdout.reconfigure(encoding="utf-8")
        sys.stdout.write("".join(write() for write in PAGES.values()))
    else:
        here = Path(__file__).parent
        for name, write in PAGES.items():
            (here / name).write_text(write(), encoding="utf-8")
        for file in (here.parent / "README.md", here.parent / "CHANGELOG.md", here / "why-sines.md"):
            file.write_text(counted(file.read_text(encoding="utf-8")), encoding="utf-8")
