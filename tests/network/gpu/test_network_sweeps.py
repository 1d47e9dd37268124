# SPDX-License-Identifier: Apache-2.0
"""`simulate` on a GPU with other weights than those of the build: what a separate build with these weights does."""

import dataclasses
import gc
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_network_replaced_weights as replaced
from beside_interpreter import equal
from network_in_jax import DeviceInJax
from training_on_cpu import PretendGpu

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.network.gpu import program
from brainevent.network.gpu.engine import CudaEngine
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.quantum import RoundedWeightsWarning
from brainevent.network.run.simulation import Simulation
from brainevent.network.state import copied

RECORD = ["E.spikes", "I.counts", "E.v"]


def built(description, device=None):
    plan = build_plan(description, seed=3)
    return Simulation(plan, CudaEngine(plan, blocks=2, device=device or DeviceInJax(8)), network=description)


def inhibition(strength):
    """Return the weights of a sweep over the strength of inhibition."""
    return {name: np.float64(-0.4 * strength) for name in replaced.INH}


def separate(strength, steps=40, state=None):
    """Return the state and the results of a build of its own, on the CPU."""
    sim = replaced.network(inh=-0.4 * strength).build(seed=3, backend="interpreted")
    if state is not None:
        sim.state = state
    result = sim.run(steps, RECORD)
    times = np.rint(result["E.spikes"].times / 0.1).astype(int) - sim.steps + steps
    spikes = np.zeros((steps, 40), np.float32)
    spikes[times, result["E.spikes"].neurons] = 1
    return sim, {"E.spikes": spikes, "I.counts": result["I.counts"].astype(np.float32), "E.v": result["E.v"]}


def check(found, expected):
    """Compare the state and the results of a call with those of a separate build."""
    (state, out), (sim, results) = found, expected
    equal(jax.tree.map(np.asarray, out), results)
    assert state.quanta == sim.state.quanta
    equal(copied(sim.engine.plan, state), sim.state)


def test_a_sweep_is_that_of_separate_builds(monkeypatch):
    """And builds once for each of the weights, though they come again; the simulation does not change."""
    sim, made = built(replaced.network()), []
    place = CudaEngine.resident_of
    monkeypatch.setattr(CudaEngine, "resident_of", lambda self, plan: made.append(plan) or place(self, plan))
    before = sim.state
    for strength in (4.0, 4.3, 4.7, 5.0, 4.3):
        found = be.simulate(sim, sim.state, inhibition(strength), 40, record=RECORD)
        check(found, separate(strength))
    assert len(made) == 4
    equal(sim.state, before)
    check(be.simulate(sim, sim.state, {}, 40, record=RECORD), separate(4.0))


def test_a_run_is_cut_anywhere_and_keeps_what_is_on_its_way():
    """From the state of a run with other weights, in quanta that hold it, which later calls keep."""
    sim = built(replaced.network(delay=be.uniform(0.1, 0.9)))
    sim.run(30)
    begin = sim.state
    values = replaced.values_of(begin)
    for weights in (inhibition(4.3), {"E->E.syn": np.float32(0.3), **inhibition(4.0)}):
        whole, out = be.simulate(sim, begin, weights, 30, record=RECORD)
        state, pieces = begin, []
        for steps in (1, 9, 20):
            state, piece = be.simulate(sim, state, weights, steps, record="E.v")
            pieces.append(piece["E.v"])
        np.testing.assert_array_equal(jnp.concatenate(pieces), out["E.v"])
        assert state.quanta == whole.quanta
        equal(*(copied(sim.plan, one) for one in (state, whole)))
    state, _ = be.simulate(sim, begin, inhibition(4.3), 1)
    moved = replaced.values_of(state)
    for end, sums in values.items():
        assert np.abs(moved[end][:-1] - sums[1:]).max() > 0.1  # new spikes, beside
        np.testing.assert_allclose(moved[end][-2], sums[-1], atol=2, rtol=1e-6)
    back = be.simulate(sim, state, {}, 5, record=RECORD)  # with the weights of now, from quanta of others
    assert np.isfinite(back[1]["E.v"]).all()


