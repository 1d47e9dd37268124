# SPDX-License-Identifier: Apache-2.0
"""From the description of a network to its plan: receptors, quanta, delays, matrices, states, and what does not fit."""

import dataclasses
import importlib
import re
import warnings
from pathlib import Path

import described
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from described import cells, joined
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent as be
from brainevent.errors import NetworkError, RuleError
from brainevent.network import models
from brainevent.network.description import connect
from brainevent.network.description.network import Network, Population, Projection
from brainevent.network.description.parts import Part
from brainevent.network.description.values import exponential, integers, lognormal, normal, uniform
from brainevent.network.interpreted import Interpreted
from brainevent.network.plan import drawing, in_numpy
from brainevent.network.plan.build import build_plan
from brainevent.network.plan.quantum import RoundedWeightsWarning
from brainevent.network.plan.threads import cores, parts_for
from brainevent.network.run.recorded import Wanted
from brainevent.network.state import initial_state

ROOMS = Path(be.__file__).parent / "network"

# ---- matrices

RNG = np.random.default_rng(0)
WEIGHTS = np.where(RNG.random((12, 7)) < 0.4, RNG.integers(-20, 30, (12, 7)) * 0.275, 0).astype(np.float32)
FIXED = np.sort(np.argsort(RNG.random((12, 7)), axis=1)[:, :3])


def fixed_rows():
    return be.FixedNumPerPre(np.arange(36, dtype=np.float32).reshape(12, 3), FIXED, shape=(12, 7))


def fixed_columns():
    places = np.sort(np.argsort(RNG.random((7, 12)), axis=1)[:, :4])
    return be.FixedNumPerPost(np.arange(28, dtype=np.float32).reshape(7, 4), places, shape=(12, 7))


MATRICES = {
    "CSR": lambda: be.CSR.fromdense(WEIGHTS),
    "CSC": lambda: be.CSC.fromdense(WEIGHTS),
    "COO": lambda: be.COO.fromdense(WEIGHTS),
    "Dense": lambda: be.Dense(WEIGHTS),
    "FixedNumPerPre": fixed_rows,
    "FixedNumPerPost": fixed_columns,
    "one weight": lambda: be.CSR.fromdense(WEIGHTS).with_data(jnp.float32(1.5)),
    "NumPy": lambda: WEIGHTS,
    "JAX": lambda: jnp.asarray(WEIGHTS),
    "booleans": lambda: WEIGHTS > 0,
    "csr_array": lambda: scipy.sparse.csr_array(WEIGHTS),
    "csc_matrix": lambda: scipy.sparse.csc_matrix(WEIGHTS),
    "coo_array": lambda: scipy.sparse.coo_array(WEIGHTS),
    "lil_array": lambda: scipy.sparse.lil_array(WEIGHTS),
    "twice": lambda: be.COO((jnp.array([2.0, 3.0, 1.0]), jnp.array([1, 1, 0]), jnp.array([2, 2, 5])), shape=(12, 7)),
}


def dense_of(matrix):
    if isinstance(matrix, (np.ndarray, jnp.ndarray)):
        return np.asarray(matrix, np.float64)
    return np.asarray(matrix.todense(), np.float64)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("name", MATRICES)
def test_a_plan_of_a_matrix_is_that_matrix(name, parts):
    matrix = MATRICES[name]()
    found, quantum, _ = described.synapses(matrix, 12, 7, parts=parts)
    np.testing.assert_allclose(described.dense(found, quantum, (12, 7), parts), dense_of(matrix), rtol=1e-5)


@pytest.mark.parametrize(
    "name", ["CSR", "CSC", "COO", "Dense", "FixedNumPerPre", "FixedNumPerPost", "NumPy", "csr_array"]
)
def test_each_stored_element_has_its_delay(name):
    matrix = MATRICES[name]()
    shape = matrix.shape if name in ("Dense", "NumPy") else matrix.data.shape
    delays = np.random.default_rng(1).integers(1, 300, shape)
    found, quantum, _ = described.synapses(matrix, 12, 7, delay=delays * 0.1)
    at, to, weights, steps = described.listed(found, quantum)
    expected = delays
    if name == "csr_array":
        expected = dense_of(scipy.sparse.csr_array((delays, matrix.indices, matrix.indptr), matrix.shape))
    elif name not in ("Dense", "NumPy"):
        expected = dense_of(matrix.with_data(jnp.asarray(delays, jnp.float32)))
    assert found.delays.dtype == np.uint16
    np.testing.assert_array_equal(steps, expected[at, to])
    np.testing.assert_allclose(weights, dense_of(matrix)[at, to], rtol=1e-5)


@given(data=st.data(), parts=st.integers(1, 4))
@settings(max_examples=30, deadline=None)
def test_lists_of_synapses_are_kept(data, parts):
    n, m, many = (data.draw(st.integers(1, 40)) for _ in range(3))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    at, to, weights = rng.integers(0, n, many), rng.integers(0, m, many), rng.integers(-9, 9, many)
    delays = rng.integers(1, 9, many)
    matrix = scipy.sparse.coo_array((weights, (at, to)), (n, m))
    found, quantum, _ = described.synapses(matrix, n, m, delay=delays, dt=1, parts=parts)
    order = np.lexsort((weights, to, delays, at))
    for a, b in zip(described.listed(found, quantum, parts), (at, to, weights, delays), strict=True):
        np.testing.assert_array_equal(a, b[order])


