# SPDX-License-Identifier: Apache-2.0
"""The reference: one step at a time beside the interpreted network, derivatives beside those of dense programs."""

import dataclasses
import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_plans
from forked import run_forked
from hypothesis import given
from hypothesis import strategies as st
from programs import run_program

from brainevent import Network, Population
from brainevent.errors import NetworkError, NotFiniteError, ShapeError, UnknownNameError
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.plan import Plan, PopulationPlan
from brainevent.network.reference import ReferenceEngine, initial_params, simulate
from brainevent.network.reference.quanta import dtypes_of_sums
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.run.requests import every
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import initial_state
from brainevent.network.surrogate import arctan, fast_sigmoid, triangle
from brainevent.scalar.margin import with_margin
from brainevent.scalar.trace import flat_rule, trace


def close(found, expected, **tolerance):
    jax.tree.map(functools.partial(np.testing.assert_allclose, **tolerance), found, expected)


SAMPLES = {"every step": Sample("a", "v", 1, np.array([5, 2])), "v": Sample("a", "v", 7, np.array([3, 0, 3]))}
ALL = Wanted(("a", "b"), ("a",), ("b",), SAMPLES)


def heavy_plan():
    """Return a network whose sums leave the whole numbers of float32."""
    a, b = small_plans.population("a", 9, 1, quantum=2.0**-24), small_plans.population("b", 7, 2, quantum=2.0**-24)
    joined = (
        small_plans.synapses(a, b, 40, 2, weight="int32", seed=1),
        small_plans.synapses(b, a, 30, 2, weight="int32", seed=2),
    )
    larger = (dataclasses.replace(s, weights=s.weights << 20) for s in joined)
    return Plan((a, b), tuple(larger), 0.1, 1, 2, "heavy")


def noisy(s, arriving, p, random):
    """Integrate noise of every kind."""
    v = s.v * p.decay + arriving.syn + random.normal(p.mean, 1.0) + random.uniform() + random.exponential(0.5)
    v = v + random.poisson(p.rate).astype("float32") + random.bernoulli(0.2).astype("float32")
    spike = v >= p.threshold
    return s.replace(v=jnp.where(spike, 0.0, v), drawn=random.integers(0, 100)), spike


def noisy_plan():
    params = {"decay": np.float32(0.8), "mean": np.linspace(-1, 1, 20).astype("f4"), "rate": np.float32(1.5)}
    params["threshold"] = np.float32(4)
    rule = trace(noisy, {"v": 0.0, "drawn": 0}, ["syn"], params)
    state = {"v": np.zeros(20, "f4"), "drawn": np.zeros(20, "i4")}
    a = PopulationPlan("a", 20, rule, state, params, {"syn": np.float32(0.25)}, (7, 2**32 - 5))
    return Plan((a,), (small_plans.synapses(a, a, 100, 1),), 0.1, 1, 1, "noisy")


PLANS = {
    "three parts": lambda: small_plans.plan(3),
    "noisy": noisy_plan,
    "integers": heavy_plan,
    "one part": small_plans.plan,
}


def margin_of(p):
    """Return a function that says of a state how far each neuron is from its threshold in the next step."""
    rule = with_margin(flat_rule(p.rule.function, p.rule))
    compiled = jax.jit(lambda *values: jax.vmap(rule, [0 if np.ndim(x) else None for x in values])(*values)[1])

    def margin(state):
        arriving = [state.arriving[p.name][r][0].astype("f4") * q for r, q in p.quanta.items()]
        random = [np.arange(p.size, dtype="u4"), *np.array([state.step, *p.key], "u4")] if p.rule.random else []
        return np.asarray(compiled(*state.neurons[p.name].values(), *arriving, *p.params.values(), *random))

    return margin


@pytest.mark.covering(strength=0, times=2)
@pytest.mark.parametrize("name", PLANS)
def test_each_step_equals_that_of_the_interpreted_network(name):
    plan = PLANS[name]()
    wanted = Wanted(tuple(p.name for p in plan.populations))
    exact, reference = Interpreted(plan), ReferenceEngine(plan)
    margins = {p.name: margin_of(p) for p in plan.populations}
    spikes = 0
    for _ in range(60):
        reference.load(exact.state)
        near = {key: np.abs(margin(exact.state)) < 1e-4 for key, margin in margins.items()}
        expected, found = exact.run(1, wanted, {}), reference.run(1, wanted, {})
        same = True
        for p in plan.populations:
            differ = np.setxor1d(expected.spikes[p.name][1], found.spikes[p.name][1])
            assert near[p.name][differ].all()
            same = same and not differ.size
            clear = np.setdiff1d(np.arange(p.size), differ)
            for key, values in exact.state.neurons[p.name].items():
                ours = reference.state.neurons[p.name][key]
                np.testing.assert_allclose(ours[clear], values[clear], rtol=1e-5, atol=1e-5)
            spikes += expected.spikes[p.name][1].size
        if same:
            jax.tree.map(np.testing.assert_array_equal, reference.state.arriving, exact.state.arriving)
    assert spikes > 30


