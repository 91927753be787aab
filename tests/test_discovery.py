"""What is found by looking: names in modules, reprs, attributes, pictures in notebooks."""

from __future__ import annotations

import importlib

import pytest

from support.optional import optional

# modules, and what they need
MODULES = {
    "": "",
    ".presets": "",
    ".presets.positions": "",
    ".reference": "",
    ".typing": "",
    ".torch": "torch",
    ".transformers": "torch",
    ".dask": "dask",
    ".sklearn": "sklearn",
    ".plot": "matplotlib",
}


@pytest.mark.parametrize("name", MODULES)
def test_dir_has_public_names_alone(name):
    if MODULES[name]:
        optional(MODULES[name])
    module = importlib.import_module(f"posenc_fast{name}")
    found = dir(module)
    assert set(module.__all__) <= set(found)
    assert not [each for each in found if each.startswith("_") and each != "__version__"]
    # all of them are there to be had, and none was only imported
    more = {"dask", "plot", "sklearn", "torch", "transformers", "typing"} if name == "" else set()
    assert set(found) == set(module.__all__) | more
    for each in set(found) - more:
        getattr(module, each)
