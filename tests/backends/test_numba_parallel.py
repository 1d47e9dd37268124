# SPDX-License-Identifier: Apache-2.0
"""Parallel Numba kernels under every threading layer: never an abort, never a hang."""

import ctypes

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from programs import run_program

import brainevent
from brainevent.backends.numba import handler, internals, runtime
from brainevent.backends.numba.handler import ArraySpec

STRESS = """
    import concurrent.futures, jax, jax.numpy as jnp, numba, numpy as np, brainevent

    @numba.njit(parallel=True)
    def square(x, out):
        for i in numba.prange(x.size):
            out[i] = x[i] * x[i]

    @numba.njit
    def helped(x, out):  # parallel only through what it calls
        square(x, out)
        for i in numba.prange(x.size):
            out[i] += 1

    def op(kernel, x):
        return brainevent.numba_kernel(kernel, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)

    @jax.jit
    def independent(x):  # nothing orders these, so XLA may run them at once
        return [op(kernel, x + k) for k in range(8) for kernel in (square, helped)]

    def work(seed):
        x = jnp.arange(1000.0) + seed
        for _ in range(5):
            for k, (a, b) in enumerate(zip(*[iter(independent(x))] * 2)):
                np.testing.assert_allclose(a, (x + k) ** 2, rtol=1e-6)
                np.testing.assert_allclose(b, (x + k) ** 2 + 1, rtol=1e-6)
        return True

    with concurrent.futures.ThreadPoolExecutor(16) as threads:
        assert all(threads.map(work, range(16)))
    batched = jax.jit(jax.vmap(lambda x: op(square, x)))(jnp.arange(2000.0).reshape(20, 100))
    np.testing.assert_allclose(batched, jnp.arange(2000.0).reshape(20, 100) ** 2)
    print(numba.threading_layer())
"""


@pytest.mark.thorough
@pytest.mark.parametrize("layer", ["workqueue", pytest.param("omp", marks=pytest.mark.thorough)])
def test_16_threads_and_independent_operators(layer):
    assert run_program(STRESS, NUMBA_THREADING_LAYER=layer, NUMBA_NUM_THREADS="2").strip() == layer


UNFINISHED = """
    import os, jax, jax.numpy as jnp, numba, brainevent

    @numba.njit(parallel=True)
    def square(x, out):
        for i in numba.prange(x.size):
            out[i] = x[i] * x[i]

    op = lambda x: brainevent.numba_kernel(square, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
    mesh, spec = jax.make_mesh((4,), ("d",)), jax.sharding.PartitionSpec("d")
    x = jax.device_put(jnp.arange(8.0), jax.sharding.NamedSharding(mesh, spec))
    jax.jit(lambda x: op(op(x)))(x)  # and leave, while devices may still work on it
"""


@pytest.mark.thorough
def test_leaving_python_while_parallel_kernels_run_does_not_hang():
    for _ in range(5):
        assert run_program(UNFINISHED, timeout=60, XLA_FLAGS="--xla_force_host_platform_device_count=4") == ""


@numba.njit(parallel=True)
def threads_used(x, out):
    for i in numba.prange(x.size):
        out[i] = numba.get_num_threads()


def test_the_number_of_threads_is_that_of_the_configuration():
    f = jax.jit(lambda x: brainevent.numba_kernel(threads_used, outs=jax.ShapeDtypeStruct(x.shape, jnp.int32))(x))
    x, before = jnp.zeros(4), numba.get_num_threads()
    assert set(np.asarray(f(x))) == {before}
    try:
        brainevent.config.set_numba_parallel(True, num_threads=1)
        assert set(np.asarray(f(x))) == {1}
        assert brainevent.config.get_numba_num_threads() == 1
    finally:
        numba.set_num_threads(before)
        brainevent.config.numba_thread_limit.value = 0
    assert set(np.asarray(f(x))) == {before}


def test_a_kernel_leaves_the_number_of_threads_as_it_was(monkeypatch):
    enter, leave, _ = runtime.prepare_parallel()
    before = numba.get_num_threads()
    monkeypatch.setattr(brainevent.config.numba_thread_limit, "value", 1)
    entered = enter(0)
    assert (entered, numba.get_num_threads()) == (before, 1)
    assert leave(entered) == 0
    assert numba.get_num_threads() == before > 0


@pytest.mark.parametrize(("layer", "one_at_a_time"), [("workqueue", True), ("omp", False)])
def test_one_kernel_at_a_time_enters_a_layer_that_two_would_abort(monkeypatch, layer, one_at_a_time):
    runtime.prepare_parallel()
    monkeypatch.setattr(numba, "threading_layer", lambda: layer)
    monkeypatch.setattr(runtime.llvm, "add_symbol", lambda *_: None)  # kernels keep what they have
    enter, leave, mutex = runtime.prepare_parallel.__wrapped__()
    assert bool(mutex) == one_at_a_time
    is_locked = lambda: bool(mutex) and ctypes.CDLL(None).pthread_mutex_trylock(ctypes.c_void_p(mutex)) != 0
    enter(0)
    assert is_locked() == one_at_a_time
    leave(0)
    assert not is_locked()
    if mutex:
        ctypes.CDLL(None).pthread_mutex_unlock(ctypes.c_void_p(mutex))  # which `is_locked` has taken


def test_no_parallel_loop_takes_pythons_lock():
    spec = ArraySpec(np.dtype("float32"), 1)
    plain, called = (internals.linked(handler._compile(threads_used, (spec.numba_type,) * 2)[0]) for _ in "ab")
    assert "call ptr @PyEval_SaveThread" in str(plain)
    text = str(internals.without_gil(called))
    assert "@numba_parallel_for" in text
    assert "call ptr @PyEval_SaveThread" not in text
    assert "@PyEval_RestoreThread(ptr %" not in text
    module = handler.compile_handler(threads_used, [spec], [spec], "test_without_gil")
    assert internals.is_parallel(module)
    assert not [function.name for function in module.functions if "GIL" in function.name or "Thread" in function.name]