SMALL = small_plans.plan(2)
ENGINES = Interpreted(SMALL), ReferenceEngine(SMALL)


@given(st.integers(0, 10**6))
def test_from_any_sums_on_their_way_one_step_is_the_same(seed):
    rng = np.random.default_rng(seed)
    state = initial_state(SMALL)
    for sums in (sums for receptors in state.arriving.values() for sums in receptors.values()):
        sums[:] = rng.integers(-100, 100, sums.shape)
    exact, reference = ENGINES
    exact.load(state)
    reference.load(state)
    exact.run(1, Wanted(), {})
    reference.run(1, Wanted(), {})
    jax.tree.map(np.testing.assert_array_equal, reference.state.arriving, exact.state.arriving)


@pytest.mark.thorough
def test_a_run_in_pieces_equals_one_run_and_the_pure_function():
    plan = small_plans.plan()
    whole, pieces = ReferenceEngine(plan), ReferenceEngine(plan)
    one = whole.run(60, ALL, {})
    parts = [pieces.run(steps, ALL, {}) for steps in (1, 20, 39)]
    state, out = simulate(plan, initial_state(plan), {}, 60, record=ALL)
    for name in ("a", "b"):
        for place in (0, 1):
            joined = np.concatenate([part.spikes[name][place] for part in parts])
            np.testing.assert_array_equal(one.spikes[name][place], joined)
            np.testing.assert_array_equal(joined, np.nonzero(out[f"{name}.spikes"])[place])
    for label in SAMPLES:
        joined = np.concatenate([part.samples[label] for part in parts])
        np.testing.assert_array_equal(one.samples[label], joined)
        np.testing.assert_allclose(out[label], joined, rtol=1e-6)
    np.testing.assert_array_equal(one.counts["a"], sum(part.counts["a"] for part in parts))
    np.testing.assert_array_equal(one.counts["a"], out["a.counts"])
    np.testing.assert_array_equal(one.rates["b"], out["b.rate"])
    assert one.rates["b"].dtype == one.counts["a"].dtype == np.int32
    assert one.rates["b"].sum() == one.spikes["b"][0].size > 20
    jax.tree.map(np.testing.assert_array_equal, whole.state, pieces.state)
    assert list(whole.state.neurons["a"]) == ["v", "pause"]
    assert int(state.step) == 60


def test_no_number_of_steps_is_compiled_anew():
    calls = []

    def counted(s, arriving, p):
        calls.append(1)
        return small_plans.leaky(s, arriving, p)

    cells = small_plans.population("a", 5, rule=counted)
    engine = ReferenceEngine(Plan((cells,), (), 0.1, 1, 1, "counted"))
    engine.run(1000, Wanted(("a",)), {})
    engine.run(3, Wanted(("a",)), {})
    traced = len(calls)
    for steps in (1, 2, 16, 17, 128, 700, 1025):
        assert engine.run(steps, Wanted(("a",)), {}).steps == steps
    assert len(calls) == traced


def test_samples_have_the_same_shape_wherever_a_run_begins():
    plan = small_plans.plan()
    run = jax.jit(lambda state: simulate(plan, state, {}, 20, record=ALL))
    state, first = run(initial_state(plan))  # samples after the steps 0, 7 and 14
    _, second = run(state)  # and after 21, 28 and 35
    _, third = run(dataclasses.replace(state, step=np.uint32(22)))  # after 28 and 35
    assert first["v"].shape == second["v"].shape == (3, 3)
    np.testing.assert_allclose(first["v"][:, 0], first["v"][:, 2])
    assert np.all(np.any(second["v"] != 0, axis=1))
    assert not np.any(third["v"][2])


