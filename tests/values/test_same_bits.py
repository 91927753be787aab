"""Test that no value depends on exp, log, pow or sin of a library, whose last bits differ between machines.

NumPy vectorizes these functions on some CPUs, and calls the C library on others. Sums, products, quotients and square
roots are the same everywhere, because IEEE 754 requires correct rounding.
"""

from __future__ import annotations

import ast
from pathlib import Path

import posenc_fast

PACKAGE = Path(posenc_fast.__file__).parent

FUNCTIONS = """
exp exp2 expm1 power float_power pow log log2 log10 log1p sin cos tan sinh cosh tanh arcsin arccos arctan arctan2 asin acos
atan atan2 arcsinh arccosh arctanh hypot cbrt sinc angle unwrap geomspace logspace erf gamma lgamma linalg dot vdot inner
matmul tensordot vander polyval
"""
NAMES = set(FUNCTIONS.split())
MODULES = {"np", "numpy", "math", "cmath"}
# keys: files, or expressions in them, with one of FUNCTIONS, a power or a matrix product. Values: what the code does
# instead of computing values of encodings.
ALLOWED = {
    "_core/encoding/algebra.py: a @ b": "chooses where locate begins to search",
    "_models/check/faults.py": "compares values",
    "_models/check/frequencies.py": "compares values",
    "_models/check/waves.py": "compares values",
    "_cli/formats.py": "counts the digits of a format",
    "_selfcheck/oracle.py": "powers of Decimals",
    "_selfcheck/speed.py": "times the program of the tutorials",
    "_selfcheck/accuracy.py": "draws positions; powers of two in bounds",
    "_models/identify/angles.py": "measures values of the caller",
    "_models/identify/bases.py": "compares bases",
    "_models/identify/encoding.py": "measures values of the caller",
    "_models/identify/grids.py": "measures values of the caller",
    "_models/identify/rotary.py": "measures values of the caller",
    "_models/identify/rotations.py": "measures values of the caller",
    "_models/identify/tolerances.py": "estimates errors of float32",
    "_core/numbers/exact.py": "powers of Decimals",
    "_core/numbers/doubles.py": "powers of Decimals",
    "_core/numbers/schedule.py": "a rough size, before a closer look",
    "_core/rotary/scaling.py": "powers of Decimals",
    "plot/_curves.py": "pictures",
    "plot/_likeness.py": "pictures",
    "plot/_tables.py": "pictures",
    "reference.py": "powers of Decimals, and programs of tutorials",
}


def is_exact_power(node: ast.BinOp) -> bool:
    """Return whether a power has the same bits everywhere: a square, or a power of an integer constant or of 2.0."""
    base, exponent = node.left, node.right
    if isinstance(exponent, ast.Constant) and exponent.value == 2:
        return True
    if isinstance(base, ast.UnaryOp):
        base = base.operand
    return isinstance(base, ast.Constant) and (isinstance(base.value, int) or base.value == 2.0)


def is_inexact(node: ast.AST) -> bool:
    """Return whether a node calls or imports one of NAMES, or is a power or a product of matrices."""
    match node:
        case ast.Attribute(ast.Name(module), name):
            return module in MODULES and name in NAMES
        case ast.ImportFrom(module, names):
            return module in MODULES and bool(NAMES & {each.name for each in names})
        case ast.Call(ast.Name("pow"), arguments):
            # pow with three arguments is exact, because it accepts only integers
            return len(arguments) != 3
        case ast.BinOp(op=ast.Pow()):
            return not is_exact_power(node)
        case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.Pow() | ast.MatMult()):
            return True
    return False


def uses_of(source: str) -> list[tuple[int, str]]:
    """Return (line, expression) of each inexact node of a source."""
    return [(node.lineno, ast.unparse(node)) for node in ast.walk(ast.parse(source)) if is_inexact(node)]


def test_sources():
    wrong, used = [], set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        for line, expression in uses_of(path.read_text(encoding="utf-8")):
            where = {name, f"{name}: {expression}"} & set(ALLOWED)
            used |= where
            wrong += [] if where else [f"{name}:{line}: {expression}"]
    assert not wrong, "\n".join(wrong)
    assert used == set(ALLOWED)
