"""Test threads, forks, interrupts, subinterpreters and missing memory: calls return right values or raise an error."""

from __future__ import annotations

import os
import signal
import sys
import sysconfig
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import posenc_fast as pf
from posenc_fast._core.engine import threads as _threads
from support.processes import python

pytestmark = pytest.mark.slow

needs_kernel = pytest.mark.skipif(not pf.isa_levels(), reason="this build has no compiled kernel")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux to limit the address space")
needs_interrupts = pytest.mark.skipif(
    not hasattr(signal, "pthread_kill") or signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
    reason="needs POSIX signals, and interrupts that are not ignored",
)
each_backend = pytest.mark.parametrize("name", [pytest.param("cython", marks=needs_kernel), "python"])

# ---- threads ----------------------------------------------------------------------------------------------------


def test_threads_fill_parts_of_one_array(backend):
    """Threads write different rows and columns of one array at the same time."""
    encoding, narrow, choice = pf.sinusoidal(48), pf.sinusoidal(7), (backend, pf.isa())
    out, barrier = np.full((800, 48 + 7), 7, np.float32), threading.Barrier(16)

    def work(i):
        with pf.use_backend(*choice):
            barrier.wait()
            start = i // 2 * 100
            left, right = np.split(out[start : start + 100], [48], axis=1)
            if i % 2:
                encoding.encode(np.arange(start, start + 100), out=left)
                encoding.table(100, start=start, out=left)
            else:
                narrow.add_to(right, start=start, out=right)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    np.testing.assert_array_equal(out[:, :48], encoding.table(800))
    np.testing.assert_array_equal(out[:, 48:], narrow.add_to(np.full((800, 7), 7, np.float32)))


def test_calls_with_workers_from_many_threads():
    encoding, rows = pf.sinusoidal(256), 4200
    expected = encoding.table(rows)

    def work(i):
        return np.array_equal(encoding.table(rows, workers=1 + i % 3 if (os.cpu_count() or 1) > 2 else 2), expected)

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(12)))


def blocks_done(workers, fail):
    """Run 1000 blocks, each of which calls ``fail(i)``. Return the blocks that completed, and the error or None."""
    done = []

    def task(i):
        fail(i)
        done.append(i)

    try:
        _threads.run(task, iter(range(1000)), workers)
    except BaseException as error:  # noqa: BLE001
        seen = len(done)
        time.sleep(0.05)
        # no thread continues after the call
        assert len(done) == seen
        return done, error
    return done, None


def test_number_of_useful_workers():
    for workers, size, useful in ((1, 8000, 1), (64, 0, 1), (64, 999, 1), (64, 1000, 2), (64, 8000, 16), (4, 8000, 4)):
        assert _threads.useful(workers, size, worth=1000) == useful


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_every_block_once(workers):
    done, error = blocks_done(workers, lambda i: None)
    assert error is None
    assert sorted(done) == list(range(1000))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("error_type", [OSError, MemoryError, KeyboardInterrupt])
def test_blocks_after_an_error_never_begin(error_type, workers):
    def fail(i):
        time.sleep(1e-4)
        if i == 20:
            raise error_type("broken")

    done, error = blocks_done(workers, fail)
    assert type(error) is error_type
    assert 20 not in done
    assert len(done) < 500


def test_caller_computes_while_all_threads_are_busy():
    barrier, end, done = threading.Barrier(3), threading.Event(), []

    def wait(i):
        barrier.wait()
        end.wait()

    other = threading.Thread(target=_threads.run, args=(wait, range(2), 2))
    other.start()
    try:
        barrier.wait()
        _threads.run(done.append, range(10), 2)
    finally:
        end.set()
        other.join()
    assert done == list(range(10))


def test_interrupt_while_threads_are_started(monkeypatch):
    submit, calls = ThreadPoolExecutor.submit, []

    def interrupted(self, *args):
        calls.append(submit(self, *args))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return calls[-1]

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    done, error = blocks_done(3, lambda i: time.sleep(1e-3))
    assert type(error) is KeyboardInterrupt
    assert len(done) < 500


@needs_interrupts
def test_interrupt_that_another_thread_receives():
    """If the system delivers the signal to a worker thread, the thread that waits for the workers must notice it."""

    def send(i):
        time.sleep(5e-3)
        if i == 20:
            signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    done, error = blocks_done(2, send)
    assert type(error) is KeyboardInterrupt
    assert len(done) < 500


