# SPDX-License-Identifier: Apache-2.0
"""A simulation with plastic synapses: recorded, looked at, changed, saved, swept."""

import dataclasses
import re

import jax
import numpy as np
import pytest
import synapse_rules

import brainevent as be
from brainevent.errors import CheckpointError, NetworkError, UnknownNameError

AB = "a->b.syn"


def network(where="axon", seed_of_drive=0, high=0.5):
    """Return a network in which weights change, with two projections into one receptor."""
    a, b = (synapse_rules.population(name, size, seed_of_drive) for name, size in (("a", 20), ("b", 10)))
    plasticity = be.Plasticity(
        on_pre=lambda w, s, pre, post, p: (w - p.eta * post.y, s.replace(c=s.c + 1)),
        on_post=lambda w, s, pre, post, p: w + p.eta * pre.x * pre.u,
        state={"c": 0.0},
        params={"eta": 0.05},
        pre={"x": be.trace(10.0), "u": "u"},
        post={"y": be.trace(10.0)},
        high=high,
        delay_at=where,
    )
    forward = be.Projection(
        a, b, be.connect.prob(0.5, weight=be.uniform(0.1, 0.4)), "syn", be.uniform(0.1, 0.5), plasticity=plasticity
    )
    return be.Network([a, b], [forward, be.Projection(a, b, be.connect.prob(0.2, weight=0.1), "syn", name="fixed")])


def built(where="axon", **more):
    return network(where).build(**{"seed": 4, "backend": "interpreted", **more})


def test_weights_and_states_are_recorded():
    sim = built()
    chosen = be.every(4, f"{AB}.w", synapses=[7, 0], label="two")
    result = sim.run(20, record=[f"{AB}.w", chosen, be.every(1, f"{AB}.c", synapses=slice(0, 3)), "a.v"])
    assert result[f"{AB}.w"].shape == (20, len(sim.connections(AB)))
    np.testing.assert_array_equal(result["two"], result[f"{AB}.w"][::4][:, [7, 0]])
    np.testing.assert_array_equal(result[f"{AB}.w"][-1], sim.connections(AB).weights)
    assert result[f"{AB}.c"].dtype == np.float32
    assert result.times("two").tolist() == pytest.approx([0, 0.4, 0.8, 1.2, 1.6])
    assert np.ptp(result[f"{AB}.w"], axis=0).max() > 0.01
    more = sim.run(4, record=[f"{AB}.w", chosen, be.every(1, f"{AB}.c", synapses=slice(0, 3)), "a.v"])
    assert (result + more)["two"].shape == (6, 2)
    step = sim.stepper(record=f"{AB}.w")
    np.testing.assert_array_equal(step()[f"{AB}.w"], sim.connections(AB).weights)


def test_the_picture_of_weights_is_that_of_now():
    sim = built()
    sim.set(AB, weights=0.25)
    for figure in (be.plot_weights(sim.connections(AB), shape=(20, 10)), sim.connections(AB).plot()):
        shown = figure.axes[0].collections[0].get_array()
        assert shown.shape == (20, 10)
        assert {0.0, 0.25} == {float(x) for x in np.unique(shown)}


def test_what_is_set():
    sim = built()
    sim.run(10)
    weights = np.linspace(0, 0.5, len(sim.connections(AB)), dtype=np.float32)
    sim.set(AB, weights=weights, eta=0.0, c=3.0)
    np.testing.assert_array_equal(sim.connections(AB).weights, weights)
    np.testing.assert_array_equal(sim.params[AB]["weights"], weights)
    assert sim.params[AB]["eta"] == 0
    assert (sim.state.synapses[AB]["c"] == 3).all()
    sim.run(20)
    np.testing.assert_array_equal(sim.connections(AB).weights, weights)  # the rules multiply by eta
    sim.reset()
    assert sim.params[AB]["eta"] == np.float32(0.05)
    np.testing.assert_array_equal(sim.connections(AB).weights, built().connections(AB).weights)


SET = {
    r"weights of a->b\.syn: element \[1\] is 0\.6, outside of low=0 to high=0\.5": {"weights": "beyond"},
    r"weights of a->b\.syn: is infinite": {"weights": np.inf},
    r"a->b\.syn has no 'etta'; did you mean 'eta'\?; parameters: eta; of its synapses: weights, c": {"etta": 1.0},
    r"c of a->b\.syn has the shape \(3,\); pass a number, or an array": {"c": np.zeros(3)},
    r"eta of a->b\.syn has shape \(2,\); pass a number": {"eta": [1.0, 2.0]},
    r"weights of a->b\.syn: is NaN": {"weights": np.nan},
    r"a->b\.syn has no 'w'; did you mean 'weights'\?; parameters: eta": {"w": 0.1},
    r"a->b\.syn has no 'high', which is part of its rules; build a network with other bounds": {"high": 2.0},
}


