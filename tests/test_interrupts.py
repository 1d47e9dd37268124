# SPDX-License-Identifier: Apache-2.0
"""Ctrl-C ends every loop of ours after the call that runs: nothing half done is kept, and the process goes on."""

import ctypes
import signal
import threading
import types

import jax.numpy as jnp
import numba
import numpy as np
import pytest

import brainevent
from brainevent.backends.numba import internals
from brainevent.bench import tuning_store
from brainevent.operator.check import concurrency

X = jnp.arange(4.0)
send = ctypes.CDLL(None)["raise"]
send.argtypes, send.restype = [ctypes.c_int], ctypes.c_int


@numba.njit
def interrupted_double(x, out):
    send(2)  # as if somebody pressed Ctrl-C while it runs
    for i in range(x.size):
        out[i] = 2 * x[i]


@pytest.fixture
def once():
    """Take the first SIGINT for Ctrl-C, and count the others: a kernel may run again before Python looks."""
    seen = []

    def handle(*_):
        seen.append(len(seen))
        if len(seen) == 1:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    yield seen
    signal.signal(signal.SIGINT, before)


pytestmark = pytest.mark.filterwarnings("ignore:.*hold objects that cannot be identified")  # kernels here hold lists


@pytest.fixture
def interrupted(unique_name, tmp_path, once):
    """Return an operator whose first kernel is interrupted, and the names of the kernels that were built."""
    brainevent.set_cache_dir(tmp_path)
    operator, built = brainevent.XLACustomKernel(unique_name("interrupted")), []

    def first(*, outs):
        built.append("first")
        return brainevent.numba_kernel(interrupted_double, outs=outs)

    def second(*, outs):
        built.append("second")
        return lambda x: [2 * x]

    operator.def_kernel("first", "cpu", first)
    operator.def_kernel("second", "cpu", second)
    operator.def_call(lambda x, backend=None: operator(x, outs=x, backend=backend))
    operator.def_benchmark_data(lambda *, platform: [brainevent.BenchmarkConfig("four", (X,))])
    yield operator, built
    brainevent.set_cache_dir(None)


def left_behind(folder):
    return [path.name for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]


LOOPS = {
    "tune": lambda operator: operator.tune(X, outs=X, seconds=0.01),
    "benchmark": lambda operator: operator.benchmark(platform="cpu", n_warmup=1, n_runs=2),
    "check": lambda operator: brainevent.check(operator, X, outs=X, promises=["jit"]),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_ends_after_the_call_that_runs_and_can_be_run_again(interrupted, tmp_path, loop):
    operator, built = interrupted
    with pytest.raises(KeyboardInterrupt):
        LOOPS[loop](operator)
    assert "second" not in built
    assert brainevent.tuned_choices(operator.name) == []
    assert left_behind(tmp_path) == []
    LOOPS[loop](operator)
    assert "second" in built
    assert len(brainevent.tuned_choices(operator.name)) == (loop == "tune")
    np.testing.assert_array_equal(operator(X, outs=X), 2 * X)


def test_ctrl_c_while_a_kernel_is_built_is_no_failure_of_the_kernel(unique_name, tmp_path):
    brainevent.set_cache_dir(tmp_path)
    operator, pressed = brainevent.XLACustomKernel(unique_name("interrupted")), []

    def generator(*, outs):
        if len(pressed) < 3:
            pressed.append("key")
            signal.raise_signal(signal.SIGINT)
        return lambda x: [2 * x]

    operator.def_kernel("one", "cpu", generator)
    operator.def_call(lambda x, backend=None: operator(x, outs=x, backend=backend))
    operator.def_benchmark_data(lambda *, platform: [brainevent.BenchmarkConfig("four", (X,))])
    for loop in LOOPS.values():
        with pytest.raises(KeyboardInterrupt):
            loop(operator)
    assert left_behind(tmp_path) == []
    assert LOOPS["tune"](operator).backend == "one"
    assert LOOPS["check"](operator).ok
    brainevent.set_cache_dir(None)


def test_a_call_that_was_interrupted_while_it_was_tuned_is_tuned_the_next_time(interrupted):
    operator, _ = interrupted
    brainevent.config.autotune("on")
    try:
        with pytest.raises(KeyboardInterrupt):
            operator(X, outs=X)
        assert brainevent.tuned_choices(operator.name) == []
        np.testing.assert_array_equal(operator(X, outs=X), 2 * X)
        assert len(brainevent.tuned_choices(operator.name)) == 1
    finally:
        brainevent.config.autotune("off")


def test_a_record_ends_with_its_program_and_can_be_run_again(once):
    kernel = brainevent.numba_kernel(interrupted_double, outs=X)

    def step(v, i):
        v = kernel(v) % 7
        return v, v > 3

    run = lambda: brainevent.record(step, X, 5, dt=0.1)[1].counts
    with pytest.raises(KeyboardInterrupt):
        run()
    np.testing.assert_array_equal(run(), [0, 2, 2, 4])


def test_signals_that_raise_wait_until_numba_has_loaded_its_registries(monkeypatch):
    """An alarm raises in the middle of what Numba does once per process, and Ctrl-C after it."""
    steps, calls = [], []

    def refresh(name):
        signal.raise_signal(signal.SIGALRM)
        signal.raise_signal(signal.SIGINT)
        steps.append(name)

    def alarm(*_):
        calls.append("alarm")
        raise TimeoutError("too long")

    monkeypatch.setattr(internals.cpu_target.typing_context, "refresh", lambda: refresh("typing"))
    monkeypatch.setattr(internals.target_context, "refresh", lambda: refresh("code"))
    before = signal.signal(signal.SIGALRM, alarm), signal.signal(signal.SIGINT, lambda *_: calls.append("key"))
    try:
        with pytest.raises(TimeoutError, match="too long"):
            internals.load_registries()
        assert signal.getsignal(signal.SIGALRM) is alarm
    finally:
        for number, known in zip((signal.SIGALRM, signal.SIGINT), before, strict=True):
            signal.signal(number, known)
    assert steps == ["typing", "code"]
    assert calls == ["alarm", "key", "alarm", "key"]


def loop_of(task):
    return types.SimpleNamespace(run=lambda first, runs: task(first), runs=lambda: 1)


def test_threads_of_a_check_end_when_it_is_interrupted():
    """Also those that wait for others, which were never started."""
    before, turns = set(threading.enumerate()), []

    def task(k):
        turns.append(k)
        if len(turns) == 20:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        concurrency._in_threads(loop_of(task))
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(10)
    assert not any(thread.is_alive() for thread in left)


def test_threads_of_a_check_that_were_never_all_started_end(monkeypatch):
    before, started = set(threading.enumerate()), []
    start = threading.Thread.start

    def start_some(thread):
        started.append(thread)
        if len(started) == 3:
            raise KeyboardInterrupt
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_some)
    with pytest.raises(KeyboardInterrupt):
        concurrency._in_threads(loop_of(lambda k: None))
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def test_what_is_remembered_is_read_again_if_its_reading_was_interrupted(tmp_path, monkeypatch):
    brainevent.set_cache_dir(tmp_path)
    choice = tuning_store.TunedChoice("op", "cpu", "device", "shapes", "versions", "content", "params", "a", (), 1.0)
    assert tuning_store.remember(choice)
    monkeypatch.setattr(tuning_store, "_read_before", {})
    with monkeypatch.context() as patch:
        patch.setattr(tuning_store, "_reread", lambda: signal.raise_signal(signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            tuning_store.knows("op")
    assert tuning_store.knows("op")
    brainevent.set_cache_dir(None)
