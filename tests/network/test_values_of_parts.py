# SPDX-License-Identifier: Apache-2.0
"""Parts and populations as keys: of parameters, values of a sweep, keys and quanta; parts that overlap."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent as be
from brainevent.errors import NetworkError, ShapeError, UnknownNameError

SIZE, STEPS = 12, 40
MIXED = np.array([7, 2, 11])


def leaky(s, arriving, p):
    v = 0.9 * s.v + arriving.syn + p.drive
    spike = v >= p.threshold
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def cells(name, size, drive):
    params = {"threshold": 1.0, "drive": drive}
    return be.Population(name, size, leaky, state={"v": be.uniform(0, 1)}, params=params)


EXC, INH = cells("exc", SIZE, np.linspace(0.12, 0.2, SIZE)), cells("inh", 5, be.uniform(0.1, 0.3))
PARTS = [
    {
        EXC[MIXED]: {"drive": np.array([0.5, 0.4, 0.3])},
        "exc[:2]": {"drive": 0.25},
        "exc": {"drive": 0.15},
        INH: {"drive": 0.2},
    },
    {EXC[:0]: {"drive": 9.0}, "inh": {"drive": 0.2}},
    {EXC[::-1]: {"drive": np.linspace(0.1, 0.4, SIZE)}, INH[:]: {"drive": 0.2}},
]


def network():
    lateral = be.connect.prob(0.3, weight=0.25)
    projections = [be.Projection(EXC, INH, lateral, into="syn"), be.Projection(INH, EXC, lateral, into="syn")]
    return be.Network([EXC, INH], projections, dt=0.5)


def drive_of(given):
    """Return what all neurons of exc have, by assigning in NumPy: the population first."""
    drive = np.array(EXC.params["drive"])
    if "exc" in given:
        drive[:] = given["exc"]["drive"]
    for key, values in given.items():
        if key == "exc[:2]":
            drive[:2] = values["drive"]
        elif isinstance(key, be.Part) and key.population is EXC:
            drive[key] = values["drive"]
    return drive


def counts(sim, params, **keywords):
    return be.simulate(sim, sim.state, params, STEPS, record=["exc.counts", "inh.counts"], **keywords)[1]


def same(found, expected):
    for label in ("exc.counts", "inh.counts"):
        np.testing.assert_array_equal(found[label], expected[label])


@pytest.mark.parametrize("given", PARTS)
@pytest.mark.parametrize("backend", ["interpreted", "numba", "jax"])
def test_values_of_parts_are_those_of_their_neurons(backend, given):
    sim = network().build(seed=1, backend=backend)
    sim.set("exc", drive=drive_of(given))
    sim.set("inh", drive=0.2)
    expected = sim.run(STEPS, ["exc.counts", "inh.counts"])
    assert expected["exc.counts"].sum() > 9

    sim = network().build(seed=1, backend=backend)
    values = {key: {"drive": np.stack([own["drive"], own["drive"] * 0])} for key, own in given.items()}
    swept = sim.sweep(STEPS, ["exc.counts", "inh.counts"], values)
    same(swept[0], expected)
    assert swept[1]["inh.counts"].sum() < expected["inh.counts"].sum()
    if backend != "interpreted":
        same(counts(sim, given), expected)
        same(counts(sim, dict(reversed(given.items()))), expected)
    for key in sorted(given, key=lambda key: isinstance(key, be.Part) or key == "exc[:2]"):
        sim.set(key, **given[key])
    same(sim.run(STEPS, ["exc.counts", "inh.counts"]), expected)


@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_they_are_trees_of_jax(backend):
    sim = network().build(seed=1, backend=backend)
    given, expected = PARTS[0], counts(sim, {"exc": {"drive": drive_of(PARTS[0])}, "inh": {"drive": np.full(5, 0.2)}})
    same(jax.jit(lambda params: counts(sim, params))(given), expected)
    several = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x) * 0, jnp.asarray(x)]), given)
    assert list(several) == sorted(given)
    same(jax.tree.map(lambda x: x[1], jax.vmap(lambda params: counts(sim, params))(several)), expected)


@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_derivatives_are_those_of_their_neurons(backend):
    sim = network().build(seed=1, backend=backend)

    def loss(params):
        return (counts(sim, params)["inh.counts"] * jnp.arange(5.0)).sum()

    found = jax.grad(loss)({EXC[MIXED]: {"drive": jnp.full(3, 0.3)}, "exc[3:5]": {"drive": 0.3}})
    drive = jnp.asarray(EXC.params["drive"], jnp.float32).at[MIXED].set(0.3).at[3:5].set(0.3)
    whole = jax.grad(loss)({"exc": {"drive": drive}})["exc"]["drive"]
    np.testing.assert_allclose(found[EXC[MIXED]]["drive"], whole[MIXED], rtol=1e-6)
    np.testing.assert_allclose(found["exc[3:5]"]["drive"], whole[3:5].sum(), rtol=1e-6)
    assert np.abs(whole[MIXED]).min() > 0


def test_seeds_draw_the_values_of_the_others():
    sim = network().build(seed=1, backend="numba")
    swept = sim.sweep(STEPS, "inh.counts", {INH[1:3]: {"drive": [[0.0], [0.4]]}, INH[4:]: {"v": [[0.9]]}}, seeds=[5, 6])
    for k, seed in enumerate([5, 6]):
        one = network().build(seed=seed, backend="numba")
        one.set(INH[1:3], drive=[0.0, 0.4][k])
        one.set(INH[4:], v=0.9)
        np.testing.assert_array_equal(swept["inh.counts"][k], one.run(STEPS, "inh.counts")["inh.counts"])


def test_eprop_takes_parameters_and_inputs_of_parts():
    def readout(s, arriving, p):
        return s.replace(v=0.8 * s.v + arriving.syn), False

    out = be.Population("out", 1, readout, state={"v": 0.0})
    links = [be.Projection(EXC, out, be.connect.all_to_all(weight=0.25), into="syn")]
    sim = be.Network([EXC, out], links, dt=0.5).build(seed=1, backend="jax")

    def learned(params, inputs, feedback=None):
        how = (lambda step, y: ((y - 1) ** 2).sum()), "out.v", inputs, feedback
        return be.eprop(sim, sim.state, params, STEPS, *how)[:2]

    inputs = np.zeros((STEPS, SIZE), np.float32)
    inputs[:, MIXED] = 0.125
    whole = learned({"exc": {"drive": drive_of(PARTS[0])}}, {"exc.syn": inputs})
    parts = {key: own for key, own in PARTS[0].items() if key is not INH}
    found = learned(parts, {(EXC[MIXED], "syn"): np.full(STEPS, 0.125)}, {EXC: np.full((1, SIZE), 0.25)})
    assert float(found[0]) == float(whole[0])
    np.testing.assert_array_equal(found[1]["exc->out.syn"], whole[1]["exc->out.syn"])
    sim.set("exc", drive=drive_of(PARTS[0]))
    assert float(learned({}, {"exc.syn": inputs})[0]) == float(whole[0])  # what is left out is that of now
    with pytest.raises(NetworkError, match=re.escape("eprop: feedback: exc[:2] is a part, but a learning signal")):
        learned({}, {}, {EXC[:2]: np.ones((1, 2))})


def test_states_of_other_neurons_stay_as_they_are_also_nan():
    sim = network().build(seed=1, backend="numba")
    state = sim.state
    v = np.array(state.neurons["inh"]["v"])
    v[[0, 3]] = np.nan
    sim.state = type(state)(**{**vars(state), "neurons": {**state.neurons, "inh": {"v": v}}})
    sim.set(INH[3:4], v=0.5)
    np.testing.assert_array_equal(sim.state.neurons["inh"]["v"], [np.nan, *v[1:3], 0.5, v[4]])


def test_populations_stand_for_their_names():
    sim = network().build(seed=1, backend="numba", quantum={(EXC, "syn"): 2.0**-10, "inh.syn": 2.0**-9})
    assert {(a, b): c for a, b, c in sim.plan.quanta} == {("exc", "syn"): 2.0**-10, ("inh", "syn"): 2.0**-9}
    sim.set(EXC, drive=0.25)
    assert (sim.params["exc"]["drive"][EXC[MIXED]] == 0.25).all()
    key = np.array([1, 2], np.uint32)
    same(counts(sim, {}, keys={INH: key}), counts(sim, {}, keys={"inh": key}))


def test_keys_are_sorted_by_name():
    given = [EXC[5:], "inh", INH, "exc[:2]", EXC, "exc", EXC[:2], EXC[MIXED]]
    for keys in (given, given[::-1]):
        keys.sort()
        names = [key if isinstance(key, str) else key.name for key in keys]
        assert names == sorted(names)
    with pytest.raises(TypeError, match="not supported between instances"):
        sorted([EXC[:2], 1])


A, B = EXC[:3], EXC[[5, 2]]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({A: {"drive": 1.0}, B: {"drive": 1.0}}, "exc[:3] and exc[5::-3] both give drive of neuron 2; pass parts"),
        ({"exc[:3]": {"drive": 1.0}, A: {"drive": 1.0}}, "exc[:3] and exc[:3] both give drive of neuron 0"),
        ({"exc": {"drive": 1.0}, EXC: {"drive": 1.0}}, "has 'exc' twice, by its name and as the population itself"),
        ({A: {"threshold": 2.0}}, "threshold was built as one number for all neurons of exc; set it for"),
        ({A: {"dri": 1.0}}, "has no 'dri'; did you mean 'drive'?"),
        ({A: {"drive": np.ones(2)}}, "has shape (2,); pass "),
        ({A: 1.0}, "['exc[:3]'] is float; pass "),
        ({"exc[1]": {"drive": 1.0}}, "[1] is no slice"),
        ({cells("exc", 9, 1.0)[:3]: {"drive": 1.0}}, "exc[:3] is of a population of 9 neurons, but exc has 12 here"),
        ({cells("other", 9, 1.0)[:3]: {"drive": 1.0}}, "there is no population 'other'"),
        ({A: {"drive": "much"}}, "pass real numbers, which become float32"),
    ],
)
@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_what_does_not_fit_is_refused(backend, given, words):
    sim = network().build(seed=1, backend=backend)
    with pytest.raises((NetworkError, ShapeError, UnknownNameError), match=re.escape(words)):
        counts(sim, given)
    swept = {key: {n: [x] for n, x in own.items()} if isinstance(own, dict) else own for key, own in given.items()}
    with pytest.raises(NetworkError, match=re.escape(words)):
        sim.sweep(STEPS, "exc.counts", swept)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda sim: counts(sim, {}, keys={A: [1, 2]}), "keys: exc[:3] is a part, but random numbers are those"),
        (
            lambda sim: network().build(quantum={(A, "syn"): 1.0}),
            "quantum: exc[:3] is a part, but a quantum is that of",
        ),
        (lambda sim: network().build(hosts={A: 0}), "hosts: exc[:3] is a part, but a process owns or shares"),
        (lambda sim: sim.sweep(1, values={3: {"drive": [1.0]}}), "values has 3; pass names of populations and"),
        (lambda sim: sim.at(cells("exc", 9, 1.0)[:3]), "at: exc[:3] is of a population of 9 neurons, but exc has 12"),
    ],
)
def test_what_is_of_all_neurons_takes_no_part(act, words):
    with pytest.raises(NetworkError, match=re.escape(words)):
        act(network().build(seed=1, backend="numba"))


@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_parameters_that_are_left_out_are_those_of_now(backend, tmp_path):
    sim = network().build(seed=1, backend=backend)
    sim.set(EXC[MIXED], drive=0.5)
    sim.set("inh", threshold=0.7)
    sim.save(tmp_path / "state.npz")
    loaded = network().build(seed=1, backend=backend)
    loaded.load(tmp_path / "state.npz")

    def out(given, of=sim):
        return np.asarray(be.simulate(of, of.state, given, STEPS, record="exc.v")[1]["exc.v"])

    left_out, own = out({}), {"exc": {"drive": 0.15}, EXC[:2]: {"drive": 0.3}}
    changed = np.array(EXC.params["drive"])
    changed[MIXED] = 0.5
    as_built = network().build(seed=1, backend=backend)
    np.testing.assert_array_equal(left_out, out({"exc": {"drive": changed}, "inh": {"threshold": 0.7}}, as_built))
    np.testing.assert_array_equal(left_out, out({}, loaded))
    np.testing.assert_array_equal(out(own), out({**own, "inh": {"threshold": 0.7}}, as_built))
    np.testing.assert_array_equal(
        out({EXC[:2]: {"drive": 0.3}}),
        out({"exc": {"drive": changed}, EXC[:2]: {"drive": 0.3}, INH: {"threshold": 0.7}}, as_built),
    )
    sim.reset()
    assert not np.array_equal(left_out, out({}))
    np.testing.assert_array_equal(out({}), out({}, as_built))
    if backend == "numba":
        sim.set(EXC[MIXED], drive=0.5)
        np.testing.assert_array_equal(out({}), sim.run(STEPS, record=["exc.v"])["exc.v"])