def limit_threads(possible, monkeypatch):
    """Limit the number of threads of a new pool. Return the list of started threads."""
    started, start = [], threading.Thread.start

    def limited(self):
        if self.name.startswith("posenc_fast"):
            if len(started) >= possible:
                raise RuntimeError("can't start new thread")
            started.append(self)
        start(self)

    monkeypatch.setattr(_threads, "_pools", {})
    monkeypatch.setattr(threading.Thread, "start", limited)
    return started


@pytest.mark.parametrize("possible", [0, 1])
def test_fewer_threads_than_asked_for(possible, monkeypatch):
    """If no more threads can start, the existing threads or the caller do the work."""
    limit_threads(possible, monkeypatch)
    encoding = pf.sinusoidal(256)
    np.testing.assert_array_equal(encoding.table(4200, workers=2), encoding.table(4200))
    assert sorted(blocks_done(4, lambda i: None)[0]) == list(range(1000))


def test_blocks_that_a_thread_of_another_call_takes(monkeypatch):
    """If no new thread can start, the pool queues the task. A thread that works for another call may take it.

    The call that queued the task must wait for this thread.
    """
    started = limit_threads(1, monkeypatch)
    busy, go, done = threading.Event(), threading.Event(), []

    def other(block):
        if threading.current_thread() in started:
            busy.set()
        go.wait()

    def task(block):
        if threading.current_thread() in started:
            time.sleep(0.3)
        elif block == 0:
            # let the pool's thread finish the other call, then wait until it has taken the next block of this call
            go.set()
            time.sleep(0.1)
        done.append(block)

    caller = threading.Thread(target=_threads.run, args=(other, range(2), 3))
    caller.start()
    busy.wait()
    _threads.run(task, range(6), 3)
    assert sorted(done) == list(range(6))
    caller.join()


@needs_interrupts
def test_no_thread_writes_after_a_second_interrupt():
    ended, main = [], threading.current_thread()

    def task(block):
        time.sleep(5 if threading.current_thread() is main else 0.6)
        ended.append(time.monotonic())

    timers = [threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT)) for after in (0.1, 0.3)]
    for timer in timers:
        timer.start()
    with pytest.raises(KeyboardInterrupt):
        _threads.run(task, range(2), 2)
    over = time.monotonic()
    for timer in timers:
        timer.join()
    assert len(ended) == 1
    assert ended[0] <= over


AT_EXIT = """
import atexit
import posenc_fast as pf
encoding = pf.sinusoidal(256)
expected = encoding.table(4200, workers={workers}).tobytes()
atexit.register(lambda: print(encoding.table(4200, workers=2).tobytes() == expected))
"""
WHILE_A_THREAD_COMPUTES = """
import threading
import posenc_fast as pf
encoding, begun = pf.sinusoidal(256), threading.Event()
def work():
    while True:
        encoding.table(4200)
        begun.set()
threading.Thread(target=work, daemon=True).start()
begun.wait()
print(True)
"""
# the first call with two workers imports the thread pool
PROGRAMS = [AT_EXIT.format(workers=1), AT_EXIT.format(workers=2), WHILE_A_THREAD_COMPUTES]


@pytest.mark.parametrize("code", PROGRAMS, ids=["first workers", "workers", "a thread computes"])
def test_end_of_the_interpreter(code):
    result = python(code)
    assert (result.returncode, result.stdout, result.stderr) == (0, "True\n", "")


@pytest.mark.skipif(not FREE_THREADED, reason="needs a free-threaded build")
@needs_kernel
def test_the_kernel_does_not_enable_the_gil():
    """The kernel declares that it is safe without the GIL. Otherwise its import would enable the GIL."""
    code = "import sys, numpy; import posenc_fast as pf; pf.positional_encoding(2, 2); print(sys._is_gil_enabled())"
    result = python(code)
    assert (result.stdout, result.stderr) == ("False\n", "")


# ---- forks ------------------------------------------------------------------------------------------------------


@needs_fork
@pytest.mark.skipif(FREE_THREADED, reason="unsupported without the GIL: in the child, a dict may stay locked")
@each_backend
def test_fork_while_threads_work(name):
    """Children that are forked while threads are busy start their own threads, compute right values, and exit."""
    code = """if True:
    import os, threading, time, warnings
    import numpy as np
    import posenc_fast as pf
    warnings.simplefilter("ignore", DeprecationWarning)
    encoding = pf.sinusoidal(128)
    expected = encoding.table(9000, workers=2).tobytes()
    stop = threading.Event()
    def work():
        while not stop.is_set():
            encoding.table(9000, workers=2)
            pf.Encoding(np.random.default_rng().uniform(size=4)).table(9)
    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(12):
        time.sleep(0.01)
        child = os.fork()
        if child == 0:
            good = encoding.table(9000, workers=2).tobytes() == expected
            os._exit(not good or pf.sinusoidal(6, base=7.0).table(3, workers=2).shape != (3, 6))
        children.append(child)
    print([os.waitpid(child, 0)[1] for child in children])
    stop.set()
    for thread in threads:
        thread.join()
    print(encoding.table(9000, workers=2).tobytes() == expected)
    """
    result = python(code, POSENC_FAST_BACKEND=name)
    assert result.stdout.splitlines() == [str([0] * 12), "True"], result.stderr


