# SPDX-License-Identifier: Apache-2.0
"""Couplings in `simulate`: native code where it can, plain JAX with derivatives elsewhere, else words."""

import dataclasses

import coupled_plans
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beside_interpreter import equal
from jax.flatten_util import ravel_pytree

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.interpreted import Interpreted
from brainevent.network.reference.carried import Carried, brought, carriers
from brainevent.network.reference.components import components
from brainevent.network.reference.engine import ReferenceEngine
from brainevent.network.run.recorded import Wanted
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import copied

SAMPLES = Wanted(samples=coupled_plans.RECORDED.samples)


def rate(s, arriving, p):
    return s.replace(r=s.r + p.step * (jnp.tanh(arriving.gap + arriving.syn) - s.r)), s.r > 2


def network(difference=False):
    x = be.Population("x", 6, rate, state={"r": be.uniform(-1, 1)}, params={"step": 0.2})
    y = be.Population("y", 4, rate, state={"r": be.uniform(-1, 1)}, params={"step": 0.2})
    links = [
        be.Coupling(x, x, be.connect.all_to_all(weight=be.normal(0, 0.5)), of="r", difference=difference),
        be.Coupling(x, y, be.connect.prob(0.3, weight=0.5), of="r", difference=difference),
        be.Coupling(y, y, be.connect.one_to_one(weight=-0.3), of="r", into="syn"),
    ]
    return be.Network([x, y], links, dt=1.0)


@pytest.mark.parametrize("difference", [False, True])
def test_products_and_visits_have_the_sums_of_the_interpreter(difference):
    plan = network(difference).build(backend="jax", seed=1).plan
    assert all(one.dense for one in carriers(plan))
    engine = Interpreted(plan)
    neurons = engine.state.neurons
    for dense in (True, False):
        chosen = [_chosen(one, dense) for one in carriers(plan)]
        found = brought([(one, one.operand(one.plan.weights)) for one in chosen], neurons)
        for place, some in plan.coupled.items():
            np.testing.assert_allclose(found[place], engine.carried(some), rtol=1e-5, atol=1e-6)


def _chosen(one, dense):
    made = Carried(one.plan, one.sources)
    made.__dict__["dense"] = dense
    return made


