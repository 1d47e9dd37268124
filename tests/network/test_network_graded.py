# SPDX-License-Identifier: Apache-2.0
"""Graded spikes: what synapses deliver, how it is bounded, what is refused, and derivatives by values in plain JAX."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_plans

import brainevent as be
from brainevent.errors import NetworkError, NotFiniteError
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.graded import delivered_at_most, graded_amounts, reach
from brainevent.network.plan.pending import largest_load
from brainevent.network.run.recorded import Wanted

ENGINES = ["interpreted", "numba", "jax"]


def clocked(s, arriving, p):
    """Spike in every second step, with the value of the neuron."""
    return s.replace(n=s.n + 1, x=s.x), {"spike": s.n % 2 == 0, "value": s.x}


def adding(s, arriving, p):
    return s.replace(sum=s.sum + arriving.syn), s.sum > 1e9


def sender(size=3, values=(0.25, -0.5, 1.0), **more):
    more = {"value_range": (-1.0, 1.0), **more}
    return be.Population("a", size, clocked, state={"n": 0, "x": np.float32(values)}, **more)


def target(size=2):
    return be.Population("b", size, adding, state={"sum": 0.0})


WEIGHTS = np.array([[1.0, 0.0], [2.0, 4.0], [0.1, 0.3]])


def network(*sender_and_more, weights=WEIGHTS, delay=0.3, **more):
    a, b = sender_and_more or (sender(**more), target())
    return be.Network([a, b], [be.Projection(a, b, weights, into="syn", delay=delay)], dt=0.1)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("backend", ENGINES)
def test_synapses_deliver_weight_times_value(backend, dtype):
    sim = network().build(backend=backend, dtype=dtype)
    result = sim.run(8, record="b.sum")
    assert result["b.sum"].dtype == dtype
    arrived = [0, 0, 0, 1, 1, 2, 2, 3]  # spikes of every second step, three steps later
    np.testing.assert_allclose(result["b.sum"], np.outer(arrived, np.float64([0.25, -0.5, 1.0]) @ WEIGHTS), rtol=1e-6)


def test_products_are_those_of_floats_rounded_to_even_numbers_of_quanta():
    weights, value = np.int32([1, 3, 5, -1, 2**24 + 1, 7]), np.float32(0.5)
    assert graded_amounts(weights, value).tolist() == [0, 2, 2, 0, 2**23, 4]
    assert graded_amounts(weights[4:5], np.float64(1.0)).tolist() == [2**24 + 1]  # float64 has it exactly


@pytest.mark.parametrize("backend", ENGINES)
def test_a_quantum_that_is_given_rounds_what_is_delivered(backend):
    sim = network(weights=np.array([[3.0, 0.0], [5.0, 1.0], [1.0, 1.0]])).build(backend=backend, quantum=1.0)
    sim.run(5)
    assert sim.state.quanta == (("b", "syn", 1.0),)
    # 3 * 0.25 = 0.75 -> 1; 5 * -0.5 = -2.5 -> -2; 1 * -0.5 -> 0; 1 * 1 -> 1; twice, in steps 3 and 5
    assert sim.run(3, record="b.sum")["b.sum"][-1].tolist() == [0.0, 3.0]


def test_quanta_are_powers_of_two_finer_where_spikes_have_values():
    plain = be.Population("a", 3, lambda s, arriving, p: (s.replace(n=s.n + 1), s.n % 2 == 0), state={"n": 0})
    before = build_plan(network(plain, target())).populations[1].quanta["syn"]
    after = build_plan(network()).populations[1].quanta["syn"]
    times = float(before) / float(after)
    assert times == 2.0 ** round(np.log2(times)) > 2**15
    plan = build_plan(network())
    assert largest_load(plan, "b", "syn") <= 2**30
    assert int(plan.synapses[0].weights.max()) <= 2**24


@pytest.mark.parametrize("ends", [(0.0, 1.0), (-1.5, 2.5), (-0.3, 0.1), (0.0, 3.0), (-7.25, -0.5)])
def test_no_sum_leaves_its_bound(ends):
    """All that can be delivered, by any value in the range, is at most what the build reckons with."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-(2**24), 2**24, 2000).astype(np.int32)
    weights[:1000] = rng.integers(-9, 9, 1000)
    least = int(np.abs(weights[weights != 0]).min())
    bound = delivered_at_most(np.abs(weights.astype(np.int64)), reach(ends, least))
    for value in np.float32([*ends, *rng.uniform(*ends, 50)]):
        assert (np.abs(graded_amounts(weights, value).astype(np.int64)) <= bound).all()
    total = delivered_at_most(np.abs(weights.astype(np.int64)).sum(), reach(ends, least))
    largest = np.float32(max(ends, key=abs))
    assert np.abs(graded_amounts(weights, largest).astype(np.int64)).sum() <= total


