"""Test Dask arrays: rows equal those of direct calls, with threads, with processes, and if a worker dies."""

from __future__ import annotations

import os
import pickle
import signal
import time

import numpy as np
import pytest

import posenc_fast as pf
from support.errors import raises, wrong_calls
from support.memory import peak_of
from support.optional import optional

dask = optional("dask")
da = optional("dask.array")
pfd = optional("posenc_fast.dask")

LINE = pf.sinusoidal(10)
IMAGE = pf.join([pf.sinusoidal(6), pf.sinusoidal(5, base=100.0, layout="concatenated")])
# an encoding with columns that depend on both axes, and columns that depend on one axis
DENSE = pf.join([pf.fourier_features([[1.0, 2.0], [-0.5, 0.125]]), LINE], axes=[(0, 1), 1])


def computed(array, expected):
    """Compute an array in this thread, assert that it has the expected values, and return them."""
    result = array.compute(scheduler="synchronous")
    assert result.shape == array.shape or np.isnan(array.shape).any()
    assert result.dtype == array.dtype
    np.testing.assert_array_equal(result, expected)
    return result


# ---- tables and their graphs ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16], ids=lambda t: t.__name__)
@pytest.mark.parametrize("chunks", [97, (1000, 1, 0, 4, 495), "4 KiB", "auto"], ids=str)
def test_table_has_the_bits_of_one_call(chunks, dtype):
    rows = pfd.table(LINE, 1500, start=-700, dtype=dtype, chunks=chunks)
    assert rows.numblocks[1] == 1
    computed(rows, LINE.table(1500, start=-700, dtype=dtype))


@pytest.mark.parametrize("precision", ["exact", "float32"])
@pytest.mark.parametrize(
    ("start", "step"),
    [(2**53 + 1, 1), (2**63 - 200, 3), (2**64 - 1, -7), (-(2**63), 2**60 + 1), (np.uint64(2**63), np.int8(-3)), (0, 0)],
    ids=str,
)
def test_integers_are_exact(start, step, precision):
    # float64 cannot represent many of these positions; the tables of long steps are short, to stay within 64 bits
    length, options = 15 if abs(step) > 10 else 300, {"start": start, "step": step, "precision": precision}
    computed(pfd.table(LINE, length, **options, chunks=7), LINE.table(length, **options))


def test_real_steps():
    rows = pfd.table(LINE, 5000, start=-3.3, step=0.1, dtype=np.float64, chunks=99).compute(scheduler="synchronous")
    # errors do not accumulate, because the first position of each chunk is exact: both results are within one ulp
    expected = LINE.table(5000, start=-3.3, step=0.1, dtype=np.float64)
    np.testing.assert_allclose(rows, expected, rtol=2**-51, atol=2**-59)