def test_arrays_of_weights_where_all_are_connected():
    weights = np.arange(1, 31).reshape(6, 5) * 0.5
    found, quantum, _ = described.synapses(connect.all_to_all(weight=weights), 6, 5)
    np.testing.assert_array_equal(described.dense(found, quantum, (6, 5)), weights)
    own = np.arange(36.0).reshape(6, 6)
    found, quantum, _ = described.synapses(connect.all_to_all(weight=own, self_connections=False), 6)
    np.testing.assert_allclose(described.dense(found, quantum, (6, 6)), own - np.diag(np.diag(own)))
    found, quantum, _ = described.synapses(connect.one_to_one(weight=weights[0]), 5, delay=[0.1, 0.2, 0.3, 0.4, 0.5])
    np.testing.assert_array_equal(described.dense(found, quantum, (5, 5)), np.diag(weights[0]))
    assert described.listed(found)[3].tolist() == [1, 2, 3, 4, 5]


def test_one_to_one_and_one_delay():
    found, quantum, _ = described.synapses(connect.one_to_one(weight=-2.5), 6, 6, delay=1.5)
    np.testing.assert_array_equal(described.dense(found, quantum, (6, 6)), -2.5 * np.eye(6))
    assert (found.delays.tolist(), found.weights.size) == ([15], 1)


# ---- quanta


QUANTA = [
    ([1.62], 1.62, "int16"),
    ([1.62, -9], 0.18, "int16"),
    ([0.275, 0.55, 2406 * 0.275], 0.275, "int16"),
    ([1, 100_000], 1, "int32"),
    ([0, 0], 1, "int16"),
    ([257, 258], 1, "int16"),
    ([1, 3.1415926535, 2.7182818284, 0.5772156649], 0.5772156649 / 256, "int16"),
]


@pytest.mark.parametrize(("weights", "quantum", "dtype"), QUANTA, ids=str)
def test_the_quantum_is_the_common_divisor(weights, quantum, dtype):
    matrix = np.zeros((1, 4000))
    matrix[0, : len(weights)] = weights
    matrix = scipy.sparse.csr_array(matrix)
    found, chosen, _ = described.synapses(matrix, 1, 4000)
    assert chosen == pytest.approx(quantum, rel=1e-6)
    assert found.weights.dtype == dtype
    np.testing.assert_allclose(described.dense(found, chosen, (1, 4000))[0], matrix.todense()[0], rtol=2**-9)


@given(contacts=st.lists(st.integers(1, 3000), max_size=400), least=st.integers(1, 1024), unit=st.floats(1e-3, 1e3))
@settings(max_examples=40, deadline=None)
def test_contacts_of_one_weight_are_exact(contacts, least, unit):
    weights = (np.array([*contacts, least]) * np.float32(unit)).astype(np.float32)[None]
    found, quantum, _ = described.synapses(weights, 1, weights.size)
    np.testing.assert_allclose(described.dense(found, quantum, weights.shape), weights, rtol=2e-6)


@given(weights=st.lists(st.floats(0.01, 1.2), min_size=1, max_size=60), scale=st.sampled_from([1e-12, 1, 1e6]))
@settings(max_examples=40, deadline=None)
def test_16_bits_err_by_little(weights, scale):
    weights = np.array([weights]) * scale
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found, quantum, _ = described.synapses(weights, 1, weights.size)
    np.testing.assert_allclose(described.dense(found, quantum, weights.shape), weights, rtol=2**-9)


def test_a_quantum_is_no_denormal():
    with pytest.warns(RoundedWeightsWarning, match="of 9 weights were rounded"):
        plan = build_plan(joined(connect.total(9, weight=1e-40)))
    assert plan.populations[0].quanta["syn"] == np.finfo(np.float32).tiny


@pytest.mark.parametrize(("probability", "words"), [(0.0, []), (1.0, ["a->a.syn: 400 of 400 weights were rounded by"])])
def test_one_weight_that_is_rounded_is_that_of_all_synapses(probability, words):
    a = cells("a", 20)
    links = [Projection(a, a, connect.prob(p, weight=w), into="syn") for p, w in ((probability, 1e-7), (1.0, 3.0))]
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        build_plan(Network([a], links))
    assert len(found) == len(words)
    assert all(word in str(one.message) for word, one in zip(words, found, strict=True))


def test_all_projections_into_a_receptor_share_a_quantum():
    a = cells("a", 20)
    pair = [Projection(a, a, connect.total(9, weight=w), into="syn") for w in (0.6, -0.8)]
    plan = build_plan(Network([a], pair))
    assert plan.populations[0].quanta["syn"] == np.float32(0.2)
    assert [int(s.weights[0]) for s in plan.synapses] == [3, -4]
    assert [s.name for s in plan.synapses] == ["a->a.syn", "a->a.syn#2"]


def test_wide_distributions_have_32_bits_and_a_warning():
    with pytest.warns(RoundedWeightsWarning, match=r"a->b.syn: \d+ of 90000 weights were rounded by more than 2\*\*-9"):
        found, quantum, _ = described.synapses(connect.total(90_000, weight=uniform(0, 1)), 300, 300)
    assert found.weights.dtype == np.int32
    weights = described.listed(found, quantum)[2]
    assert abs(weights.mean() - 0.5) < 0.005
    assert np.bincount(found.targets, found.weights).max() < 2**31