def test_requests_are_those_of_simulations():
    plan = small_plans.plan()
    asked = ["a.spikes", "a.counts", "b.rate", every(7, "a.v", neurons=[3, 0], label="few"), "b.v"]
    sim = Simulation(plan, ReferenceEngine(plan))
    _, out = simulate(sim, sim.state, {}, 40, record=asked)
    result = sim.run(40, record=asked)
    assert set(out) == set(result)
    for label in ("a.counts", "b.rate", "few", "b.v"):
        np.testing.assert_allclose(out[label], result[label], rtol=1e-5, atol=1e-6)
    assert out["a.counts"].sum() == out["a.spikes"].sum() > 0
    with pytest.raises(NetworkError, match="did you mean 'spikes'"):
        simulate(sim, sim.state, {}, 40, record="a.spiked")


def test_inputs_are_added_to_what_arrives():
    plan = small_plans.plan()
    driven, alone = ReferenceEngine(plan), ReferenceEngine(plan)
    driven.run(1, Wanted(), {("a", "syn"): np.full((1, 1), -1, "f4")})
    alone.run(1, Wanted(), {})
    free = alone.state.neurons["a"]["pause"] == 0
    change = driven.state.neurons["a"]["v"][free] - alone.state.neurons["a"]["v"][free]
    np.testing.assert_allclose(change, -1, rtol=1e-5)
    rows = np.random.default_rng(0).uniform(0, 3, (30, 21)).astype("f4")
    engine = ReferenceEngine(plan)
    engine.run(13, Wanted(), {("b", "syn"): rows[:13]})
    engine.run(17, Wanted(), {("b", "syn"): rows[13:]})
    state, _ = simulate(plan, initial_state(plan), {}, 30, inputs={"b.syn": rows})
    np.testing.assert_allclose(state.neurons["b"]["v"], engine.state.neurons["b"]["v"], rtol=1e-5)


def test_what_is_not_finite_is_named():
    plan = small_plans.plan(check_finite=True)
    engine = ReferenceEngine(plan)
    engine.run(3, Wanted(), {})
    engine.set("b", "drive", np.where(np.arange(21) == 4, np.float32(np.nan), np.float32(0)))
    with pytest.raises(NotFiniteError, match=r"population b: state v of neuron 4 is nan after step [3-9]"):
        engine.run(10, Wanted(), {})


def test_parameters_of_an_engine_are_replaced():
    plan = small_plans.plan()
    engine = ReferenceEngine(plan)
    engine.set("a", "threshold", np.float32(1e9))
    recorded = engine.run(50, ALL, {})
    assert not recorded.counts["a"].any()
    assert recorded.spikes["b"][0].size


# Derivatives.

EXC, INH, STEPS, DELAYS = 12, 5, 200, 5
SLOPE = 2.0


@jax.custom_jvp
def heaviside(x):
    return (x >= 0).astype("float32")


heaviside.defjvp(lambda x, dx: (heaviside(*x), dx[0] / (1 + SLOPE * jnp.abs(x[0])) ** 2))


def two_populations():
    a = small_plans.population("a", EXC, 1, quantum=0.125, decay=np.float32(0.8))
    b = small_plans.population("b", INH, 2, quantum=0.0625)
    joined = []
    for k, (source, target) in enumerate([(a, b), (b, a), (a, a)]):
        s = small_plans.synapses(source, target, 40, 2, seed=k)
        delays = (s.delays - 1) % DELAYS + 1
        joined.append(dataclasses.replace(s, delays=delays.astype("uint8")))
    return Plan((a, b), tuple(joined), 0.1, 1, 2, "two")


def places(plan, s):
    """Return source, delay and target of each synapse."""
    sources = np.repeat(np.arange(plan.population(s.source).size), np.diff(s.starts[:: plan.parts]))
    return sources, s.delays - 1, s.targets


def dense(plan, params, steps):
    """Simulate with a matrix for each delay, in floats: (spikes, last voltage), by population."""
    matrices = {}
    for s in plan.synapses:
        sizes = (plan.population(s.source).size, DELAYS, plan.population(s.target).size)
        matrix = jnp.zeros(sizes).at[places(plan, s)].add(params[s.name])
        matrices[s.source, s.target] = matrix.transpose(1, 0, 2)
    states = {p.name: (jnp.array(p.state["v"]), jnp.array(p.state["pause"])) for p in plan.populations}
    past = {p.name: jnp.zeros((DELAYS, p.size)) for p in plan.populations}

    def step(carry, _):
        states, past = carry
        new, spikes = {}, {}
        for p in plan.populations:
            (v, pause), own = states[p.name], params[p.name]
            into = [jnp.einsum("ds,dst->t", past[a], m) for (a, b), m in matrices.items() if b == p.name]
            v = jnp.where(pause > 0, v, v * own["decay"] + sum(into) + own["drive"])
            spikes[p.name] = heaviside(v - own["threshold"])
            spike = v >= own["threshold"]
            new[p.name] = jnp.where(spike, 0.0, v), jnp.where(spike, 3, jnp.maximum(pause - 1, 0))
        past = {name: jnp.concatenate([spikes[name][None], rows[:-1]]) for name, rows in past.items()}
        return (new, past), spikes

    (states, _), spikes = jax.lax.scan(step, (states, past), None, length=steps)
    return spikes, {name: v for name, (v, _) in states.items()}