REFUSED = {
    "one number": (1.0, r"value_range is 1\.0; pass the smallest and the largest value of a spike"),
    "three": ((0, 1, 2), r"value_range is \(0, 1, 2\); pass the smallest and the largest"),
    "words": (("0", "1"), r"pass the smallest and the largest value of a spike, such as \(0\.0, 1\.0\)"),
    "reversed": ((1.0, 0.0), r"value_range is \(1\.0, 0\.0\), which is reversed; pass the smaller number first"),
    "equal": ((1.0, 1.0), "which is the same number twice"),
    "alike": ((1.0, 1.0 + 1e-12), "which is the same in float32"),
    "infinite": ((0.0, np.inf), "pass finite numbers that fit in float32"),
    "nan": ((np.nan, 1.0), "pass finite numbers that fit in float32"),
    "too large": ((0.0, 1e39), "pass finite numbers that fit in float32"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_range_that_is_none_is_refused(case):
    given, words = REFUSED[case]
    with pytest.raises(NetworkError, match=f"population a: {words}" if words.startswith("value") else words):
        sender(value_range=given)


def test_a_range_is_needed_where_a_rule_returns_values_and_only_there():
    with pytest.raises(
        NetworkError, match=r"population a: its rule clocked returns the value of its spike, .* value_range="
    ):
        build_plan(network(value_range=None))
    bad = be.Population("a", 3, adding, state={"sum": 0.0}, value_range=(0, 1))
    with pytest.raises(
        NetworkError, match=r"population a: has value_range=\(0\.0, 1\.0\), but its rule adding returns no v"
    ):
        build_plan(be.Network([bad]))

    def stateless(s, arriving, p, random):
        return s, {"spike": random.bernoulli(0.5), "value": random.uniform()}

    bad = be.Population("a", 3, stateless, value_range=(0, 1))
    with pytest.raises(
        NetworkError, match=r"has no float state, which becomes NaN if the value is not in value_range; store"
    ):
        build_plan(be.Network([bad]))


def test_sums_that_leave_32_bits_are_refused_with_numbers():
    with pytest.raises(
        NetworkError, match=r"population b: weights times the largest values into neuron 1 by syn add up to 43\d+"
    ):
        build_plan(network(values=(0, 0, 0), value_range=(0, 1e6)), quantum=1e-3)
    for largest in (1e20, 1e31, 3e38):  # of which 64 bits do not have the sums
        with pytest.raises(NetworkError, match=r"neuron 0 by syn add up to \d+ .* a smaller value_range=, or"):
            build_plan(network(values=(0, 0, 0), value_range=(0, largest), weights=be.connect.all_to_all(weight=0.5)))
    many = be.connect.in_degree(3000, weight=1.0, replace=True)
    with pytest.raises(
        NetworkError, match=r"a->b\.syn: .* add up to 3e\+08 in a neuron, 3e\+08 times the largest weight, 1; "
    ):
        build_plan(network(value_range=(0, 1e5), weights=many))
    with pytest.raises(
        NetworkError, match=r"rounds all that a->b\.syn delivers to 0: weights of at most 4 times values of at"
    ):
        build_plan(network(values=(0, 0, 0), value_range=(0, 1e-3)), quantum=0.01)


@pytest.mark.parametrize("value", [1.001, -2.0, np.nan, np.inf])
@pytest.mark.parametrize("backend", ENGINES)
def test_a_value_outside_its_range_raises_and_says_so(backend, value):
    a = be.Population("a", 3, clocked, state={"n": 0, "x": 0.5}, value_range=(-1.0, 1.0))
    sim = network(a, target()).build(backend=backend)
    sim.run(4)
    state = sim.state
    state.neurons["a"]["x"][1] = value
    if np.isnan(value):
        state.neurons["a"]["n"][:] += 1  # NaN in a state is wrong in any step
    sim.state = state
    with pytest.raises(
        NotFiniteError, match=r"population a: state x of neuron 1 is nan after step 4; .*value_range=\(-1\.0, 1"
    ):
        sim.run(4)


def test_a_value_outside_its_range_delivers_nothing_and_is_nan_in_simulate():
    for backend in ("numba", "jax"):
        sim = network(values=(0.5, 3.0, 0.5)).build(backend=backend)
        state, _ = be.simulate(sim, sim.state, {}, 2)
        assert np.isnan(state.neurons["a"]["x"]).tolist() == [False, True, False]
        assert state.neurons["a"]["n"].tolist() == [2, 2, 2]
        state, out = be.simulate(sim, state, {}, 3, record="b.sum")
        np.testing.assert_allclose(out["b.sum"][-1], [0.5 * 1.1, 0.5 * 0.3], rtol=1e-6)


def test_values_of_neurons_that_do_not_spike_may_be_anything():
    def rule(s, arriving, p):
        return s.replace(n=s.n + 1, x=s.x), {"spike": s.n % 2 == 0, "value": jnp.where(s.n % 2 == 0, s.x, jnp.nan)}

    a = be.Population("a", 3, rule, state={"n": 0, "x": np.float32([0.25, -0.5, 1.0])}, value_range=(-1.0, 1.0))
    for backend in ENGINES:
        result = network(a, target()).build(backend=backend).run(8, record="b.sum")
        np.testing.assert_allclose(result["b.sum"][-1], 3 * np.float64([0.25, -0.5, 1.0]) @ WEIGHTS, rtol=1e-6)


def test_checkpoints_and_replaced_weights(tmp_path):
    """Spikes on their way keep their values, also where weights are replaced."""
    sim = network().build(backend="numba")
    sim.run(5)
    sim.save(tmp_path / "day1.npz")
    other = network().build(backend="interpreted")
    other.load(tmp_path / "day1.npz")
    assert (other.run(3, record="b.sum")["b.sum"] == sim.run(3, record="b.sum")["b.sum"]).all()
    wider = network(value_range=(-2.0, 1.0)).build(backend="numba")
    with pytest.raises(be.CheckpointError, match="the rule of a has changed"):
        wider.load(tmp_path / "day1.npz")
    sim, rebuilt = network().build(backend="numba"), network(weights=2 * WEIGHTS).build(backend="numba")
    sim.set("a->b.syn", weights=(2 * WEIGHTS)[WEIGHTS != 0])
    np.testing.assert_array_equal(*(one.run(8, record="b.sum")["b.sum"] for one in (sim, rebuilt)))
    assert sim.state.quanta == rebuilt.state.quanta


def test_sweeps_run_graded_networks():
    sim = network().build(backend="numba")
    weights = np.stack([WEIGHTS[WEIGHTS != 0] * k for k in (1.0, 2.0, 0.5)])
    found = sim.sweep(8, values={"a->b.syn": {"weights": weights}}, record=be.every(1, "b.sum"))
    for k, factor in enumerate((1.0, 2.0, 0.5)):
        alone = network(weights=WEIGHTS * factor).build(backend="numba").run(8, record="b.sum")
        np.testing.assert_array_equal(found[k]["b.sum"], alone["b.sum"])


# ---- plain JAX


def by_hand(x, weights, steps, delay):
    """Sum up what the clocked senders deliver before each step."""
    sent = [x @ weights if step % 2 == 0 else jnp.zeros(weights.shape[1]) for step in range(steps)]
    return sum(sent[: steps - delay])


@pytest.mark.parametrize(("given", "delay", "recurrent"), [(True, 0.1, True), (False, 0.3, True), (True, 0.3, False)])
def test_derivatives_by_values_and_weights(given, delay, recurrent):
    """In a product over all steps, and, if the target projects back, within the loop."""

    def listening(s, arriving, p):
        return s.replace(n=s.n + 1, x=s.x + 0 * arriving.syn), {"spike": s.n % 2 == 0, "value": s.x}

    a, b = sender(), target()
    if recurrent:
        a = be.Population("a", 3, listening, dict(a.state), value_range=(-1.0, 1.0))
    wires = [be.Projection(a, b, WEIGHTS, into="syn", delay=delay)]
    wires += [be.Projection(b, a, np.full((2, 3), 0.5), into="syn", delay=0.2)] * recurrent
    sim = be.Network([a, b], wires, dt=0.1).build(backend="jax")
    places = np.nonzero(WEIGHTS)

    def loss(x, weights):
        state = sim.state
        neurons = {**state.neurons, "a": {**state.neurons["a"], "x": x}}
        state = dataclasses.replace(state, neurons=neurons)
        params = {"a->b.syn": weights} if given else {}
        after, _ = be.simulate(sim, state, params, 8)
        return (after.neurons["b"]["sum"] * jnp.array([1.0, 3.0])).sum()

    def expected(x, weights):
        matrix = jnp.zeros((3, 2)).at[places].set(weights)
        return (by_hand(x, matrix, 8, round(10 * delay)) * jnp.array([1.0, 3.0])).sum()

    x, weights = jnp.float32([0.25, -0.5, 1.0]), jnp.float32(WEIGHTS[places])
    found, theirs = (jax.value_and_grad(f, (0, 1))(x, weights) for f in (loss, expected))
    np.testing.assert_allclose(found[0], theirs[0], rtol=1e-5)
    np.testing.assert_allclose(found[1][0], theirs[1][0], rtol=1e-5)
    np.testing.assert_allclose(found[1][1], theirs[1][1] if given else 0 * weights, rtol=1e-5, atol=1e-6)


def test_a_spike_that_is_differentiated_has_its_value():
    """The derivative of what is sent by the margin is the surrogate's, times the value."""

    def rule(s, arriving, p):
        return s.replace(v=s.v), {"spike": s.v >= 1.0, "value": s.v * 0.5}

    a = be.Population("a", 2, rule, state={"v": np.float32([1.25, 0.75])}, value_range=(0.0, 1.0))
    b = target(1)
    sim = be.Network([a, b], [be.Projection(a, b, np.array([[2.0], [4.0]]), into="syn", delay=0.1)], dt=0.1).build(
        backend="jax"
    )

    def loss(v):
        state = sim.state
        state = dataclasses.replace(state, neurons={**state.neurons, "a": {"v": v}})
        after, _ = be.simulate(sim, state, {}, 2, surrogate=lambda margin: 0.1 + 0 * margin)
        return after.neurons["b"]["sum"].sum()

    slope = jax.grad(loss)(jnp.float32([1.25, 0.75]))
    np.testing.assert_allclose(slope, [2.0 * (0.5 + 0.1 * 0.625), 4.0 * (0.1 * 0.375)], rtol=1e-5)


@pytest.mark.parametrize("names", [(), ("a",)])
def test_the_reference_delivers_what_the_interpreter_does_step_by_step(names):
    plan = small_plans.graded(small_plans.plan(1), *names)
    theirs, one_step = Interpreted(plan), jax.jit(lambda state: be.simulate(plan, state, {}, 1)[0])
    for _ in range(40):
        state = theirs.state
        theirs.run(1, Wanted(), {})
        after = one_step(state)
        for p in plan.populations:
            if np.allclose(after.neurons[p.name]["v"], theirs.state.neurons[p.name]["v"], atol=1e-5):
                ours, own = np.asarray(after.arriving[p.name]["syn"]), theirs.state.arriving[p.name]["syn"]
                assert np.abs(ours.astype(np.int64) - own).max() <= 2  # values are rounded by others


# ---- what does not train


def test_training_natively_falls_back_and_says_why():
    a, b = sender(), target()
    sim = be.Network([a, b], [be.Projection(a, b, WEIGHTS, into="syn", delay=0.1)], dt=0.1).build(backend="numba")
    assert "in plain JAX, because rule clocked: returns the value of its spike, which has no adjoint" in str(
        sim.explain()
    )

    def loss(weights):
        after, _ = be.simulate(sim, sim.state, {"a->b.syn": weights}, 8)
        return (after.neurons["b"]["sum"] ** 2).sum()

    weights = jnp.float32(WEIGHTS[WEIGHTS != 0])
    reference = be.Network([a, b], [be.Projection(a, b, WEIGHTS, into="syn", delay=0.1)], dt=0.1).build(backend="jax")

    def in_jax(weights):
        after, _ = be.simulate(reference, reference.state, {"a->b.syn": weights}, 8)
        return (after.neurons["b"]["sum"] ** 2).sum()

    np.testing.assert_allclose(jax.grad(loss)(weights), jax.grad(in_jax)(weights), rtol=1e-4)


def test_what_has_no_derivative_of_values_is_refused():
    sim = network().build(backend="jax")
    with pytest.raises(
        NetworkError, match=r"spikes of a have values, which spike_times\(\) does not differentiate; pass"
    ):
        be.simulate(sim, sim.state, {}, 2, surrogate=be.surrogate.spike_times())
    with pytest.raises(
        NetworkError, match=r"eprop: spikes of a have values, whose traces it does not have; use jax\.grad"
    ):
        be.eprop(sim, sim.state, {}, 2, lambda y, t: 0.0, "b.sum")
