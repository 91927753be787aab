"""Test introspection: names of modules, reprs, attributes, pictures in notebooks."""

from __future__ import annotations

import base64
import html
import importlib
import inspect
import pickle
import re
import struct
import sys
import xml.etree.ElementTree
import zlib
from fractions import Fraction

import numpy as np
import pytest

import posenc_fast as pf
from support.optional import optional
from support.processes import python

# keys: modules. Values: the packages that they need.
MODULES = {
    "": "", ".presets": "", ".presets.positions": "", ".reference": "", ".typing": "", ".torch": "torch",
    ".transformers": "torch", ".dask": "dask", ".jax": "jax", ".numba": "numba", ".sklearn": "sklearn",
    ".plot": "matplotlib", ".polars": "polars",
}  # fmt: skip
# modules of posenc_fast that need other packages, and these packages
OPTIONAL = [name[1:] for name, package in MODULES.items() if package]
PACKAGES = {package for package in MODULES.values() if package} | {"transformers"}


def taken(encoding, columns):
    """Return an Encoding with only some columns of an encoding. No public function can build it: it has no recipe."""
    return pf.Encoding._of(encoding._sinusoids.take(columns))


# importing other packages takes seconds
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if package else ()) for name, package in MODULES.items()]
)
def test_dir_has_only_public_names(name):
    if MODULES[name]:
        optional(MODULES[name])
    module = importlib.import_module(f"posenc_fast{name}")
    # dir() lists the names in __all__; for the package, also `typing` and the optional modules that are imported
    more = {"typing", *(each for each in OPTIONAL if f"posenc_fast.{each}" in sys.modules)} if name == "" else set()
    assert set(dir(module)) == set(module.__all__) | more
    for each in dir(module):
        assert not each.startswith("_") or each == "__version__"
        getattr(module, each)


# ---- programs that read the whole package ---------------------------------------------------------------------------

READERS = {
    "help": "help(pf)",
    "getmembers": "import inspect; print(pf.__doc__, dict(inspect.getmembers(pf))['grid'], 'table(')",
    "autospec": "from unittest import mock; mock.create_autospec(pf); print(pf.__doc__, 'table(')",
}


@pytest.mark.parametrize("installed", [False, True], ids=["without", "with"])
def test_readers_import_no_optional_package(installed):
    """Programs that read docstrings or names import no optional packages, whether these are installed or not."""
    hide = "" if installed else f"sys.modules.update(dict.fromkeys({PACKAGES}))\n"
    after = f"assert not {PACKAGES} & {{name for name, module in sys.modules.items() if module}}"
    run = python(
        f"import sys\n{hide}import posenc_fast as pf\n"
        + "".join(f"{reader}\n{after}, {name!r}\nprint('end of output')\n" for name, reader in READERS.items())
    )
    assert run.returncode == 0, run.stderr
    for name, output in zip(READERS, run.stdout.split("end of output\n")[:-1], strict=True):
        # the output contains the first sentence of the package, the name of a function, and the name of a method
        for words in ("Sinusoidal and rotary (RoPE) position encodings", "positional_encoding", "table("):
            assert words in output, name


def test_errors_without_optional_packages():
    run = python(f"""if True:
        import sys
        sys.modules.update(dict.fromkeys({PACKAGES}))
        import posenc_fast as pf
        for name in {OPTIONAL}:
            assert not hasattr(pf, name)
            assert getattr(pf, name, None) is None
            try:
                getattr(pf, name)
            except AttributeError as error:
                print(error)
            for program in (f"from posenc_fast import {{name}}", f"import posenc_fast.{{name}}"):
                try:
                    exec(program)
                except ImportError as error:
                    print(error)
    """)
    lines = run.stdout.splitlines()
    assert len(lines) == 3 * len(OPTIONAL), run.stderr
    for name, attribute, *imports in zip(OPTIONAL, lines[::3], lines[1::3], lines[2::3], strict=True):
        assert attribute == f"module 'posenc_fast' cannot import its submodule {name!r}: {imports[0]}"
        for each in imports:
            assert re.fullmatch(rf"posenc_fast\.{name} needs .*; run pip install .*", each)


# ---- reprs and recipes ----------------------------------------------------------------------------------------------

