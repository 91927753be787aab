"""Measure encodings of any positions, calendar cycles, and the positions of `mrope`."""

from __future__ import annotations

import importlib
import time
import types
from collections.abc import Callable

import bare
import numpy as np
import peers
import timing
import values
from timing import Array, Ratio

import posenc_fast as pf
from posenc_fast._core.encoding.cycles import Cycles

from . import Measured, Skipped, compare

CYCLES = ["day", "week", "month", "quarter", "year"]


def timestamps() -> Array:
    """Return a million random timestamps, in seconds since 1970 with fractions."""
    return np.random.default_rng(1706).uniform(0, 2e9, 1_000_000)


def encode_and_bare(rows: int, width: int, runs: int) -> Measured:
    if not bare.found():
        raise Skipped("needs an x86-64 machine with the C compiler cc")
    encoding, positions, out = pf.sinusoidal(width), timestamps()[:rows], timing.warm((rows, width))
    sides = {
        "encode": lambda: encoding.encode(positions, out=out),
        "bare": bare.encode(positions, encoding.frequencies[::2], out),
    }
    times = timing.alternate(sides, runs)
    sides["bare"]()
    expected = out.copy()
    sides["encode"]()
    for part in values.blocks(*out.shape):
        values.check_rows(out[part], encoding, positions[part])
    # the bare loop has each frequency in one double, which at angles of up to 3e8 turns causes errors of up to 1e-6
    assert np.abs(out - expected).max() < 1e-6
    return compare(times, "encode", "bare", out.size)


def encode_and_memset(runs: int) -> Measured:
    encoding, positions, out = pf.sinusoidal(64), timestamps(), timing.warm((1_000_000, 64))
    sides = {
        "encode": lambda: encoding.encode(positions, out=out),
        "memset": timing.memset(out),
        "memset of ones": timing.memset(out, 255),
    }
    times = timing.alternate(sides, runs)
    sides["encode"]()
    for part in values.blocks(*out.shape):
        values.check_rows(out[part], encoding, positions[part])
    return compare(times, "encode", "memset", out.size)


def encode_and_numpy(runs: int) -> Measured:
    encoding, positions, out = pf.sinusoidal(64), timestamps(), timing.warm((1_000_000, 64))
    frequencies = encoding.frequencies[0::2]

    def formula() -> None:
        angles = positions[:, np.newaxis] * frequencies
        out[:, 0::2] = np.sin(angles)
        out[:, 1::2] = np.cos(angles)

    times = timing.alternate({"formula": formula, "encode": lambda: encoding.encode(positions, out=out)}, runs)
    formula()
    expected = out[:1000].copy()
    encoding.encode(positions, out=out)
    for part in values.blocks(*out.shape):
        values.check_rows(out[part], encoding, positions[part])
    # in the formula, a float64 angle of 2e9 radians has an error of up to 2e-7
    assert np.abs(out[:1000] - expected).max() < 1e-6
    return compare(times, "formula", "encode", out.size)


def one_timestep(runs: int) -> Measured:
    """Compare `encode` of one diffusion timestep with NumPy's formula in float64 or float32, whichever is faster."""
    encoding = pf.sinusoidal(320, layout="concatenated")
    double = encoding.frequencies[:160].copy()
    single = double.astype(np.float32)

    def formula(frequencies: Array) -> Array:
        angles = 981.0 * frequencies
        row = np.empty(320, np.float32)
        np.sin(angles, out=row[:160], casting="same_kind")
        np.cos(angles, out=row[160:], casting="same_kind")
        return row

    sides: dict[str, Callable[[], Array]] = {
        "encode": lambda: encoding.encode(981.0),
        "numpy float64": lambda: formula(double),
        "numpy float32": lambda: formula(single),
    }
    times = timing.alternate(sides, 10 * runs)
    values.check_rows(sides["encode"](), encoding, np.array(981.0))
    assert np.abs(sides["encode"]() - sides["numpy float64"]()).max() < 1e-6
    assert np.abs(sides["encode"]() - sides["numpy float32"]()).max() < values.single_tolerance(981)
    faster = min(("numpy float64", "numpy float32"), key=lambda name: np.median(times[name]))
    return compare(times, "encode", faster, 1)


def calendar_and_periods(runs: int) -> Measured:
    """Compare encodings of datetime64[ns] by five calendar cycles and by five periods of fixed length."""
    times = (timestamps() * 1e9).astype("M8[ns]")
    out = timing.warm((len(times), 10))
    fixed = pf.fourier_features(pf.periodic(["1D", "7D", "30D", "91D", "365D"]))
    cycles = Cycles(CYCLES)
    sides: dict[str, Callable[[], Array]] = {
        "calendar": lambda: cycles.encode(times, out.dtype, out),
        "periods": lambda: fixed.encode(times, out=out),
    }
    samples = timing.alternate(sides, runs)
    # the cycle "day" and the period "1D" have equal columns, so compare the values there
    day = sides["periods"]()[:, [0, 5]].copy()
    assert (sides["calendar"]()[:, :2] == day).all()
    return compare(samples, "calendar", "periods", out.size)


