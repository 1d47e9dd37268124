# SPDX-License-Identifier: Apache-2.0
"""Loops on the CPU whose loops over elements threads share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from endless_loops import HEAD
from forked import run_forked
from jax import lax

import brainevent as be
from brainevent import config
from brainevent.loops import threads
from brainevent.loops.cost import why_not_faster
from brainevent.loops.plan import plan_of
from brainevent.loops.text import text_of

STEPS = 40


def neurons(v):
    """Run neurons with scalars, flags, integers and rows of each step; a product is the kernel of one thread."""
    n = len(v)
    synapses = be.FixedNumPerPre((0.25, jnp.arange(9 * n).reshape(n, 9) * 7 % n), shape=(n, n))

    def step(state, row):
        v, rest, total = state
        v = jnp.where(rest > 0, v, v + 0.1 * (jnp.exp(-v) + row * total - v))
        spikes = v > 0.9
        arrived = be.BinaryArray(spikes) @ synapses
        return (jnp.where(spikes, -1.0, v) + arrived, jnp.where(spikes, 5, rest - 1), v[3] * 0.5), (spikes, v)

    rows = jnp.linspace(0, 2, STEPS * n).reshape(STEPS, n)
    return lax.scan(step, (v, jnp.zeros(n, jnp.int32), jnp.float32(0.5)), rows)


def matrices(v):
    """Compute with arrays of two axes, of which one is read in another order."""
    x = jnp.stack([v, v * 2, v * 3])
    return lax.scan(lambda x, _: (x[:, ::-1] * 0.5 + x.mean(), x.T > 0), x, length=STEPS)


def fused(function, *args):
    with config.fuse_loops():
        return [np.asarray(x) for x in jax.tree.leaves(jax.jit(lambda *x: function(*x))(*args))]


@pytest.mark.parametrize("function", [neurons, matrices])
@pytest.mark.parametrize("size", [300, 1000])
def test_any_number_of_threads_has_the_same_bits(monkeypatch, function, size):
    v = np.linspace(-2, 2, size, dtype=np.float32)
    wanted = fused(function, v)
    monkeypatch.setattr(threads, "LEAST_SHARED", 200)
    for count in (2, 3, 5):
        monkeypatch.setattr("brainevent.loops.text.threads_for", lambda plan, count=count: count)
        for found, each in zip(fused(function, v), wanted, strict=True):
            assert found.tobytes() == each.tobytes()


def planned(size, steps=STEPS):
    closed = jax.make_jaxpr(lambda v: lax.scan(lambda v, _: (v * 0.5 + 1, None), v, length=steps))(jnp.ones(size))
    return plan_of(closed.jaxpr.eqns[-1].params, "cpu")


def test_small_loops_have_one_thread(monkeypatch):
    monkeypatch.setattr(threads, "available_threads", lambda: 3)
    for size, count in ((9_999, 1), (10_000, 2), (15_000, 3), (1_000_000, 3)):
        assert threads.threads_for(planned(size)) == count
        assert ("share_work" in text_of(planned(size)).text) == (count > 1)


def test_one_thread_leaves_large_loops_to_xla(monkeypatch):
    for count in (1, 2):
        monkeypatch.setattr(threads, "available_threads", lambda count=count: count)
        assert (why_not_faster(planned(500_000)) is None) == (count == 2)


# How many threads of the system a program has while a loop runs, and after it.
THREADS = """
    from brainevent.loops import text, threads
    text.threads_for = lambda plan: 3
    threads.LEAST_SHARED = 1
    count = lambda: len(os.listdir("/proc/self/task"))
"""
INTERRUPTED = """
    seen = []
    run = jax.jit(lambda v: endless(v, presses=False)).lower(v).compile()
    before = count()
    thread = threading.Thread(target=lambda: (time.sleep(1), seen.append(count()), os.kill(os.getpid(), signal.SIGINT)))
    thread.start()
    print(interrupted(lambda v: jax.block_until_ready(run(v)), v))
    thread.join()
    print(max(seen) - before - 1 >= 2, count() <= before)
    with be.config.fuse_loops(False):
        wanted = np.asarray(jax.jit(lambda v: endless(v, 2000, False))(v))
    print(np.array_equal(jax.jit(lambda v: endless(v, 2000, False))(v), wanted))
"""
FAILS = """
    @numba.njit
    def fails(step, v, out):
        if step[0] == 2:
            raise ValueError("in a kernel")
        out[:] = v

    failing = be.XLACustomKernel("failing")
    failing.def_numba_kernel(lambda *, outs: be.numba_kernel(fails, outs=outs))

    def loop(v):
        def step(carry, _):
            count, v = carry
            [v] = failing(count[None], v * 0.5, outs=[jax.ShapeDtypeStruct(v.shape, v.dtype)])
            return (count + 1, v), None

        return lax.scan(step, (jnp.int32(0), v), None, length=1000)[0][1]

    jax.block_until_ready(jax.jit(lambda v: v * 2)(v))
    before = count()
    try:
        jax.block_until_ready(jax.jit(loop)(v))
    except Exception as error:
        print(type(error).__name__, "in a kernel" in str(error))
    print(count() <= before + 1)
"""


def test_ctrl_c_ends_all_threads():
    assert run_forked(HEAD + THREADS + INTERRUPTED).split() == ["KeyboardInterrupt", "True", "True", "True"]


def test_an_error_of_a_kernel_ends_all_threads():
    assert run_forked(HEAD + THREADS + FAILS).split() == ["JaxRuntimeError", "True", "True"]