@pytest.mark.parametrize("words", SET)
def test_what_cannot_be_set_changes_nothing(words):
    sim = built()
    before, values = sim.state, dict(SET[words])
    if isinstance(values.get("weights"), str):
        values["weights"] = np.where(np.arange(len(sim.connections(AB))) == 1, 0.6, 0.2)
    with pytest.raises(NetworkError, match=f"set: {words}"):
        sim.set(AB, c=1.0, **values) if "c" not in values else sim.set(AB, **values)
    jax.tree.map(np.testing.assert_array_equal, before, sim.state)


RECORDS = {
    r"'a->b\.syn\.ww' is not there; did you mean 'w'\?; synapses of a->b\.syn have w, c": f"{AB}.ww",
    r"'a->b\.syn\.weights' is not there; did you mean 'w'\?": f"{AB}.weights",
    r"no population 'a->b'; did you mean 'a->b\.syn'\?; populations: a, b; plastic projections: a->b\.syn": "a->b.w",
    r"'fixed\.w': the synapses of fixed do not change; pass plasticity=": "fixed.w",
    r"'a->b\.syn\.w' is of synapses; pass synapses= instead of neurons=": be.every(1, f"{AB}.w", neurons=[0]),
    r"'a\.v' is a state of neurons; pass neurons= instead of synapses=": be.every(1, "a.v", synapses=[0]),
    r"synapses of 'a->b\.syn\.w': index 9999 is out of bounds.*a->b\.syn has": be.every(1, f"{AB}.w", synapses=[9999]),
}


@pytest.mark.parametrize("words", RECORDS)
def test_what_cannot_be_recorded(words):
    with pytest.raises(NetworkError, match=words):
        built().run(1, record=RECORDS[words])


@pytest.mark.parametrize("where", ["axon", "dendrite"])
def test_a_file_continues_with_the_same_bits(tmp_path, where):
    """Also in another number of parts, and in a simulation whose parameters were others."""
    sim, file = built(where), tmp_path / "now.npz"
    sim.set(AB, eta=0.02)
    sim.run(15)
    sim.save(file)
    sim.run(25)
    other = built(where, threads=3)
    other.load(file)
    assert (other.steps, other.params[AB]["eta"]) == (15, np.float32(0.02))
    other.run(25)
    jax.tree.map(np.testing.assert_array_equal, sim.state, other.state)
    with pytest.raises(CheckpointError, match=r"its sizes, initial states, parameters or synapses are not those"):
        network(where, high=0.6).build(seed=4, backend="interpreted").load(file)


def test_a_state_is_assigned_and_checked():
    sim = built()
    sim.run(10)
    state = sim.state
    sim.run(5)
    after = sim.state
    sim.state = state
    sim.run(5)
    jax.tree.map(np.testing.assert_array_equal, after, sim.state)
    beyond = {**state.synapses, AB: {**state.synapses[AB], "w": state.synapses[AB]["w"] + 1}}
    with pytest.raises(NetworkError, match=r"state: synapses: w of a->b\.syn: element \[0\] is .*, outside of low=0"):
        sim.state = dataclasses.replace(state, synapses=beyond)
    with pytest.raises(NetworkError, match=r"state: traces: a->b\.syn has nothing, but here it has pre"):
        sim.state = dataclasses.replace(state, traces={})


def test_weights_of_a_fixed_projection_beside_a_plastic_one():
    """A network goes on as one that is built with these weights, whose quantum suits the bounds of the plastic ones."""
    sim = built()
    sim.set("fixed", weights=0.07)
    a = network()
    other = be.Network(
        a.populations,
        [a.projections[0], dataclasses.replace(a.projections[1], connect=be.connect.prob(0.2, weight=0.07))],
    ).build(seed=4, backend="interpreted")
    sim.run(20)
    other.run(20)
    assert sim.engine.plan.quanta == other.plan.quanta
    jax.tree.map(np.testing.assert_array_equal, sim.state, other.state)