def calendar_and_pandas(zone: str | None, runs: int) -> Measured:
    """Compare calendar cycles with pandas' calendar fields and NumPy's sine and cosine in float64."""
    try:
        import pandas as pd
    except ImportError:
        raise Skipped("pandas is not installed") from None
    column = pd.Series((timestamps() * 1e9).astype("M8[ns]")).dt.tz_localize(zone and "UTC")
    if zone is not None:
        column = column.dt.tz_convert(zone)
    out = timing.warm((len(column), 10))
    cycles = Cycles(CYCLES)
    # before[month]: days from the start of the quarter to that of the month. lengths[quarter]: days of the quarter.
    # Both are for years without a leap day.
    before, lengths = np.array([0, 0, 31, 59, 0, 30, 61, 0, 31, 62, 0, 31, 61]), np.array([0, 90, 91, 92, 92])

    def formula() -> Array:
        clock = column.dt
        day = (clock.hour * 3600 + clock.minute * 60 + clock.second).to_numpy()
        day = (day + clock.microsecond.to_numpy() * 1e-6 + clock.nanosecond.to_numpy() * 1e-9) / 86400
        leap, month, quarter = clock.is_leap_year.to_numpy(), clock.month.to_numpy(), clock.quarter.to_numpy()
        in_month = clock.day.to_numpy() - 1 + day
        parts = (
            day,
            (clock.dayofweek.to_numpy() + day) / 7,
            in_month / clock.days_in_month.to_numpy(),
            (before[month] + (leap & (month == 3)) + in_month) / (lengths[quarter] + (leap & (quarter == 1))),
            (clock.dayofyear.to_numpy() - 1 + day) / (365 + leap),
        )
        for i, part in enumerate(parts):
            angle = 2 * np.pi * part
            out[:, 2 * i], out[:, 2 * i + 1] = np.sin(angle), np.cos(angle)
        return out

    sides: dict[str, Callable[[], Array]] = {
        "pandas": formula,
        "calendar": lambda: cycles.encode(column, out.dtype, out),
    }
    samples = timing.alternate(sides, runs)
    expected = formula().copy()
    assert np.abs(sides["calendar"]() - expected).max() < 1e-6
    return compare(samples, "pandas", "calendar", out.size)


def mrope_and_transformers(runs: int) -> Measured:
    """Compare `mrope` with transformers for a Qwen2-VL prompt of 4096 tokens with 20 images of several sizes."""
    for package in ("torch", "transformers"):
        if not peers.found(package):
            raise Skipped(f"{package} is not installed")
    torch = peers.one_thread()
    image, text = 151655, 7
    grids = np.array([[1, 2 * (8 + i % 5), 2 * (14 + i % 3)] for i in range(20)])
    between = [[text] * 6 + [image] * (rows * columns // 4) for _, rows, columns in grids.tolist()]
    tokens = [token for part in between for token in part][:4096]
    assert len(tokens) <= 4096
    ids = np.array([tokens + [text] * (4096 - len(tokens))])
    model = importlib.import_module("transformers.models.qwen2_vl.modeling_qwen2_vl").Qwen2VLModel
    # call the method on a stand-in, because creating a model with weights takes long
    counting = types.SimpleNamespace(config=types.SimpleNamespace(vision_config=types.SimpleNamespace()))
    counting.config.vision_config.spatial_merge_size = 2
    counting.get_vision_position_ids = types.MethodType(model.get_vision_position_ids, counting)
    tensors = torch.from_numpy(ids), torch.from_numpy((ids == image).astype(np.int32)), torch.from_numpy(grids)
    sides: dict[str, Callable[[], Array]] = {
        "transformers": lambda: model.get_rope_index(counting, *tensors)[0].numpy(),
        "mrope": lambda: pf.presets.positions.mrope(ids, "qwen2_vl", image_grid_thw=grids)[0],
    }
    samples = timing.alternate(sides, runs, time.thread_time)
    assert (sides["mrope"]() == sides["transformers"]()).all()
    return compare(samples, "transformers", "mrope", 1)


def mrope_of_text(runs: int) -> Measured:
    """Measure `mrope` for 128 tokens of text. `Measured.ratio` contains microseconds."""
    ids = np.arange(128)[np.newaxis]
    side = "128 tokens of text"
    samples = timing.alternate({side: lambda: pf.presets.positions.mrope(ids, "qwen2_vl")}, 10 * runs)[side]
    micro = np.percentile(samples * 1e6, [50, 25, 75])
    return Measured(Ratio(*micro.tolist()), {side: float(np.median(samples)) * 1e9}, 1)
