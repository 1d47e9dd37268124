# SPDX-License-Identifier: Apache-2.0
"""Plastic synapses in plain JAX: beside the interpreter step by step, and their derivatives beside differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import synapse_rules

import brainevent as be
from brainevent.errors import NetworkError, NotFiniteError, UnknownNameError
from brainevent.network.interpreted import Interpreted
from brainevent.network.reference.engine import ReferenceEngine
from brainevent.network.run.recorded import Wanted


def network(where, **more):
    """Return a network with rules for spikes of both ends, another event, and an interval."""
    a, b = (synapse_rules.population(name, size, seed) for seed, (name, size) in enumerate((("a", 20), ("b", 15))))
    plasticity = be.Plasticity(
        **{
            "on_pre": lambda w, s, pre, post, p: (w - p.eta * post.y, s.replace(c=0.9 * s.c + pre.u)),
            "on_post": {
                "spike": lambda w, s, pre, post, p: w + p.eta * pre.x * (1 + jnp.tanh(post.v)),
                "upstate": lambda w, s, pre, post, p: w * 0.99 + 0.001 * s.c,
            },
            "every": (0.5, lambda w, s, pre, post, p: w * jnp.exp(-p.dt / 100)),
            "state": {"c": be.uniform(0, 1)},
            "params": {"eta": 0.02},
            "pre": {"x": be.trace(20.0), "u": "u"},
            "post": {"y": be.trace(10.0, nearest=True)},
            "high": 0.5,
            "delay_at": where,
        }
        | more
    )
    weight, delay = be.uniform(0.1, 0.4), be.uniform(0.1, 0.6)
    forward = be.Projection(a, b, be.connect.prob(0.4, weight=weight), "syn", delay, "ab", plasticity)
    back = be.Projection(b, a, be.connect.prob(0.2, weight=be.normal(-0.1, 0.02)), "syn", 0.3, "ba")
    return be.Network([a, b], [forward, back], dt=0.1)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_each_step_is_that_of_the_interpreter_but_for_rounding(where):
    plan = synapse_rules.plan_of(network(where), 1)
    exact, ours = Interpreted(plan), ReferenceEngine(plan)
    spikes = 0
    for _ in range(80):
        ours.load(exact.state)
        ours.run(1, Wanted(), {})
        spikes += exact.run(1, Wanted(rates=("a", "b")), {}).rates["b"][0]
        theirs, found = exact.state, ours.state
        for group in ("neurons", "synapses", "traces", "past"):
            one, two = getattr(theirs, group), getattr(found, group)
            assert jax.tree.structure(one) == jax.tree.structure(two)
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6), one, two)
        quantum = plan.population("b").quanta["syn"]
        sums = (state.arriving["b"]["syn"] * quantum for state in (theirs, found))
        np.testing.assert_allclose(*sums, rtol=1e-5, atol=1e-6)
    assert spikes > 50
    assert np.abs(exact.state.synapses["ab"]["w"] - plan.plastic[0].synapses.weights).mean() > 0.001


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_simulate_runs_what_the_simulation_runs(where):
    sim = network(where).build(seed=3, backend="jax")
    record = ["b.spikes", be.every(7, "ab.w", synapses=[0, 5])]
    state, out = jax.jit(lambda state: be.simulate(sim, state, {}, 60, record=record))(sim.state)
    result = sim.run(60, record=record)
    np.testing.assert_array_equal(np.argwhere(out["b.spikes"])[:, 1], result["b.spikes"].neurons)
    np.testing.assert_allclose(out["ab.w"], result["ab.w"], rtol=1e-4)
    np.testing.assert_allclose(state.synapses["ab"]["w"], sim.connections("ab").weights, rtol=1e-4, atol=1e-6)
    assert [x.dtype for x in jax.tree.leaves(state)] == [x.dtype for x in jax.tree.leaves(sim.state)]


def test_calls_in_a_loop_go_on_where_the_last_one_ended():
    sim = network("dendrite").build(seed=3, backend="jax")
    one, _ = jax.jit(lambda state: be.simulate(sim, state, {}, 60))(sim.state)
    looped, _ = jax.lax.scan(lambda state, _: (be.simulate(sim, state, {}, 20)[0], None), sim.state, length=3)
    np.testing.assert_allclose(looped.synapses["ab"]["w"], one.synapses["ab"]["w"], rtol=1e-4, atol=1e-6)
    with pytest.raises(NetworkError, match=r"in a loop of JAX \(scan\) the weights of plastic synapses are part of"):
        jax.lax.scan(lambda s, _: (be.simulate(sim, s, sim.params, 20)[0], None), sim.state, length=3)


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_derivatives_with_respect_to_weights_and_parameters(where):
    """No spike of a target changes, so that the loss is smooth: it is the sum of what arrives, and of weights."""

    def cell(s, arriving, p):
        return s.replace(got=s.got + arriving.syn), arriving.drive > 0.5

    a, b = (be.Population(name, 3, cell, {"got": 0.0}) for name in "ab")
    stdp = be.Plasticity(
        on_pre=lambda w, s, pre, post, p: w - p.minus * post.y * w,
        on_post=lambda w, s, pre, post, p: w + p.plus * pre.x * (1 - w),
        params={"plus": 0.05, "minus": 0.07},
        pre={"x": be.trace(5.0)},
        post={"y": be.trace(4.0)},
        high=1.0,
        delay_at=where,
    )
    weights = np.random.default_rng(0).uniform(0.2, 0.8, (3, 3))
    net = be.Network([a, b], [be.Projection(a, b, weights, "syn", 0.3, "ab", stdp)], dt=0.1)
    sim = net.build(seed=1, backend="jax")
    trains = np.random.default_rng(1).random((2, 50, 3)) < 0.2
    inputs = {"a.drive": trains[0].astype(float), "b.drive": trains[1].astype(float)}

    def loss(params, every=None):
        state, _ = be.simulate(sim, sim.state, {"ab": params}, 50, inputs, checkpoint_every=every)
        return state.neurons["b"]["got"].sum() + (state.synapses["ab"]["w"] ** 2).sum()

    params = sim.params["ab"]
    gradient = jax.jit(jax.grad(lambda params: loss(params, every=13)))(params)
    value = jax.jit(loss)
    assert {*gradient} == {"weights", "plus", "minus"}
    for key, element in (("weights", 4), ("plus", ()), ("minus", ())):
        step = np.zeros(np.shape(params[key]), np.float32)
        step[element] = 3e-3
        difference = (value({**params, key: params[key] + step}) - value({**params, key: params[key] - step})) / 6e-3
        np.testing.assert_allclose(gradient[key][element], difference, rtol=2e-2)
        assert abs(difference) > 0.1


def test_graded_spikes_beside_plastic_synapses_have_derivatives():
    """Their products with weights are not rounded, which would have the derivative 0."""

    def graded(s, arriving, p):
        return s.replace(v=arriving.drive), {"spike": arriving.drive > 0.5, "value": p.value}

    def cell(s, arriving, p):
        return s.replace(got=s.got + arriving.syn), arriving.drive > 0.5

    a = be.Population("a", 3, graded, {"v": 0.0}, {"value": 0.5}, value_range=(0, 1))
    b = be.Population("b", 2, cell, {"got": 0.0})
    own = be.Plasticity(on_pre=lambda w, s, pre, post, p: 0.9 * w, high=1.0)
    links = [be.Projection(a, b, be.connect.all_to_all(weight=be.uniform(0, 1)), "syn", name="values")]
    links += [be.Projection(b, b, be.connect.all_to_all(weight=0.5), "syn", name="plastic", plasticity=own)]
    sim = be.Network([a, b], links, dt=0.1).build(seed=1, backend="jax")
    inputs = {"a.drive": np.ones(6)}

    def got(weights, value):
        params = {"values": weights, "a": {"value": value}}
        return be.simulate(sim, sim.state, params, 6, inputs)[0].neurons["b"]["got"].sum()

    weights = sim.params["values"]
    by_weights, by_value = jax.grad(got, (0, 1))(weights, jnp.float32(0.5))
    np.testing.assert_allclose(by_weights, np.full(6, 5 * 0.5), rtol=1e-5)  # what the last spikes send is on its way
    np.testing.assert_allclose(by_value, 5 * weights.sum(), rtol=1e-5)


def test_a_batch_of_parameters_and_weights():
    sim = network("axon").build(seed=3, backend="jax")
    etas, first = jnp.array([0.0, 0.05]), sim.params["ab"]["weights"]

    def learned(eta, scale):
        state, _ = be.simulate(sim, sim.state, {"ab": {"eta": eta, "weights": first * scale}}, 30)
        return state.synapses["ab"]["w"]

    scales = jnp.array([1.0, 0.5])
    found = jax.jit(jax.vmap(learned))(etas, scales)
    for k in range(2):
        one = network("axon").build(seed=3, backend="jax")
        one.set("ab", eta=etas[k], weights=first * scales[k])
        one.run(30)
        np.testing.assert_allclose(found[k], one.connections("ab").weights, rtol=1e-4, atol=1e-6)


def test_weights_in_params_are_those_of_a_beginning():
    sim = network("axon").build(seed=3, backend="jax")
    params = {"ab": {"weights": np.full(sim.connections("ab").weights.shape, 0.2)}}
    be.simulate(sim, sim.state, params, 5)
    later, _ = be.simulate(sim, sim.state, {}, 5)
    with pytest.raises(NetworkError, match=r"after step 5 .* are part of the state.*leave them out of params"):
        be.simulate(sim, later, params, 5)
    for wrong, words in (
        ({"ab": {"wieghts": 1.0}}, "did you mean 'weights'"),
        ({"ab": {"etta": 1.0}}, "did you mean 'eta'"),
    ):
        with pytest.raises(UnknownNameError, match=words):
            be.simulate(sim, sim.state, wrong, 5)
    beyond = {"ab": {"weights": np.full(sim.connections("ab").weights.shape, 0.6)}}
    with pytest.raises(NetworkError, match=r"element \[0\] is 0\.6, outside of low=0 to high=0\.5"):
        be.simulate(sim, sim.state, beyond, 5)
    with pytest.raises(NetworkError, match=r"a dictionary"):
        be.simulate(sim, sim.state, {"ab": np.zeros(3)}, 5)


def test_traced_weights_do_not_replace_what_synapses_have_become():
    """In a program of JAX, which cannot raise, weights of the beginning are NaN after step 0, unless they are equal."""
    sim = network("axon").build(seed=3, backend="jax")
    weights = sim.params["ab"]["weights"]

    @jax.jit
    def again(state, weights):
        return be.simulate(sim, state, {"ab": {"weights": weights}}, 5)[0]

    later = again(sim.state, weights * 0.5)
    assert not np.isnan(later.synapses["ab"]["w"]).any()
    assert np.isnan(again(later, weights * 0.5).synapses["ab"]["w"]).all()
    own, _ = be.simulate(sim, later, {}, 5)
    equal = again(later, later.synapses["ab"]["w"])
    np.testing.assert_allclose(equal.synapses["ab"]["w"], own.synapses["ab"]["w"], rtol=1e-5)
    gradient = jax.grad(lambda w: again(later, w).synapses["ab"]["w"].sum())(later.synapses["ab"]["w"])
    assert np.count_nonzero(gradient) == weights.size


@pytest.mark.parametrize("backend", ["jax", "interpreted"])
def test_a_rule_that_gives_nan_names_synapse_step_and_rule(backend):
    def broken(w, s, pre, post, p):
        return w - jnp.sqrt(post.v - 100)

    net = network("axon", on_post={"spike": broken}, pre={"u": "u"})
    with pytest.raises(
        NotFiniteError, match=r"projection ab: weight w of synapse \d+, from neuron \d+ of a to"
    ) as info:
        net.build(seed=3, backend=backend, check_finite=True).run(200)
    assert "is nan after on_post called its rule broken in step" in str(info.value)
