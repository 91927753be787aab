"""Documentation: ``sphinx-build -W docs docs/_build``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from posenc_fast import __version__

project = "posenc_fast"
copyright = "the authors of posenc_fast"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples"]

html_theme = "furo"
html_title = f"posenc_fast {version}"
html_copy_source = False

myst_heading_anchors = 3
autosummary_generate = True
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"
napoleon_google_docstring = False
# parameters that share a description keep it together
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_admonition_for_examples = False

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 1e9,
    "image_scrapers": ("matplotlib",),
    "within_subsection_order": "FileNameSortKey",
    "remove_config_comments": True,
}