def test_the_engine_in_jax_does_what_the_interpreter_does():
    """One step at a time, from the same states: only rounding differs."""
    plan = coupled_plans.plan()
    ours, theirs = ReferenceEngine(plan), Interpreted(plan)
    for _ in range(12):
        ours.load(theirs.state)
        theirs.run(1, Wanted(), {})
        ours.run(1, Wanted(), {})
        for a, b in zip(jax.tree.leaves(ours.state.neurons), jax.tree.leaves(theirs.state.neurons), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def test_populations_that_are_coupled_run_together():
    plan = coupled_plans.plan()
    assert components(plan) == [("a", "b")]
    one_way = dataclasses.replace(plan, synapses=(), couplings=(plan.couplings[2],))
    assert components(one_way) == [("a", "b")]
    assert components(dataclasses.replace(plan, synapses=(), couplings=(plan.couplings[0],))) == [("a",), ("b",)]


def test_native_code_in_programs_has_the_bits_of_run():
    for parts in (1, 3):
        plan = coupled_plans.plan(parts)
        sim = Simulation(plan, NumbaEngine(plan))
        state = dataclasses.replace(sim.state, step=np.uint32(5))
        theirs = Interpreted(plan)
        theirs.load(state)
        run = jax.jit(lambda state, sim=sim: be.simulate(sim, state, {}, 9, record=SAMPLES))
        after, out = run(state)
        samples = theirs.run(9, SAMPLES, {}).samples
        np.testing.assert_array_equal(out["a.v"], samples["a.v"])
        equal(copied(plan, after), theirs.state)
        batch = jnp.stack([state.neurons["a"]["u"], state.neurons["a"]["u"] + 1])

        def of(u, state=state, sim=sim):
            neurons = {**state.neurons, "a": {**state.neurons["a"], "u": u}}
            return be.simulate(sim, dataclasses.replace(state, neurons=neurons), {}, 9, record=SAMPLES)[1]["a.v"]

        found = jax.vmap(of)(batch)
        np.testing.assert_array_equal(found[0], samples["a.v"])
        assert not np.array_equal(found[1], samples["a.v"])


def test_weights_in_params_are_those_of_a_build():
    sim = network().build(backend="numba", seed=1)
    weights = np.linspace(-1, 1, 36, dtype=np.float32)
    names = [name for name in sim.params if "->" in name]
    found = be.simulate(sim, sim.state, {"x->x.gap": weights, names[1]: [0.25]}, 15, record="x.r")[1]["x.r"]
    swept = jax.vmap(lambda w: be.simulate(sim, sim.state, {"x->x.gap": w}, 15, record="y.r")[1]["y.r"])
    several = swept(jnp.stack([weights, weights * 2]))
    other = network().build(backend="interpreted", seed=1)
    other.set("x->x.gap", weights=weights)
    np.testing.assert_array_equal(several[0], other.run(15, "y.r")["y.r"])
    other.reset()
    other.set("x->x.gap", weights=weights)
    other.set(names[1], weights=0.25)
    np.testing.assert_array_equal(found, other.run(15, "x.r")["x.r"])
    with pytest.raises(NetworkError, match=r"weights of x->x.gap: element .3. is infinite; pass finite"):
        be.simulate(sim, sim.state, {"x->x.gap": np.where(np.arange(36) == 3, np.inf, weights)}, 2)


@pytest.mark.parametrize("backend", ["jax", "numba"])
@pytest.mark.parametrize("difference", [False, True])
def test_derivatives_by_weights_states_and_parameters(backend, difference):
    """Of a network built for native code too: it differentiates in plain JAX."""
    sim = network(difference).build(backend=backend, seed=1)
    names = [name for name in sim.params if "->" in name]
    state = sim.state

    def loss(weights, r, step):
        neurons = {**state.neurons, "x": {"r": r}}
        params = {**dict(zip(names, weights, strict=True)), "y": {"step": step}}
        _, out = be.simulate(sim, dataclasses.replace(state, neurons=neurons), params, 8, record=["x.r", "y.r"])
        return (out["x.r"] ** 2).sum() + (out["y.r"] ** 3).sum()

    at = [jnp.asarray(sim.params[name]) for name in names], jnp.asarray(state.neurons["x"]["r"]), jnp.float32(0.2)
    value, slopes = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))(*at)
    flat, back = ravel_pytree(at)
    slope, _ = ravel_pytree(slopes)
    rng = np.random.default_rng(0)
    for _ in range(3):
        along = rng.normal(0, 1, flat.size).astype(np.float32)
        ahead, behind = (float(loss(*back(flat + sign * 1e-2 * along))) for sign in (1, -1))
        np.testing.assert_allclose(slope @ along, (ahead - behind) / 2e-2, rtol=2e-2, atol=2e-3)
    many = jax.vmap(lambda r: loss(at[0], r, at[2]))(jnp.stack([at[1], at[1]]))
    np.testing.assert_allclose(many, value, rtol=1e-5)


def test_long_runs_in_chunks_have_the_same_derivatives():
    sim = network().build(backend="jax", seed=1)
    w = jnp.asarray(sim.params["x->x.gap"])

    def loss(w, every):
        _, out = be.simulate(sim, sim.state, {"x->x.gap": w}, 7, record="y.r", checkpoint_every=every)
        return (out["y.r"] ** 2).sum()

    np.testing.assert_allclose(*(jax.grad(loss)(w, every) for every in (None, 3)), rtol=1e-5)


def test_traced_weights_that_are_not_finite_give_nan():
    sim = network().build(backend="jax", seed=1)
    run = jax.jit(lambda w: be.simulate(sim, sim.state, {"x->y.gap": w}, 3, record="x.r")[1]["x.r"])
    assert np.isfinite(run(jnp.full(1, 0.5))).all()
    assert np.isnan(run(jnp.full(1, np.inf))).all()


def test_what_has_no_derivative_through_couplings_says_so():
    sim = network().build(backend="jax", seed=1)
    with pytest.raises(
        NetworkError, match=r"simulate: coupling x->x.gap: derivatives by the times of spikes do not go"
    ):
        be.simulate(sim, sim.state, {}, 2, surrogate=be.surrogate.spike_times())
    with pytest.raises(NetworkError, match=r"eprop: coupling x->x.gap carries a state in every step"):
        be.eprop(sim, sim.state, {}, 2, lambda t, y: y.sum(), "y.r")
