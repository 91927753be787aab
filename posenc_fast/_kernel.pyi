"""The compiled engine. `posenc_fast/_core/engine/python.py` has the same classes in NumPy, with exact annotations."""

from typing import Any, TypeAlias

LEVELS: tuple[str, ...]
MISSED: tuple[str, ...]
CACHE_SIZE: int
STORES: tuple[str, ...]
DEBUG: bool
_C_API: Any
KINDS: dict[str, int]

class Plan:
    def __init__(
        self, frequencies: Any, largest: Any, source: Any, amplitude: Any, runs: Any, planar: bool
    ) -> None: ...
    def encode(
        self,
        level: int,
        positions: Any,
        out: Any,
        kind: int,
        single: bool = False,
        stores: int = 0,
        x: Any = None,
        scale: float = 1.0,
    ) -> bytes | None: ...

class Lattice:
    plan: Plan
    def __init__(
        self,
        level: int,
        plan: Plan,
        quadrature_source: Any,
        quadrature_amplitude: Any,
        cosine: Any,
        sine: Any,
        block_bits: int,
        span_bits: int,
        double_double: bool,
    ) -> None: ...
    def table(
        self,
        level: int,
        span: int,
        offset: int,
        out: Any,
        kind: int,
        stores: int = 0,
        x: Any = None,
        scale: float = 1.0,
    ) -> None: ...
    def rows(
        self,
        level: int,
        spans: Any,
        offsets: Any,
        out: Any,
        kind: int,
        stores: int = 0,
        x: Any = None,
        scale: float = 1.0,
    ) -> None: ...

def stores(out: Any, x: Any, kind: int, last_level: int, given: bool, one_by_one: bool = False) -> int: ...
def merge(level: int, outer: Any, inner: Any, out: Any, stores: int = 0) -> None: ...
def rotate(level: int, angles: Any, x: Any, out: Any, kind: int, layout: int, stores: int = 0) -> None: ...

# (shape, address of x, its strides, address of the result, its strides)
_MemoryOfRotation: TypeAlias = tuple[tuple[int, ...], int, tuple[int, ...], int, tuple[int, ...]]

def rotate_memory(
    level: int, angles: Any, arrays: list[_MemoryOfRotation], axis: int, kind: int, layout: int
) -> None: ...
def side_by_side(cos: int, sin: int, kind: int, angles: Any) -> bool: ...
def encoding_capsule(
    level: int,
    real: Plan,
    integer: Plan | None,
    lattice: Lattice | None,
    lattice_dd: Lattice | None,
    least: Any,
    phase: bool,
    single: bool,
    axes: int,
    last_level: int,
) -> Any: ...
def rotary_capsule(angles: Any, head_dim: int, layout: int) -> Any: ...

class Calls:
    def __init__(
        self,
        level: int,
        real: Plan | None,
        integer: Plan | None,
        lattice: Lattice | None,
        lattice_dd: Lattice | None,
        least: Any,
        phase: bool,
        axes: int,
        last_level: int,
        kinds: dict[Any, int],
        large: Any,
    ) -> None: ...
    def table(self, length: Any, start: Any, step: Any, dtype: Any, precision: Any, out: Any) -> Any: ...
    def encode(self, positions: Any, dtype: Any, precision: Any, out: Any) -> Any: ...
    def add(self, x: Any, start: Any, step: Any, x_scale: Any, precision: Any, out: Any) -> Any: ...
    def rotate(self, x: Any, start: Any, axis: Any, out: Any, head_dim: int, layout: int) -> Any: ...
    def rotate_memory(self, start: int, arrays: list[_MemoryOfRotation], axis: int, kind: int, layout: int) -> bool: ...

def rotate_rows(
    level: int, angles: Any, x: Any, axis: Any, out: Any, kinds: dict[Any, int], large: Any, head_dim: int, layout: int
) -> Any: ...