def loss_of(spikes, voltages):
    weights = jnp.sin(jnp.arange(STEPS))[:, None]
    return sum((weights * s).mean() for s in spikes.values()) + sum((v**2).mean() for v in voltages.values())


def loss(params, plan, **options):
    state, out = simulate(
        plan, initial_state(plan), params, STEPS, record=Wanted(("a", "b")), surrogate=fast_sigmoid(SLOPE), **options
    )
    spikes = {name: out[f"{name}.spikes"] for name in ("a", "b")}
    return loss_of(spikes, {name: states["v"] for name, states in state.neurons.items()})


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("weights", ["of the build", "normal"])
def test_gradients_equal_those_of_a_dense_program(weights):
    plan = two_populations()
    params = initial_params(plan)
    if weights == "normal":
        random = np.random.default_rng(0)
        params |= {s.name: random.normal(1, 2, s.targets.size).astype("f4") for s in plan.synapses}
    expected_loss, expected = jax.jit(jax.value_and_grad(lambda params: loss_of(*dense(plan, params, STEPS))))(params)
    found_loss, found = jax.jit(jax.value_and_grad(lambda params: loss(params, plan)))(params)
    np.testing.assert_allclose(found_loss, expected_loss, rtol=1e-5)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for path, values in jax.tree.leaves_with_path(expected):
        scale = float(jnp.abs(values).max())
        assert scale > 0, path
        here = functools.reduce(lambda tree, entry: tree[entry.key], path, found)
        np.testing.assert_allclose(here, values, rtol=1e-4, atol=1e-4 * scale, err_msg=str(path))


@pytest.mark.thorough
@pytest.mark.parametrize("chunk", [7, 50, 1000])
def test_checkpoints_change_no_gradient(chunk):
    """Chunks add their products over steps one after another, so sums that cancel differ by roundings of their terms.

    In float64 they do so by a millionth of a millionth: `test_checkpoints_change_gradients_by_rounding_alone`.
    """
    plan = two_populations()
    params = {"a->b.syn": initial_params(plan)["a->b.syn"]}
    expected = jax.jit(jax.value_and_grad(lambda params: loss(params, plan)))(params)
    found = jax.jit(jax.value_and_grad(lambda params: loss(params, plan, checkpoint_every=chunk)))(params)
    close(found, expected, rtol=1e-4, atol=1e-7 * float(jnp.abs(expected[1]["a->b.syn"]).max()))


def one_neuron(quantum=0.25, threshold=1.0):
    """Return a neuron that a source drives in every step with a weight of 0.75, and does nothing else."""
    source = small_plans.population("a", 1, drive=np.float32(9), threshold=np.float32(0), rule=always)
    target = small_plans.population("b", 1, quantum=quantum, drive=np.float32(0), threshold=np.float32(threshold))
    edge = small_plans.SynapsePlan(
        "a->b.syn", "a", "b", "syn", np.array([0, 1]), np.zeros(1, "u2"), np.array([3], "i2"), np.array([2], "u1")
    )
    target.state["v"][:] = 0
    return Plan((source, target), (edge,), 0.1, 1, 1, "one")


def always(s, arriving, p):
    v = p.drive + arriving.syn
    return s.replace(v=v, pause=s.pause), v > p.threshold


def last_voltage(params, plan, steps=3, **options):
    return simulate(plan, initial_state(plan), params, steps, **options)[0].neurons["b"]["v"][0]


@pytest.mark.parametrize("weight", [0.75, 0.8, 0.9, -0.3, 1e-20])
def test_weights_that_are_given_are_not_rounded(weight):
    plan = one_neuron(threshold=9.0)
    value, slope = jax.value_and_grad(last_voltage)({"a->b.syn": jnp.array([weight])}, plan, surrogate=None)
    assert value == np.float32(weight)
    assert slope["a->b.syn"][0] == 1


