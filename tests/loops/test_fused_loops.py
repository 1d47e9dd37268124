# SPDX-License-Identifier: Apache-2.0
"""Loops as one native call: with every transformation of JAX, with operators, and next to XLA's loop."""

import re
import warnings

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec
from programs import run_program

import brainevent as be
from brainevent import _compat, config
from brainevent.backends.numba import kernel

STEPS = 40
V = np.linspace(-2, 2, 33, dtype=np.float32)
NATIVE = re.compile("brainevent_numba_ffi_[0-9a-z_]*")


def decaying(v):
    """Run neurons that decay to exact numbers: halved, and rounded to multiples of 1/64."""

    def step(v, x):
        v = jnp.where(v > 1, v - 2, jnp.round((v * 0.5 + x) * 64) * (1 / 64))
        return v, v > 0.5

    return lax.scan(step, v, jnp.arange(STEPS, dtype=jnp.float32) * (1 / 16))


def smooth(v):
    return lax.scan(lambda v, x: (v * 0.5 + x * v * v, None), v, jnp.arange(STEPS, dtype=jnp.float32) * (1 / 128))[0]


def both(function, *args):
    """Return results of XLA's loop and of the native one, and the number of native calls in the program."""
    wanted = jax.jit(function)(*args)
    with config.fuse_loops():
        jitted = jax.jit(function)
        count = len(NATIVE.findall(jitted.lower(*args).as_text()))
        return jax.tree.leaves(wanted), jax.tree.leaves(jitted(*args)), count


def check(count, function, *args, rtol=0.0):
    wanted, found, native = both(function, *args)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=rtol, atol=rtol)
    assert native == count


# ---- transformations ------------------------------------------------------------------------------------------------

