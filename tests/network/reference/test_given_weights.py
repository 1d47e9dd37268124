# SPDX-License-Identifier: Apache-2.0
"""Weights that `simulate` is given count as they are: a sweep equals separate builds; what is on its way stays."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
from hypothesis import given
from hypothesis import strategies as st

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.plan import Plan
from brainevent.network.reference import initial_params, simulate
from brainevent.network.run.recorded import Wanted
from brainevent.network.state import initial_state

LARGEST = 2**31 - 1


def relay(s, arriving, p):
    """Spike if there is an input."""
    return s, arriving.given > 0


def adding(s, arriving, p):
    """Add up what arrives, and spike at 1."""
    return s.replace(v=s.v + arriving.syn), s.v > 1


# ---- a separate build with these weights


def noisy(s, arriving, p, random):
    v = 0.98 * s.v + arriving.syn + 0.4 * random.poisson(p.events)
    spike = v >= 20
    return s.replace(v=jnp.where(spike, 10.0, v)), spike


def balanced(g):
    """Return a network of which g is the strength of inhibition."""
    exc, inh = (be.Population(name, size, noisy, {"v": 5.0}, {"events": 1.2}) for name, size in (("e", 160), ("i", 40)))
    joined = [
        be.Projection(a, b, be.connect.prob(0.2, weight=w), into="syn", delay=0.3)
        for a, w in ((exc, 0.2), (inh, -0.2 * g))
        for b in (exc, inh)
    ]
    return be.Network([exc, inh], joined, dt=0.1)


def test_a_sweep_equals_separate_builds():
    strengths, steps = [4.0, 4.5, 5.0], 300
    separate = [
        balanced(g).build(seed=1, backend="interpreted").run(steps, "e.counts")["e.counts"].sum() for g in strengths
    ]
    sim = balanced(4.25).build(seed=1, backend="jax")

    def spikes(g):
        weights = {f"i->{name}.syn": -0.2 * g[None] for name in "ei"}
        return be.simulate(sim, sim.state, weights, steps, record="e.counts")[1]["e.counts"].sum()

    swept = np.asarray(jax.jit(jax.vmap(spikes))(jnp.array(strengths)))
    np.testing.assert_allclose(swept, separate, rtol=0.01)
    assert np.all(np.diff(swept) < -20)


SOURCES, TARGETS, STEPS = 6, 4, 7
TRAINS = np.random.default_rng(0).random((STEPS, SOURCES)) < 0.4
DELAYS = np.random.default_rng(1).integers(1, 4, (SOURCES, TARGETS)) * 0.1


def two_into_one(first, second):
    """Return a network of two projections into one receptor, with delays."""
    sources = [be.Population(name, SOURCES, relay) for name in ("p", "q")]
    target = be.Population("t", TARGETS, adding, {"v": 0.0})
    joined = [
        be.Projection(source, target, be.connect.all_to_all(weight=weights), into="syn", delay=DELAYS)
        for source, weights in zip(sources, (first, second), strict=True)
    ]
    return be.Network([*sources, target], joined, dt=0.1)


BASE = np.where((np.arange(24) % 2 == 0).reshape(6, 4), 0.5, -1.0)  # a coarse grid
INPUTS = {"p.given": TRAINS.astype("f4"), "q.given": np.roll(TRAINS, 1, 0).astype("f4")}


@functools.cache
def of_base():
    return two_into_one(BASE, 2 * BASE).build(seed=1, backend="jax")


@jax.jit
def potentials(params):
    return be.simulate(of_base(), of_base().state, params, STEPS, INPUTS, record=["t.v"])[1]["t.v"]


magnitudes = st.floats(1 / 128, 3, width=32)
weights_of_all = st.lists(magnitudes, min_size=24, max_size=24).map(lambda x: np.array(x, "f4").reshape(6, 4))


@given(weights_of_all, st.lists(st.sampled_from([-1, 1]), min_size=24, max_size=24))
def test_a_run_equals_that_of_a_separate_build(sizes, signs):
    weights = sizes * np.reshape(signs, (6, 4)).astype("f4")
    connections = of_base().connections("p->t.syn")
    in_order = weights[connections.sources, connections.targets]
    found = potentials({"p->t.syn": in_order})
    exact = Interpreted(build_plan(two_into_one(weights, 2 * BASE), seed=1))
    sample = be.network.run.requests.parsed(exact.plan, "t.v")
    inputs = {("p", "given"): INPUTS["p.given"], ("q", "given"): INPUTS["q.given"]}
    expected = exact.run(STEPS, be.network.run.requests.wanted(sample), inputs).samples["t.v"]
    np.testing.assert_allclose(found, expected, atol=2**-9 * STEPS * sizes.sum(0).max())


def test_one_weight_for_all_and_one_for_each_synapse_are_the_same():
    each = potentials({"p->t.syn": np.full(24, 0.74, "f4")})
    with pytest.raises(be.errors.ShapeError, match=r"pass \(\), \(1,\), \(24,\)"):
        potentials({"p->t.syn": np.full(2, 0.74, "f4")})
    np.testing.assert_array_equal(potentials({"p->t.syn": np.float32(0.74)}), each)
    np.testing.assert_array_equal(potentials({"p->t.syn": np.array([0.74], "f4")}), each)
    assert not np.array_equal(each, potentials({"p->t.syn": np.array([0.5], "f4")}))


@pytest.mark.parametrize("entries", [1, 24])
def test_training_begins_with_one_weight_for_all(entries):
    same = two_into_one(0.5, 0.5).build(seed=1, backend="jax")
    target = jnp.linspace(-1, 2, TARGETS) if entries > 1 else jnp.full(TARGETS, 5.3)

    @jax.jit
    @jax.value_and_grad
    def loss(weights):
        state, _ = be.simulate(same, same.state, {"p->t.syn": weights, "q->t.syn": weights}, STEPS, INPUTS)
        return ((state.neurons["t"]["v"] - target) ** 2).mean()

    weights, losses = jnp.full(entries, 0.5), []
    for _ in range(60):
        found, slope = loss(weights)
        weights -= 0.02 * slope / (1 if entries > 1 else 20)
        losses.append(float(found))
    assert losses[-1] < 0.05 * losses[0]


# ---- no sum is wrapped or cut, nothing is a number that should not be


def many(weight=0.5, sources=100, dtype="float32"):
    """Return a network of many sources and one target."""
    source = be.Population("a", sources, relay)
    target = be.Population("b", 1, adding, {"v": 0.0})
    projection = be.Projection(source, target, be.connect.all_to_all(weight=weight), into="syn")
    return be.Network([source, target], [projection], dt=0.1).build(seed=1, backend="jax", dtype=dtype)


def summed(sim, weights, steps=2, state=None):
    """Return what arrives from all sources, which spike in the first step."""
    once = {"a.given": (np.arange(steps) == 0).astype("f4")}
    params = {} if weights is None else {"a->b.syn": weights}
    return be.simulate(sim, sim.state if state is None else state, params, steps, once, ["a.counts", "b.v", "b.rate"])


def test_sums_beyond_32_bits_are_not_wrapped():
    sim = many(be.uniform(-1, 3))
    weights = 10 * sim.params["a->b.syn"]
    assert np.abs(weights / sim.plan.population("b").quanta["syn"]).sum() > 2**32
    for run in (summed, jax.jit(summed, static_argnums=0)):
        found = run(sim, weights)[1]["b.v"][1, 0]
        assert found == pytest.approx(weights.astype(float).sum(), rel=1e-5)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (np.nan, "NaN; pass numbers"),
        (np.inf, "infinite; pass finite numbers"),
        (-np.inf, "infinite; pass finite numbers"),
        (1e300, "inf in float32; pass finite numbers"),
    ],
)
def test_weights_that_are_not_finite_raise_or_make_all_floats_nan(wrong, words):
    sim = many()
    weights = np.where(np.arange(100) == 7, wrong, 0.5)
    with pytest.raises(NetworkError, match=rf"params\['a->b.syn'\]: element \[7\] is {words}"):
        summed(sim, weights)
    with np.errstate(over="ignore"):
        weights = weights.astype("f4")
    traced = jax.jit(summed, static_argnums=0)(sim, weights)
    floats = [x for x in jax.tree.leaves(traced) if jnp.issubdtype(x.dtype, np.floating)]
    assert len(floats) == 5  # of the state: v and sums; recorded: counts, potentials, rate
    assert all(np.isnan(x).all() for x in floats)
    good = np.full(100, 0.5)
    both = jax.vmap(lambda weights: summed(sim, weights)[1]["b.v"][1, 0])(np.stack([weights, good]))
    np.testing.assert_array_equal(both, [np.nan, 50])


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.full(100, 1j), "is complex(64|128); pass real numbers"),
        (jax.random.split(jax.random.key(0), 100), r"is key<fry>; pass real numbers"),
        (np.full(100, 1e30), r"element \[0\] is 1e\+30 .*, but sums are float32 numbers of quanta of 1e-20; build the"),
    ],
)
def test_weights_that_mean_nothing_here_raise(weights, words):
    with pytest.raises(NetworkError, match=rf"simulate: params\['a->b.syn'\].*{words}"):
        summed(many(1e-20), weights)


def test_weights_have_the_digits_of_float64():
    sim = many(dtype="float64")
    assert summed(sim, np.full(100, 0.1 + 1e-14))[1]["b.v"][1, 0] == pytest.approx(10 + 1e-12, rel=1e-15)


# ---- what is on its way keeps its value


def edge(quantum=0.25, weight=3, delay=3):
    """Return a source that spikes in every step, and a target that adds up."""
    source = small_plans.population("a", 1, drive=np.float32(9), threshold=np.float32(0), rule=always)
    target = small_plans.population("b", 1, quantum=quantum, rule=unlimited, drive=np.float32(0))
    target.state["v"][:] = 0
    numbers = np.array([weight], "i4")
    one = small_plans.SynapsePlan(
        "a->b.syn", "a", "b", "syn", np.array([0, 1]), np.zeros(1, "u2"), numbers, np.array([delay], "u1")
    )
    return Plan((source, target), (one,), 0.1, 1, 1, "edge")


def always(s, arriving, p):
    v = p.drive + arriving.syn
    return s.replace(v=v, pause=s.pause), v > p.threshold


def unlimited(s, arriving, p):
    v = s.v + arriving.syn + p.drive * p.decay
    return s.replace(v=v, pause=s.pause), v > 1e30 * p.threshold


def potentials_of(plan, state, weight, steps):
    params = {} if weight is None else {"a->b.syn": np.array([weight])}
    state, out = simulate(plan, state, params, steps, record=["b.v"])
    return state, np.asarray(out["b.v"])[:, 0]


def arrivals(*potentials):
    return np.diff(np.concatenate(potentials), prepend=0)


def test_a_spike_delivers_the_weight_that_it_was_sent_with():
    plan = edge()  # a delay of three steps
    state, first = potentials_of(plan, initial_state(plan), None, 3)  # three spikes of 0.75 are on their way
    assert state.arriving["b"]["syn"].tolist() == [[3], [3], [3]]
    state, second = potentials_of(plan, state, 0.74, 2)
    state, third = potentials_of(plan, state, 0.1, 4)
    _, last = potentials_of(plan, state, None, 5)
    expected = [0, 0, 0, 0.75, 0.75, 0.75, 0.74, 0.74, *[0.1] * 4, 0.75, 0.75]
    np.testing.assert_allclose(arrivals(first, second, third, last), expected, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_that_are_no_integers_stay_so_beside_large_weights_of_the_build(dtype):
    plan = dataclasses.replace(edge(quantum=2.0**-26, weight=3 << 24), dtype=dtype)
    state = initial_state(plan).with_floats(dtype)
    state.arriving["b"]["syn"][0] = 0.3
    state, _ = simulate(plan, state, {}, 1)
    assert state.arriving["b"]["syn"].dtype == dtype
    assert state.neurons["b"]["v"][0] == np.float32(0.3) * np.float32(2.0**-26)


def test_sums_in_other_quanta_keep_their_value():
    plan = edge(quantum=0.25)
    state = initial_state(plan)
    state.arriving["b"]["syn"][0] = 7
    finer = dataclasses.replace(state, quanta=(("a", "syn", 0.25), ("b", "syn", 0.1)))
    after, v = potentials_of(plan, finer, None, 2)
    np.testing.assert_allclose(arrivals(v), [0.7, 0], rtol=1e-6)
    assert after.quanta == plan.quanta
    assert after.arriving["a"]["syn"].dtype == np.int32
    assert after.arriving["b"]["syn"].dtype == np.float32


@pytest.mark.parametrize("own", [1e20, 1e37])
@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")
def test_sums_in_quanta_that_are_too_small_for_them(own):
    plan = edge(quantum=1e-18)
    state = initial_state(plan)
    state.arriving["b"]["syn"][0] = 2**30
    larger = dataclasses.replace(state, quanta=(("a", "syn", 1e-18), ("b", "syn", own)))
    with pytest.raises(NetworkError, match=r"in b by syn are in quanta of 1e\+(20|37) in the state, and too large"):
        simulate(plan, larger, {}, 1)


@pytest.mark.parametrize("weight", [0.1, None])
def test_calls_in_a_row_and_a_loop_over_calls_equal_one_call(weight):
    plan = edge(quantum=0.3)
    whole, expected = potentials_of(plan, initial_state(plan), weight, 12)
    state, parts = initial_state(plan), []
    for steps in (1, 4, 7):
        state, v = potentials_of(plan, state, weight, steps)
        parts.append(v)
    np.testing.assert_allclose(np.concatenate(parts), expected, rtol=1e-6)
    assert expected[-1] == pytest.approx(9 * (weight or 0.9), rel=1e-6)

    def step(state, weight):
        params = {} if weight is None else {"a->b.syn": weight[None]}
        state, out = simulate(plan, state, params, 1, record=["b.v"])
        return state, out["b.v"][0, 0]

    weights = None if weight is None else jnp.full(12, weight)
    begin = initial_state(plan) if weight is None else initial_state(plan).with_floats()
    last, v = jax.lax.scan(step, begin, weights, length=12)
    np.testing.assert_allclose(v, expected, rtol=1e-6)
    for found in (state, last):
        jax.tree.map(functools.partial(np.testing.assert_allclose, rtol=1e-6), found.arriving, whole.arriving)


LOOPS = {
    "scan": lambda step, state: jax.lax.scan(lambda state, _: (step(state), None), state, None, length=2)[0],
    "fori_loop": lambda step, state: jax.lax.fori_loop(0, jnp.int32(2), lambda _, state: step(state), state),
    "while_body": lambda step, state: jax.lax.while_loop(lambda state: state.step < 2, step, state),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_a_loop_from_integers_says_what_to_begin_with(loop):
    plan = edge()
    step = lambda state: simulate(plan, state, {"a->b.syn": np.array([0.7])}, 1)[0]
    words = (
        rf"int32 in a loop \({loop}\), but with weights of a->b.syn in params .* begin it with state.with_floats\(\)"
    )
    with pytest.raises(NetworkError, match=words):
        LOOPS[loop](step, initial_state(plan))
    assert LOOPS[loop](step, initial_state(plan).with_floats()).step == 2


# ---- sums of a state that there is no room for


@pytest.mark.parametrize(("waiting", "fits"), [(LARGEST - 1000, True), (LARGEST - 100, False), (-(2**31), False)])
@pytest.mark.parametrize("weight", [2, 2**30 + 2])
def test_sums_on_their_way_are_not_wrapped(waiting, fits, weight):
    plan = edge(quantum=2.0**-20, weight=weight)
    state = initial_state(plan)
    state.arriving["b"]["syn"][1] = waiting
    if weight > 2:  # which arrives with another row: with this one, what was sent before does
        fits = waiting > -LARGEST
    run = functools.partial(potential_after, plan)
    if fits:
        for one in (run, jax.jit(run)):
            assert one(state) == pytest.approx(waiting * 2.0**-20, rel=1e-6)
    else:
        with pytest.raises(NetworkError, match=rf"arriving\['b'\]\['syn'\]: {waiting} quanta wait for neuron 0; .* 32"):
            run(state)
        assert np.isnan(jax.jit(run)(state))
    assert run(state.with_floats()) == pytest.approx(waiting * 2.0**-20, rel=1e-6)


def potential_after(plan, state):
    return simulate(plan, state, {}, 2)[0].neurons["b"]["v"][0]


@pytest.mark.parametrize("dtype", ["int64", "int16", "uint32", "float16"])
def test_sums_of_another_dtype_are_refused(dtype):
    plan = edge()
    state = initial_state(plan)
    state = dataclasses.replace(state, arriving=jax.tree.map(lambda sums: sums.astype(dtype), state.arriving))
    with pytest.raises(
        NetworkError, match=rf"state.arriving\['a'\]\['syn'\] is {dtype}; pass quanta as int32, or as float32: "
    ):
        simulate(plan, state, {}, 1)


def test_all_transformations_take_weights():
    plan = small_plans.plan()
    weights = initial_params(plan)["a->b.syn"]

    def run(scale):
        return simulate(plan, initial_state(plan), {"a->b.syn": scale * weights}, 30, record=Wanted(("b",)))[1]

    scales = jnp.array([0.5, 1.003, 1.9])
    mapped = jax.vmap(run)(scales)["b.spikes"]
    for k, scale in enumerate(scales):
        np.testing.assert_array_equal(mapped[k], jax.jit(run)(scale)["b.spikes"])
    counted = lambda scale: run(scale)["b.spikes"].sum()
    assert jax.jvp(counted, (1.1,), (1.0,))[1] == pytest.approx(float(jax.grad(counted)(1.1)), rel=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_weights_of_any_distribution_have_derivatives(dtype):
    state, params = {"v": np.linspace(0, 8, 20), "pause": 0}, {"decay": 0.9, "drive": 1.0, "threshold": 8.0}
    cells = be.Population("a", 20, small_plans.leaky, state, params)
    weights = np.random.default_rng(0).normal(0, 1, (20, 20))
    weights[0, 0] = 1e-6
    sim = be.Network([cells], [be.Projection(cells, cells, weights, into="syn")]).build(backend="jax", dtype=dtype)

    def mean(weights):
        return be.simulate(sim, sim.state, {"a->a.syn": weights}, 9, record="a.v")[1]["a.v"].mean()

    with jax.enable_x64(dtype == "float64"):
        slope = jax.grad(mean)(jnp.asarray(sim.params["a->a.syn"], dtype))
        spikes = be.simulate(sim, sim.state, {}, 9, record="a.spikes")[1]["a.spikes"]
    unused = ~np.asarray(spikes)[:8].any(0)
    assert 0 < unused.sum() < 20
    assert np.isfinite(slope).all()
    assert np.all(slope.reshape(20, 20)[~unused].any(1))