def test_vmap_over_weights_is_a_build_for_each():
    sim = built(replaced.network())
    strengths = np.array([4.0, 4.3, 5.0])

    def run(weight, drive, state):
        params = {"I->E.syn": weight, "I->I.syn": weight, "E->E.syn": 0.4, "E": {"threshold": drive}}
        return be.simulate(sim, state, params, 40, record=RECORD)

    state, out = jax.vmap(run, (0, None, None))(-0.4 * strengths, 8.0, sim.state)
    for k, strength in enumerate(strengths):
        other, results = separate(strength)
        equal(jax.tree.map(lambda x, k=k: np.asarray(x[k]), out), results)
        one = jax.tree.map(lambda x, k=k: x[k], state)
        assert (one.quanta, one.arriving["E"]["syn"].dtype) == (sim.state.quanta, np.float32)
        for end, sums in replaced.values_of(other.state).items():
            np.testing.assert_allclose(replaced.values_of(one)[end], sums, rtol=1e-6)
        equal(jax.tree.map(np.asarray, one.neurons), other.state.neurons)
    with pytest.raises(NetworkError, match=r"state: [\d.-]+ is on its way to E.syn; pass sums that are whole"):
        be.simulate(sim, jax.tree.map(lambda x: x[1], state), {}, 3)
    both = jax.vmap(jax.vmap(run, (0, None, None)), (None, 0, None))(
        -0.4 * strengths[:2], np.array([8.0, 7.0]), sim.state
    )
    np.testing.assert_array_equal(both[1]["E.v"][0, 1], separate(4.3)[1]["E.v"])
    inside = jax.jit(lambda state: jax.vmap(lambda w: run(w, 8.0, state)[1])(-0.4 * strengths[1:]))(sim.state)
    np.testing.assert_array_equal(inside["E.v"][0], separate(4.3)[1]["E.v"])


def test_weights_that_jax_traces_are_trained(monkeypatch):
    """As floats, in plain JAX on a GPU without room for kernels of training."""
    monkeypatch.setattr("brainevent.network.training.gpu.engine.gpu", lambda: PretendGpu(shared_bytes=0))
    sim, plain = built(replaced.network()), replaced.network().build(seed=3, backend="jax")
    for call in (jax.jit, jax.grad, lambda run: lambda w: jax.jit(jax.vmap(run))(w[None])[0]):
        found = []
        for one in (sim, plain):

            def run(weight, one=one):
                return be.simulate(one, one.state, {"I->E.syn": weight}, 5, record="E.v")[1]["E.v"].sum()

            found.append(call(run)(np.full(1, -1.7, np.float32)))
        np.testing.assert_allclose(*found, rtol=1e-5)
        assert np.all(np.isfinite(found[0]))


def test_a_traced_state_enters_other_quanta_or_is_refused():
    sim = built(replaced.network())
    sim.run(20)
    begin = sim.state
    assert any(np.any(sums) for sums in jax.tree.leaves(begin.arriving))
    run = jax.jit(lambda state: be.simulate(sim, state, inhibition(4.25), 40, record=RECORD))  # 0.4 is 4 x 0.1
    found = run(begin)
    check(found, separate(4.25, state=begin))
    check(run(found[0]), separate(4.25, state=separate(4.25, state=begin)[0].state))
    thirds = jax.jit(lambda state: be.simulate(sim, state, inhibition(3.3), 4))  # 0.4 is no multiple of 0.12
    with pytest.raises(NetworkError, match=r"on its way to E.syn is traced by JAX, in quanta of 0.4, .* of those"):
        jax.jit(lambda state: be.simulate(sim, state, {"E->E.syn": 0.6, "I->E.syn": -1.8}, 4))(begin)
    assert thirds(begin)[0].quanta != begin.quanta


def test_sums_of_a_traced_state_that_do_not_fit_give_nan():
    sim = built(replaced.network())
    run = jax.jit(lambda state: be.simulate(sim, state, {}, 5, record=RECORD))
    for sums in (2**31 - 1, -(2**31), 2**30, 0.5, np.nan, 3e9):
        fine = sums == 2**30
        state = sim.state
        kind = np.int32 if isinstance(sums, int) else np.float32
        state.arriving["E"]["syn"] = np.full((3, 40), sums, kind)
        after, out = run(state)
        assert np.isfinite(out["E.v"]).all() == np.isfinite(after.neurons["E"]["v"]).all() == fine, sums
        if fine:
            assert (out["E.spikes"][0] == 1).all()
            continue
        assert np.isnan(out["E.spikes"]).all()
        if kind is np.int32:
            assert (np.asarray(after.arriving["E"]["syn"]) == -(2**31)).all()
            assert np.isnan(run(after)[1]["E.v"]).all()
            with pytest.raises(NetworkError, match=r"is on its way to E.syn"):
                be.simulate(sim, after, {}, 5)
        else:
            assert np.isnan(after.arriving["E"]["syn"]).all()
    state = sim.state
    state.arriving["E"]["syn"] = np.full((3, 40), 2**29, np.int32)
    times = jax.jit(lambda state: be.simulate(sim, state, inhibition(4.25), 5, record="E.v")[1]["E.v"])(state)
    assert np.isnan(times).all()  # four times as many quanta
    state.arriving["E"]["syn"] = np.zeros((3, 40), np.int16)
    with pytest.raises(NetworkError, match=r"state.arriving\['E'\]\['syn'\] is int16; pass quanta as int32, or"):
        run(state)


