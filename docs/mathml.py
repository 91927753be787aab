"""Convert formulas to MathML when the documentation is built, so that readers need no script and no network."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

if TYPE_CHECKING:
    from sphinx.application import Sphinx


# _FUNCTION matches a function in the output of the converter. _SPACE is a thin space.
_FUNCTION = r"<mi[^>]*>[a-z]{2,}</mi>\s*<mo>&ApplyFunction;</mo>"
_SPACE = '<mspace width="0.17em"></mspace>'


def spaced(formula: str) -> str:
    """Return MathML with spaces around functions, but not before arguments in brackets."""
    formula = re.sub(rf"(</m(?:i|n|sub|sup|subsup|frac|row)>\s*)({_FUNCTION})", rf"\1{_SPACE}\2", formula)
    return re.sub(rf"({_FUNCTION})(?!\s*<mo)", rf"\1{_SPACE}", formula)


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(f'<span class="formula-inline">{spaced(tex2mathml(node.astext()))}</span>')
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="formula">{spaced(tex2mathml(node.astext(), as_block=True))}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
