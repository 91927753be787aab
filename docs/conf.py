"""Documentation: ``sphinx-build -W docs docs/_build``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from posenc_fast import __version__

project = "posenc_fast"
copyright = "the authors of posenc_fast"
release = version = __version__

extensions = [
    "mathml",
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "examples"]
templates_path = ["_templates"]

html_theme = "pydata_sphinx_theme"
html_title = f"posenc_fast {version}"
html_copy_source = False
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["posenc.css"]
html_js_files = ["presets.js"]
html_math_renderer = "mathml"
html_theme_options = {
    "logo": {"text": "posenc_fast"},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# the front page and the list of presets are read across their whole width
html_sidebars = {"index": [], "presets": [], "changes": []}

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
# what a picture or a table of the README links to lies beside the documentation, not in it
suppress_warnings = ["myst.xref_missing"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

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