NAMES = {name: getattr(pf, name) for name in pf.__all__} | {"Fraction": Fraction}
WEIGHTS = np.random.default_rng(0).normal(size=(80, 2))
SHORT = {
    "sinusoidal": lambda: pf.sinusoidal(8, base=100.0, freq_shift=1, first=2, layout="concatenated"),
    "functions": lambda: pf.sinusoidal(7, functions=("-cos", "sin"), odd="zero", scale=0.5),
    "mapping": lambda: pf.sinusoidal(4, frequencies={"sin": [1.0, 2.0], "cos": pf.geometric(2, base=7.0)}),
    "features": lambda: pf.fourier_features([1.0, 1.0, 0.1], functions=("cos",), layout="interleaved", scale=2),
    "64 numbers": lambda: pf.fourier_features(WEIGHTS[:32]),
    "dense": lambda: pf.fourier_features([[1.0, -0.0], [0.0, 2.0]]),
    "schedule": lambda: pf.fourier_features(pf.linear(5, 1, 3)),
    "periods": lambda: pf.fourier_features(pf.periodic([86400, Fraction(1, 3)])),
    "Encoding": lambda: pf.Encoding([1.0, 0.3], [0.0, 0.25], [1.0, -0.5]),
    "axes": lambda: pf.Encoding([[1.0, 0.0], [1.0, 2.0]], amplitudes=[0.0, 1.0]),
    "join": lambda: pf.join([pf.sinusoidal(4), pf.fourier_features([[1.0, 2.0]])], axes=[1, (2, 0)]),
    "columns": lambda: pf.presets.timm(16),
    "Rotary": lambda: pf.Rotary(8, base=5e5, layout="interleaved", scaling={"rope_type": "linear", "factor": 2.0}),
    "Rotary-array": lambda: pf.Rotary(8, frequencies=np.array([1.0, 0.5, -0.1, 0.0]), attention_factor=2),
}
LONG = {
    "66 numbers": lambda: pf.fourier_features(WEIGHTS[:33]),
    "phases": lambda: pf.Encoding(WEIGHTS, WEIGHTS[:, 0], WEIGHTS[:, 1]),
    "join": lambda: pf.join([pf.fourier_features(WEIGHTS), pf.sinusoidal(4)]),
    "Rotary": lambda: pf.Rotary(160, frequencies=WEIGHTS),
}


@pytest.mark.parametrize("build", SHORT.values(), ids=SHORT)
def test_repr_rebuilds(build):
    value = build()
    assert repr(value) == value.recipe
    again = eval(repr(value), dict(NAMES))
    assert again == value
    assert repr(again) == repr(value)


@pytest.mark.parametrize("build", LONG.values(), ids=LONG)
def test_long_reprs_are_shortened(build):
    value = build()
    assert len(repr(value)) < 400
    assert re.fullmatch(r"<\w+\(.*, \.\., .*\), shortened; the attribute recipe is complete>", repr(value))
    with pytest.raises(SyntaxError):
        eval(repr(value), dict(NAMES))
    assert eval(value.recipe, dict(NAMES)) == value
    assert eval(pickle.loads(pickle.dumps(value)).recipe, dict(NAMES)) == value


def test_imports_in_two_threads():
    """Two threads can import the package and one of its modules at the same time, without a deadlock or an error.

    After that, the recipe of a preset can be evaluated, although ``Rotary`` is imported on first use, and the preset
    uses it before ``pf.Rotary`` is read.
    """
    code = """if True:
        import concurrent.futures, threading
        barrier = threading.Barrier(2)
        def load(name):
            barrier.wait()
            __import__(name)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(load, ["posenc_fast.presets", "posenc_fast"]))
        import posenc_fast as pf
        rotary = pf.presets.llama3()
        print(eval(rotary.recipe, vars(pf)) == rotary)
    """
    for _ in range(2):
        result = python(code)
        assert (result.returncode, result.stdout, result.stderr) == (0, "True\n", "")


def test_presets_rebuild_themselves():
    for name in pf.presets.names():
        facts = pf.presets._registry.facts(name)
        needed = [p for p in inspect.signature(facts.build).parameters.values() if p.default is p.empty]
        if facts.by_width or not needed:
            value = facts.build(*[96] * len(needed))
            assert eval(value.recipe, dict(NAMES)) == value, name


