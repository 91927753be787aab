"""Test formulas of the site, and previews of links to its pages."""

from __future__ import annotations

import importlib.util
import re
import sys
from types import SimpleNamespace

import pytest

from support.checkout import checkout
from support.optional import optional

pytestmark = pytest.mark.slow

DOCS = checkout(whole_file=True) / "docs"


def module(name, monkeypatch):
    """Import a file of docs/ and return its module. docs/ is not a package, so a plain import would fail."""
    monkeypatch.setattr(sys, "path", [str(DOCS), *sys.path])
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (r"\sin\omega", "sin ω"),
        (r"\sin(x)", "sin(x)"),
        (r"\cos\omega_0 p \cos x", "cos ω0p cos x"),
        (r"2\sin\frac{a}{b}", "2 sin ab"),
        (r"\operatorname{linspace}(a, b)", "linspace(a,b)"),
        (r"a + \sin x", "a+sin x"),
    ],
)
def test_functions_in_formulas_have_space_around_them(formula, text, monkeypatch):
    optional("docutils.utils.math.latex2mathml")
    mathml = module("mathml", monkeypatch)
    shown = mathml.spaced(mathml.tex2mathml(formula)).replace(mathml._SPACE, "_").replace("&ApplyFunction;", "")
    assert re.sub(r"<[^>]+>|\s", "", shown).replace("_", " ") == text


@pytest.mark.parametrize("address", ["", "https://docs.example/en/"], ids=["no-address", "address"])
def test_links_show_the_first_paragraph_and_a_picture(address, monkeypatch):
    nodes = optional("docutils.nodes")
    conf = module("conf", monkeypatch)
    app = SimpleNamespace(config=SimpleNamespace(html_baseurl=address))
    page = nodes.section("", nodes.paragraph(text='Rows of "any" positions.'), nodes.paragraph(text="More."))
    context = {"title": "Rows", "metatags": "<meta>"}
    conf.describe(app, "rows", "page.html", context, page)
    tags = dict(re.findall(r'<meta (?:name|property)="([^"]+)" content="([^"]+)">', context["metatags"]))
    assert context["metatags"].startswith("<meta>")
    assert tags["description"] == tags["og:description"] == "Rows of &quot;any&quot; positions."
    assert tags["og:title"] == "Rows - posenc_fast"
    assert tags.get("og:image") == (f"{address}_static/front-errors.png" if address else None)
    # for the index of names, Sphinx passes None instead of a text, so the page gets the summary of the site
    conf.describe(app, "genindex", "genindex.html", context, None)
    assert conf.SUMMARY in context["metatags"]
    assert (DOCS / conf.html_favicon).exists()
    assert (DOCS / conf.html_search_scorer).exists()