def test_graph_contains_no_rows():
    def build(length):
        return pfd.table(pf.sinusoidal(64), length, chunks=length // 16)

    def pickled(collection):
        return len(pickle.dumps(collection.__dask_graph__()))

    small = build(16 * 10**4)
    assert pickled(small) < 8000
    # a longer table has more digits in the first positions of its chunks, which take a few bytes more
    assert pickled(build(16 * 10**9)) < pickled(small) + 200
    # a scheduler sends each task alone
    tasks = [len(optional("cloudpickle").dumps(task)) for task in dict(small.__dask_graph__()).values()]
    assert len(tasks) == 16
    assert max(tasks) < len(pickle.dumps(pf.sinusoidal(64))) + 2000
    grids = [pickled(pfd.grid([size, size], IMAGE, chunks=size // 4)) for size in (400, 4 * 10**8)]
    assert grids[0] < 12000
    assert grids[1] < grids[0] + 500


def test_different_arrays_have_different_names():
    def build(encoding=LINE, **options):
        return pfd.table(encoding, 20, **options).name

    again = pf.sinusoidal(10)
    again.table(5)
    assert build() == build(again) == build(pickle.loads(pickle.dumps(LINE)))
    options = ({"start": 1}, {"step": 2}, {"dtype": np.float64}, {"precision": "float32"}, {"chunks": 3})
    assert len({build(), build(pf.sinusoidal(10, base=9.0)), *(build(**each) for each in options)}) == 7


# ---- any positions, and grids -----------------------------------------------------------------------------------

TIMES = np.datetime64("2026-01-01", "ns") + np.arange(100) * 10**12 + 1
TIMES[::7] = np.datetime64("NaT")


@pytest.mark.parametrize("precision", ["exact", "float32"])
def test_encode_any_shape(precision):
    positions = np.arange(24.0).reshape(2, 3, 4)
    for each in (TIMES, positions, np.array(5.5), positions[0, :0], np.empty((3, 0))):
        lazy, expected = da.from_array(each, chunks=2), LINE.encode(each, precision=precision)
        rows = pfd.encode(LINE, lazy, precision=precision)
        assert rows.chunks == (*lazy.chunks, (10,))
        computed(rows, expected)
        computed(pfd.encode(LINE, each, precision=precision), expected)
    computed(pfd.encode(LINE, TIMES, precision=precision, chunks=9), LINE.encode(TIMES, precision=precision))


def test_encode_several_axes():
    points = np.arange(60.0).reshape(5, 6, 2)
    expected = DENSE.encode(points)
    # the coordinates of a point may be in different chunks, which encode must join
    for chunks in ((2, 4, 1), (2, 4, 2)):
        rows = pfd.encode(DENSE, da.from_array(points, chunks=chunks))
        assert rows.chunks == ((2, 2, 1), (4, 2), (14,))
        computed(rows, expected)
    computed(pfd.encode(DENSE, points, chunks=(5, 1)), expected)


def test_chunks_of_positions():
    positions = da.arange(10**6, chunks=-1)
    wide = pf.sinusoidal(1024)
    assert pfd.encode(wide, positions).numblocks == (1, 1)
    usual = pfd.encode(wide, positions, chunks="auto")
    limit = 1.25 * dask.utils.parse_bytes(dask.config.get("array.chunk-size"))
    assert max(usual.chunks[0]) * 1024 * 4 <= limit
    assert pfd.encode(wide, np.arange(10**6)).chunks == usual.chunks
    assert pfd.encode(wide, positions, chunks=300000).chunks == ((300000,) * 3 + (100000,), (1024,))


def test_columns_of_a_data_frame():
    pd, dd = optional("pandas"), optional("dask.dataframe")
    zone = pd.date_range("2026-03-28", periods=10, freq="h", tz="Europe/Berlin")
    integers, reals, times = 2**62 + np.arange(10), np.linspace(0, 1, 10), zone.tz_convert(None).as_unit("ns")
    missing = pd.array([2**62 + 1, None] * 5, dtype="Int64")
    columns = {"integer": integers, "real": reals, "time": times, "zone": zone, "missing": missing}
    lazy = dd.from_pandas(pd.DataFrame(columns, index=pd.Index(range(100, 110), name="at")), npartitions=3)
    expected = {name: LINE.encode(columns[name]) for name in ("integer", "real", "time")}
    expected["zone"] = expected["time"]
    expected["missing"] = np.where(np.arange(10)[:, np.newaxis] % 2, np.nan, LINE.encode([2**62 + 1]))
    for name, rows_of_column in expected.items():
        rows = pfd.encode(LINE, lazy[name])
        assert (len(rows.chunks[0]), rows.shape[1]) == (3, 10)
        computed(rows, rows_of_column)
    computed(pfd.encode(LINE, lazy.index), LINE.encode(range(100, 110)))
    both = np.stack([reals, reals], axis=1)
    computed(pfd.encode(IMAGE, lazy[["real", "real"]].to_dask_array()), IMAGE.encode(both))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("dtype", [np.float64, np.float16], ids=lambda t: t.__name__)
@pytest.mark.parametrize("indexing", ["ij", "xy"])
@pytest.mark.parametrize("encoding", [IMAGE, DENSE], ids=["image", "dense"])
def test_grid_has_the_bits_of_one_call(encoding, indexing, dtype):
    for axes in ([40, 30], [range(2**62, 2**62 + 40), 30], [np.linspace(-1, 1, 40), np.arange(30.0)]):
        whole = pf.grid(axes, encoding, indexing=indexing, dtype=dtype)
        for chunks in ((11, 30), 16, "auto"):
            lazy = pfd.grid(axes, encoding, indexing=indexing, dtype=dtype, chunks=chunks)
            assert lazy.numblocks[-1] == 1
            computed(lazy, whole)
    # `table` and `encode` round a few float64 values differently, so chunks must call the one that `pf.grid` calls for
    # the same axis
    wide = pf.join([pf.sinusoidal(64), pf.sinusoidal(64)])
    computed(pfd.grid([2, 1000], wide, dtype=dtype, chunks=(1, 300)), pf.grid([2, 1000], wide, dtype=dtype))


def test_tables_and_grids_of_other_shapes():
    computed(pfd.grid([0, 3], IMAGE), np.empty((0, 3, 11)))
    computed(pfd.grid([50], LINE, indexing="xy", chunks=7), LINE.table(50))
    three = pf.join([pf.sinusoidal(4), pf.sinusoidal(6), pf.sinusoidal(8)], axes=[2, 0, 1])
    axes = [5, 7, np.datetime64("2026-01-01T00", "h") + np.arange(6)]
    for indexing in ("ij", "xy"):
        computed(pfd.grid(axes, three, indexing=indexing, chunks=(2, 3, 4)), pf.grid(axes, three, indexing=indexing))


# ---- errors -----------------------------------------------------------------------------------------------------


def columns():
    """Return a lazy Dask DataFrame with columns "text" and "real"."""
    frame = optional("pandas").DataFrame({"text": list("abc"), "real": [0.5] * 3})
    return optional("dask.dataframe").from_pandas(frame, npartitions=1)


@wrong_calls(
    """
    pfd.table(4, 10) | TypeError | encoding; int
    pfd.table(IMAGE, 10) | ValueError | table; 2
    pfd.table(LINE, -1) | ValueError | length; -1
    pfd.table(LINE, 3, start=2**64 - 2) | ValueError | start; 18446744073709551614
    pfd.table(LINE, 3, chunks=(1, 1)) | ValueError | chunks=(1, 1); (3,)
    pfd.table(LINE, 3, chunks=(-1, 4)) | ValueError | chunks=(-1, 4)
    pfd.table(LINE, 3, chunks=True) | TypeError | chunks; True
    pfd.grid([3], IMAGE) | ValueError | axes; 2 items
    pfd.grid([3, 3], IMAGE, indexing="yx") | ValueError | indexing; 'yx'
    pfd.encode(LINE, [1, 2]) | TypeError | positions; list; numpy.asarray(positions)
    pfd.encode(LINE, da.zeros(3, dtype="m8")) | TypeError | positions; timedelta64[s]
    pfd.encode(IMAGE, da.zeros((3, 3))) | ValueError | positions; (3, 3); 2 axes
    pfd.encode(LINE, (x := da.arange(9))[x > 3], chunks=2) | ValueError | chunks=2; nan; compute_chunk_sizes
    # columns of a DataFrame
    pfd.encode(LINE, columns().text) | TypeError | positions is a column of str
    pfd.encode(LINE, columns()) | TypeError | positions must be ; not DataFrame
    pfd.encode(IMAGE, columns().real) | ValueError | 2 axes; to_dask_array
    pfd.encode(LINE, columns().real, chunks=5) | ValueError | chunks=5 ; repartition
    """
)
def test_wrong_arguments(call, error, words):
    raises(call, error, words)


def test_lazy_positions_are_not_computed_as_a_whole():
    """Functions of the core reject lazy positions of Dask, instead of computing all of them."""
    encoding, x, frame = pf.sinusoidal(8), np.zeros((3, 8)), columns()
    fix = r"pass positions\.compute\(\), or use posenc_fast\.dask\.encode instead of Encoding\.encode"
    for lazy in (da.arange(3, chunks=2), frame["real"], frame[["real"]], frame.index):
        with pytest.raises(TypeError, match=rf"positions is a lazy Dask {type(lazy).__name__}, .*; {fix}"):
            encoding.encode(lazy)
        for call in (pf.Rotary(8).tables, lambda lazy: encoding.add_to(x, positions=lazy, out=x)):
            with pytest.raises(TypeError, match=fix):
                call(lazy)
    assert not x.any()
    with pytest.raises(TypeError, match=r"axes\[0\] is a lazy Dask Array, .*; pass axes\[0\]\.compute\(\)"):
        pf.grid([da.arange(3)], encoding)
    with pytest.raises(TypeError, match=r"x must be a numpy array, not Array; give numpy\.asarray\(x\)"):
        encoding.add_to(da.zeros((3, 8)))


# ---- files larger than memory, and processes --------------------------------------------------------------------


def test_files_larger_than_memory(tmp_path):
    # a table of 32 MiB in chunks of 1 MiB
    rows = pfd.table(LINE, 2**20, start=10**12, chunks=2**15)
    stored = np.lib.format.open_memmap(tmp_path / "table.npy", "w+", rows.dtype, rows.shape)
    with dask.config.set(scheduler="threads", num_workers=2):
        # call once before the measurement: the first call imports modules of Dask, which take memory too
        da.store(rows[:2], np.empty((2, 10), rows.dtype), lock=False)
        assert peak_of(lambda: da.store(rows, stored, lock=False)) < 2**23
    np.testing.assert_array_equal(stored, LINE.table(2**20, start=10**12))


SECONDS = 120


@pytest.fixture(scope="module")
def client():
    """Yield a client of a local cluster: two processes with one thread each."""
    distributed = optional("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=SECONDS)
        yield client


def test_processes_give_the_same_bits(client):
    axes = [90, range(2**62, 2**62 + 50)]
    for lazy, expected in (
        (pfd.table(LINE, 3000, start=2**62, step=3, chunks=250), LINE.table(3000, start=2**62, step=3)),
        (pfd.encode(LINE, da.from_array(TIMES, chunks=9)), LINE.encode(TIMES)),
        (pfd.grid(axes, DENSE, chunks=20), pf.grid(axes, DENSE)),
    ):
        np.testing.assert_array_equal(client.compute(lazy).result(timeout=SECONDS), expected)


def test_workers_exchange_nothing(client):
    # define the function here: Dask pickles local functions by value, so workers need not import this file
    def slowly(rows):
        time.sleep(0.1)
        return rows

    def received():
        return client.run(lambda dask_worker: len(dask_worker.transfer_incoming_log))

    before = received()
    rows = client.persist(pfd.table(LINE, 2000, chunks=100).map_blocks(slowly))
    optional("distributed").wait(rows, timeout=SECONDS)
    assert all(client.has_what().values()), "one worker did it all"
    assert received() == before


def test_a_killed_worker_loses_nothing(client, tmp_path):
    begun, killed = tmp_path / "begun", tmp_path / "killed"
    begun.mkdir()

    def delayed(rows, block_info=None):
        # after 8 chunks have begun, both workers wait until one of them is killed
        end = time.monotonic() + SECONDS
        while len(os.listdir(begun)) >= 8 and not killed.exists() and time.monotonic() < end:
            time.sleep(0.01)
        (begun / str(block_info[None]["chunk-location"][0])).touch()
        return rows

    client.wait_for_workers(2, timeout=SECONDS)
    table = pfd.table(LINE, 4000, start=2**62, step=3, chunks=100)
    whole = client.compute(table.map_blocks(delayed, meta=np.empty((0, 10), np.float32)))
    end = time.monotonic() + SECONDS
    while len(os.listdir(begun)) < 8 or not any(client.has_what().values()):
        assert time.monotonic() < end, "nothing was computed"
        time.sleep(0.01)
    # kill the worker that stores the most chunks, so that Dask must compute many of them again
    pids, holds = client.run(os.getpid), client.has_what()
    victim = max(pids, key=lambda address: len(holds[address]))
    assert not whole.done()
    os.kill(pids[victim], getattr(signal, "SIGKILL", signal.SIGTERM))
    killed.touch()
    np.testing.assert_array_equal(whole.result(timeout=SECONDS), LINE.table(4000, start=2**62, step=3))
    assert len(os.listdir(begun)) == 40
    client.wait_for_workers(2, timeout=SECONDS)
    assert pids[victim] not in client.run(os.getpid).values()
