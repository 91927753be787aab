"""Typeset the frequencies that the facts of presets state in plain text: ``10000^(-2i/d)`` becomes LaTeX.

Formulas stand among words, as in "of time 10000^(-8i/d), of space ..". What reads as a formula is typeset, the names of
arguments that stand alone become code, and everything else stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection

TOKEN = re.compile(r"\w+=(?:True|False)|\d+(?:\.\d+)?(?:e-?\d+)?|[A-Za-z_]\w*|//|\.\.|\S")
SYMBOLS = {"pi": r"\pi", "theta": r"\theta", "sigma": r"\sigma", "omega_0": r"\omega_0"}
FUNCTIONS = {"exp": r"\exp", "linspace": r"\operatorname{linspace}", "log": r"\ln"}
# a tree: its tag, and its parts
Node = tuple


def typeset(text: str, arguments: Collection[str] = ()) -> str:
    """The text with its formulas between dollar signs; ``arguments`` are names that may stand for numbers."""
    return Reader(text, frozenset(arguments)).read()


class Reader:
    """Recursive descent over the tokens; a method returns None where what comes is no formula."""

    def __init__(self, text: str, arguments: frozenset[str]) -> None:
        found = list(TOKEN.finditer(text))
        self.text, self.arguments = text, arguments
        self.tokens = [match.group() for match in found] + [""]
        self.starts = [match.start() for match in found] + [len(text)]
        self.ends = [match.end() for match in found] + [len(text)]
        self.at = self.calls = 0

    def read(self) -> str:
        parts, written = [], 0
        while self.at < len(self.tokens) - 1:
            first = self.at
            tree = self.equation()
            if tree is None or not (shown := self.shown(tree, first)):
                self.at = first + 1
                continue
            parts += [self.text[written : self.starts[first]], shown]
            written = self.ends[self.at - 1]
        return "".join(parts) + self.text[written:]

    def shown(self, tree: Node, first: int) -> str:
        """A formula, code, or nothing where it is no more than a word or a number."""
        tag, *rest = tree
        if tag == "flag" or (tag == "name" and len(rest[0]) > 1 and rest[0] not in SYMBOLS):
            return f"`{rest[0]}`"
        return "" if tag == "number" else f"${latex(tree)}$"

    @property
    def token(self) -> str:
        return self.tokens[self.at]

    def take(self, *wanted: str) -> str:
        if self.token in wanted:
            self.at += 1
            return self.tokens[self.at - 1]
        return ""

    def is_symbol(self) -> bool:
        token, after = self.token, self.tokens[self.at + 1] if self.token else ""
        if not re.fullmatch(r"[A-Za-z_]\w*", token) or token == "a":
            return False
        return (
            bool(self.calls)
            or len(token) == 1
            or token in SYMBOLS
            or token in self.arguments
            or "_" in token
            or after in ("^", "[")
        )

    def equation(self) -> Node | None:
        if "=" in self.token and len(self.token) > 1:
            self.at += 1
            return ("flag", self.tokens[self.at - 1])
        left = self.sum()
        for sign in ("=", ".."):
            before = self.at
            if left is not None and self.take(sign):
                right = self.sum()
                if right is None:
                    self.at = before
                else:
                    left = (sign, left, right)
        return left

    def sum(self) -> Node | None:
        left = self.product()
        while left is not None and self.token in ("+", "-"):
            before, sign = self.at, self.take("+", "-")
            right = self.product()
            if right is None:
                self.at = before
                break
            left = (sign, left, right)
        return left

    def product(self) -> Node | None:
        left = self.juxtaposed()
        while left is not None and self.token in ("*", "/", "//"):
            before, sign = self.at, self.take("*", "/", "//")
            right = self.juxtaposed()
            if right is None:
                self.at = before
                break
            left = (sign, left, right)
        return left

    def juxtaposed(self) -> Node | None:
        left = self.power()
        while left is not None and (self.is_symbol() or self.token == "(" or self.is_call()):
            before = self.at
            right = self.power()
            if right is None:
                self.at = before
                break
            left = ("times", left, right)
        return left

    def power(self) -> Node | None:
        if self.take("-"):
            # -2i/d is one fraction with a sign
            below = self.juxtaposed()
            return below and ("minus", below)
        base = self.atom()
        if base is not None and self.take("^"):
            exponent = self.power()
            return exponent and ("^", base, exponent)
        return base

    def is_call(self) -> bool:
        return self.token in {*FUNCTIONS, "sqrt", "ceil"} and self.tokens[self.at + 1] == "("

    def atom(self) -> Node | None:
        if self.is_call():
            function = self.take(self.token)
            self.take("(")
            # whatever has a name is a number there
            self.calls += 1
            inside = [self.sum()]
            while self.take(","):
                inside.append(self.sum())
            self.calls -= 1
            return None if None in inside or not self.take(")") else ("call", function, *inside)
        if self.take("("):
            inner = self.sum()
            return None if inner is None or not self.take(")") else ("()", inner)
        if re.match(r"\d", self.token):
            return ("number", self.take(self.token))
        if not self.is_symbol():
            return None
        name = ("name", self.take(self.token))
        if self.take("["):
            index = []
            while self.token and self.token != "]":
                index.append(self.take(self.token))
            self.take("]")
            return ("[]", name, "".join(index))
        return name


def latex(tree: Node, small: bool = False) -> str:
    """The formula; ``small`` is for exponents, where fractions stay in the line."""
    match tree:
        case ("number", digits):
            mantissa, _, exponent = digits.partition("e")
            power = f"10^{{{exponent}}}"
            return mantissa if not exponent else power if mantissa == "1" else rf"{mantissa} \cdot {power}"
        case ("name", name):
            return SYMBOLS.get(name, name if len(name) == 1 else rf"\text{{{name}}}")
        case ("[]", name, index):
            return f"{latex(name)}_{{{index}}}"
        case ("()", ("//", _, _) as floor):
            return latex(floor, small)
        case ("()", inner) if small:
            return f"({latex(inner, True)})"
        case ("()", inner):
            return rf"\left({latex(inner)}\right)"
        case ("minus", inner):
            return f"-{latex(inner, small)}"
        case ("^", base, exponent):
            return f"{latex(base, small)}^{{{latex(bare(exponent), True)}}}"
        case ("call", "sqrt", inner):
            return rf"\sqrt{{{latex(inner, small)}}}"
        case ("call", "ceil", inner):
            return rf"\lceil {latex(inner, True)} \rceil"
        case ("call", function, *inside):
            return rf"{FUNCTIONS[function]}({', '.join(latex(each, True) for each in inside)})"
        case ("//", left, right):
            return rf"\lfloor {latex(left, True)}/{latex(right, True)} \rfloor"
        case ("/", left, right) if small:
            return f"{latex(left, True)}/{latex(right, True)}"
        case ("/", left, right):
            return rf"\frac{{{latex(bare(left))}}}{{{latex(bare(right))}}}"
        case ("*", left, right):
            return rf"{latex(left, small)} \cdot {latex(right, small)}"
        case ("times", ("number", digits), right) if right[0] != "name" or len(right[1]) == 1 or right[1] in SYMBOLS:
            return digits + latex(right, small)
        case ("times", left, right):
            return rf"{latex(left, small)}\,{latex(right, small)}"
        case ("..", left, right):
            return rf"{latex(left, small)}, \ldots, {latex(right, small)}"
        case (sign, left, right):
            return f"{latex(left, small)} {sign} {latex(right, small)}"
    raise AssertionError(tree)


def bare(tree: Node) -> Node:
    return tree[1] if tree[0] == "()" else tree