def test_weights_that_are_given_need_no_warning():
    a = cells("a", 300)
    net = Network([a], [Projection(a, a, connect.total(90_000, weight=uniform(-1, 1)), into="syn")])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim = net.build(backend="jax")
        be.simulate(sim, sim.state, sim.params, 2)
        be.simulate(sim, sim.state, {"a->a.syn": sim.params["a->a.syn"]}, 2)
    words = r"a->a.syn: \d+ of 90000 weights were rounded by more than 2\*\*-9"
    for _ in range(2):
        with pytest.warns(RoundedWeightsWarning, match=words):
            be.simulate(sim, sim.state, {}, 2)
        with pytest.warns(RoundedWeightsWarning, match=words):
            sim.run(2)
    with pytest.warns(RoundedWeightsWarning, match=words):
        sim.stepper()
    sim.set("a->a.syn", weights=np.ones(90_000))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.run(2)


def test_weights_that_are_clipped_at_zero_are_zero():
    with pytest.warns(RoundedWeightsWarning):
        found, quantum, _ = described.synapses(connect.total(10_000, weight=normal(0, 1, low=0)), 100, 100)
    assert abs((found.weights == 0).mean() - 0.5) < 0.02
    assert found.weights.min() == 0
    assert described.listed(found, quantum)[2].max() > 3


def test_sums_that_leave_32_bits_are_refused():
    with pytest.raises(
        NetworkError, match=r"population b: weights into neuron 0 by syn add up to .* sums have 32 bits"
    ):
        described.synapses(connect.all_to_all(weight=uniform(1, 120)), 200_000, 1)


# ---- quanta that the user gives