@pytest.mark.parametrize(("given", "returned"), [("int16", "int32"), ("float16", "float32"), ("float32", "float32")])
def test_sums_are_returned_in_dtypes_that_hold_them(given, returned):
    sim = built(replaced.network(inh=-1e-3))  # 400 quanta of these are one of the other weights
    state = dataclasses.replace(sim.state, arriving=jax.tree.map(lambda x: x.astype(given), sim.state.arriving))
    after, _ = be.simulate(sim, state, {}, 40)
    assert {x.dtype.name for x in jax.tree.leaves(after.arriving)} == {returned}
    sim.run(40)
    jax.tree.map(np.testing.assert_array_equal, after.arriving, sim.state.arriving)


def test_warnings_show_every_time():
    sim = built(replaced.network())
    number = len(sim.connections("E->E.syn"))
    weights = np.random.default_rng(0).uniform(1, 2, number)
    weights[:3] = 1.37e-7, 2.31e-7, 4.13e-7
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        for _ in range(3):
            be.simulate(sim, sim.state, {"E->E.syn": weights}, 2)
    assert [one.category for one in found] == [RoundedWeightsWarning] * 3
    assert {one.filename for one in found} == {__file__}
    assert f"simulate: weights of E->E.syn: 3 of {number} were rounded by more than 2**-9" in str(found[0].message)


def test_memory_is_bounded(monkeypatch):
    """Programs that run at once do not keep the rows of weights; those that JAX traced do."""
    device = DeviceInJax(8)
    sim = built(replaced.network(), device)
    monkeypatch.setattr("brainevent.network.calls.rebuilds._MOST", 3)
    gc.collect()
    held, kept = len(device.held), len(program._kept)
    for k in range(8):
        be.simulate(sim, sim.state, inhibition(4 + k / 10), 3)
    gc.collect()
    rebuilt = sim.engine.rebuilds._rebuilt.values()
    assert len(rebuilt) == 3
    rows = [resident.rows for one in rebuilt for _, resident in one.residents.values()]
    assert all(set(of) >= {"synapses", "rows"} for of in rows)
    assert len(device.held) - held <= len(program._kept) - kept + 3 * 4  # tables of Poisson numbers, which are small
    jax.jit(lambda state: be.simulate(sim, state, inhibition(4.7), 3))(sim.state)
    assert sum(len(one.residents) for one in rebuilt) == 4


def test_synapses_that_the_device_draws(monkeypatch):
    device = DeviceInJax(8)
    monkeypatch.setattr("brainevent.network.gpu.cuda_device.cuda_device", lambda _: device)
    law = be.connect.prob(0.2, weight=be.uniform(5.0, 8.0))
    sim = replaced.network(exc=1.5, inh=-1.5, both=law).build(seed=3, backend="cuda", blocks=2)
    assert len(sim.engine.plan.synapses.held) < len(sim.engine.plan.synapses)
    for strength in (4.3, 4.0):
        _, out = be.simulate(sim, sim.state, inhibition(strength), 30, record=["E.v"])
        other = replaced.network(exc=1.5, inh=-0.4 * strength, both=law).build(seed=3, backend="interpreted")
        np.testing.assert_array_equal(out["E.v"], other.run(30, "E.v")["E.v"])


def test_a_state_of_another_network_is_reported():
    sim = built(replaced.network())
    state = dataclasses.replace(sim.state, quanta=(("E", "sin", 0.4),))
    with pytest.raises(NetworkError, match=r"simulate: the quanta of the state are \(\('E', 'sin', 0.4\),\); pass a"):
        be.simulate(sim, state, {}, 3)
    with pytest.raises(NetworkError, match=r"simulate: state is dict; pass a state such as that of sim.state"):
        be.simulate(sim, {}, {}, 3)