def lottery(s, arriving, p, random):
    return s.replace(v=s.v + p.drift), random.bernoulli(p.chance)


def test_spikes_that_are_drawn_have_no_derivative():
    params = {"drift": np.float32(1), "chance": np.float32(0.5)}
    state = {"v": np.zeros(30, "f4")}
    a = PopulationPlan("a", 30, trace(lottery, {"v": 0.0}, [], params), state, params, {}, (1, 2))
    plan = Plan((a,), (), 0.1, 1, 1, "lottery")
    run = lambda params: simulate(plan, initial_state(plan), {"a": params}, 4, record=Wanted(("a",)))[1][
        "a.spikes"
    ].mean()
    value, slopes = jax.value_and_grad(run)(params)
    assert 0.2 < value < 0.8
    assert slopes == {"drift": 0, "chance": 0}


def paused(s, arriving, p):
    return s.replace(v=p.drive), (s.pause == 0) & (p.drive > p.threshold)


def test_a_neuron_that_cannot_spike_has_no_derivative():
    a = small_plans.population("a", 2, rule=paused)
    a.state["pause"][:] = 0, 3
    plan = Plan((a,), (), 0.1, 1, 1, "paused")

    def spikes(drive):
        wanted, surrogate = Wanted(("a",)), fast_sigmoid()
        out = simulate(plan, initial_state(plan), {"a": {"drive": drive}}, 1, record=wanted, surrogate=surrogate)
        return out[1]["a.spikes"].sum()

    assert jax.grad(spikes)(jnp.full(2, a.params["threshold"])).tolist() == [1, 0]


SURROGATES = [
    (fast_sigmoid(), 0.5, 1 / 13.5**2),
    (fast_sigmoid(2.0), -0.5, 0.25),
    (arctan(), 0.0, 1.0),
    (arctan(4.0), 0.5, 2 / (1 + np.pi**2)),
    (triangle(), 0.25, 0.75),
    (triangle(0.5), -3.0, 0.0),
    (lambda margin: 3 * margin, 0.5, 1.5),
    (None, 0.1, 0.0),
]


@pytest.mark.covering(strength=1, most=3)
@pytest.mark.parametrize(("surrogate", "margin", "slope"), SURROGATES)
def test_a_spike_has_the_derivative_of_its_surrogate(surrogate, margin, slope):
    plan = one_neuron(threshold=0.75 - margin)

    def spikes(weights):
        out = simulate(plan, initial_state(plan), {"a->b.syn": weights}, 3, record=Wanted(("b",)), surrogate=surrogate)
        return out[1]["b.spikes"][2, 0]

    value, found = jax.value_and_grad(spikes)(jnp.array([0.75]))
    assert value == (margin >= 0)
    assert found[0] == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("slope", [0.0, -1.0, np.nan, np.inf])
@pytest.mark.parametrize("make", [fast_sigmoid, arctan, triangle])
def test_a_slope_that_means_nothing_raises(make, slope):
    with pytest.raises(
        NetworkError, match=rf"surrogate {make.__name__}: slope is {slope}; pass a finite number above 0"
    ):
        make(slope)


@pytest.mark.thorough
def test_gradients_flow_through_several_calls_where_sums_are_floats():
    plan = two_populations()
    start = initial_state(plan)
    start = dataclasses.replace(start, arriving=jax.tree.map(lambda sums: sums.astype("f4"), start.arriving))

    def last(params, pieces):
        state = start
        for steps in pieces:
            state, _ = simulate(plan, state, params, steps, surrogate=fast_sigmoid(SLOPE))
        return sum((states["v"] ** 2).mean() for states in state.neurons.values())

    params = {"a->b.syn": initial_params(plan)["a->b.syn"]}
    gradient = jax.jit(jax.grad(last), static_argnums=1)
    one, several = (gradient(params, pieces)["a->b.syn"] for pieces in ((12,), (5, 7)))
    assert np.abs(one).max() > 0
    np.testing.assert_allclose(several, one, rtol=1e-4, atol=1e-7)


def finer(plan, bits):
    """Return the same network with quanta that are smaller by 2^bits."""
    populations = (dataclasses.replace(p, quanta={"syn": p.quanta["syn"] / 2**bits}) for p in plan.populations)
    synapses = (dataclasses.replace(s, weights=s.weights.astype("i4") << bits) for s in plan.synapses)
    return dataclasses.replace(plan, populations=tuple(populations), synapses=tuple(synapses))