@given(power=st.integers(-20, -4), parts=st.integers(1, 3), drawn=st.booleans())
@settings(max_examples=20, deadline=None)
def test_weights_become_multiples_of_a_given_quantum(power, parts, drawn):
    """Wide distributions are rounded as the user accepts, without a warning."""
    quantum = 2.0**power
    weights = np.random.default_rng(power + 100).normal(0, 0.3, (30, 20))
    network = joined(connect.total(400, weight=normal(0, 0.3)) if drawn else weights, 30, 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plans = [build_plan(network, parts=parts, quantum=given) for given in (quantum, {"b.syn": quantum})]
    for plan in plans:
        assert plan.population("b").quanta["syn"] == quantum
        (found,) = plan.synapses
        if drawn:
            np.testing.assert_allclose(described.listed(found, quantum, parts)[2].std(), 0.3, rtol=0.2)
        else:
            np.testing.assert_allclose(described.dense(found, quantum, (30, 20), parts), weights, atol=quantum / 2)


@pytest.mark.parametrize(
    ("quantum", "words"),
    [
        (0, "build: quantum of a.syn is 0; pass a positive number: weights become multiples of it"),
        (-1.0, "is -1.0; pass a positive number"),
        (np.nan, "is nan; pass a positive number"),
        (np.inf, "is inf; pass a positive number"),
        (1e-50, "is 1e-50; pass a positive number"),
        (True, "is True; pass a positive number"),
        ("small", "is 'small'; pass a positive number"),
        ([0.1], "is [0.1]; pass a positive number"),
        (
            {"b.sin": 0.1},
            "build: quantum: there is no receptor 'b.sin'; did you mean 'b.syn'?; receptors: a.syn, b.syn",
        ),
        ({"b.syn": [[1], [2, 3]]}, "build: quantum of b.syn: parts of this list have different shapes"),
        ({3: 0.1}, "build: quantum: there is no receptor 3; receptors: a.syn, b.syn"),
        (
            {"b.syn": 3.0},
            "is 3, which rounds all weights of a->b.syn to 0: they are at most 1.5; pass a smaller number",
        ),
        ({"b.syn": 1e-10}, "weights of a->b.syn are up to 1.5, more than 2**30 times as large; pass at least 1.4e-09"),
        ({"b.syn": 4e-9}, "sums have 32 bits, up to 2147483647; pass fewer synapses, weights that differ less, or a l"),
    ],
    ids=str,
)
def test_quanta_that_do_not_fit_are_refused(quantum, words):
    with pytest.raises(NetworkError, match=re.escape(words)):
        build_plan(joined(connect.all_to_all(weight=1.5), 30, 20), quantum=quantum)


# ---- delays


@given(steps=st.integers(1, 65_535), dt=st.sampled_from([0.1, 0.05, 0.025, 1.0, 1 / 3]))
@settings(max_examples=40, deadline=None)
def test_delays_are_whole_steps(steps, dt):
    found, _, _ = described.synapses(connect.one_to_one(), 2, delay=steps * dt, dt=dt)
    assert found.delays.tolist() == [steps]
    assert found.delays.dtype == (np.uint8 if steps <= 255 else np.uint16)


def test_delays_between_steps_are_rounded_if_asked():
    net = joined(connect.one_to_one(), 2, delay=0.27)
    assert build_plan(net, round_delays=True).synapses[0].delays.tolist() == [3]
    assert build_plan(joined(connect.one_to_one(), 2, delay=0.01), round_delays=True).synapses[0].delays.tolist() == [1]
    with pytest.raises(
        NetworkError, match=r"a->a.syn: delay: 0.27 ms, not a multiple of dt=0.1 ms; pass a multiple, or build\("
    ):
        build_plan(net)
    with pytest.raises(NetworkError, match=r"a->a.syn: delay: element 1 is 0.27 ms, not a multiple of dt=0.1 ms; pass"):
        build_plan(joined(connect.one_to_one(), 2, delay=np.array([0.2, 0.27])))


def test_drawn_delays_are_clipped_at_one_step_and_at_high():
    found, _, _ = described.synapses(connect.total(2000), 9, delay=normal(0, 10_000, high=6553.5))
    assert (found.delays.min(), found.delays.max(), found.delays.dtype) == (1, 65_535, np.uint16)


# ---- states, parameters, receptors


def test_states_and_parameters_become_arrays_of_the_rules_dtypes():
    def rule(s, arriving, p):
        v = jnp.where(s.ready, s.v * p.decay + arriving.syn + p.drive, s.v)
        return s.replace(v=v, ready=s.count > 3, count=s.count + p.more, seen=s.seen + jnp.uint32(1)), v > p.threshold

    a = Population(
        "a",
        1000,
        rule,
        state={"v": 0, "ready": True, "count": integers(0, 20), "seen": np.arange(1000, dtype=np.uint32)},
        params={"decay": 0.9, "drive": normal(1, 0.1), "more": 1, "threshold": np.linspace(1, 2, 1000)},
    )
    plan = build_plan(Network([a]), seed=9).populations[0]
    state, params = plan.state, plan.params
    assert [(k, v.dtype, v.shape) for k, v in state.items()] == [
        ("v", "float32", (1000,)),
        ("ready", "bool", (1000,)),
        ("count", "int32", (1000,)),
        ("seen", "uint32", (1000,)),
    ]
    assert set(state["count"].tolist()) == set(range(20))
    assert [(k, v.dtype, v.shape) for k, v in params.items()] == [
        ("decay", "float32", ()),
        ("drive", "float32", (1000,)),
        ("more", "int32", ()),
        ("threshold", "float32", (1000,)),
    ]
    again = build_plan(Network([cells("z", 3), a]), seed=9).population("a")
    np.testing.assert_array_equal(again.params["drive"], params["drive"])
    other = build_plan(Network([a]), seed=10).populations[0]
    assert (other.params["drive"] != params["drive"]).mean() > 0.9
    assert abs(np.corrcoef(params["drive"], state["count"])[0, 1]) < 0.15


def test_receptors_are_what_the_rule_reads():
    def rule(s, arriving, p, random):
        return s.replace(v=arriving.exc - arriving.inh), random.bernoulli(0.1)

    a = Population("a", 5, rule, state={"v": 0})
    plan = build_plan(Network([a], [Projection(a, a, connect.all_to_all(weight=0.5), into="inh")])).populations[0]
    assert plan.quanta == {"exc": 1, "inh": np.float32(0.5)}
    assert len(plan.rule.random) == 4


def test_a_rule_that_reads_nothing_has_no_receptors():
    plan = build_plan(Network([Population("a", 5, lambda s, arriving, p: (s, s.v > 0), state={"v": 0.0})]))
    assert plan.populations[0].quanta == {}


def test_arrays_of_users_are_copied():
    v, w = np.zeros(4, np.float32), np.ones((4, 4), np.float32)
    a = cells("a", 4, v=v)
    plan = build_plan(Network([a], [Projection(a, a, w, into="syn")]))
    v[:], w[:] = 7, 7
    assert plan.populations[0].state["v"].tolist() == [0, 0, 0, 0]
    assert described.listed(plan.synapses[0], float(plan.populations[0].quanta["syn"]))[2].tolist() == [1] * 16


def test_units_are_stripped():
    u = pytest.importorskip("brainunit")
    a = cells("a", 400, v=uniform(-0.06 * u.volt, -50 * u.mV))
    how = connect.total(50, weight=2 * u.nS)
    net = Network([a], [Projection(a, a, how, into="syn", delay=0.0015 * u.second)], dt=0.1 * u.ms)
    plan = build_plan(net)
    assert plan.dt == pytest.approx(0.1)
    assert -60 <= plan.populations[0].state["v"].min() < plan.populations[0].state["v"].max() < -50
    assert plan.synapses[0].delays.tolist() == [15]
    assert plan.populations[0].quanta["syn"] == 2
    delayed = joined(connect.total(5), 3, delay=normal(1.5 * u.ms, 0.5 * u.ms))
    assert build_plan(delayed).synapses[0].delays.max() < 60
    for wrong, words in (
        (lambda: joined(connect.total(5), 3, delay=2 * u.mV), "delay: has the unit mV; pass ms"),
        (lambda: joined(connect.total(5), 3, delay=normal(2 * u.mV, 1 * u.mV)), "delay: has the unit mV; pass ms"),
        (lambda: Network([cells("a", 4, v=3 * u.meter)]), "state v: has the unit m; pass one that is ms, mV"),
        (lambda: uniform(1 * u.mV, 2), "uniform: units are mV, none; pass one unit for all"),
    ):
        with pytest.raises(NetworkError, match=words):
            build_plan(wrong())


# ---- plans


def test_what_holds_arrays_is_compared_by_identity():
    """Arrays have no one truth value, and no hash; plans are static arguments of JAX."""
    rooms = (path.relative_to(ROOMS).with_suffix("") for path in ROOMS.rglob("[a-z]*.py"))
    names = [".".join(("brainevent.network", *room.parts)) for room in rooms]
    kinds = [kind for name in names for kind in vars(importlib.import_module(name)).values()]
    hold = {
        kind
        for kind in kinds
        if dataclasses.is_dataclass(kind) and any("Array" in str(field.type) for field in dataclasses.fields(kind))
    }
    assert {"PopulationPlan", "SynapsePlan", "NetworkState", "Recorded"} <= {kind.__name__ for kind in hold}
    hold -= {Part}  # whose numbers it compares one by one
    assert [kind for kind in hold if kind.__eq__ is not object.__eq__ or kind.__hash__ is not object.__hash__] == []


def test_plans_are_keys():
    one, other = (build_plan(joined(WEIGHTS, 12, 7)) for _ in range(2))
    assert one != other
    assert {one: 1, other: 2}[one] == 1
    for parts in ("populations", "synapses"):
        first, second = getattr(one, parts)[0], getattr(other, parts)[0]
        assert first in {first}
        assert first != second


# ---- the fingerprint


def test_the_fingerprint_names_the_network(monkeypatch):
    def net(weight=1.0, delay=1.0, size=20, v=0.0, dt=0.1, rule=described.silent, kind=connect.total):
        a = cells("a", size, rule, v=v)
        return Network([a], [Projection(a, a, kind(30, weight=weight), into="syn", delay=delay)], dt=dt)

    def named(seed=1, parts=1, quantum=None, **changed):
        return build_plan(net(**changed), seed=seed, parts=parts, quantum=quantum).fingerprint

    assert named() == named() == named(parts=3)
    changes = [{"weight": 2.0}, {"weight": normal(1, 0.1)}, {"delay": 2.0}, {"size": 21}, {"v": 1.0}, {"dt": 0.2}]
    changes += [{"rule": described.forward}, {"kind": connect.in_degree}, {"seed": 2}, {"quantum": 0.125}]
    assert len({named(**change) for change in [{}, *changes]}) == len(changes) + 1
    matrices = [build_plan(joined(WEIGHTS * k, 12, 7)).fingerprint for k in (1, 1, 2)]
    assert matrices[0] == matrices[1] != matrices[2]
    usual = named()
    for number in ("SCHEME", "DRAWING"):  # of the functions that make random numbers
        with monkeypatch.context() as patch:
            patch.setattr(f"brainevent.network.plan.build.{number}", 1000)
            assert named() != usual


def test_the_same_rule_elsewhere_has_the_same_fingerprint():
    text = "def silent(s, arriving, p):\n    return s.replace(v=s.v + arriving.syn), s.v < -1e30\n"
    names = []
    for lines in ("", "\n\n\n"):
        scope = {}
        exec(compile(lines + text, f"<{len(lines)}>", "exec"), scope)
        names.append(build_plan(Network([cells("a", 3, scope["silent"])])).fingerprint)
    assert names[0] == names[1]


# ---- networks that run


def test_spikes_arrive_where_and_when_they_should():
    a, b = cells("a", 3, described.forward), cells("b", 3)
    matrix = np.array([[0, 2, 0], [0, 0, 0.5], [0, 0, 0]])
    projections = [Projection(a, b, matrix, into="syn", delay=[[1, 3, 1], [1, 1, 5], [1, 1, 1]])]
    engine = Interpreted(build_plan(Network([a, b], projections, dt=1)))
    drive = np.zeros((1, 3), np.float32)
    drive[0] = 1
    engine.run(1, Wanted(), {("a", "syn"): drive})
    seen = []
    for _ in range(7):
        seen.append(engine.state.neurons["b"]["v"].tolist())
        engine.run(1, Wanted(), {})
    assert seen == [[0, 0, 0]] * 3 + [[0, 2, 0]] * 2 + [[0, 2, 0.5]] * 2


def cuba(n=4000):
    params = {"decay": 0.995, "fall_exc": 0.98, "fall_inh": 0.99, "gain": 0.005, "rest": -49.0, "threshold": -50.0}
    state = {"v": uniform(-60, -50), "exc": 0, "inh": 0, "pause": 0}
    exc, inh = (
        Population(k, size, described.cuba_rule, state, params) for k, size in (("exc", n * 4 // 5), ("inh", n // 5))
    )
    p = 80 / n
    return Network(
        [exc, inh],
        [
            Projection(source, target, connect.prob(p, weight=w), into=source.name)
            for source, w in ((exc, 1.62), (inh, -9.0))
            for target in (exc, inh)
        ],
    )


def test_cuba_is_built_and_runs():
    plan = build_plan(cuba(), seed=1)
    number = sum(s.targets.size for s in plan.synapses)
    assert abs(number - 320_000) < 4 * 320_000**0.5
    assert {s.weights[0] * plan.population(s.target).quanta[s.receptor] for s in plan.synapses} == {
        np.float32(1.62),
        np.float32(-9),
    }
    recorded = Interpreted(plan).run(150, Wanted(rates=("exc", "inh")), {})
    assert 20 < recorded.rates["exc"].sum() + recorded.rates["inh"].sum() < 4000
    parts = build_plan(cuba(), seed=1, parts=2)
    again = Interpreted(parts).run(150, Wanted(rates=("exc",)), {})
    np.testing.assert_array_equal(recorded.rates["exc"], again.rates["exc"])


def test_an_empty_projection_runs():
    plan = build_plan(joined(connect.prob(0.0, weight=normal(1, 0.1)), 5), parts=2)
    assert plan.synapses[0].targets.size == 0
    Interpreted(plan).run(2, Wanted(), {})
    assert initial_state(plan).arriving["a"]["syn"].shape == (1, 5)


# ---- how many parts


def test_parts_follow_size_machine_and_wishes(monkeypatch):
    monkeypatch.delenv("BRAINEVENT_THREADS", raising=False)
    monkeypatch.setattr("brainevent.network.plan.threads.cores", lambda: 4)
    assert [parts_for(n) for n in (1, 9999, 10_000, 15_000, 10**6)] == [1, 1, 2, 3, 4]
    assert parts_for(10, 3) == 3
    monkeypatch.setenv("BRAINEVENT_THREADS", "5")
    assert parts_for(10) == 5
    assert parts_for(10, 2) == 2
    for wrong in ("0", "many", "-1", "1.5"):
        monkeypatch.setenv("BRAINEVENT_THREADS", wrong)
        with pytest.raises(NetworkError, match=r"BRAINEVENT_THREADS is .*; pass an integer from 1 to 1024"):
            parts_for(10)
    for wrong in (0, -1, True, 1.5, "2"):
        with pytest.raises(NetworkError, match=r"build: threads is .*; pass an integer from 1"):
            parts_for(10, wrong)
    assert cores() >= 1


# ---- what does not fit


A, B = cells("a", 5), cells("b", 4)
CSR = be.CSR.fromdense(np.ones((5, 4), np.float32))


def projected(how, source=A, target=B, into="syn", **others):
    return lambda: build_plan(Network([A, B], [Projection(source, target, how, into=into, **others)]))


BAD = [
    (lambda: Network([]), "Network: populations is empty; pass at least one"),
    (lambda: Network(A), r"populations is Population\('a', 5, silent\); pass a list of Population"),
    (lambda: Network([A, "b"]), "'b' is among the populations; pass Population"),
    (lambda: Network([A, A]), "2 populations are named 'a'; give each a name"),
    (lambda: Network([A, cells("a", 7)]), "2 populations are named 'a'"),
    (lambda: Network([A], dt=0), "dt is 0; pass a positive number of ms"),
    (lambda: Network([A], dt=float("nan")), "dt is nan"),
    (lambda: Network([A], dt="0.1"), "dt is '0.1'"),
    (lambda: Network([A], [Projection(A, B, CSR, into="syn")]), "population b is not in the network"),
    (lambda: Network([A], [Projection(A, cells("a", 5), CSR, into="syn")]), "has this name; pass the population"),
    (lambda: Network([A, B], [Projection(A, B, CSR, into="syn", name="x")] * 2), "2 projections are named 'x'"),
    (lambda: cells("", 3), "Population: name is ''"),
    (lambda: cells("a.b", 3), "name is 'a.b'; pass a string without spaces and the characters"),
    (lambda: cells("a", 0), "population a: size is 0; pass a positive integer"),
    (lambda: cells("a", 2.5), "size is 2.5"),
    (lambda: cells("a", True), "size is True"),
    (lambda: Population("a", 3, "rule"), "population a: rule is 'rule'; pass a function"),
    (lambda: Population("a", 3, described.silent, state=[0]), r"population a: state is \[0\]; pass dict\(name=value\)"),
    (lambda: Population("a", 3, described.silent, state={"a b": 0}), "state 'a b' is not a valid name; pass letters"),
    (lambda: Population("a", 3, described.silent, params={"for": 0}), "params 'for' is not a valid name"),
    (
        lambda: Population("a", 3, described.silent, state={"replace": 0}),
        "state 'replace' is a reserved name; pass another",
    ),
    (
        lambda: Population("a", 3, described.silent, state={"_what": 0}),
        "state '_what' is a reserved name; pass another",
    ),
    (
        lambda: Network([A], [Projection(A, A, CSR, into="syn", name="a")]),
        "2 populations and projections are named 'a'",
    ),
    (lambda: build_plan(Network([A]), check_finite="no"), "build: check_finite is 'no'; pass True or False"),
    (lambda: build_plan(Network([A]), round_delays=1), "build: round_delays is 1; pass True or False"),
    (lambda: Projection("a", B, CSR, into="syn"), "source is 'a'; pass a Population"),
    (lambda: Projection(A, B, CSR, into="a b"), "a->b: into is 'a b'; pass the name"),
    (lambda: Projection(A, B, CSR, into="syn", name=""), "name is ''; pass a string"),
    (projected(CSR, into="sin"), r"a->b.sin: the rule of b reads no arriving.sin; did you mean 'syn'\?; it reads syn"),
    (projected(CSR, B, A), r"b->a.syn: matrix: has the shape \(5, 4\) .*pass matrix.T\); pass .* is \(4, 5\)"),
    (projected(np.ones((5, 3))), r"a->b.syn: matrix: has the shape \(5, 3\); pass \(sources, targets\), .* \(5, 4\)"),
    (projected(np.ones(5)), r"matrix: has the shape \(5,\)"),
    (projected(scipy.sparse.csr_array(np.ones((5, 4)) * 1j)), "matrix: holds complex128; pass real numbers"),
    (projected(3), r"matrix: has the shape \(\); pass \(sources, targets\)"),
    (projected(np.full((5, 4), np.nan)), "a->b.syn: weight: element 0 is nan; pass finite numbers"),
    (projected(scipy.sparse.csr_array(np.diag([1, np.inf, 1, 1, 1])[:, :4])), "weight: element 1 is inf"),
    (projected(connect.total(5, weight=np.inf)), "a->b.syn: weight: is inf; pass finite numbers"),
    (projected(connect.total(5, weight=1e39)), r"weight: is 1e\+39; pass finite numbers that fit in float32"),
    (projected(connect.total(5, weight=normal(0, 1e38))), "weight: values may not fit in float32"),
    (projected(connect.total(5, weight=[1, 2, 3, 4, 5])), r"weight has the shape \(5,\), but synapses are drawn"),
    (projected(connect.all_to_all(weight=np.ones((4, 5)))), r"weight has the shape \(4, 5\); .* an array \(5, 4\)"),
    (
        projected(connect.one_to_one()),
        "there are 5 sources and 4 targets; pass populations of one size",
    ),
    (projected(connect.in_degree(6, replace=False)), "needs 6 different neurons, and there are 5; pass at most 5"),
    (projected(connect.out_degree(5, replace=False)), r"out_degree\(5\) needs 5 different neurons, and there are 4"),
    (projected(connect.in_degree(5, replace=False, self_connections=False), A, A), "and there are 4; pass at most 4"),
    (projected(CSR, delay=0), "a->b.syn: delay: 0 ms; pass delays from 0.1 to 6553.5 ms, which are 1 to 65535 steps"),
    (projected(CSR, delay=-1.5), "delay: -1.5 ms; pass delays from"),
    (projected(CSR, delay=float("nan")), "delay: nan ms"),
    (projected(CSR, delay=float("inf")), "delay: inf ms"),
    (projected(CSR, delay=1e-8), "delay: 1e-08 ms is below one step, the least delay; pass 0.1 ms or more, or"),
    (projected(CSR, delay=6553.6), "delay: 6553.6 ms; pass delays from"),
    (projected(CSR, delay="1"), "delay is '1'; pass ms"),
    (projected(CSR, delay=np.ones(7)), r"delay: has the shape \(7,\); pass one number, or one for each .* \(20,\)"),
    (projected(np.ones((5, 4)), delay=np.where(np.arange(20).reshape(5, 4) == 6, 0.0, 1)), r"element \(1, 2\) is 0 ms"),
    (projected(connect.total(5), delay=np.ones(5)), r"delay has the shape \(5,\), but synapses are drawn"),
    (projected(CSR, delay=uniform(-2, -1)), "delay: values are from -2 to -1 ms; pass values from 0.1 to 6553.5"),
    (projected(CSR, delay=uniform(6000, 7000)), "values are from 6000 to 7000 ms; pass values from 0.1 to 6553.5"),
    (projected(CSR, delay=normal(6000, 500)), "which are 1 to 65535 steps, such as with high=6553.5"),
    (lambda: connect.total(-1), "connect.total: number is -1; pass an integer that is not negative"),
    (lambda: connect.in_degree(2.5), "connect.in_degree: number is 2.5"),
    (lambda: connect.prob(1.5), "connect.prob: p is 1.5; pass a probability"),
    (lambda: connect.prob(float("nan")), "connect.prob: p is nan"),
    (lambda: connect.prob(1, replace=True), "p is 1 with replace=True; pass all_to_all"),
    (lambda: connect.prob(0.1, replace=1), "connect.prob: replace is 1; pass True or False"),
    (lambda: connect.total(9, self_connections=None), "connect.total: self_connections is None; pass True or False"),
    (lambda: uniform(1, 1), "uniform: low is 1 and high is 1; pass low < high"),
    (lambda: uniform("0", 1), "uniform: low is '0'; pass a number"),
    (lambda: normal(0, -1), "normal: sd is -1; pass 0 or"),
    (lambda: normal(float("nan"), 1), "normal: mean is nan; pass a finite number"),
    (lambda: normal(0, 1, low=2, high=1), "normal: low is 2 and high is 1; pass low <= high"),
    (lambda: lognormal(0, 1), "lognormal: mean is 0; pass a positive number"),
    (lambda: exponential(0), "exponential: mean is 0; pass another"),
    (lambda: integers(3, 3), "integers: low is 3 and high is 3; pass low < high"),
    (lambda: integers(0.5, 3), "integers: low is 0.5; pass an integer"),
    (lambda: build_plan(Network([cells("a", 5, v=np.zeros(4))])), r"state v: has the shape \(4,\); pass a number, or"),
    (lambda: build_plan(Network([cells("a", 5, v=float("nan"))])), "population a: state v: is NaN; pass numbers"),
    (lambda: build_plan(Network([cells("a", 2, v=np.array([0, np.nan]))])), "state v: is NaN at neuron 1"),
    (lambda: build_plan(Network([cells("a", 2, v=[[0], []])])), "population a: state v: parts of this list have diff"),
    (lambda: build_plan(Network([cells("a", 5, v="0")])), "population a: state v is '0'; pass a number, values"),
    (
        lambda: build_plan(Network([cells("a", 5, v=1e39)])),
        r"state v: is 1e\+39, which does not fit in float32; pass numbers that do",
    ),
    (lambda: build_plan(Network([A]), seed=-1), r"build: seed is -1; pass an integer from 0 to 2\*\*64 - 1"),
    (lambda: build_plan(Network([A]), seed=2**64), "build: seed is 18446744073709551616"),
    (lambda: build_plan(Network([A]), seed=1.0), "build: seed is 1.0"),
]


@pytest.mark.parametrize(("make", "words"), BAD, ids=[str(i) for i in range(len(BAD))])
def test_what_does_not_fit_is_said(make, words):
    with pytest.raises(NetworkError, match=words):
        make()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda: projected(connect.total(10**13)),
            "projection a->b.syn: 1e+13 synapses would take 20 TB, but the host has 100 MB of",
        ),
        (lambda: projected(connect.in_degree(10**12)), "projection a->b.syn: 4e+12 synapses would take 8 TB"),
        (lambda: projected(connect.out_degree(2**70)), "projection a->b.syn: 5.9e+21 synapses would take 11.8 ZB"),
        (
            lambda: lambda: build_plan(Network([cells("c", 2**31 - 1)])),
            "population c: states of 2147483647 neurons would",
        ),
        (
            lambda: lambda: initial_state(build_plan(joined(connect.one_to_one(), 2000, delay=6000))),
            "population a: the pending input of syn, for delays up to 60000 steps, would take 480 MB",
        ),
    ],
)
def test_what_does_not_fit_into_memory_is_refused_before_it_is_drawn(monkeypatch, make, words):
    monkeypatch.setattr("brainevent.event.room._available", lambda: 10**8)
    with pytest.raises(MemoryError, match=re.escape(words)):
        make()()