# ---- interrupts -------------------------------------------------------------------------------------------------

# all rows of `out` have the same address, so the call of 2^38 rows takes hours, but no memory
ENDLESS = """if True:
    import _thread, os, signal, sys, threading, time
    import numpy as np
    import posenc_fast as pf
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rows, workers = 2**38, int(sys.argv[2])
    out = np.lib.stride_tricks.as_strided(np.zeros((1, 64), np.float32), (rows, 64), (0, 4), writeable=True)
    encoding = pf.sinusoidal(64)
    sent = []
    def interrupt():
        time.sleep(0.5)
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()
    try:
        {
            "table": lambda: encoding.table(rows, out=out, workers=workers),
            "steps": lambda: encoding.table(rows, step=3, out=out, workers=workers),
            "encode": lambda: encoding.encode(np.broadcast_to(0.5, (rows,)), out=out, workers=workers),
            "add_to": lambda: encoding.add_to(out, out=out, workers=workers),
        }[sys.argv[1]]()
    except KeyboardInterrupt:
        print(time.monotonic() - sent[0])
    # a thread that still runs would write here
    out[0] = 7
    time.sleep(0.1)
    print((out[0] == 7).all())
    # only idle threads remain, and they end with the interpreter
"""


@needs_interrupts
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("call", ["table", "steps", "encode", "add_to"])
@each_backend
def test_interrupt(name, call, workers):
    result = python(ENDLESS, call, workers, POSENC_FAST_BACKEND=name)
    seconds, nothing_left = result.stdout.split()
    # The call ends after its current block, which takes a few hundredths of a second, or half a second in pure Python.
    # The limits are higher for busy machines.
    assert float(seconds) < (1.0 if name == "cython" else 10.0)
    assert nothing_left == "True", result.stderr
    assert (result.returncode, result.stderr) == (0, "")


# ---- subinterpreters --------------------------------------------------------------------------------------------

INSIDE = """
import warnings
warnings.simplefilter("ignore")
try:
    import numpy
except ImportError as error:
    # print the repr, because the message has several lines, and the test reads one line for each result
    print("refused:", repr(error))
else:
    import posenc_fast as pf
    if not pf.isa_levels():
        print("refused:", pf._backend.reason)
    print(pf.sinusoidal(2).encode([0, 1], dtype="f8").round(2).tolist())
"""


@pytest.mark.parametrize("first", ["import numpy", "import posenc_fast"], ids=["after-numpy", "after-the-package"])
def test_subinterpreter(first):
    """In a subinterpreter, posenc_fast works, perhaps without the kernel, or the import of NumPy raises an error.

    The main interpreter continues to work.
    """
    pytest.importorskip("_testcapi")
    code = f"""if True:
    {first}
    import sys, _testcapi
    sys.stdout.flush()
    print(_testcapi.run_in_subinterp({INSIDE!r}), flush=True)
    import posenc_fast as pf
    print(pf.sinusoidal(2).encode([0, 1], dtype="f8").round(2).tolist())
    """
    result = python(code)
    values = str([[0.0, 1.0], [0.84, 0.54]])
    *inside, status, after = result.stdout.splitlines()
    assert (result.returncode, status, after) == (0, "0", values), result.stderr
    assert inside
    assert all(line == values or line.startswith("refused: ") for line in inside)


# ---- no memory --------------------------------------------------------------------------------------------------


@needs_linux
@each_backend
def test_out_of_memory(name):
    """Without memory, calls raise MemoryError. Later calls return right values."""
    code = """if True:
    import resource
    import numpy as np
    import posenc_fast as pf
    encoding = pf.sinusoidal(64)
    before = encoding.table(100)
    resource.setrlimit(resource.RLIMIT_AS, (1 << 33, resource.RLIM_INFINITY))
    huge = np.broadcast_to(np.float32(0), (1 << 30, 64))
    for call in (
        lambda: encoding.table(1 << 30),
        lambda: encoding.encode(huge[:, 0]),
        lambda: encoding.add_to(huge),
        lambda: encoding.shift(huge, 1),
    ):
        try:
            call()
        except MemoryError:
            assert (encoding.table(100) == before).all()
            print("MemoryError")
    """
    result = python(code, POSENC_FAST_BACKEND=name)
    assert result.stdout.split() == ["MemoryError"] * 4, result.stderr


