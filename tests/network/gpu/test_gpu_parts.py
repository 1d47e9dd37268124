# SPDX-License-Identifier: Apache-2.0
"""Parts of populations on a GPU: the synapses, spikes and states of the CPU, to the last bit."""

import jax
import numpy as np
import pytest
import test_values_of_parts as values
from test_parts import EXC, INH, LEARNING, LEFT, MIXED, cells, network, records

import brainevent as be
from brainevent.network.plan.drawing import Description

pytestmark = pytest.mark.gpu


def check_same(one, other):
    for label, value in one.items():
        if isinstance(value, be.Spikes):
            np.testing.assert_array_equal(value.times, other[label].times)
            np.testing.assert_array_equal(value.neurons, other[label].neurons)
        else:
            np.testing.assert_array_equal(value, other[label])


def test_a_network_with_parts_runs_as_on_the_cpu():
    inputs = {(LEFT, "syn"): np.full(30, 0.25), "exc[:3].syn": np.full((30, 3), 0.125)}
    one, other = (network().build(seed=1, backend=backend) for backend in ("numba", "cuda"))
    check_same(*(sim.run(30, records(), inputs) for sim in (one, other)))
    for sim in (one, other):
        sim.set(MIXED, threshold=[2.0, 3.0, 4.0], v=0.5)
        sim.set(sim.network.projection_names[2], weights=np.diag([0.5, 0.25, 0.125]))
    check_same(*(sim.run(30, records(), inputs) for sim in (one, other)))
    step = other.stepper(records()[:7], list(inputs))
    out = step({(LEFT, "syn"): 0.25, "exc[:3].syn": 0.125})
    check_same(out, one.stepper(records()[:7], list(inputs))({(LEFT, "syn"): 0.25, "exc[:3].syn": 0.125}))


def large(size=3000):
    exc, inh = cells("exc", size), cells("inh", size // 4)
    mask = np.random.default_rng(0).random(size) < 0.3
    weight, delay = be.normal(0.02, 0.002, low=0.01), be.uniform(0.1, 2)
    pairs = {
        "range": (exc[100:900], inh, be.connect.in_degree(60, weight=weight)),
        "mask": (exc[mask], exc[~mask], be.connect.prob(0.05, weight=weight)),
        "strided": (inh[::3], exc[::-2], be.connect.out_degree(30, weight=-0.05, replace=False)),
        "same": (exc[mask], exc[mask], be.connect.prob(0.05, weight=weight, self_connections=False)),
        "overlap": (exc[:500], exc[400:800], be.connect.in_degree(20, weight=weight, self_connections=False)),
        "total": (exc[5:50], inh[[9, 3, 77]], be.connect.total(900, weight=weight)),
        "one": (exc[:300], exc[300:600][::-1], be.connect.one_to_one(weight=weight)),
    }
    links = [be.Projection(*ends, into="syn", delay=delay, name=name) for name, ends in pairs.items()]
    return be.Network([exc, inh], links, dt=0.1)


@pytest.mark.parametrize("blocks", [None, 3])
def test_synapses_between_parts_are_drawn_on_the_gpu(blocks):
    one, other = large().build(seed=3, backend="numba"), large().build(seed=3, backend="cuda", blocks=blocks)
    drawn = [isinstance(source, Description) for source in other.plan.synapses.sources]
    assert drawn == [name != "overlap" for name in other.plan.projection_names]
    check_same(*(sim.run(400, ["exc.spikes", "inh.spikes", be.every(50, "exc.v")]) for sim in (one, other)))


def test_synapses_between_parts_are_drawn_on_several_gpus():
    if len(jax.devices("gpu")) < 2:
        pytest.skip("needs two GPUs")
    one, other = large().build(seed=3, backend="numba"), large().build(seed=3, backend="cuda", devices=2)
    check_same(*(sim.run(400, ["exc.spikes", "inh.spikes", be.every(50, "exc.v")]) for sim in (one, other)))


def test_plastic_synapses_between_parts_run_as_on_the_cpu():
    found = []
    for backend in ("numba", "cuda"):
        how = be.connect.prob(0.5, weight=be.uniform(0.5, 1))
        synapses = be.Projection(LEFT, EXC[::2], how, into="syn", name="p", plasticity=LEARNING)
        sim = be.Network([EXC, INH], [synapses]).build(seed=1, backend=backend)
        found.append(sim.run(100, ["exc.v", be.every(10, "p.w")]))
    check_same(*found)


def test_simulate_takes_and_records_parts():
    sim = network().build(seed=1, backend="cuda")
    inputs = {(LEFT, "syn"): np.full(30, 0.25)}
    expected = network().build(seed=1, backend="cuda").run(30, [(LEFT, "counts"), (MIXED, "v")], inputs)
    _, out = jax.jit(lambda x: be.simulate(sim, sim.state, {}, 30, x, [(LEFT, "counts"), (MIXED, "v")]))(inputs)
    np.testing.assert_array_equal(out[f"{LEFT}.counts"], expected[LEFT, "counts"])
    np.testing.assert_array_equal(out[f"{MIXED}.v"], expected[MIXED, "v"])


@pytest.mark.parametrize("given", range(len(values.PARTS)))
def test_values_of_parts_run_as_on_the_cpu(given):
    own, labels = values.PARTS[given], ["exc.counts", "inh.counts"]
    cpu, gpu = (values.network().build(seed=1, backend=backend) for backend in ("numba", "cuda"))
    swept = {key: {"drive": np.stack([one["drive"], one["drive"] * 0])} for key, one in own.items()}
    for one, other in zip(*(sim.sweep(values.STEPS, labels, swept) for sim in (cpu, gpu)), strict=True):
        check_same(one, other)
    expected = values.counts(cpu, own)
    check_same(expected, values.counts(gpu, own))
    check_same(expected, jax.jit(lambda params: values.counts(gpu, params))(own))
    several = jax.tree.map(lambda x: np.stack([np.asarray(x), np.asarray(x) * 0]), own)
    found = jax.vmap(lambda params: values.counts(gpu, params))(several)
    check_same(expected, {label: found[label][0] for label in labels})


def test_derivatives_of_values_of_parts_are_those_of_their_neurons():
    sim = values.network().build(seed=1, backend="cuda")

    def loss(params):
        return values.counts(sim, params)["inh.counts"].sum()

    part = jax.grad(loss)({values.EXC[values.MIXED]: {"drive": np.full(3, 0.3, np.float32)}})
    drive = np.array(values.EXC.params["drive"], np.float32)
    drive[values.MIXED] = 0.3
    whole = jax.grad(loss)({"exc": {"drive": drive}})["exc"]["drive"]
    np.testing.assert_allclose(part[values.EXC[values.MIXED]]["drive"], whole[values.MIXED], rtol=1e-5)