def test_sums_that_leave_float32_are_integers_with_the_derivatives_of_floats():
    coarse, fine = two_populations(), finer(two_populations(), 20)
    dtypes = [set(dtypes_of_sums(plan).values()) for plan in (coarse, fine)]
    assert dtypes == [{"float32"}, {"int32"}]
    neurons = {name: dict(initial_params(coarse)[name]) for name in ("a", "b")}
    expected, found = (
        jax.jit(jax.value_and_grad(functools.partial(loss, plan=plan)))(neurons) for plan in (coarse, fine)
    )
    close(found, expected, rtol=1e-4, atol=1e-6)
    assert all(np.abs(slope).max() > 0 for slope in jax.tree.leaves(found[1]))
    along = jax.tree.map(jnp.sign, found[1])
    _, slope = jax.jvp(functools.partial(loss, plan=fine), (neurons,), (along,))
    assert float(slope) == pytest.approx(sum(float(jnp.abs(x).sum()) for x in jax.tree.leaves(found[1])), rel=1e-3)


# Transformations.


def test_states_parameters_and_keys_are_mapped():
    plan = noisy_plan()
    state = initial_state(plan)
    keys = {"a": jnp.array([[1, 2], [3, 4], [1, 2]], "u4")}
    params = {"a": {"threshold": jnp.array([4.0, 4.0, 5.0])}, "a->a.syn": jnp.stack([plan.synapses[0].weights / 4] * 3)}
    states = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * 3), state)

    def run(state, params, keys):
        return simulate(plan, state, params, 25, record=Wanted(("a",), ("a",)), keys=keys)

    mapped = jax.vmap(run)(states, params, keys)
    for k in range(3):
        of_one = functools.partial(jax.tree.map, operator.itemgetter(k))
        close(of_one(mapped), run(*of_one((states, params, keys))), rtol=1e-5, atol=1e-5)
    spikes = mapped[1]["a.spikes"]
    assert np.any(spikes[0] != spikes[1])
    assert np.any(spikes[0] != spikes[2])


@pytest.mark.thorough
def test_gradients_are_mapped():
    plan = two_populations()
    params = {"a": {"threshold": jnp.array([7.0, 8.0])}}
    gradient = jax.jit(jax.grad(lambda params: loss(params, plan)))
    mapped = jax.jit(jax.vmap(gradient))(params)["a"]["threshold"]
    alone = [gradient({"a": {"threshold": params["a"]["threshold"][k]}})["a"]["threshold"] for k in range(2)]
    np.testing.assert_allclose(mapped, alone, rtol=1e-3)


def test_a_simulation_is_a_static_argument():
    plan = small_plans.plan()
    sim = Simulation(plan, ReferenceEngine(plan))
    run = jax.jit(simulate, static_argnums=(0, 3), static_argnames="surrogate")
    state, _ = run(sim, initial_state(plan), {}, 9, surrogate=triangle(2.0))
    expected, _ = simulate(plan, initial_state(plan), {}, 9)
    close(state, expected, rtol=1e-5)
    run(sim, initial_state(plan), {}, 9, surrogate=triangle(2.0))
    assert run._cache_size() == 1


def test_a_simulation_of_another_backend_says_which_one_to_build():
    plan = small_plans.plan()
    sim = Simulation(plan, Interpreted(plan))
    with pytest.raises(
        NetworkError, match=r'runs on Interpreted, which JAX cannot transform; build it with backend="jax"'
    ):
        jax.grad(lambda x: simulate(sim, initial_state(plan), {"a": {"threshold": x}}, 3)[0].neurons["a"]["v"].sum())(
            8.0
        )


def test_x64_changes_no_dtype():
    plan = noisy_plan()
    with jax.enable_x64(True):
        state, out = jax.jit(lambda state, rows: simulate(plan, state, {}, 5, {"a.syn": rows}, Wanted(("a",))))(
            initial_state(plan), np.ones((5, 20))
        )
    expected, spikes = simulate(plan, initial_state(plan), {}, 5, {"a.syn": np.ones((5, 20))}, Wanted(("a",)))
    dtypes = [[x.dtype for x in jax.tree.leaves(found)] for found in ((state, out), (expected, spikes))]
    assert dtypes[0] == dtypes[1]
    np.testing.assert_array_equal(out["a.spikes"], spikes["a.spikes"])


