"""Configure Sphinx: ``sphinx-build -W docs docs/_build`` builds the documentation."""

from __future__ import annotations

import html
import inspect
import os
import re
import sys
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parent)]

from docutils import nodes
from formulas import typeset
from sphinx.util.nodes import make_refnode

from posenc_fast import __version__, presets

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
    "sphinx_llm.txt",
]
exclude_patterns = ["_build", "examples"]
templates_path = ["_templates"]

SUMMARY = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]["description"]
PICTURE = "The largest error of a value against its position: posenc_fast and programs in float32 and float64"

html_theme = "pydata_sphinx_theme"
html_title = f"posenc_fast {version}"
html_copy_source = False
html_show_sourcelink = False
# front-errors.png is the picture in previews of links to the site; previews need full addresses
html_static_path = ["_static", "front-errors.png"]
html_baseurl = os.environ.get("READTHEDOCS_CANONICAL_URL", "")
html_favicon = "_static/favicon.svg"
html_search_scorer = str(Path(__file__).with_name("_static") / "scorer.js")
html_css_files = ["posenc.css"]
html_js_files = ["lists.js"]
html_math_renderer = "mathml"
# `name` in a docstring is a link if an object has this name
default_role = "py:obj"
html_theme_options = {
    "logo": {"text": "posenc_fast"},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": ["version-and-license"],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
# pages that use the full width
html_sidebars = {page: [] for page in ("index", "start", "presets", "rotary-models", "play", "changes")}

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

autosummary_generate = True
autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"
napoleon_google_docstring = False
# show parameters that share a description as one entry
napoleon_use_param = False
napoleon_use_rtype = False
napoleon_use_admonition_for_examples = False

# do not warn about nodes of sphinx-design, napoleon and sphinx-gallery, which have no form in the Markdown pages
llms_txt_suppress_unknown_node_warnings = ["PassthroughTextElement", "abbreviation", "caption", "imgsgnode"]

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


def typeset_notes(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Show the frequency in the notes of a preset as a formula, as on the page of presets."""
    module, _, preset = name.rpartition(".")
    if module != "posenc_fast.presets" or preset not in presets.names():
        return
    arguments = [each for each in inspect.signature(thing).parameters if each not in ("frequencies", "functions")]

    def formula(match: re.Match[str]) -> str:
        text = typeset(" ".join(match[2].split()), arguments)
        return match[1] + re.sub(r"\$(.+?)\$", r":math:`\1`", re.sub("`+(.+?)`+", r"``\1``", text))

    notes = re.compile(r"(- frequency i, in radians per unit of position: )(.+?)(?=\n *- )", re.DOTALL)
    lines[:] = notes.sub(formula, "\n".join(lines)).split("\n")


def neighbours(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Omit the links to the previous and next page on pages of the API and the gallery.

    The names of these pages are too long for a phone.
    """
    if page.startswith(("generated/", "gallery/", "api")):
        context["theme_show_prev_next"] = False
        context["prev"] = context["next"] = None


def linked(node: nodes.Node) -> bool:
    """Return whether a node is a link or a title, or is inside one."""
    return isinstance(node, (nodes.reference, nodes.title)) or (node.parent is not None and linked(node.parent))


def link_names(app: Sphinx, doctree: nodes.document, page: str) -> None:
    """Turn code that names an object of the API, such as `pf.Rotary.from_config(..)`, into a link."""
    objects = app.env.get_domain("py").objects  # type: ignore[attr-defined]
    for literal in list(doctree.findall(nodes.literal)):
        name = re.sub(r"^(?:pf|posenc_fast)\.", "", re.sub(r"\(.*", "", literal.astext(), flags=re.DOTALL))
        target = objects.get(f"posenc_fast.{name}")
        if target and not linked(literal):
            link = make_refnode(app.builder, page, target.docname, target.node_id, literal.deepcopy(), target.objtype)
            literal.replace_self(link)


def describe(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Add metadata for search engines and previews of links: the first paragraph of a page, and a picture."""
    first = next((node.astext() for node in doctree.findall(nodes.paragraph)), "") if doctree is not None else ""
    text = textwrap.shorten(first or SUMMARY, 200, placeholder=" ..")
    title = context.get("title", project)
    tags = {
        "og:title": title if title == project else f"{title} - {project}",
        "og:description": text,
        "og:type": "website",
    }
    if app.config.html_baseurl:
        tags["og:image"] = f"{app.config.html_baseurl.rstrip('/')}/_static/front-errors.png"
        tags["og:image:alt"] = PICTURE
    named = [f'<meta name="description" content="{html.escape(text)}">']
    named += [f'<meta property="{name}" content="{html.escape(value)}">' for name, value in tags.items()]
    context["metatags"] = context.get("metatags", "") + "\n" + "\n".join(named)


def setup(app: Sphinx) -> None:
    app.connect("html-page-context", describe)
    app.connect("html-page-context", neighbours)
    app.connect("doctree-resolved", link_names)
    # priority 400 lets the function run before napoleon (500), which splits docstrings into sections
    app.connect("autodoc-process-docstring", typeset_notes, priority=400)