@needs_linux
def test_out_of_memory_of_matrix_products():
    """The first matrix product must not end the process: OpenBLAS does so if it cannot allocate its work space."""
    code = """if True:
    import os, resource
    import numpy as np
    import posenc_fast as pf
    encoding = pf.sinusoidal(64)
    row = encoding.table(100)
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    ends = set()
    for room in (1, 4, 16, 33, 48, 66, 100, 200):
        child = os.fork()
        if child == 0:
            resource.setrlimit(resource.RLIMIT_AS, (size + (room << 20), resource.RLIM_INFINITY))
            try:
                encoding.locate(row, low=0, high=500)
            except MemoryError:
                os._exit(17)
            os._exit(16)
        ends.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(*sorted(ends))
    """
    result = python(code)
    assert result.stdout == "16 17\n", result.stderr


# Code that stores which arguments the kernel's classes get for an encoding, and creates objects from them. Later programs
# thus use the kernel alone: an allocation that fails is one of the kernel.
KERNEL = """
import resource, types
import numpy as np
import posenc_fast as pf
from posenc_fast._core.engine import backend as _backend

kernel, given, engine = _backend.kernel, {}, _backend.current()

def recorded(name):
    def make(*args):
        given[name] = args
        return getattr(kernel, name)(*args)
    return make

def record(encoding):
    spy = types.SimpleNamespace(Plan=recorded("Plan"), Lattice=recorded("Lattice"))
    encoding._plans.lattice(engine._replace(module=spy), True)

def created():
    plan = kernel.Plan(*given["Plan"])
    return plan, kernel.Lattice(given["Lattice"][0], plan, *given["Lattice"][2:])
"""


@needs_linux
@needs_kernel
def test_memory_errors_of_the_work_space():
    """The limit of the address space grows a little before each attempt, so that different allocations fail."""
    code = """if True:
    width, encoding = 1 << 13, pf.sinusoidal(1 << 13)
    record(encoding)
    out, expected, positions = np.empty((9, width)), encoding.table(9, dtype=np.float64), np.zeros((9, 2))
    positions[:, 1] = np.arange(9)
    size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    failed = 0
    for room in range(400):
        resource.setrlimit(resource.RLIMIT_AS, (size + (room << 19), resource.RLIM_INFINITY))
        try:
            plan, lattice = created()
            plan.encode(engine.level, positions, out, 0)
            lattice.table(engine.level, 0, 0, out, 0)
        except MemoryError:
            failed += 1
        else:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            print(failed > 10, (out == expected).all())
            break
    """
    result = python(KERNEL + code, POSENC_FAST_BACKEND="cython")
    assert result.stdout == "True True\n", result.stderr


@needs_kernel
def test_every_allocation_of_the_kernel_may_fail():
    pytest.importorskip("_testcapi")
    code = """if True:
    import _testcapi
    encoding = pf.Encoding([1.0, 0.5, 0.3, 1.0], [0, 0.25, 0.1, 0.25])
    record(encoding)
    positions, spans, offsets = np.zeros((70, 3)), np.zeros(70, np.int64), np.arange(70, dtype=np.int32)
    out, x = np.zeros((70, 4)), np.zeros((1, 70, 4))

    def use():
        plan, lattice = created()
        plan.encode(engine.level, positions, out, 0)
        plan.encode(engine.level, positions, x, 0, x=x, scale=2.0)
        lattice.rows(engine.level, spans, offsets, out, 0)
        lattice.table(engine.level, 0, 0, out, 0)

    failed = succeeded = 0
    while succeeded < 10:
        try:
            _testcapi.set_nomemory(failed + succeeded + 1, failed + succeeded + 2)
            use()
        except MemoryError:
            _testcapi.remove_mem_hooks()
            failed += 1
        else:
            _testcapi.remove_mem_hooks()
            succeeded += 1
    use()
    # the calls allocate in more than 30 places: objects, views of buffers and tuples of arguments
    print(failed > 30, (out == encoding.table(70, dtype=np.float64)).all())
    """
    result = python(KERNEL + code, POSENC_FAST_BACKEND="cython")
    assert result.stdout == "True True\n", result.stderr