def test_a_rule_may_print(capfd):
    def talking(s, arriving, p):
        jax.debug.print("voltage {}", s.v)
        return s.replace(v=s.v + 1), s.v > 99

    network = Network([Population("a", 2, talking, state={"v": np.array([10.0, 20.0])})])
    network.build(backend="jax").run(2)
    jax.effects_barrier()
    printed = sorted(capfd.readouterr().out.split("\n"))
    assert printed == ["", *(f"voltage {v}.0" for v in (10, 11, 20, 21))]


SHARDED = """
import jax, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
import small_plans
from forked import run_forked
from brainevent.network.plan.plan import Plan
from brainevent.network.run.recorded import Wanted
from brainevent.network.reference import initial_params, simulate
from brainevent.network.state import initial_state

a, b = small_plans.population("a", 40, 1), small_plans.population("b", 16, 2)
plan = Plan((a, b), (small_plans.synapses(a, b, 200, 1), small_plans.synapses(b, a, 200, 1)), 0.1, 1, 1, "x")
weights = {"a->b.syn": initial_params(plan)["a->b.syn"]}

@jax.jit
def run(state):
    return simulate(plan, state, {}, 40, record=Wanted(("a",), ("a",), ("b",)))

@jax.jit
def gradient(weights, state):
    return jax.grad(lambda w: simulate(plan, state, w, 40, record=Wanted(("b",)))[1]["b.spikes"].mean())(weights)

whole = initial_state(plan)
expected = run(whole), gradient(weights, whole)
for axes in (AxisType.Auto, AxisType.Explicit):
    mesh = jax.make_mesh((4,), ("d",), axis_types=(axes,))
    by_neurons = lambda x: NamedSharding(mesh, P(*[None] * (np.ndim(x) - 1), *["d"] * (np.ndim(x) > 0)))
    cut = jax.tree.map(lambda x: jax.device_put(x, by_neurons(x)), whole)
    with jax.set_mesh(mesh):
        found = run(cut), gradient(weights, cut)
    for x in (found[0][0].neurons["b"]["v"], found[0][0].arriving["a"]["syn"], found[0][1]["a.spikes"]):
        assert x.sharding.spec[-1] == "d", x.sharding
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), found, expected)
assert expected[0][1]["a.counts"].sum() > 30
assert np.abs(expected[1]["a->b.syn"]).max() > 0
print("same")
"""


def test_neurons_are_sharded():
    flags = "--xla_force_host_platform_device_count=4 --xla_backend_optimization_level=0"
    assert run_forked(SHARDED, XLA_FLAGS=flags) == "same\n"


MEMORY = """
import resource
import jax, numpy as np
import small_plans
from forked import run_forked
from brainevent.network.plan.plan import Plan
from brainevent.network.run.recorded import Wanted
from brainevent.network.reference import initial_params, simulate
from brainevent.network.state import initial_state

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

a = small_plans.population("a", 4000, quantum=2.0**-6)
plan = Plan((a,), (small_plans.synapses(a, a, 80 * 4000, 1),), 0.1, 1, 1, "x")
start = initial_state(plan)

def compiled(every):
    def loss(params):
        _, out = simulate(plan, start, params, 1000, record=Wanted(rates=("a",)), checkpoint_every=every)
        return out["a.rate"].mean()
    return jax.jit(jax.grad(loss)).lower(initial_params(plan)).compile()

without, chunked = compiled(None), compiled(32)
before = peak()
gradient = chunked(initial_params(plan))
assert np.abs(gradient["a->a.syn"]).max() > 0
print(peak(), peak() - before, *(c.memory_analysis().temp_size_in_bytes for c in (without, chunked)))
"""


@pytest.mark.thorough
def test_checkpoints_keep_the_gradient_of_a_large_network_small():
    peak, grown, without, chunked = map(int, run_program(MEMORY).split())
    assert peak < 4 * 2**30
    assert grown < 2**29
    assert chunked < without / 3


# What bad input gets.


def with_state(change):
    state = initial_state(SMALL)
    return {"state": dataclasses.replace(state, **change(state))}