def test_unchecked_indices_are_checked_by_projections():
    row = be.CSR((jnp.ones(2), jnp.array([0, 9]), jnp.array([0, 2, 2, 2, 2, 2])), shape=(5, 4), check_structure=False)
    with pytest.raises(NetworkError, match="matrix: element 1 is in column 9; pass 0 to 3"):
        projected(row)()


def test_a_rule_that_cannot_be_traced_says_so():
    def rule(s, arriving, p):
        return s.replace(v=arriving.syn + p.driv), s.v > 0

    with pytest.raises(RuleError, match=r"^population a: rule rule, .*: reads p\.driv, but params has no 'driv'; did"):
        build_plan(Network([Population("a", 3, rule, {"v": 0.0}, {"drive": 1.0})]))


def test_descriptions_are_frozen_and_readable():
    with pytest.raises(dataclasses.FrozenInstanceError):
        A.size = 7
    assert repr(Projection(A, B, CSR, into="syn")) == "Projection('a->b.syn', CSR)"
    assert repr(connect.all_to_all(weight=np.ones((2, 2)))) == "all_to_all(weight=an array (2, 2))"
    assert repr(Network([A, B])) == "Network(9 neurons, 0 projections, dt=0.1)"


def test_a_population_made_for_another_step_raises():
    cells = models.lif_current("cells", 3, dt=0.2)
    with pytest.raises(
        NetworkError, match=r"cells: its parameter dt is 0\.2 ms, but dt in a rule is the time step of the"
    ):
        build_plan(Network([cells], dt=0.1))
    assert build_plan(Network([cells], dt=0.2)).dt == 0.2


