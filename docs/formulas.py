"""Typeset the frequencies that the facts of presets state in plain text: ``10000^(-2i/d)`` becomes LaTeX.

A fact can have words around its formulas: "10000^(-8i/d) for time, .. for space". The longest sequences of tokens that
Python's parser accepts as formulas are typeset. Outside of formulas, names of arguments, and settings such as
``flip=True``, become code. Other words are unchanged.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Sequence
from itertools import pairwise

FLAG, NAME, NUMBER = r"\w+=(?:True|False)", r"[A-Za-z_]\w*(?:'\w+)?", r"\d+(?:\.\d+)?(?:e-?\d+)?"
TOKEN = re.compile(rf"{FLAG}|{NUMBER}|{NAME}|//|\.\.|\S")
SYMBOLS = {"pi": r"\pi", "theta": r"\theta", "sigma": r"\sigma", "omega_0": r"\omega_0"}
FUNCTIONS = {
    "exp": r"\exp({})",
    "linspace": r"\operatorname{{linspace}}({})",
    "log": r"\ln({})",
    "sqrt": r"\sqrt{{{}}}",
    "ceil": r"\lceil {} \rceil",
}
# keys: signs in facts. Values: Python operators with the right precedence. `in_python` inserts "@" between two factors
# that have no sign between them.
SPELLINGS = {"^": "**", "=": "==", "..": "<<"}


class NoFormulaError(Exception):
    """Raised if tokens are not a formula."""


def typeset(text: str, arguments: Collection[str] = ()) -> str:
    """Return the text with its formulas as LaTeX between dollar signs.

    ``arguments``: names of the preset's arguments.
    """
    tokens = list(TOKEN.finditer(text))
    parts, written, first = [], 0, 0
    while first < len(tokens):
        for last in range(len(tokens), first, -1):
            if shown := formula([token.group() for token in tokens[first:last]], frozenset(arguments)):
                parts += [text[written : tokens[first].start()], shown]
                written, first = tokens[last - 1].end(), last
                break
        else:
            first += 1
    return "".join(parts) + text[written:]


def formula(tokens: Sequence[str], arguments: frozenset[str]) -> str:
    """Return tokens as LaTeX between dollar signs, or a single name as code. Return "" if they are not a formula."""
    if len(tokens) == 1 and re.fullmatch(FLAG, tokens[0]):
        return f"`{tokens[0]}`"
    try:
        tree = ast.parse(in_python(tokens), mode="eval").body
        shown = latex(tree, arguments)
    except (SyntaxError, NoFormulaError):
        return ""
    if isinstance(tree, ast.Name) and len(tree.id) > 1 and tree.id not in SYMBOLS:
        return f"`{tree.id}`"
    return "" if isinstance(tree, ast.Constant) else f"${shown}$"


def in_python(tokens: Sequence[str]) -> str:
    """Return a Python expression that has the structure of the formula."""
    words = []
    for token, following in pairwise([*tokens, ""]):
        mantissa, _, exponent = token.partition("e") if re.fullmatch(NUMBER, token) else (token, "", "")
        words.append(f"{mantissa} * 10 ** {exponent}".removeprefix("1 * ") if exponent else SPELLINGS.get(token, token))
        if re.fullmatch(rf"{NUMBER}|{NAME}|[)\]]", token) and re.fullmatch(rf"{NAME}|\(", following):
            words.append("" if token in FUNCTIONS else "@")
    return " ".join(words)


def tree_names(tree: ast.AST) -> set[str]:
    """Return the names in a formula."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def strength(tree: ast.AST) -> int:
    """Return the precedence of a formula, from 0 up. Inside a formula of higher precedence, it needs brackets."""
    match tree:
        case ast.Compare() | ast.BinOp(op=ast.LShift()):
            return 0
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            return 1
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.MatMult()) | ast.UnaryOp():
            return 2
        case ast.BinOp(op=ast.Pow()):
            return 3
    return 4


def latex(tree: ast.AST, known: frozenset[str], small: bool = False, least: int = 0) -> str:
    """Return a formula as LaTeX.

    known: names that are variables. small: whether fractions are written with a slash, as in exponents. least:
    precedence below which the formula needs brackets.
    """
    if strength(tree) < least:
        inner = latex(tree, known, small)
        return f"({inner})" if small else rf"\left({inner}\right)"

    def part(each: ast.AST, least: int = 0, small: bool = small) -> str:
        return latex(each, known, small, least)

    match tree:
        case ast.Constant(int() | float() as number):
            return str(number)
        case ast.Name(name) if name != "a" and (len(name) == 1 or name in SYMBOLS or name in known or "_" in name):
            return SYMBOLS.get(name, name if len(name) == 1 else rf"\text{{{name}}}")
        case ast.Subscript(ast.Name(name) as value):
            written = ast.unparse(tree)[len(name) + 1 : -1].replace(" ", "")
            return f"{latex(value, known | {name})}_{{{written}}}"
        case ast.UnaryOp(ast.USub(), operand):
            return f"-{part(operand, 2)}"
        case ast.BinOp(base, ast.Pow(), exponent):
            known |= {base.id} if isinstance(base, ast.Name) else set()
            return f"{part(base, 4)}^{{{part(exponent, small=True)}}}"
        case ast.BinOp(left, ast.FloorDiv(), right):
            return rf"\lfloor {part(left, 2, True)}/{part(right, 3, True)} \rfloor"
        case ast.BinOp(left, ast.Div(), right):
            return f"{part(left, 2)}/{part(right, 3)}" if small else rf"\frac{{{part(left)}}}{{{part(right)}}}"
        case ast.BinOp(left, ast.Mult(), right):
            return rf"{part(left, 2)} \cdot {part(right, 3)}"
        case ast.BinOp(left, ast.MatMult(), right):
            digits = part(left, 2)
            word = isinstance(right, ast.Name) and len(right.id) > 1 and right.id not in SYMBOLS
            return digits + (r"\," if word or not re.fullmatch(rf"-?{NUMBER}", digits) else "") + part(right, 3)
        case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
            return f"{part(left, 1)} {'+' if isinstance(sign, ast.Add) else '-'} {part(right, 2)}"
        case ast.BinOp(left, ast.LShift(), right):
            return rf"{part(left)}, \ldots, {part(right)}"
        case ast.Compare(left, [ast.Eq()], [right]):
            return f"{part(left)} = {part(right)}"
        case ast.Call(ast.Name(name), [_, *_] as inside, []) if name in FUNCTIONS:
            # in the arguments of a function, each name is a variable
            known |= tree_names(tree)
            return FUNCTIONS[name].format(", ".join(part(each, small=small or name != "sqrt") for each in inside))
    raise NoFormulaError