BAD = [
    ({"steps": 0}, NetworkError, "steps is 0; pass a Python integer from 1"),
    ({"steps": -1}, NetworkError, "steps is -1"),
    ({"steps": 1.5}, NetworkError, "steps is 1.5"),
    ({"steps": True}, NetworkError, "steps is True"),
    ({"sim": 3}, NetworkError, "sim is int; pass what network.build"),
    ({"state": 3}, NetworkError, "state is int; pass a state such as"),
    ({"params": 3}, NetworkError, "params is int; pass values by name"),
    ({"params": {"a": 3}}, NetworkError, r"params\['a'\] is int; pass values by name"),
    ({"inputs": [1]}, NetworkError, "inputs is list; pass values by name"),
    ({"inputs": np.ones((3, 37))}, NetworkError, "inputs is ndarray; pass values by name"),
    ({"keys": 3}, NetworkError, "keys is int; pass values by name"),
    ({"keys": {"a": 3}}, ShapeError, r"keys\['a'\] has shape \(\); pass uint32 \(2,\)"),
    ({"surrogate": 25.0}, NetworkError, "surrogate is 25.0; pass a function of the margin"),
    (
        {"surrogate": arctan},
        NetworkError,
        r"surrogate arctan makes one; call it: surrogate=arctan\(\)",
    ),
    (
        {"surrogate": lambda margin: np.exp(-np.abs(margin))},
        NetworkError,
        "surrogate <lambda> raises TracerArrayConversionError: .*uses jnp instead of np and math",
    ),
    (
        {"surrogate": lambda margin: 1.0 if margin > 0 else 0.5},
        NetworkError,
        "surrogate <lambda> raises TracerBoolConversionError: .*jnp.where instead of if",
    ),
    ({"surrogate": lambda margin, width: margin}, NetworkError, "raises TypeError: .*'width'; pass a function of one"),
    ({"surrogate": lambda margin: margin > 0}, NetworkError, r"returns bool \(\); return one real number"),
    (
        {"surrogate": lambda margin: margin * jnp.ones(2)},
        NetworkError,
        r"returns float32 \(2,\); return one real number",
    ),
    ({"steps": 2**40}, NetworkError, r"from 1 to 2\*\*31 - 1"),
    ({"checkpoint_every": 0}, NetworkError, "checkpoint_every is 0"),
    ({"params": {"aa": {}}}, UnknownNameError, "params has no 'aa'; did you mean 'a'"),
    (
        {"params": {"a": {"treshold": 1}}},
        UnknownNameError,
        r"params\['a'\] has no 'treshold'; did you mean 'threshold'",
    ),
    (
        {"params": {"a": {"drive": [1, 2]}}},
        ShapeError,
        r"params\['a'\]\['drive'\] has shape \(2,\); pass \(\) or \(37,\)",
    ),
    ({"params": {"a->b.syn": {"weights": 3.0}}}, NetworkError, r"params\['a->b.syn'\] is dict; pass its weights: a"),
    (
        {"params": {"a->b.syn": [3.0, 4.0]}},
        ShapeError,
        r"params\['a->b.syn'\] has shape \(2,\); pass \(\), \(1,\), \(300,\)",
    ),
    ({"inputs": {"a.sin": np.ones((3, 37))}}, UnknownNameError, "inputs has no 'a.sin'; did you mean 'a.syn'"),
    (
        {"inputs": {"a.syn": np.ones((4, 37))}},
        ShapeError,
        r"shape \(4, 37\); pass \(3, 37\), a row for each step, or \(3,\)",
    ),
    ({"keys": {"c": np.zeros(2, "u4")}}, UnknownNameError, "keys has no 'c'; names: a, b"),
    (with_state(lambda s: {"neurons": {"a": s.neurons["a"]}}), ShapeError, r"state.neurons\['b'\] has the shapes {}"),
    (
        with_state(lambda s: {"arriving": {**s.arriving, "a": {"syn": np.zeros((1, 37), "i4")}}}),
        ShapeError,
        r"arriving\['a'\]",
    ),
]


def test_one_weight_for_all_synapses_may_be_a_number():
    def total(weight):
        return simulate(SMALL, initial_state(SMALL), {"a->b.syn": weight}, 12, record="b.v")[1]["b.v"].sum()

    value, slope = jax.value_and_grad(total)(jnp.float32(2.0))
    other, of_one = jax.value_and_grad(total)(jnp.full(1, 2.0, np.float32))
    assert (value, slope.shape) == (other, ())
    assert slope == of_one[0] != 0
    np.testing.assert_array_equal(jax.vmap(total)(jnp.array([0.5, 2.0]))[1], value)


@pytest.mark.parametrize(("changes", "error", "words"), BAD)
def test_what_does_not_fit_raises(changes, error, words):
    arguments = {"sim": SMALL, "state": initial_state(SMALL), "params": {}, "steps": 3, **changes}
    with pytest.raises(error, match=f"^simulate: .*{words}"):
        simulate(**arguments)