# ---- few synapses, without compiled code


def some_pairs(number):
    """Return a list of synapses in any order, some of them with the same ends."""
    ends = RNG.integers(0, 12, number), RNG.integers(0, 7, number)
    return scipy.sparse.coo_array((RNG.integers(-400, 400, number) / 8, ends), (12, 7))


DELAYED = np.where(WEIGHTS != 0, RNG.integers(1, 400, WEIGHTS.shape), 1.0)
GIVEN = {
    "a matrix": (WEIGHTS, 2.0),
    "a matrix with delays": (WEIGHTS, DELAYED),
    "any order": (some_pairs(90), 1.0),
    "any order, drawn delays": (some_pairs(90), uniform(1, 300)),
    "one weight for all": (connect.all_to_all(weight=-2.5), 3.0),
    "one to one": (connect.one_to_one(weight=7.0), 1.0),
    "one synapse": (scipy.sparse.coo_array(([2.0], ([3], [4])), (12, 7)), np.array([5.0])),
    "none": (np.zeros((12, 7)), 1.0),
}


@pytest.mark.parametrize("name", GIVEN)
@pytest.mark.parametrize("parts", [1, 3])
def test_few_synapses_are_placed_as_many_are(monkeypatch, name, parts):
    """By NumPy, not by native code: the same arrays, bounds of sums and warnings."""
    how, delay = GIVEN[name]
    a, b = cells("a", 12), cells("b", 12 if name == "one to one" else 7)
    network = Network([a, b], [Projection(a, b, how, into="syn", delay=delay)], dt=1.0)
    few = build_plan(network, seed=1, parts=parts)
    calls = []
    monkeypatch.setattr(in_numpy, "FEW", -1)
    monkeypatch.setattr(drawing, "put_in_order", lambda *_: calls.append(1))
    many = build_plan(network, seed=1, parts=parts)
    assert not calls
    for ours, theirs in zip(few.synapses, many.synapses, strict=True):
        for field in dataclasses.fields(theirs):
            x, y = getattr(ours, field.name), getattr(theirs, field.name)
            np.testing.assert_array_equal(x, y)
            assert np.asarray(x).dtype == np.asarray(y).dtype
    assert [p.quanta for p in few.populations] == [p.quanta for p in many.populations]
    assert list(few.projections) == list(many.projections)


