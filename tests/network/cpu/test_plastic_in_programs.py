# SPDX-License-Identifier: Apache-2.0
"""`simulate` with plastic synapses in native code: the bits of the interpreter, in programs and under `vmap`."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import synapse_rules
import test_network_in_jax as in_jax
from beside_interpreter import equal
from test_plastic_on_cpu import network, triplet

import brainevent as be
from brainevent.errors import NetworkError, ShapeError
from brainevent.network.cpu.engine import NumbaEngine
from brainevent.network.interpreted import Interpreted
from brainevent.network.run.recorded import Sample, Wanted
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import copied

SAMPLES = {"w": Sample("ab", "w", 3, np.arange(90, 0, -3), of_synapses=True), "v": Sample("b", "v", 1, np.arange(3))}
WANTED = Wanted(("a", "b"), ("b",), ("a",), SAMPLES)
# Events that wait for spikes of the source, which every other rule of `triplet` keeps from waiting.
WAITING = {"on_post": {"upstate": lambda w, s, pre, post, p: (w + p.eta * pre.x, s.replace(e=post.v))}, "every": ()}


def simulation(where, delay, parts=1, **more):
    plan = synapse_rules.plan_of(network(triplet(where, **more), delay), parts)
    return Simulation(plan, NumbaEngine(plan))


@pytest.mark.parametrize(
    ("where", "delay", "parts", "more"),
    [
        ("axon", be.uniform(0.1, 0.9), 2, WAITING),
        ("dendrite", be.uniform(0.1, 0.9), 3, {}),
        ("axon", None, 1, {}),
    ],
)
def test_it_equals_the_interpreter(where, delay, parts, more):
    """In pieces, of which each begins with what is on its way, and with other parameters than those of the build."""
    sim = simulation(where, delay, parts, **more)
    out = in_jax.compare(sim, [23, 1, 40], WANTED, params={"ab": {"eta": np.float32(0.05)}})
    assert out["b.spikes"].sum() > 20
    assert np.ptp(out["w"], 0).max() > 0


def test_elements_of_a_batch_have_weights_and_parameters_of_their_own():
    sim = simulation("axon", be.uniform(0.1, 0.9), 2, **WAITING)
    begin = sim.state
    weights = np.stack([begin.synapses["ab"]["w"] * scale for scale in (0.5, 1, 0.25)])
    eta = np.float32([0.01, 0.1, 0.0])

    @jax.jit
    @jax.vmap
    def run(weights, eta):
        return be.simulate(sim, begin, {"ab": {"weights": weights, "eta": eta}}, 60)[0]

    after = run(weights, eta)
    for k in range(3):
        theirs = Interpreted(sim.plan)
        theirs.load(dataclasses.replace(begin, synapses={"ab": {**begin.synapses["ab"], "w": weights[k]}}))
        theirs.set("ab", "eta", eta[k])
        theirs.run(60, Wanted(), {})
        equal(copied(sim.plan, jax.tree.map(lambda x: x[k], after)), theirs.state)  # noqa: B023 - called at once
    assert np.ptp(after.synapses["ab"]["w"], 0).max() > 0.01


def test_other_weights_beside_plastic_ones():
    """`vmap` over weights that do not change: the network is built for each, and plastic synapses are those given."""
    sim = simulation("axon", be.uniform(0.1, 0.9), 2, **WAITING)
    state, weights = sim.state, [np.float32(0.05), np.float32(0.2)]
    found = jax.vmap(lambda w: be.simulate(sim, state, {"fixed": w}, 50)[0])(np.stack(weights))
    for k, weight in enumerate(weights):
        one, _ = be.simulate(sim, state, {"fixed": weight}, 50)
        groups = (one.synapses["ab"], found.synapses["ab"]), (one.past["a"], found.past["a"])
        for theirs, ours in groups:
            equal({key: ours[key][k] for key in ours}, dict(theirs))
    assert np.ptp(found.neurons["b"]["u"], 0).max() > 0


def test_a_rule_that_returns_nan_stops_no_program():
    """Also where a run of the network checks for it: the weights say so."""
    nan = be.Plasticity(on_pre=lambda w, s, pre, post, p: w + 0 * jnp.sqrt(0.5 - post.v), high=0.5)
    sim = network(nan, 0.3).build(seed=2, backend="numba", check_finite=True)
    after, _ = be.simulate(sim, sim.state, {}, 60)
    assert after.step == 60
    assert 0 < np.isnan(after.synapses["ab"]["w"]).mean() < 1


@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_weights_beyond_their_bounds_give_no_numbers(backend):
    """Sums might leave 32 bits with them: an error where they are known, else NaN, in that element of a batch alone."""
    sim = network(triplet("axon"), 0.3).build(seed=2, backend=backend)
    weights = np.tile(sim.connections("ab").weights, (3, 1))
    weights[1, 5], weights[2, 7] = 1e6, -0.1

    def given(w):
        return be.simulate(sim, sim.state, {"ab": {"weights": w}}, 9, record="b.v")

    def begun(w):
        state = dataclasses.replace(sim.state, synapses={"ab": {**sim.state.synapses["ab"], "w": w}})
        return be.simulate(sim, state, {}, 9, record="b.v")

    for run, where in ((given, r"params\['ab'\]\['weights'\]"), (begun, r"state.synapses\['ab'\]\['w'\]")):
        after, out = jax.jit(jax.vmap(run))(weights)
        for found in (after.neurons["b"]["v"], after.synapses["ab"]["w"], after.traces["ab"]["pre.x"], out["b.v"]):
            assert np.isfinite(found[0]).all()
            assert np.isnan(found[1:]).all()
        with pytest.raises(NetworkError, match=rf"simulate: {where}: element \[5\] is 1e\+06, outside of low=0 to hi"):
            run(weights[1])
        with pytest.raises(NetworkError, match=rf"simulate: {where}: element \[7\] is -0\.1, outside of low=0"):
            jax.grad(lambda w: run(w)[0].neurons["b"]["u"].sum())(jnp.asarray(weights[2]))  # noqa: B023 - called at once
        with pytest.raises(NetworkError, match=rf"simulate: {where}: is 1e\+06, outside of low=0 to high=0\.5"):
            jax.vmap(run)(weights)


def test_states_that_do_not_fit_raise():
    sim = simulation("axon", be.uniform(0.1, 0.9), 2, **WAITING)
    short = dataclasses.replace(sim.state, synapses={"ab": {**sim.state.synapses["ab"], "w": np.zeros(3)}})
    with pytest.raises(ShapeError, match=r"state.synapses\['ab'\] has the shapes .*'w': \(3,\)"):
        be.simulate(sim, short, {}, 5)
    with pytest.raises(NetworkError, match=r"params\['ab'\]\['weights'\]: element \[0\] is 9, outside of low=0"):
        be.simulate(sim, sim.state, {"ab": {"weights": np.full(sim.plan.plastic[0].entries, 9.0)}}, 5)