def test_sweeps():
    sim = built()
    etas = [0.0, 0.05, 0.1]
    swept = sim.sweep(20, be.every(1, f"{AB}.w", synapses=[0, 1, 2]), {AB: {"eta": etas, "weights": [0.3]}})
    for k, eta in enumerate(etas):
        one = built()
        one.set(AB, eta=eta, weights=0.3)
        np.testing.assert_array_equal(
            one.run(20, be.every(1, f"{AB}.w", synapses=[0, 1, 2]))[f"{AB}.w"], swept[k][f"{AB}.w"]
        )
    drawn = sim.sweep(20, "b.counts", {AB: {"eta": [0.1]}}, seeds=[4, 9])
    one = network().build(seed=9, backend="interpreted")
    one.set(AB, eta=0.1)
    np.testing.assert_array_equal(one.run(20, "b.counts")["b.counts"], drawn[1]["b.counts"])
    with pytest.raises(NetworkError, match=r"sweep: element 0: a->b\.syn has no 'beta'"):
        sim.sweep(20, "b.counts", {AB: {"beta": [0.1, 0.2]}})


def test_what_a_simulation_says_of_them():
    sim = built()
    report, text = str(sim.report()), str(sim.explain())
    assert "synapses of a->b.syn are plastic: on_pre: <lambda>, on_post: <lambda>; delays are those of" in report
    assert "0 to 0.5 (float32, plastic)" in report
    assert "rule <lambda> of projection a->b.syn, called by on_post, run by 'interpreted'" in text
    assert "weights are clipped to 0 to 0.5" in text
    assert f"{len(sim.connections(AB)) + len(sim.connections('fixed'))} synapses" in repr(sim)


def test_a_projection_is_no_record():
    words = "record: 'a->b.syn' is a projection; add what to record, for example 'a->b.syn.w'"
    with pytest.raises(NetworkError, match=re.escape(words)):
        built().run(3, record=AB)


def test_a_simulation_says_that_they_train_in_plain_jax():
    sim = network().build(seed=4, backend="numba")
    assert "training: in plain JAX, because synapses are plastic" in str(sim.report())
    assert "gradients: in plain JAX, because synapses of the network are plastic" in str(sim.explain())


def test_eprop_and_times_of_spikes_have_no_plastic_synapses():
    sim = network().build(seed=4, backend="jax")
    with pytest.raises(NetworkError, match=r"projection a->b\.syn: derivatives by the times of .* plastic synapses"):
        be.simulate(sim, sim.state, {}, 5, surrogate=be.surrogate.spike_times())
    with pytest.raises(NetworkError, match=r"eprop: synapses of a->b\.syn change by rules of their own"):
        be.eprop(sim, sim.state, {}, 5, lambda step, y: y.sum(), "b.v")
    with pytest.raises(UnknownNameError, match=r"did you mean 'eta'"):
        be.simulate(sim, sim.state, {AB: {"eat": 0.1}}, 5)


def test_methods_of_a_simulation_say_that_programs_call_simulate():
    sim = built()
    for call in (lambda x: sim.set(AB, eta=x), lambda x: sim.set("a", decay=x), lambda x: sim.set("fixed", weights=x)):
        with pytest.raises(
            NetworkError, match=r"set: .*found an array that JAX traces; within jax.jit.*call be.simulate"
        ):
            jax.jit(call)(0.1)
    with pytest.raises(NetworkError, match=r"inputs: 'a\.syn': found an array that JAX traces"):
        jax.jit(lambda x: sim.run(3, inputs={"a.syn": x}))(np.zeros(3))


@pytest.mark.parametrize("backend", ["interpreted", "numba"])
def test_a_sweep_records_the_synapses_that_seeds_draw(backend):
    sim, seeds = built(backend=backend, seed=6), [5, 4, 6]
    record = [f"{AB}.w", be.every(2, f"{AB}.c", synapses=slice(-3, None), label="last")]
    swept = sim.sweep(8, record, seeds=seeds)
    sizes = []
    for seed, found in zip(seeds, swept, strict=True):
        other = built(backend=backend, seed=seed)
        expected = other.run(8, record)
        sizes.append(len(other.connections(AB)))
        assert found[f"{AB}.w"].shape == (8, sizes[-1])
        for label in expected:
            np.testing.assert_array_equal(found[label], expected[label])
    assert min(sizes) < sizes[2] < max(sizes)
    assert swept["last"].shape == (3, 4, 3)
    with pytest.raises(NetworkError, match=rf"elements have {min(sizes)} to {max(sizes)} synapses, which seeds= draws"):
        swept[f"{AB}.w"]
    assert sim.sweep(8, record, seeds=seeds, redraw=False)[f"{AB}.w"].shape == (3, 8, sizes[2])
    with pytest.raises(NetworkError, match=f"{AB} has {min(sizes)} synapses: pass a slice") as caught:
        sim.sweep(8, be.every(1, f"{AB}.w", synapses=[min(sizes)]), seeds=seeds)
    assert caught.value.__notes__ == [f"in element {sizes.index(min(sizes))} of the sweep"]
