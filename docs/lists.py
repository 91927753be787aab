"""Shared code of the pages of presets and of RoPE models: a search field, and links to sources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

SEARCH = """\
```{raw} html
<div class="list-search">
<input id="list-search" type="search" placeholder="PLACEHOLDER" aria-label="search this list" autocomplete="off"
 spellcheck="false"><span id="list-count" aria-live="polite"></span>
</div>
<script id="list-elsewhere" type="application/json">ELSEWHERE</script>
```

```{container} list-none hidden
NONE
```
"""
TRANSFORMERS = "https://github.com/huggingface/transformers/blob/HEAD/src/transformers"
# keys: repositories whose paths are linked. Values: the folder that paths in facts are relative to.
ROOTS = {
    "huggingface/transformers": "src/transformers/",
    "huggingface/diffusers": "src/diffusers/",
    "tensorflow/tensor2tensor": "tensor2tensor/",
    "tensorflow/lingvo": "lingvo/",
    "facebookresearch/pytorch3d": "pytorch3d/",
    "facebookresearch/detr": "",
    "facebookresearch/mae": "",
    "facebookresearch/fairseq2": "",
    "fundamentalvision/Deformable-DETR": "",
    "openai/whisper": "",
    "openai/guided-diffusion": "",
    "hojonathanho/diffusion": "",
    "kimiyoung/transformer-xl": "",
    "black-forest-labs/flux": "",
    "yang-song/score_sde": "",
    "crowsonkb/k-diffusion": "",
    "NVlabs/edm": "",
    "NVlabs/tiny-cuda-nn": "",
    "bmild/nerf": "",
    "google/mipnerf": "",
    "zju3dv/LoFTR": "",
    "lucidrains/vit-pytorch": "",
    "huggingface/pytorch-image-models": "",
    "Project-MONAI/MONAI": "",
    "ml-explore/mlx": "",
    "pyg-team/pytorch_geometric": "",
    "OpenNMT/CTranslate2": "",
    "lmnt-com/diffwave": "",
    "tatp22/multidim-positional-encoding": "",
}


def field(placeholder: str, elsewhere: Iterable[tuple[str, str, list[str], str]], none: str) -> str:
    """Return the HTML of the search field of a page.

    placeholder: grey text in the empty field. elsewhere: tuples (text before a name, page, names, text after a name)
    for names that are on another page. none: text for a search without results.
    """
    names = json.dumps(list(elsewhere), separators=(",", ":"))
    return SEARCH.replace("PLACEHOLDER", placeholder).replace("ELSEWHERE", names).replace("NONE", none)


def linked(source: str) -> str:
    """Return a source, such as ``owner/repository: path, names``, with a link to the path or the repository."""
    match = re.match(r"([\w.-]+/[\w.-]+)(?:: ([\w./-]+))?", source)
    if not match:
        return source
    repository, path = match.groups()
    url = f"https://github.com/{repository}"
    rest = source[match.end() :]
    if path is None:
        return f"[{repository}]({url}){rest}"
    if repository not in ROOTS or "/" not in path + ROOTS[repository]:
        return f"[{repository}]({url}): {path}{rest}"
    kind = "blob" if re.search(r"\.\w+$", path) else "tree"
    return f"[{repository}: {path}]({url}/{kind}/HEAD/{ROOTS[repository]}{path}){rest}"
