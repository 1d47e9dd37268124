# SPDX-License-Identifier: Apache-2.0
"""Loops as kernels of a GPU, on a pretended one: the bits of the CPU's loops, and barriers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from interpreted_loops import interpreted_scan
from jax import lax
from loop_bodies import HALVES, INTEGERS, ends_of, long_axes, typed_loop
from loops_on_pretended_gpu import PretendGpu, on_pretended_gpu, planned_loop

import brainevent as be
from brainevent import config
from brainevent._compat import bind_equation
from brainevent.loops import lowering
from brainevent.loops.gpu import phases, program
from brainevent.loops.gpu.cost import why_not_faster
from brainevent.loops.gpu.device import Gpu
from brainevent.loops.gpu.kept import kept_carries
from brainevent.loops.gpu.phases import MEET, Loop, Phase, owned, shared, with_meetings
from brainevent.loops.gpu.shape import Shape
from brainevent.loops.gpu.text import text_of
from brainevent.loops.values import UnfitError

pytest.importorskip("cuda.bindings.nvrtc")
pytestmark = pytest.mark.usefixtures("for_a_gpu")

STEPS, N = 40, 70
V = np.linspace(-2, 2, N, dtype=np.float32)


# ---- loops without operators: the bits of the CPU's loop

TABLE = np.arange(24, dtype=np.int32).reshape(4, 6)


def neurons(v):
    """Run neurons that have a rest after a spike, with an input in each step, and count spikes."""

    def step(state, x):
        v, rest, count = state
        v = jnp.where(rest > 0, v, v + 0.1 * (jnp.exp(-v) + x - v))
        spikes = v > 0.9
        count = count + spikes.sum()
        return (jnp.where(spikes, -1.0, v), jnp.where(spikes, 5, rest - 1), count), (spikes, v[3], v.max(), count)

    return lax.scan(step, (v, jnp.zeros(N, jnp.int32), jnp.int32(0)), jnp.linspace(0, 2, STEPS))


def delayed(v):
    """Read a ring at one place and write it at another, in place."""

    def step(state, t):
        ring, v = state
        v = v * 0.75 + lax.dynamic_index_in_dim(ring, t % 7, 0, keepdims=False)
        ring = ring.at[(t + 3) % 7].set((v > 0.5).astype(jnp.float32))
        return (ring, v), v[::-2]

    return lax.scan(step, (jnp.zeros((7, N)), v), jnp.arange(STEPS), reverse=True)


def random_numbers(key):
    def step(key, _):
        key, one, other = jax.random.split(key, 3)
        return key, (jax.random.uniform(one, (N,)), jax.random.randint(other, (3,), 0, 9))

    return lax.scan(step, key, length=STEPS)


def arrays(x):
    """Do with whole numbers what is not elementwise."""

    def step(x, k):
        wide = jnp.concatenate([x[:, 1:], x[:1].T[:4]], 1)
        product = x @ wide.T
        picked = wide[jnp.array([3, 0, 9]), jnp.array([1, -1, 2])]
        added = jnp.zeros(5, jnp.int32).at[jnp.array([1, 1, 7, 2])].add(x[0, :4])
        padded = lax.pad(x, jnp.int32(7), ((1, -1, 0), (0, 2, 1)))
        results = product, picked, added, padded, x.sum(0), x.max(1), x.min(), jnp.cumsum(wide, 1), x.prod()
        results = *results, jnp.argmax(wide, 0), jnp.argmin(x, 1), lax.cumsum(x, reverse=True), (x > k).all(0)
        return x.T.reshape(4, 6) - k, (*results, lax.dynamic_slice(x, (k - 2, 1), (2, 3)), (x > 99).any(), x.T)

    return lax.scan(step, x, jnp.arange(STEPS, dtype=jnp.int32))


def many(x):
    """Reduce more than one warp reduces at once."""
    return lax.scan(lambda x, _: (x * 5 + 1, (x.sum(), x.reshape(3, 1100).max(1), x[:64].min())), x, length=STEPS)


LOOPS = {
    "neurons": (neurons, V),
    "delayed": (delayed, V),
    "random numbers": (random_numbers, np.array([3, 5], np.uint32)),
    "arrays": (arrays, TABLE),
    "long axes": (lambda x: long_axes(x, 3), np.arange(700, dtype=np.int32) * 31 % 97),
    "many": (many, np.arange(3300, dtype=np.int32)),
}


def check_bits(function, x):
    """Compare a loop on a pretended GPU with the same loop of the CPU."""
    closed = jax.make_jaxpr(function)(x)
    eqn = next(eqn for eqn in closed.jaxpr.eqns if eqn.primitive.name == "scan")
    operands = []

    def before(x):
        known = dict(zip((*closed.jaxpr.invars, *closed.jaxpr.constvars), (x, *closed.consts), strict=True))
        for each in closed.jaxpr.eqns:
            values = [atom.val if hasattr(atom, "val") else known[atom] for atom in each.invars]
            if each is eqn:
                operands.extend(map(np.asarray, values))
                return
            found = bind_equation(each, values)
            known.update(zip(each.outvars, found, strict=True))

    before(x)
    wanted, _ = interpreted_scan(eqn.params, operands)
    for found, each in zip(on_pretended_gpu(function, x), wanted, strict=True):
        assert found.tobytes() == each.astype(found.dtype).tobytes()


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_has_the_bits_of_the_cpu(name):
    check_bits(*LOOPS[name])


@pytest.mark.parametrize("dtype", [*INTEGERS, *HALVES, "float64"])
def test_numbers_of_any_type_have_the_bits_of_the_cpu(dtype):
    with jax.enable_x64(True):
        check_bits(typed_loop(dtype, 4), ends_of(dtype))


# ---- loops with operators


def matrix(columns=2 * N):
    targets = np.random.default_rng(0).integers(0, N, (N, 9), dtype=np.int32)
    targets[N * 4 // 5 :] += columns - N
    return be.FixedNumPerPre((1.0, jnp.asarray(targets)), shape=(N, columns))


def cuba(v, synapses=None):
    """Run neurons whose synapses inject currents."""
    synapses = matrix() if synapses is None else synapses

    def step(state, _):
        v, exc, inh, spikes = state
        arrived = be.BinaryArray(spikes) @ synapses
        exc, inh = 0.875 * exc + 4 * arrived[:N], 0.75 * inh - 8 * arrived[N:]
        v = v + 0.0625 * (exc + inh - (v - 1.5))
        spikes = v > 1
        return (jnp.where(spikes, 0.0, v), exc, inh, spikes), spikes

    return lax.scan(step, (v, jnp.zeros(N), jnp.zeros(N), v > 1), length=200)[1]


def products(v):
    """Multiply by a matrix in compressed rows both ways, and by a drawn one."""
    stored = be.CSR.random((N, N), num_per_row=7, weights=0.5, seed=1)
    drawn = be.JITCScalarR((0.5, 0.1, 42), shape=(N, N))

    def step(v, _):
        spikes = be.BinaryArray(v > 0.5)
        return (v + spikes @ stored) * 0.25, (stored @ spikes, drawn @ spikes)

    return lax.scan(step, v, length=STEPS)


def learning(v):
    """Change weights in place."""
    stored = be.CSR.random((N, N), num_per_row=7, weights=0.25, seed=1)
    stored = stored.with_data(jnp.full(stored.nse, 0.25)).precompute_weight_indices()

    def step(state, _):
        matrix, v, pre = state
        spikes = v > 0.5
        arrived = be.BinaryArray(spikes) @ matrix
        matrix = matrix.update_on_pre(spikes, -0.125 * pre, after=arrived)
        matrix = matrix.update_on_post(0.25 * pre, v > 1)
        return (matrix, jnp.where(spikes, 0, v + 0.125 + arrived * 0.25), pre * 0.5 + spikes), spikes

    (matrix, *_), spikes = lax.scan(step, (stored, v, jnp.zeros(N)), length=STEPS)
    return matrix.data, spikes


WITH_OPERATORS = {
    "cuba": cuba,
    "products": products,
    "learning": learning,
    "vmap": lambda v: jax.vmap(lambda v: cuba(v))(jnp.stack([v, v * 2, -v])),
}


@pytest.mark.parametrize("name", WITH_OPERATORS)
def test_kernels_of_operators_are_part_of_the_loop(name):
    function = WITH_OPERATORS[name]
    wanted = jax.tree.leaves(jax.jit(function)(V))
    assert wanted[-1].any()
    for found, each in zip(on_pretended_gpu(function, V, blocks=3), wanted, strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-6, atol=1e-6)


OWN = """
extern "C" __global__ void twice(const float* x, const bool* chosen, float* out, int n, float factor) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  if (chosen[i]) atomicAdd(out + (i + 1) % n, factor * x[i] + gridDim.x);
}
"""
PLAIN = be.XLACustomKernel("twice_in_loops")


def _own(*, outs, source=OWN, entry="twice", block=48, **how):
    n = outs[0].shape[0]
    kernel = be.cuda_kernel(source, entry, outs[0], launch_dims=n, threads_per_block=block, zeroed=True, **how)
    return lambda x, chosen: [kernel(x, chosen, n=n, factor=2.0)]


PLAIN.def_kernel("cuda_raw", "gpu", _own, language="nvrtc")
PLAIN.def_reference(lambda x, chosen, *, outs: [jnp.roll(jnp.where(chosen, 2 * x + -(-x.size // 48), 0), 1)])


def with_own(operator):
    def run(v):
        def step(v, _):
            (out,) = operator(v, v > 0, outs=[jax.ShapeDtypeStruct(v.shape, v.dtype)])
            return out * 0.25 - 1, out

        return lax.scan(step, v, length=STEPS)

    return run


def test_a_users_kernel_is_part_of_the_loop():
    for found, each in zip(on_pretended_gpu(with_own(PLAIN), V), jax.jit(with_own(PLAIN))(V), strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-6)


def test_a_kernel_may_be_compiled_as_the_loop_is():
    [native] = (
        each
        for each in planned_loop(refused("as_loops", options=("--fmad=false", "-ftz=true")), V)[0].nodes()
        if each.call
    )
    assert native.call.name == "twice"


@pytest.mark.parametrize("name", ["cuba", "learning"])
def test_bits_do_not_depend_on_which_threads_are_first(name):
    found = [on_pretended_gpu(WITH_OPERATORS[name], V, blocks=3, seed=seed) for seed in (0, 1, 2)]
    for other in found[1:]:
        for one, each in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, each)


def test_a_missing_barrier_is_found(monkeypatch):
    monkeypatch.setattr(phases, "MEET", "")
    found = [on_pretended_gpu(cuba, V, blocks=3, seed=seed)[0] for seed in (1, 2)]
    assert (found[0] != found[1]).any()


def test_states_stay_in_registers(monkeypatch):
    plan, _ = planned_loop(cuba, V)
    kept = kept_carries(plan, 64)
    assert [plan.outs[i].dtype for i in kept] == ["float32"] * 3  # the kernel reads spikes
    assert not kept_carries(plan, 4)
    assert text_of(plan, 1, kept).meetings == 2
    wanted = on_pretended_gpu(cuba, V)
    monkeypatch.setattr(program, "shape_of", lambda *_: Shape(2, 32))  # some threads have two elements, others one
    monkeypatch.setattr(program, "steps_of_launch", lambda written, shape: 7)
    np.testing.assert_array_equal(on_pretended_gpu(cuba, V), wanted)


@pytest.mark.parametrize(
    "step",
    [
        lambda v, x: (v[::-1] * 0.5, None),
        lambda v, x: (v * 0.5, v.sum()),
        lambda v, x: (v * 0.5, v[3]),
        lambda v, x: (lax.cumsum(v) * 0.5, None),
        lambda v, x: (lax.cond(x > 0, lambda: v * 0.5, lambda: v), None),
    ],
)
def test_arrays_that_others_read_are_in_memory(step):
    plan, _ = planned_loop(lambda v: lax.scan(step, v, jnp.ones(STEPS)), V)
    assert not kept_carries(plan, 64)


def test_several_launches_continue_each_other(monkeypatch):
    wanted = on_pretended_gpu(cuba, V)
    monkeypatch.setattr(program, "steps_of_launch", lambda written, shape: 7)
    np.testing.assert_array_equal(on_pretended_gpu(cuba, V), wanted)


def test_derivatives_are_loops_on_a_gpu(monkeypatch):
    """Lower programs as for a GPU."""
    devices = []

    class Noted(PretendGpu):
        def __init__(self):
            super().__init__()
            devices.append(self)

    monkeypatch.setattr(lowering, "lowering_platforms", lambda ctx: ("cuda",))
    monkeypatch.setattr(program, "Gpu", Noted)
    gradient = jax.grad(lambda v: lax.scan(lambda v, x: (v * 0.5 + x * v * v, None), v, jnp.ones(STEPS) / 8)[0].sum())
    wanted = jax.jit(gradient)(V)
    with config.fuse_loops():
        np.testing.assert_allclose(jax.jit(gradient)(V), wanted, rtol=1e-5)
    assert len(devices) == 2


# ---- barriers


def meetings(function, *args):
    return text_of(planned_loop(function, *args)[0], 1).meetings


def test_threads_meet_only_where_they_read_what_others_wrote():
    assert meetings(lambda v: lax.scan(lambda v, x: (v * 0.5 + x, v > x), v, jnp.arange(40.0)), V) == 0
    assert meetings(lambda v: lax.scan(lambda v, x: (v[::-1] * 0.5, None), v, jnp.arange(40.0)), V) > 0
    assert meetings(cuba, V) == 2


# Products whose warps take the rows of spikes that their own threads found: threads meet once in a step.


def spikes_first(v):
    """Run neurons whose product is the last of a step, and what is carried."""
    n = len(v)
    targets = jnp.asarray(np.random.default_rng(0).integers(0, 2 * n, (n, 9)), jnp.int32)
    synapses = be.FixedNumPerPre((1.0, targets), shape=(n, 2 * n))

    def step(state, _):
        v, arrived = state
        v = v + 0.0625 * (1.5 - v) + 0.25 * arrived[:n] - 0.5 * arrived[n:]
        spikes = v > 1
        return (jnp.where(spikes, 0.0, v), be.BinaryArray(spikes) @ synapses), spikes

    return lax.scan(step, (v, jnp.zeros(2 * n)), length=100)


def halves_of_spikes(v, part=64):
    """Run neurons of two kinds, each with a product of its own: spikes of the second are a slice."""
    n, random = len(v), np.random.default_rng(0)
    exc, inh = (
        be.FixedNumPerPre((w, jnp.asarray(random.integers(0, n, (rows, 9)), jnp.int32)), shape=(rows, n))
        for w, rows in ((0.25, part), (-0.5, n - part))
    )

    def step(v, _):
        spikes = v > 1
        arrived = be.BinaryArray(spikes[:part]) @ exc + be.BinaryArray(spikes[part:]) @ inh
        return jnp.where(spikes, 0.0, v + 0.0625 * (1.5 - v)) + arrived, spikes

    return lax.scan(step, v, length=100)


def of_others(v):
    """Run the same, where the slice begins within the spikes that a warp found."""
    return halves_of_spikes(v, part=72)


def meetings_in_a_step(function, *args):
    text = text_of(planned_loop(function, *args)[0], 1).text
    return text.partition("++step) {")[2].partition("\n    }")[0].count(MEET)


@pytest.mark.parametrize(("network", "count"), [(spikes_first, 1), (halves_of_spikes, 1), (of_others, 2)])
@pytest.mark.parametrize("launch", [None, 7])
def test_threads_meet_once_where_they_deliver_their_own_spikes(monkeypatch, network, count, launch):
    monkeypatch.setattr("brainevent.event.csr.on_gpu._LEAST_OWN", 1)
    v = np.random.default_rng(0).uniform(-2, 2, 200).astype(np.float32)
    assert meetings_in_a_step(network, v) == count
    wanted = jax.tree.leaves(jax.jit(network)(v))
    assert wanted[-1][50:].any()
    if launch is not None:
        monkeypatch.setattr(program, "steps_of_launch", lambda written, shape: launch)
    for shape in (Shape(1, 96), Shape(3, 64)):  # some warps have no rows, or rows of several parts
        monkeypatch.setattr(program, "shape_of", lambda *_, shape=shape: shape)
        for seed in (0, 1, 2):
            for found, each in zip(on_pretended_gpu(network, v, seed=seed), wanted, strict=True):
                np.testing.assert_array_equal(found, each)


ALONE = "// Thread t reads x[t] alone.\n// Thread t reads chosen[t] alone.\n"


@pytest.mark.parametrize(
    ("said", "block", "count"),
    [pytest.param(ALONE, 32, 1, id="said"), pytest.param(ALONE, 48, 2, id="parts"), pytest.param("", 32, 2, id="not")],
)
def test_a_users_kernel_may_say_that_it_reads_what_its_thread_made(said, block, count):
    operator = be.XLACustomKernel(f"twice_alone_{len(said)}_{block}")
    operator.def_kernel("cuda_raw", "gpu", lambda **how: _own(source=said + OWN, block=block, **how), language="nvrtc")
    operator.def_reference(lambda x, chosen, *, outs: [jnp.roll(jnp.where(chosen, 2 * x + -(-x.size // block), 0), 1)])

    def run(v):
        def step(v, _):
            (out,) = operator(v, v > 0, outs=[jax.ShapeDtypeStruct(v.shape, v.dtype)])
            return out * 0.25 - 1, v > 0

        return lax.scan(step, v, length=STEPS)

    assert meetings_in_a_step(run, V) == count
    wanted = jax.jit(run)(V)
    for seed in (0, 1):
        for found, each in zip(on_pretended_gpu(run, V, blocks=3, seed=seed), wanted, strict=True):
            np.testing.assert_allclose(found, each, rtol=1e-6)


def lines_of(before, step, after, later):
    """Return the lines of the three parts of a loop."""

    def named(access):
        place = later(access.place)
        return None if place is None else access._replace(place=place)

    lines, _ = with_meetings([*before, Loop("", "{", step, 1, later=named), *after])
    lines = [line.strip() for line in lines]
    begin, end = lines.index("{"), lines.index("}")
    return lines[:begin], lines[begin + 1 : end], lines[end + 1 :]


def test_barriers_of_a_step_hold_for_the_next_one():
    write, read = Phase(["w"], owned(writes=["b1"])), Phase(["r"], shared(["b1"]))
    assert lines_of([], [read, write], [], lambda place: place)[1] == [MEET, "r", MEET, "w"]
    assert lines_of([], [read, write], [], lambda place: None)[1] == ["r", MEET, "w"]
    assert lines_of([write], [read], [write], str) == (["w", MEET], ["r"], [MEET, "w"])  # once, not in each step
    assert lines_of([], [Phase(["o"], owned(["b1"], ["b1"]))], [], str)[1] == ["o"]
    halves, thirds = {"b1": "b1n", "b1n": "b1"}.get, {"b1": "b1l", "b1l": "b1n", "b1n": "b1"}.get
    zero, add = Phase(["z"], owned(writes=["b1n"])), Phase(["a"], shared(writes=["b1"]))
    for parts, count in ((halves, 2), (thirds, 1)):  # each part is zero, then added to, then read
        assert lines_of([], [add, zero, read], [], parts)[1].count(MEET) == count


# ---- what is left to XLA, and the compiler of GPUs

SHARING = OWN.replace("const int i", "__shared__ int a; a = 1; __syncthreads(); const int i").replace(
    "% n", "% (n * a)"
)
PASSING = OWN.replace("if (i >= n) return;", "if (i >= n) return; n = __shfl_sync(~0u, n, 0);")


def refused(name, **how):
    operator = be.XLACustomKernel(f"{name}_in_loops")
    operator.def_kernel("cuda_raw", "gpu", lambda *, outs: _own(outs=outs, **how), language="nvrtc")
    return with_own(operator)


REFUSED = {
    "the JAX primitive sort": lambda v: lax.scan(lambda v, _: (jnp.sort(v), None), v, length=STEPS),
    "scatter-mul of float32, on a GPU": lambda v: lax.scan(
        lambda v, _: (v.at[jnp.array([1, 1])].mul(2), None), v, length=STEPS
    ),
    "whose threads share memory or meet": refused("sharing", source=SHARING),
    "whose lanes pass values to each other": refused("passing", source=PASSING),
    "with the option --use_fast_math": refused("fast", options=("--use_fast_math",)),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_named(words):
    with pytest.raises(UnfitError, match=words):
        planned_loop(REFUSED[words], V)


def noisy(v, k):
    return v * 0.9 + jax.random.normal(jax.random.key(k), v.shape)


@pytest.mark.parametrize(
    ("step", "native", "left", "reason"),
    [
        (lambda v, k: v.at[jnp.argmax(v)].add(-1.0), 4000, 40_000, "argmax"),
        (lambda v, k: jax.nn.softmax(v) * 3, 4000, 40_000, "reduce_max"),
        (lambda v, k: v * 0.9 + v.sum(), 1_000_000, 10_000_000, "reduce_sum"),
        (lambda v, k: v * jnp.exp(-v) + jnp.log1p(v), 1_000_000, 10_000_000, "exp"),
        (noisy, 400_000, 10_000_000, "random"),
        (lambda v, k: v + sum(jnp.roll(v, by) for by in (1, -1, 2, -2)), 40_000, 1_000_000, "concatenate"),
    ],
)
def test_what_is_slower_on_a_gpu_is_left_to_xla(step, native, left, reason):
    def why_not(n):
        run = lambda v: lax.scan(lambda v, k: (step(v, k), None), v, jnp.arange(STEPS))
        return why_not_faster(planned_loop(run, jax.ShapeDtypeStruct((n,), jnp.float32))[0])

    assert why_not(native) is None
    assert why_not(left) == f"XLA's loop is expected to be faster, mostly because of {reason}"


def test_long_loops_within_are_loops_of_their_own():
    def run(v):
        within = lambda v: lax.scan(lambda v, _: (v * 0.5, None), v, length=60_000)[0]
        return lax.scan(lambda v, _: (within(v), None), v, length=STEPS)

    assert (
        why_not_faster(planned_loop(run, V)[0]) == "loops within a step have 60000 steps, which would make it too long"
    )


@pytest.mark.parametrize("name", ["cuba", "learning"])
def test_nvrtc_compiles_the_kernel(name):
    plan, _ = planned_loop(WITH_OPERATORS[name], V)
    [launch] = program.launch_plan(plan, text_of(plan, 1024), Gpu()).launches
    assert launch.binary[:4] == b"\x7fELF"
    assert launch.entry == "loop"
    assert (launch.grid, launch.together) == ((1, 1, 1), True)


@pytest.mark.parametrize(
    ("widest", "shape"), [(0, (1, 32, 0)), (1000, (1, 1024, 0)), (4000, (8, 512, 1)), (10**6, (132, 768, 0))]
)
def test_shapes(widest, shape):
    found = program.shape_of(widest, Gpu())
    assert (found.blocks, found.threads, found.is_cluster) == shape