def test_neurons_without_self_connections_are_placed_as_many_are(monkeypatch):
    a = cells("a", 9)
    network = Network(
        [a], [Projection(a, a, connect.all_to_all(weight=1.5, self_connections=False), into="syn")], dt=1.0
    )
    found = [build_plan(network, seed=1, parts=2).synapses[0]]
    monkeypatch.setattr(in_numpy, "FEW", -1)
    found.append(build_plan(network, seed=1, parts=2).synapses[0])
    for field in dataclasses.fields(found[0]):
        np.testing.assert_array_equal(*(getattr(one, field.name) for one in found))
    assert found[0].targets.size == 72


@pytest.mark.parametrize(
    ("targets", "number"),
    [(1, 3), (2, 30), (200, 24), (200, 25), (256, 256), (257, 257), (2048, 1023), (2049, 300), (70_000, 1024)],
)
def test_synapses_of_one_weight_are_in_the_order_of_those_with_their_own(targets, number):
    """They are sorted by their targets alone, in digits that depend on the number of both."""
    (one, quantum, plan), (own, _, _) = (
        described.synapses(connect.out_degree(number, weight=weight), 3, targets, seed=5, parts=3)
        for weight in (2.0, integers(1, 3))
    )
    assert one.weights.size == 1 < own.weights.size
    np.testing.assert_array_equal(one.targets, own.targets)
    np.testing.assert_array_equal(one.starts, own.starts)
    assert plan.loads["b", "syn"] * quantum == 2 * np.bincount(own.targets).max()