@pytest.mark.parametrize(("value", "base", "layout"), [
    (pf.sinusoidal(8, base=50, layout="concatenated"), 50.0, "concatenated"),
    (pf.sinusoidal(4, frequencies=[1.0, 2.0]), None, "interleaved"),
    (pf.fourier_features([1.0]), None, "concatenated"),
    (pf.join([pf.sinusoidal(4), pf.fourier_features([1.0])]), None, None),
    (taken(pf.sinusoidal(4), [0]), None, None),
    (pf.Rotary(8, base=500, layout="interleaved"), 500.0, "interleaved"),
    (pf.Rotary(8, frequencies=[1.0] * 4), None, "half"),
], ids=repr)  # fmt: skip
def test_base_and_layout(value, base, layout):
    assert (value.base, value.layout) == (base, layout)


# ---- pictures in notebooks ------------------------------------------------------------------------------------------


def pixels(text):
    """Return the pixels (rows, columns, 3) of the PNG that HTML contains. The PNG must not use filters."""
    data = base64.b64decode(re.search(r"base64,([^\"]+)\"", text)[1])
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks, data = {}, data[8:]
    while data:
        size, kind = struct.unpack_from(">I4s", data)
        chunks[kind], checksum = struct.unpack_from(f">{size}sI", data, 8)
        assert checksum == zlib.crc32(kind + chunks[kind])
        data = data[size + 12 :]
    width, height, *rest = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    assert rest == [8, 3, 0, 0, 0]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)[rows[:, 1:]].astype(int)


@pytest.mark.parametrize("build", [*SHORT.values(), *LONG.values()], ids=[*SHORT, *(f"long-{name}" for name in LONG)])
def test_pictures_are_small(build):
    value = build()
    text = value._repr_html_()
    assert len(text) < 10_000
    assert html.escape(repr(value)) in text
    xml.etree.ElementTree.fromstring(text.replace("<br>", "<br/>").replace('pixelated">', 'pixelated"/>'))
    assert pixels(text).shape[0] == 48


def test_pictures_show_the_table():
    """Positive values are drawn in warm colours, negative ones in cold colours, and zeros in neither."""
    encoding, clock = pf.sinusoidal(16, base=100.0, scale=3.0), pf.fourier_features(pf.periodic(["1D", "7D"]))
    for value, table in (
        (encoding, encoding.table(48, dtype=np.float64) / 3),
        (pf.Rotary(8), pf.Rotary(8).tables(48)[0]),
        (clock, clock.table(48, step=604_800 / 48, dtype=np.float64)),
    ):
        red, _, blue = np.moveaxis(pixels(value._repr_html_()), -1, 0)
        warm = red - blue
        assert warm.shape == table.shape
        assert (warm[table > 0.1] > 0).all()
        assert (warm[table < -0.1] < 0).all()
        assert (np.abs(warm[np.abs(table) < 0.01]) < 10).all()
    assert "positions 0 to 604,800, the longest period, downwards" in clock._repr_html_()


@pytest.mark.parametrize(("encoding", "is_shown", "words"), [
    (pf.sinusoidal(96), lambda c: c >= 0, "96 columns, positions 0 to 47 downwards;"),
    # both columns of every n-th pair, so that there are at most 96 columns
    (pf.sinusoidal(130), lambda c: c // 2 % 2 == 0, "66 of 130 columns (every 2nd frequency), positions"),
    (pf.sinusoidal(4096, layout="concatenated"), lambda c: c % 2048 % 43 == 0, "96 of 4096 columns (every 43rd"),
    # adjacent columns if no two share a frequency: here sines and cosines alternate, and the picture shows both
    (pf.presets.evans_unpaired(192), lambda c: c % 4 < 2, "96 of 192 columns (two of every 4 columns)"),
    (pf.Encoding(np.ones(1000)), lambda c: c % 11 == 0, "91 of 1000 columns (every 11th column)"),
    (pf.join([pf.sinusoidal(4)] * 2), lambda c: c >= 0, "8 columns, positions 0 to 47 downwards, on all axes"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_pictures_show_some_columns(encoding, is_shown, words):
    text, columns = encoding._repr_html_(), np.flatnonzero(is_shown(np.arange(encoding.d_model)))
    assert words in text
    np.testing.assert_array_equal(pixels(text), pixels(taken(encoding, columns)._repr_html_()))