PROGRAMS = {
    "jit": (1, decaying),
    "fori_loop": (1, lambda v: lax.fori_loop(0, STEPS, lambda k, v: jnp.where(v > 1, v - 2, v * 0.5 + k), v)),
    "in a branch": (1, lambda v: lax.cond(v[0] < 5, decaying, lambda v: (v, jnp.zeros((STEPS, 33), bool)), v)),
    "in a scan": (1, lambda v: lax.scan(lambda v, _: decaying(v), v, None, length=3)),
    "in a while_loop": (1, lambda v: lax.while_loop(lambda v: v[0] < 0, lambda v: decaying(v)[0], v)),
    "in a checkpoint": (1, jax.checkpoint(decaying)),
    "vmap": (1, lambda v: jax.vmap(decaying)(jnp.stack([v, v * 2]))),
}
DERIVATIVES = {
    "grad": (2, jax.grad(lambda v: smooth(v).sum())),
    "jvp": (1, lambda v: jax.jvp(smooth, (v,), (v * 2,))),
}
MORE = {
    "grad of vmap of checkpoint": (2, jax.grad(lambda v: jax.vmap(jax.checkpoint(smooth))(v.reshape(3, 11)).sum())),
    "hessian": (2, lambda v: jax.hessian(lambda v: (smooth(v) ** 2).sum())(v[:16])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_is_one_call(name):
    check(*PROGRAMS[name], V)


@pytest.mark.parametrize("name", [*DERIVATIVES, *(pytest.param(name, marks=pytest.mark.thorough) for name in MORE)])
def test_derivatives_are_loops_too(name):
    check(*{**DERIVATIVES, **MORE}[name], V, rtol=1e-5)


def test_integers_of_64_bits_overflow_before_they_are_compared():
    ends = np.iinfo(np.int64)
    numbers = [ends.min, ends.max, ends.max // 2, ends.min // 2, 3037000500, 3037000499, 2**33 + 5, -1] * 8

    def step(count, a):
        return count + 1, [a + a < a, a - 1 > a, (a * 2) // 2 == a]

    with jax.enable_x64(True):
        check(1, lambda a: lax.scan(step, 0, a), np.array([np.roll(numbers, k) for k in range(STEPS)]))


def test_a_program_of_64_bits_is_lowered_where_these_are_off():
    def run(count, v):
        def step(carry, _):
            count, v = carry
            v = lax.fori_loop(0, 3, lambda k, v: v * 0.5 + k, v)
            return (count * 3 + jnp.asarray(np.arange(4) * 2**33), v), jnp.where(count > 2**34, v, 1e-10)

        return lax.scan(step, (count, v), None, length=STEPS)

    with jax.enable_x64(True):
        args = jnp.arange(4) + 2**40, jnp.array([1.0, 1e-12, 1 / 3, 2**60])
        wanted = jax.tree.leaves(jax.jit(run)(*args))
        with config.fuse_loops():
            traced = jax.jit(lambda *args: run(*args)).trace(*args)
    with config.fuse_loops():
        lowered = traced.lower()
    assert len(NATIVE.findall(lowered.as_text())) == 1
    for one, other in zip(jax.tree.leaves(lowered.compile()(*args)), wanted, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_eager_calls_and_donated_operands():
    wanted = jax.tree.leaves(decaying(V))
    with config.fuse_loops():
        eager = jax.tree.leaves(decaying(V))
        donated = jax.tree.leaves(jax.jit(decaying, donate_argnums=0)(jnp.array(V)))
    for one, other, third in zip(wanted, eager, donated, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)


def test_on_each_device_of_a_mesh():
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("d",))
    specs = PartitionSpec("d"), (PartitionSpec("d"), PartitionSpec(None, "d"))
    check(1, jax.shard_map(decaying, mesh=mesh, in_specs=specs[0], out_specs=specs[1]), V[:32])
    split = jax.device_put(V[:32], NamedSharding(mesh, specs[0]))  # XLA partitions JAX's loop
    check(0, decaying, split)


def test_what_runs_across_devices_is_left_to_jax():
    mesh = jax.sharding.Mesh(np.array(jax.devices("cpu")[:2]), ("d",))

    def run(v):
        def step(v, _):
            return v * 0.5 + lax.psum(v, "d") * 0.25 + lax.axis_index("d"), None

        return lax.scan(step, v, None, length=STEPS)[0]

    spec = PartitionSpec("d")
    check(0, jax.shard_map(run, mesh=mesh, in_specs=spec, out_specs=spec), V[:32])


def test_an_exported_program_has_the_loop():
    with config.fuse_loops():
        saved = jax.export.export(jax.jit(decaying), disabled_checks=be.export_checks())(V).serialize()
    for one, other in zip(jax.tree.leaves(jax.export.deserialize(saved).call(V)), jax.tree.leaves(decaying(V))):  # noqa: B905
        np.testing.assert_array_equal(one, other)


def test_a_program_for_several_platforms_has_the_loop_of_jax():
    def loops():
        exported = jax.export.export(jax.jit(lambda v: decaying(v)), platforms=("cpu", "cuda"))(V)
        return exported.mlir_module().count("stablehlo.while"), "stablehlo.case" in exported.mlir_module()

    assert loops() == (1, False)
    with config.fuse_loops():
        assert loops() == (1, False)


@pytest.mark.parametrize("shapes", ["n; 40, n", "33; n, 33"])
def test_a_program_for_any_sizes_has_the_loop_of_jax(shapes):
    def run(v, rows):
        return lax.scan(lambda v, row: (v * 0.5 + row, v.sum()), v, rows)

    sizes = jax.export.symbolic_shape(shapes.replace(";", ","))
    types = [jax.ShapeDtypeStruct(shape, np.float32) for shape in (sizes[:1], sizes[1:])]
    rows = np.outer(np.arange(40), V).astype(np.float32)
    with config.fuse_loops():
        exported = jax.export.export(jax.jit(run))(*types)  # without a warning
        assert "a dimension without a number" in be.explain_loops(jax.make_jaxpr(run)(*types))[0].reason
    for one, other in zip(jax.tree.leaves(exported.call(V, rows)), jax.tree.leaves(run(V, rows)), strict=True):
        np.testing.assert_array_equal(one, other)


# ---- the setting ----------------------------------------------------------------------------------------------------


def test_a_jitted_function_follows_the_setting():
    traces = []

    @jax.jit
    def run(v):
        traces.append(config.is_fusing_loops())
        return decaying(v)

    def is_native():
        run(V)
        return bool(NATIVE.findall(run.lower(V).as_text()))

    assert not is_native()
    with config.fuse_loops():
        assert is_native()
        with config.fuse_loops(False):
            assert not is_native()
    assert not is_native()
    config.fuse_loops()
    try:
        assert is_native()
    finally:
        config.fuse_loops(False)
    assert not is_native()
    assert set(traces) == {True, False}
    with pytest.raises(TypeError, match=r"config.fuse_loops: on must be True or False, found 1"):
        config.fuse_loops(1)


def test_the_name_of_a_loop_is_its_content():
    with config.fuse_loops():
        names = [NATIVE.findall(jax.jit(lambda v: decaying(v)).lower(V).as_text()) for _ in range(2)]
    assert names[0] == names[1]


def test_a_jax_that_hides_its_scan_leaves_loops_to_jax(monkeypatch):
    assert _compat.scan_lowering_missing() is None
    monkeypatch.setattr(_compat, "_SCAN_LOWERING", None)
    words = f"JAX {jax.__version__} keeps the lowering of jax.lax.scan where this release does not find it"
    assert _compat.scan_lowering_missing() == words
    registered = []
    monkeypatch.setattr(_compat.mlir, "register_lowering", lambda *args, **kwargs: registered.append(args))
    _compat.register_scan_lowering(None)
    assert registered == []
    [loop] = be.explain_loops(decaying, V)
    assert (loop.is_fused, loop.reason) == (False, words)


def test_a_loop_that_numba_cannot_compile_is_left_to_jax(monkeypatch):
    from brainevent.loops import on_numba

    def broken(written):
        scope = {}
        exec("def fused_loop(p0, p1, p2, o0, o1): o0.no_such_attribute", scope)
        return numba.njit(scope["fused_loop"])

    monkeypatch.setattr(on_numba, "_compiled", broken)
    wanted = decaying(V)
    with config.fuse_loops(), pytest.warns(RuntimeWarning, match="of 40 steps is compiled by JAX instead: Kernel"):
        found = jax.jit(decaying)(V)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


# ---- operators ------------------------------------------------------------------------------------------------------


def network(n, density, seed=0):
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((n, n)) < density, rng.integers(1, 5, (n, n)), 0).astype(np.float32)
    return be.CSR.fromdense(jnp.asarray(dense)), dense


def of_events(matrix, v):
    """Run neurons whose sums are whole numbers."""

    def step(carry, _):
        v, spikes = carry
        v = jnp.where(spikes, 0, v + (be.BinaryArray(spikes) @ matrix) * 0.25 + 1)
        return (v, v > 4), spikes

    return lax.scan(step, (v, v > 1), None, length=STEPS)


def test_products_of_events():
    matrix, _ = network(20, 0.2)
    wanted, found, count = both(of_events, matrix, V[:20])
    assert count == 1
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
    assert 0 < np.mean(found[-1]) < 1


def test_products_of_events_in_a_batch():
    matrix, _ = network(20, 0.2)
    check(1, jax.vmap(of_events, (None, 0)), matrix, np.stack([V[:20], V[:20] * 2, -V[:20]]))


@pytest.mark.thorough
def test_gradients_of_products_of_events():
    matrix, _ = network(20, 0.2)

    def loss(data, v):
        def step(v, _):
            s = jax.nn.sigmoid(v)
            return v * 0.5 + (s @ matrix.with_data(data)) * 0.1, s

        return lax.scan(step, v, None, length=STEPS)[1].mean()

    check(2, jax.grad(loss), matrix.data, V[:20], rtol=1e-4)


@pytest.mark.parametrize(
    "matrix",
    [
        be.JITCScalarR((0.5, 0.1, 42), shape=(60, 60)),
        be.JITCNormalR((0.5, 0.1, 0.1, 42), shape=(60, 60)),
        be.JITCUniformR((0.1, 0.5, 0.1, 42), shape=(60, 60)),
    ],
    ids=lambda matrix: type(matrix).__name__,
)
def test_products_with_drawn_matrices(matrix):
    def run(v):
        def step(v, _):
            spikes = be.BinaryArray(v > 0.5)
            v = jnp.where(v > 0.5, -1, v + 0.125)
            return v, (spikes @ matrix, matrix @ spikes)

        return lax.scan(step, v, None, length=STEPS)

    check(1, run, np.linspace(-1, 1, 60, dtype=np.float32), rtol=1e-6)


def test_rules_of_synapses():
    """`apply_on_pre` and `apply_on_post` change the states of synapses."""
    matrix = be.CSR.random((30, 30), num_per_row=5, weights=0.25, seed=1)
    matrix = matrix.with_data(jnp.full(matrix.nse, 0.25)).precompute_weight_indices()

    def run(v):
        def step(state, _):
            weights, v = state
            spikes, synapses = v > 0.5, matrix.with_data(weights)
            arrived = be.BinaryArray(spikes) @ synapses
            weights = synapses.apply_on_pre(lambda w, pre, post, p: w * 0.5 + p, spikes, params=0.125)
            weights = matrix.with_data(weights).apply_on_post(
                lambda w, pre, post, p: jnp.minimum(w + p, 1), v > 1, params=0.25
            )
            return (weights, jnp.where(spikes, 0, v + 0.125 + 0.25 * arrived)), spikes

        return lax.scan(step, (matrix.data, v), None, length=STEPS)

    check(1, run, np.linspace(0, 1.5, 30, dtype=np.float32))


def test_a_delay_line():
    """A ring of arrivals is read, cleared and written at places that change: in place."""

    def run(v):
        def step(carry, k):
            v, ring = carry
            arrived = ring[k % 7]
            ring = ring.at[k % 7].set(0.0)
            v = v * 0.5 + arrived
            return (v, ring.at[(k + 5) % 7].set(jnp.round(v * 64) * (1 / 64) + 1)), v

        return lax.scan(step, (v, jnp.zeros((7, v.size))), jnp.arange(STEPS))

    check(1, run, V)


@numba.njit
def _shift(pair, factor, out, total):
    first, second = pair
    total[()] = 0
    for i in range(first.size):
        out[i] = first[i] * factor[()] + second[i]
        total[()] += out[i]


def test_any_operator_with_a_kernel_of_numba():
    """A user's kernel: with arrays in a tuple, with an array without axes, and with one as a result."""
    shifted = be.XLACustomKernel("shifted")
    shifted.def_numba_kernel(lambda *, outs: lambda a, b, factor: be.numba_kernel(_shift, outs=outs)((a, b), factor))

    def run(v, factor):
        def step(carry, x):
            v, total = carry
            outs = [jax.ShapeDtypeStruct(v.shape, v.dtype), jax.ShapeDtypeStruct((), v.dtype)]
            v, total = shifted(v, jnp.full(v.shape, x), factor * 0.5 + 0 * total, outs=outs)
            return (jnp.where(v > 2, v - 4, v), total), total

        return lax.scan(step, (v, jnp.float32(0)), jnp.arange(STEPS) % 3 * jnp.float32(0.5))

    check(1, run, np.round(V * 4) / 4, jnp.float32(-2), rtol=1e-5)


def test_a_kernel_is_compiled_as_part_of_the_loop_alone(monkeypatch):
    """Its own handler is compiled when XLA calls it, and not before."""

    @numba.njit
    def tripled(x, out):
        for i in range(x.size):
            out[i] = 3 * x[i]

    operator = be.XLACustomKernel("tripled_in_a_loop")
    operator.def_numba_kernel(lambda *, outs: jax.jit(be.numba_kernel(tripled, outs=outs)))
    handlers = []
    compiled = kernel.compile_handler
    monkeypatch.setattr(
        kernel, "compile_handler", lambda function, *x: handlers.append(function.__name__) or compiled(function, *x)
    )

    def run(v):
        outs = jax.ShapeDtypeStruct(v.shape, v.dtype)
        return lax.scan(lambda v, _: (jnp.where(v > 1, v - 2, operator(v, outs=outs)), None), v, None, length=STEPS)[0]

    monkeypatch.setattr(config, "get_numba_cache", lambda: False)
    with config.fuse_loops():
        found = jax.jit(run)(V)
        assert handlers == ["fused_loop"]
    wanted = jax.jit(lambda v: run(v))(V)
    assert handlers == ["fused_loop", "tripled"]
    np.testing.assert_array_equal(found, wanted)


_GAIN = 2.0


def of_gain(name):
    """Return a loop with a new kernel that reads a global value."""

    @numba.njit
    def times_gain(x, out):
        for i in range(x.size):
            out[i] = _GAIN * x[i]

    operator = be.XLACustomKernel(name)
    operator.def_numba_kernel(lambda *, outs: be.numba_kernel(times_gain, outs=outs))

    def run(v):
        outs = [jax.ShapeDtypeStruct(v.shape, v.dtype)]
        return lax.scan(lambda v, _: (v, operator(v, outs=outs)), v, length=STEPS)[1]

    return run


@pytest.mark.parametrize("first_in_a_loop", [False, True])
def test_a_native_loop_has_the_global_values_of_the_loop_of_xla(monkeypatch, first_in_a_loop):
    """A kernel that is compiled ignores later changes of a global value."""
    run = of_gain(f"times_gain_{first_in_a_loop}")

    def found(fused):
        with config.fuse_loops(fused):
            return np.asarray(jax.jit(lambda v: run(v))(V)[0])

    np.testing.assert_array_equal(found(first_in_a_loop), [2 * V] * STEPS)
    monkeypatch.setitem(globals(), "_GAIN", 20.0)
    native = found(True)
    np.testing.assert_array_equal(native, found(False))
    np.testing.assert_array_equal(native, [(20 if first_in_a_loop else 2) * V] * STEPS)
    if not first_in_a_loop:
        assert "what it reads has changed since" in be.explain_loops(run, V)[0].reason


@numba.njit
def _add_in_place(ring, x, out):
    for i in range(x.size):
        out[i % 3] += x[i]


def test_a_kernel_that_works_in_place():
    added = be.XLACustomKernel("added_in_place")
    added.def_numba_kernel(lambda *, outs: be.numba_kernel(_add_in_place, outs=outs, input_output_aliases={0: 0}))

    def run(ring, keeps):
        def step(carry, x):
            ring, last = carry
            [new] = added(ring, x + last[:4] * 0, outs=[jax.ShapeDtypeStruct(ring.shape, ring.dtype)])
            return (new, ring if keeps else last), new.sum()

        rows = jnp.arange(STEPS * 4, dtype=jnp.float32).reshape(STEPS, 4) % 5
        return lax.scan(step, (ring, ring), rows)

    check(1, lambda ring: run(ring, False), np.zeros(6, np.float32))
    check(1, lambda ring: run(ring, True), np.zeros(6, np.float32))  # the old content is needed after the kernel


@numba.njit
def _double(x, out):
    for i in range(x.size):
        if x[i] > 100:
            raise ValueError("too large a number")
        out[i] = x[i] * 2


_CPP = """
#include "brainevent/common.h"
// @BE scaled_sum arg arg ret attr.factor:float32
void scaled_sum(BE::Tensor x, BE::Tensor y, BE::Tensor out, float factor) {
  for (int64_t i = 0; i < out.numel(); ++i) {
    if (x.data_ptr<float>()[i] > 1000) throw std::runtime_error("too large a number");
    out.data_ptr<float>()[i] = factor * x.data_ptr<float>()[i] + y.data_ptr<float>()[i];
  }
}
"""


@pytest.fixture(scope="module")
def of_cpp():
    """A loop with an operator in C++."""
    module = be.load_cpp_inline("kernels_in_loops", _CPP)
    scaled = be.XLACustomKernel("scaled_in_cpp")

    def generator(*, outs, factor):
        return lambda x, y: module.scaled_sum(x, y, outs=outs, factor=np.float32(factor))

    scaled.def_kernel("cpp", "cpu", generator)

    def run(x, y):
        def step(x, _):
            [x] = scaled(x, y, factor=0.5, outs=[jax.ShapeDtypeStruct(x.shape, x.dtype)])
            return x + 1, x.sum()

        return lax.scan(step, x, None, length=STEPS)

    return run


def test_a_kernel_in_cpp(of_cpp):
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    check(1, of_cpp, x, y)
    check(1, jax.vmap(of_cpp, (0, None)), np.stack([x, x * 2, x * 4]), y)
    with config.fuse_loops():
        jitted = jax.jit(lambda *arrays: of_cpp(*arrays))
        words = r"be_scaled_sum \(operator 'scaled_in_cpp'\): too large a number"
        with pytest.raises(jax.errors.JaxRuntimeError, match=words):
            jax.block_until_ready(jitted(x * 1e6, y))
        np.testing.assert_array_equal(jitted(x, y)[0], of_cpp(x, y)[0])
        exported = jax.export.export(jax.jit(lambda *arrays: of_cpp(*arrays)), disabled_checks=be.export_checks())
        assert exported(x, y).mlir_module().count("stablehlo.while") == 1  # its code is in another library


def test_an_error_of_a_kernel_ends_the_loop():
    doubled = be.XLACustomKernel("doubled_to_100")
    doubled.def_numba_kernel(lambda *, outs: be.numba_kernel(_double, outs=outs))

    def run(v):
        def step(v, _):
            return doubled(v, outs=[jax.ShapeDtypeStruct(v.shape, v.dtype)])[0], None

        return lax.scan(step, v, None, length=STEPS)[0]

    with config.fuse_loops():
        jitted = jax.jit(run)
        with pytest.raises(
            jax.errors.JaxRuntimeError, match=r"'fused_loop' raised ValueError: too large a number \(test_"
        ):
            jax.block_until_ready(jitted(np.ones(3, np.float32)))
        tiny = np.full(3, 1e-40, np.float32)
        assert np.all(tiny + tiny > 0)  # the loop flushes denormals, and this thread does not
        np.testing.assert_array_equal(jitted(np.full(3, 2.0**-60, np.float32)), np.full(3, 2.0**-20))


@pytest.mark.thorough
def test_random_numbers_with_keys_of_either_kind():
    def run(v, words):
        def step(carry, _):
            typed, raw, v = carry
            typed, one = jax.random.split(typed)
            raw, two = jax.random.split(raw)
            bits = jax.random.bits(one, v.shape) ^ jax.random.bits(two, v.shape)
            return (typed, raw, v + (bits >> 31)), jax.random.bernoulli(one, 0.5, v.shape)

        (typed, raw, v), rows = lax.scan(step, (jax.random.wrap_key_data(words), words, v), None, length=STEPS)
        return jax.random.key_data(typed), raw, v, rows

    check(1, run, V, np.array([1, 2], np.uint32))


@pytest.mark.thorough
def test_poisson_numbers_whose_loops_end_when_the_data_say_so():
    def run(words):
        key = jax.random.wrap_key_data(words)
        return lax.map(lambda k: jax.random.poisson(k, 3.0, (50,)), jax.random.split(key, STEPS))

    check(1, run, np.array([1, 2], np.uint32))


def test_loops_and_branches_within_a_loop():
    def run(v, places):
        def step(carry, k):
            v, ring = carry
            v = lax.cond(k % 3 == 0, lambda v: v * 0.5, lambda v: v, v)
            v = lax.while_loop(lambda v: v.sum() > 64, lambda v: v * 0.5, v)
            v, firsts = lax.scan(lambda v, x: (v.at[0].add(x), v[0]), v, ring[k % 5])
            ring = ring.at[k % 5].set(v[:4]).at[(k + 1) % 5].add(jnp.round(v[places] * 0.5))
            return (jnp.round(v * 64) * (1 / 64), ring), (firsts, ring.argmax(), v.max())

        return lax.scan(step, (v, jnp.ones((5, 4))), jnp.arange(STEPS))

    check(1, run, V, np.array([0, 5, 5, -40], np.int32))


def test_a_loop_of_scalars_backwards():
    def run(x, rows):
        def step(carry, row):
            a, b, kept = carry
            return (b, (a + row[1] * kept) % 1001, kept), (row, a)

        return lax.scan(step, (x, x + 1, jnp.int32(3)), rows, reverse=True)

    check(1, run, jnp.int32(5), np.arange(3 * STEPS, dtype=np.int32).reshape(STEPS, 3))


def test_denormal_numbers_that_are_only_moved_keep_their_bits():
    tiny = np.full(3, 1e-40, np.float32)

    def run(x):
        def step(k, row):
            bits = lax.bitcast_convert_type(jnp.asarray(tiny), jnp.int32)
            return k + 1, (jnp.flip(row), bits + lax.bitcast_convert_type(row, jnp.int32) * k)

        return jax.tree.map(lambda y: lax.bitcast_convert_type(y, jnp.int32), lax.scan(step, jnp.int32(0), x)[1])

    check(1, run, np.full((STEPS, 3), np.float32(3e-41)) * np.arange(1, 4, dtype=np.float32))


@pytest.mark.thorough
def test_elementwise_numbers_have_the_bits_of_an_xla_that_does_not_contract():
    """Without fused multiply-adds, XLA rounds as a rule does."""
    program = """
    import jax, jax.numpy as jnp, numpy as np
    from brainevent import config
    def run(v, w):
        def step(carry, x):
            v, u = carry
            v, u = v + 0.1 * (0.04 * v * v + 5 * v + 140 - u + x * w), u + 0.1 * 0.02 * (0.2 * v - u)
            fired = v > 30
            return (jnp.where(fired, -65.0, v), jnp.where(fired, u + 8, u)), fired
        return jax.lax.scan(step, (v, v * 0.2), jnp.linspace(0, 20, 500))
    v, w = np.linspace(-70, -50, 100, dtype=np.float32), np.linspace(0, 1, 100, dtype=np.float32)
    with config.fuse_loops(False):
        wanted = jax.tree.leaves(jax.jit(run)(v, w))
    jitted = jax.jit(run)
    assert "brainevent_numba_ffi" in jitted.lower(v, w).as_text()
    found = jax.tree.leaves(jitted(v, w))
    print(all((np.asarray(a) == np.asarray(b)).all() for a, b in zip(found, wanted)), bool(np.any(found[-1])))
    """
    environment = {"XLA_FLAGS": "--xla_cpu_max_isa=AVX", config.FUSE_LOOPS: "1"}
    assert run_program(program, **environment).split() == ["True", "True"]


def test_no_warning_where_a_loop_is_left_to_jax():
    def ranked(v):
        return lax.scan(lambda v, _: (jnp.sort(v) * 0.5, None), v, None, length=STEPS)[0]

    with warnings.catch_warnings(action="error"):
        check(0, ranked, V)
