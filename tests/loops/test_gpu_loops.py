# SPDX-License-Identifier: Apache-2.0
"""Loops of `jax.lax.scan` as one kernel on a GPU: next to XLA's loops, and to the CPU's."""

import re
import textwrap

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from loop_bodies import HALVES, INTEGERS, delayed_loop, ends_of, long_axes, typed_loop
from sanitizer import TOOLS, sanitized

import brainevent as be
from brainevent import config
from brainevent.loops import lowering

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")

STEPS = 400


def connected(n, weight=1.0):
    targets = np.random.default_rng(0).integers(0, n, (n, 80), dtype=np.int32)
    targets[n * 4 // 5 :] += n
    return be.FixedNumPerPre((weight, jnp.asarray(targets)), shape=(n, 2 * n))


def cuba(n, steps=STEPS, kept=True):
    """Return a loop of neurons whose synapses inject currents, which may keep its spikes, and its state."""
    synapses = connected(n)

    def step(state, _):
        v, exc, inh, rest, spikes = state
        arrived = be.BinaryArray(spikes) @ synapses
        exc, inh = 0.98 * exc + 1.62 * arrived[:n], 0.99 * inh - 9.0 * arrived[n:]
        v = jnp.where(rest > 0, v, v + 0.005 * (exc + inh - (v + 49)))
        spikes = v > -50
        return (
            jnp.where(spikes, -60.0, v),
            exc,
            inh,
            jnp.where(spikes, 50.0, rest) - 1,
            spikes,
        ), spikes if kept else None

    v = jnp.asarray(np.random.default_rng(1).uniform(-60, -50, n), jnp.float32)
    return lambda v: lax.scan(step, (v, *jnp.zeros((3, n)), v > -50), length=steps), v


def coba(n):
    """Return a loop of neurons whose synapses are conductances, with a product at the end of a step, and its state."""
    synapses = connected(n)

    def step(state, _):
        v, exc, inh, rest, arrived = state
        exc, inh = exc + 0.6 * arrived[:n], inh + 6.7 * arrived[n:]
        total = 1 + exc + inh
        goal = (-40 - 80 * inh) / total
        v = jnp.where(rest > 0, v, goal + (v - goal) * jnp.exp(-total * 0.005))
        spikes = v > -50
        v, rest = jnp.where(spikes, -60.0, v), jnp.where(spikes, 50.0, rest) - 1
        return (v, exc * 0.98, inh * 0.99, rest, be.BinaryArray(spikes) @ synapses), spikes

    v = jnp.asarray(np.random.default_rng(1).normal(-55, 5, n), jnp.float32)
    return lambda v: lax.scan(step, (v, v * 0 + 4, v * 0 + 20, v * 0, jnp.zeros(2 * n)), length=STEPS), v


def fused(function, *args):
    """Return the results of the loop as one kernel, which is in the program."""
    with config.fuse_loops():
        jitted = jax.jit(function)
        assert re.search(r"\bbrainevent_portable\b", jitted.lower(*args).as_text())  # no kernel that XLA may record
        return jax.tree.leaves(jitted(*args))


@pytest.mark.parametrize(("steps", "kept"), [(STEPS, True), (1_000_000, False)])
def test_a_loop_on_each_gpu_of_a_mesh(steps, kept):
    """Of other numbers on each; the long one is cut into launches of at most half a second."""
    if len(jax.devices("gpu")) < 2:
        pytest.skip("it needs 2 GPUs")
    run, v = cuba(1_000, steps, kept)
    both = jnp.stack([v, v[::-1]])
    mesh, spec = jax.sharding.Mesh(np.array(jax.devices("gpu")[:2]), ("d",)), jax.sharding.PartitionSpec("d")
    split = jax.device_put(both, jax.sharding.NamedSharding(mesh, spec))

    def of_one(v):
        return jax.tree.map(lambda x: x[None], run(v[0]))

    found = fused(jax.shard_map(of_one, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False), split)
    for one, first, second in zip(found, fused(run, both[0]), fused(run, both[1]), strict=True):
        np.testing.assert_array_equal(one, np.stack([first, second]))
    assert np.any(np.asarray(found[0][0]) != np.asarray(found[0][1]))


@pytest.mark.parametrize("n", [1_000, 4_000, 40_000])
@pytest.mark.parametrize("network", [cuba, coba])
def test_networks_spike_as_in_the_loop_of_xla(network, n):
    """The first spikes are equal, until roundings part them; then rates are."""
    run, v = network(n)
    wanted, found = np.asarray(jax.jit(run)(v)[1]), np.asarray(fused(run, v)[-1])
    np.testing.assert_array_equal(found[:2], wanted[:2])
    assert wanted.sum() > 0
    np.testing.assert_allclose(found.sum(), wanted.sum(), rtol=0.1)


@pytest.mark.parametrize("n", [1_000, 4_000, 40_000])
def test_the_cpu_has_the_same_bits(n):
    run, v = cuba(n)
    found = fused(run, v)
    with jax.default_device(jax.devices("cpu")[0]):
        run, v = cuba(n)
        with config.fuse_loops():
            wanted = jax.tree.leaves(jax.jit(run)(v))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_second_run_has_the_same_bits():
    run, v = cuba(4_000)
    for one, other in zip(fused(run, v), fused(run, v), strict=True):
        np.testing.assert_array_equal(one, other)


def test_transformations():
    def smooth(v):
        return lax.scan(lambda v, x: (v * 0.5 + x * v * v, v.sum()), v, jnp.arange(64.0) / 128)

    v = jnp.linspace(-0.5, 1, 5000)  # if a sum is nearly zero, the order of its terms decides most of its digits
    programs = (
        smooth,
        jax.grad(lambda v: smooth(v)[0].sum()),
        lambda v: jax.vmap(smooth)(v.reshape(5, 1000)),
        lambda v: jax.jvp(smooth, (v,), (v * 2,)),
        lambda v: lax.scan(lambda v, _: smooth(v), v, length=3),
        lambda v: lax.scan(
            lambda k, _: (jax.random.split(k)[0], jax.random.uniform(k, (9,))), jax.random.key(1), length=64
        )[1],
    )
    for program in programs:
        for one, other in zip(fused(program, v), jax.tree.leaves(jax.jit(program)(v)), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)


def test_many_launches_continue_each_other(monkeypatch):
    from brainevent.loops.gpu import program

    run, v = cuba(4_000)
    wanted = fused(run, v)
    monkeypatch.setattr(program, "steps_of_launch", lambda written, shape: 7)
    for one, other in zip(fused(lambda v: run(v), v), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_synapses_that_learn():
    n = 1000
    stored = be.CSR.random((n, n), num_per_row=100, weights=0.02, seed=1)
    stored = stored.with_data(jnp.full(stored.nse, 0.02)).precompute_weight_indices()

    def run(matrix, keys):
        def step(state, key):
            matrix, v, pre, post = state
            spikes = jax.random.uniform(key, (n,)) < 0.01
            arrived = be.BinaryArray(spikes) @ matrix
            v = 0.95 * v + arrived
            fired = v > 0.3
            pre, post = 0.95 * pre + spikes, 0.95 * post + fired
            matrix = matrix.update_on_pre(spikes, -1e-4 * post, after=arrived)
            return (matrix.update_on_post(1.2e-4 * pre, fired), jnp.where(fired, 0, v), pre, post), fired

        (matrix, *_), fired = lax.scan(step, (matrix, *jnp.zeros((3, n))), keys)
        return matrix.data, fired.mean()

    keys = jax.random.split(jax.random.key(0), STEPS)
    found, wanted = fused(run, stored, keys), jax.jit(run)(stored, keys)
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-4)
    np.testing.assert_allclose(found[1], wanted[1], rtol=0.02)


def test_an_exported_program_runs():
    run, v = cuba(1_000)
    wanted = fused(run, v)
    with config.fuse_loops():
        exported = jax.export.export(jax.jit(run), disabled_checks=be.export_checks())(v)
    for one, other in zip(jax.tree.leaves(exported.call(v)), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_explain_loops_speaks_of_the_gpu():
    run, v = cuba(1_000)
    assert be.explain_loops(run, v)[0].is_fused
    [loop] = be.explain_loops(lambda v: lax.scan(lambda v, _: (v.at[jnp.array([1, 1])].mul(2), None), v, length=64), v)
    assert (loop.is_fused, loop.reason) == (False, "scatter-mul of float32, on a GPU")


def test_loops_and_branches_within():
    def step(state, k):
        key, v = state
        key, mine = jax.random.split(key)
        arrived = jax.random.poisson(mine, 3.0, (5000,))
        v = lax.cond(k % 3 == 0, lambda v: v[::-1] // 2, lambda v: v + k, v + arrived)
        v, count = lax.while_loop(lambda c: c[0].max() > 40, lambda c: (c[0] // 2, c[1] + 1), (v, 0))
        return (key, v), (count, v.sum())

    def run(v):
        return lax.scan(step, (jax.random.key(0), v), jnp.arange(STEPS))[1]

    v = jnp.arange(5000, dtype=jnp.int32)
    for one, other in zip(fused(run, v), jax.tree.leaves(jax.jit(run)(v)), strict=True):
        np.testing.assert_array_equal(one, other)


def delayed(n):
    """Return a loop whose spikes arrive after delays of their own, and its state."""
    loop = delayed_loop(n, per_row=50, slots=16, weight=0.25, gain=0.01, threshold=0.45, steps=STEPS)
    return loop, jnp.linspace(-1, 1, n)


def both_sides(matrix):
    """Return a loop with products of whole numbers from both sides, and its state."""
    n = matrix.shape[0]

    def step(v, _):
        spikes = be.BinaryArray(v > 0)
        rows, columns = spikes @ matrix, matrix @ spikes
        return (3 * v + rows - columns + 1) % 17 - 8, (rows, columns)

    return lambda v: lax.scan(step, v, length=64), jnp.arange(n, dtype=jnp.float32) % 13 - 6


def whole_numbers(n):
    return jnp.asarray(np.random.default_rng(0).integers(-2, 3, (n, n)), jnp.float32)


@pytest.mark.parametrize(
    ("make", "n"),
    [
        (delayed, 1_000),
        (delayed, 20_000),
        (lambda n: both_sides(whole_numbers(n)), 1_000),
        (lambda n: both_sides(be.JITCScalarR((1.0, 0.05, 42), shape=(n, n))), 1_000),
        (lambda n: both_sides(be.JITCScalarR((1.0, 0.01, 42), shape=(n, n))), 20_000),
    ],
)
def test_kernels_whose_threads_meet(make, n):
    """Sums are whole numbers, or quarters: their order does not matter. Roundings of v may part the last spikes."""
    run, v = make(n)
    found, wanted = fused(run, v), jax.tree.leaves(jax.jit(run)(v))
    assert np.asarray(wanted[-1]).any()
    if make is delayed:
        np.testing.assert_array_equal(found[-1][:4], wanted[-1][:4])
        np.testing.assert_allclose(found[-1].sum(), wanted[-1].sum(), rtol=0.1)
    else:
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", [*INTEGERS, *HALVES, "float64"])
def test_numbers_of_any_type_have_the_bits_of_the_cpu(monkeypatch, dtype):
    monkeypatch.setattr(lowering, "_why_not_faster", lambda plan, platform: None)  # else XLA's loop runs on the CPU
    with jax.enable_x64(True):
        run, x = typed_loop(dtype, 40), ends_of(dtype)
        found = fused(run, x)
        with jax.default_device(jax.devices("cpu")[0]), config.fuse_loops():
            wanted = jax.tree.leaves(jax.jit(lambda x: run(x))(x))
    for place, (one, other) in enumerate(zip(found, wanted, strict=True)):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), err_msg=str(place))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_products_with_weights_of_any_type(dtype):
    with jax.enable_x64(dtype == "float64"):
        matrix = be.CSR.random((500, 500), num_per_row=7, weights=0.25, seed=1)
        matrix = matrix.with_data(jnp.full(matrix.nse, 0.25, dtype))

        def run(v):
            def step(v, _):
                spikes = be.BinaryArray(v > 0.5)
                return jnp.where(v > 0.5, -1, v + 0.125), (spikes @ matrix, matrix @ spikes)

            return lax.scan(step, v, length=64)

        v = jnp.linspace(-1, 1, 500, dtype=jnp.float32)
        for one, other in zip(fused(run, v), jax.tree.leaves(jax.jit(run)(v)), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(np.asarray(one, float), np.asarray(other, float))


def test_warps_share_long_axes():
    """As XLA has it on a CPU: on a GPU its `argmax` of many elements does not give the first place of equal ones."""
    x = jnp.arange(700, dtype=jnp.int32) * 31 % 97
    on_cpu = jax.device_put(x, jax.devices("cpu")[0])
    expected = jax.tree.leaves(jax.jit(lambda x: long_axes(x, 40))(on_cpu))
    for one, other in zip(fused(lambda x: long_axes(x, 40), x), expected, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.fixture
def of_numba_cuda():
    pytest.importorskip("brainevent.backends.numba_cuda.native")
    return pytest.importorskip("numba_cuda_loops")


def assert_same_bits(run, v):
    """Compare a loop as one kernel with XLA's loop, in which the operators are launched."""
    wanted = jax.tree.leaves(jax.jit(run)(v))
    assert np.isfinite(wanted[-1]).all()
    assert len(np.unique(wanted[-1])) > 10
    for one, other in zip(fused(run, v), wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [70, 4_000, 40_000])
@pytest.mark.parametrize("name", ["all of them", "a batch", "a batch of blocks", "alone", "atomic", "own", "two axes"])
def test_kernels_of_numba_cuda_have_the_bits_of_their_launches(of_numba_cuda, name, n):
    v = jnp.asarray(np.random.default_rng(0).uniform(-2, 2, n), jnp.float32)
    run = of_numba_cuda.loops(n)[name]
    assert_same_bits(run, v)
    [loop] = be.explain_loops(run, v)
    assert loop.is_fused


@pytest.mark.parametrize("n", [70, 4_000])
@pytest.mark.parametrize("name", ["rounded", "functions", "summed_in_warps"])
def test_kernels_of_numba_cuda_round_as_they_are_compiled(of_numba_cuda, name, n):
    v = jnp.asarray(np.random.default_rng(0).uniform(-2, 2, n), jnp.float32)
    operator = of_numba_cuda.of(getattr(of_numba_cuda, name), f"{name}{n}", threads_per_block=64)
    assert_same_bits(of_numba_cuda.looped(operator, steps=STEPS), v)


def test_kernels_in_cuda_that_merge_nothing_have_the_bits_of_their_launches():
    source = """extern "C" __global__ void rounded(const float* x, float* out, int n) {
      const int i = blockIdx.x * blockDim.x + threadIdx.x;
      if (i < n) out[i] = (x[i] * 1.1f + 0.3f) * (x[i] * x[i] - 0.7f) + x[i] * 1e-30f;
    }"""
    operator = be.XLACustomKernel("rounded_in_cuda")
    rounding = ("--fmad=false", "--ftz=true")

    @operator.def_nvrtc_kernel
    def kernel(*, outs):
        n = outs[0].shape[0]
        return lambda x: [be.cuda_kernel(source, "rounded", outs[0], launch_dims=n, options=rounding)(x, n=n)]

    def run(v):
        def step(v, _):
            (out,) = operator(v, outs=[jax.ShapeDtypeStruct(v.shape, v.dtype)])
            return out * 0.0625 - 0.5, out

        return lax.scan(step, v, length=STEPS)

    assert_same_bits(run, jnp.linspace(-2, 2, 4_000, dtype=jnp.float32))


def test_device_functions_of_numba_cuda_and_float64(of_numba_cuda):
    from numba import cuda

    @cuda.jit(device=True)
    def current(x, k):
        return x * x - k / 3

    @cuda.jit
    def stepped(x, chosen, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = current(x[i], i % 5) - current(x[i] / 7, 2)

    with jax.enable_x64(True):
        operator = of_numba_cuda.of(stepped, threads_per_block=128)
        assert_same_bits(of_numba_cuda.looped(operator), jnp.linspace(-2, 2, 3_000, dtype=jnp.float64))


SANITIZED = """
    import jax, jax.numpy as jnp, numpy as np
    import brainevent as be
    from jax import lax

    n, steps = map(int, sys.argv[1:])
    targets = np.random.default_rng(0).integers(0, n, (n, 20), dtype=np.int32)
    synapses = be.FixedNumPerPre((1.0, jnp.asarray(targets)), shape=(n, n))

    def step(state, _):
        v, spikes = state
        v = jnp.where(spikes, 0.0, 0.9 * v + 0.05 * (be.BinaryArray(spikes) @ synapses) + 0.11)
        return (v, v > 1), spikes.sum()

    v = jnp.linspace(0, 1, n)
    with be.config.fuse_loops():
        print(int(jax.jit(lambda v: lax.scan(step, (v, v > 0.8), length=steps))(v)[1].sum()))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("n", [300, 4_000, 20_000])
@pytest.mark.parametrize("tool", TOOLS)
def test_the_sanitizer_finds_nothing(tool, n, tmp_path):
    assert int(sanitized(tool, tmp_path, "import sys\n" + textwrap.dedent(SANITIZED), n, 40)) > 0
