# SPDX-License-Identifier: Apache-2.0
"""Units: where a network takes them, into which numbers they turn, and which ones are refused."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

import brainevent as be
from brainevent import models
from brainevent.errors import NetworkError, RuleError

u = pytest.importorskip("brainunit")

RELAYS = models.relay("from", 4)


def hold(s, arriving, p):
    """Hold what arrives, and a parameter."""
    return s.replace(seen=arriving.syn, out=p.level + p.rate), False


def probe(level=1.0, rate=0.0, units=None, seen=0.0):
    units = {"seen": "pA", "level": "pA", "rate": "Hz", "syn": "pA"} if units is None else units
    return be.Population("to", 4, hold, {"seen": seen, "out": 0.0}, {"level": level, "rate": rate}, units=units)


def placed(**given):
    return be.Population("p", 2, lambda s, arriving, p: (s, s.v > arriving.syn), {"v": 0.0}, **given)


def built(weight, target=None, connect=be.connect.one_to_one, into="syn", backend="interpreted"):
    target = probe() if target is None else target
    how = connect(weight=weight) if callable(connect) else connect
    return be.Network([RELAYS, target], [be.Projection(RELAYS, target, how, into=into)]).build(backend=backend)


def simulated(params):
    sim = built(1.0, backend="jax")
    return be.simulate(sim, sim.state, params, 1)


# What is converted.


def test_a_declared_unit_is_that_of_the_numbers():
    to = probe(level=np.array([1.0, 2, 3, 4]) * u.nA, rate=0.5 * u.kHz, seen=jnp.float32(2.0) * u.nA)
    np.testing.assert_allclose(to.params["level"], [1000, 2000, 3000, 4000])
    assert to.params["rate"] == pytest.approx(500)
    assert float(to.state["seen"]) == pytest.approx(2000)
    assert probe(rate=3.0).params["rate"] == 3.0


def test_attributes_are_numbers_in_the_declared_unit():
    at = {"x": np.array([1.0, 250.0]) * u.um, "y": be.uniform(0 * u.um, 500 * u.um), "angle": 90 * u.degree}
    found = placed(at=at, units={"x": "mm", "y": u.meter, "angle": "1"}).at
    np.testing.assert_array_equal(found["x"], np.float32([0.001, 0.25]))
    assert found["y"].law.bounds == pytest.approx((0, 5e-4))
    assert found["angle"] == np.float32(np.pi / 2)
    assert placed(at={"late": 2 * u.second}).at["late"] == 2000  # ms, as all numbers without a declared unit
    rates = probe(rate=be.uniform(0 * u.kHz, 1 * u.kHz))
    assert rates.params["rate"].law.bounds == (0, 1000)


@pytest.mark.parametrize(
    "connect",
    [
        be.connect.one_to_one(weight=0.002 * u.nA),
        be.connect.all_to_all(weight=np.full((4, 4), 2e-3) * u.nA),
        np.eye(4) * 2e-3 * u.nA,
        be.Dense(jnp.eye(4) * 2) * u.pA,
        be.CSR.fromdense(jnp.eye(4) * 2e-3) * u.nA,
        be.connect.one_to_one(weight=be.uniform(1.99 * u.pA, 2.01 * u.pA)),
        scipy.sparse.eye(4) * 2,
    ],
)
def test_weights_are_numbers_in_the_unit_of_the_receptor(connect):
    weights = built(None, connect=connect).connections("from->to.syn").weights
    np.testing.assert_allclose(weights, 2, rtol=6e-3)


def test_a_unit_may_be_one_of_brainunit():
    to = probe(level=be.uniform(999 * u.pA, 1001 * u.pA), units={"level": u.nA, "syn": u.nA})
    sim = built(1 * u.pA, to)
    assert sim.params["to"]["level"].max() == pytest.approx(1, rel=2e-3)
    np.testing.assert_allclose(sim.connections("from->to.syn").weights, 1e-3)


def test_inputs_and_what_is_set_are_in_declared_units():
    sim = built(1.0)
    sim.set("to", level=2 * u.nA, seen=1 * u.nA, rate=2 * u.kHz)
    sim.set("from->to.syn", weights=0.003 * u.nA)
    assert sim.params["to"]["level"] == 2000
    assert sim.params["to"]["rate"] == 2000
    assert sim.state.neurons["to"]["seen"].tolist() == [1000] * 4
    np.testing.assert_allclose(sim.connections("from->to.syn").weights, 3, rtol=2e-3)
    result = sim.run(1, "to.seen", inputs={"to.syn": np.full((1, 4), 0.5) * u.nA})
    assert result["to.seen"].tolist() == [[500] * 4]


def test_names_that_units_leave_out_take_numbers():
    to = probe(level=np.arange(4.0) * u.Quantity(2.0), rate=be.uniform(1, 2), units={"out": "pA"})
    sim = built(2.0, to)
    sim.set("to", rate=np.full(4, 3.0))
    assert sim.params["to"]["level"].tolist() == [0, 2, 4, 6]
    assert sim.params["to"]["rate"].tolist() == [3] * 4


def test_the_time_step_is_in_ms_without_declaring_it():
    rule = be.Population(
        "n", 2, lambda s, arriving, p: (s.replace(t=s.t + p.dt), s.t < 0), {"t": 0.0}, units={"t": "1"}
    )
    timed = dataclasses.replace(rule, params={"dt": 100 * u.us})
    assert be.Network([timed], dt=0.1).build(backend="interpreted").run(1, "n.t")["n.t"][0, 0] == np.float32(0.1)
    with pytest.raises(NetworkError, match=r"population n: dt: has the unit mV; pass ms"):
        dataclasses.replace(rule, params={"dt": 0.1 * u.mV})
    rules = {"on_pre": lambda w, s, pre, post, p: w * p.dt, "high": 1.0}
    assert be.Plasticity(**rules, params={"dt": 100 * u.us}).params == {"dt": pytest.approx(0.1)}
    with pytest.raises(NetworkError, match=r"Plasticity: params dt: has the unit mV; pass ms"):
        be.Plasticity(**rules, params={"dt": 0.1 * u.mV})


def test_a_quantity_of_an_integer_is_a_float():
    for given in (2 * u.pA, np.array([1, 2, 3, 4]) * u.pA, jnp.arange(4) * u.pA):
        for declared in ({"level": "pA"}, {}):
            sim = built(1.0, probe(level=given, units=declared))
            assert sim.params["to"]["level"].dtype == np.float32
            sim.set("to", level=2.5)


# What is refused.

REFUSED = {
    "a parameter": (lambda: probe(level=1 * u.mV), "population to: level: has the unit mV; pass pA, or a number"),
    "a state": (lambda: probe(seen=1 * u.nS), "population to: seen: has the unit nS; pass pA, or a number"),
    "drawn values": (
        lambda: probe(level=be.normal(1 * u.mV, 2 * u.mV)),
        "population to: level: has the unit mV; pass pA, or a number, which means pA",
    ),
    "a weight": (lambda: built(2 * u.mV), "projection from->to.syn: weight: has the unit mV; pass pA, or a number"),
    "drawn weights": (
        lambda: built(be.normal(2 * u.mV, 1 * u.mV)),
        "projection from->to.syn: weight: has the unit mV; pass pA, or a number",
    ),
    "a matrix": (
        lambda: built(None, connect=be.CSR.fromdense(jnp.eye(4)) * u.nS),
        "projection from->to.syn: matrix: has the unit nS; pass pA, or a number",
    ),
    "an array": (lambda: built(None, connect=np.eye(4) * u.nS), "matrix: has the unit nS; pass pA, or a number"),
    "a value that is set": (
        lambda: built(1.0).set("to", level=3 * u.mV),
        "set: level of to: has the unit mV; pass pA, or a number, which means pA",
    ),
    "weights that are set": (
        lambda: built(1.0).set("from->to.syn", weights=3 * u.mV),
        "set: weights of from->to.syn: has the unit mV; pass pA, or a number",
    ),
    "an input": (
        lambda: built(1.0).run(2, inputs={"to.syn": np.ones(2) * u.mV}),
        "inputs: 'to.syn': has the unit mV; pass pA, or a number, which means pA",
    ),
    "a rate without a declared unit": (
        lambda: built(1.0, probe(rate=5 * u.Hz, units={})),
        "params rate: has the unit Hz; pass one that is ms, mV, pA, nS, pF or a number, or declare its unit",
    ),
    "a probability with a unit": (lambda: be.connect.prob(0.1 * u.mV), "connect.prob: p is Quantity(0.1"),
    "a parameter of simulate": (
        lambda: simulated({"to": {"level": 3 * u.pA}}),
        "simulate: params['to']['level'] has the unit pA; pass numbers without a unit",
    ),
    "a unit that no one knows": (
        lambda: probe(units={"level": "pa"}),
        "population to: the unit of level is 'pa'; did you mean 'pA'?; pass one of ms, mV, pA, nS, pF, Hz, kHz, mm,",
    ),
    "a unit that is none": (lambda: probe(units={"level": 3.0}), "to: the unit of level is 3.0; pass one of"),
    "units that are no mapping": (lambda: probe(units=["pA"]), "population to: units is ['pA']; pass dict(name=value)"),
    "an attribute whose unit is not declared": (
        lambda: placed(at={"x": 1 * u.mm}),
        "x: has the unit mm; pass one that is ms, mV, pA, nS, pF or a number, or declare its unit, such as units={'x'",
    ),
    "drawn attributes whose unit is not declared": (
        lambda: placed(at={"x": be.normal(1 * u.mm, 1 * u.um)}),
        "population p: at x: has the unit mm; pass one that is ms, mV, pA, nS, pF or a number, or declare its unit",
    ),
    "an attribute that units leave out": (
        lambda: placed(at={"x": 1 * u.um}, units={"v": "1"}),
        "at x: has the unit um, but units= of population p has no 'x'; add 'x': 'mm' to it, or pass a number",
    ),
    "an attribute in another unit": (
        lambda: placed(at={"x": be.uniform(0 * u.mV, 1 * u.mV)}, units={"x": "mm", "v": "1"}),
        "population p: at x: has the unit mV; pass mm, or a number, which means mm",
    ),
    "a list of quantities": (
        lambda: placed(at={"x": [1 * u.mm, 2 * u.mm]}, units={"x": "mm"}),
        "population p: at x: is a list of quantities; pass one quantity, such as [1, 2] * unit instead of [1 * unit",
    ),
    "a drawn state whose unit is not declared": (
        lambda: be.Population("p", 2, lambda s, arriving, p: (s, s.v > 1), {"v": be.uniform(0 * u.mm, 1 * u.mm)}),
        "population p: v: has the unit mm; pass one that is ms, mV, pA, nS, pF or a number, or declare its unit",
    ),
    "a drawn weight in a unit that no receptor has": (
        lambda: built(be.uniform(0 * u.mm, 1 * u.mm), probe(units={})),
        "projection from->to.syn: weight: has the unit mm; pass one that is ms, mV, pA, nS, pF or a number",
    ),
    "drawn states of synapses in a unit that none has": (
        lambda: be.Plasticity(state={"x": be.uniform(0 * u.mm, 1 * u.mm)}, on_pre=lambda w, s, pre, post, p: (w, s)),
        "Plasticity: state x: has the unit mm; pass one that is",
    ),
    "a unit of nothing": (
        lambda: built(1.0, probe(units={"levl": "pA"})),
        "units has 'levl', which is no state, parameter, receptor or attribute; did you mean 'level'?; there",
    ),
    "a parameter that units leave out": (
        lambda: probe(rate=20 * u.ms, units={"level": "pA"}),
        "population to: rate: has the unit ms, but units= of population to has no 'rate'; add 'rate': 'ms' to it, or",
    ),
    "a state that units leave out": (
        lambda: probe(seen=1 * u.nA, units={"level": "pA"}),
        "population to: seen: has the unit nA, but units= of population to has no 'seen'; add 'seen': 'pA' to it",
    ),
    "drawn values that units leave out": (
        lambda: probe(rate=be.uniform(1 * u.mV, 2 * u.mV), units={"level": "pA"}),
        "population to: rate: has the unit mV, but units= of population to has no 'rate'; add 'rate': 'mV' to it",
    ),
    "a unit that brainunit alone knows": (
        lambda: probe(rate=2 * u.kelvin, units={"level": "pA"}),
        "to: rate: has the unit K, but units= of population to has no 'rate'; add it with a unit of brainunit, or",
    ),
    "a weight into a receptor that units leave out": (
        lambda: built(5 * u.pA, probe(units={"level": "pA"})),
        "projection from->to.syn: weight: has the unit pA, but units= of population to has no 'syn'; add 'syn': 'pA'",
    ),
    "drawn weights into a receptor that units leave out": (
        lambda: built(be.normal(5 * u.pA, 1 * u.pA), probe(units={"level": "pA"})),
        "projection from->to.syn: weight: has the unit pA, but units= of population to has no 'syn'",
    ),
    "a matrix into a receptor that units leave out": (
        lambda: built(None, probe(units={"level": "pA"}), connect=np.eye(4) * u.nS),
        "projection from->to.syn: matrix: has the unit nS, but units= of population to has no 'syn'",
    ),
    "an input of a receptor that units leave out": (
        lambda: built(1.0, probe(units={"level": "pA"})).run(2, inputs={"to.syn": np.ones(2) * u.mV}),
        "inputs: 'to.syn': has the unit mV, but units= of population to has no 'syn'",
    ),
    "a value that is set and that units leave out": (
        lambda: built(1.0, probe(units={"level": "pA"})).set("to", rate=3 * u.Hz),
        "set: rate of to: has the unit Hz, but units= of population to has no 'rate'; add 'rate': 'Hz'",
    ),
    "weights that are set and that units leave out": (
        lambda: built(1.0, probe(units={"level": "pA"})).set("from->to.syn", weights=3 * u.mV),
        "set: weights of from->to.syn: has the unit mV, but units= of population to has no 'syn'",
    ),
    "a factor of a ready model": (
        lambda: be.Network([models.lif_delta("n", 2)]).build(backend="interpreted").set("n", refractory=5 * u.ms),
        "set: refractory of n: has the unit ms, but units= of population n has no 'refractory'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_another_unit_is_refused(case):
    make, words = REFUSED[case]
    with pytest.raises(NetworkError) as caught:
        make()
    assert words in str(caught.value)


# Ready models.

MODELS = {
    "lif_current": {
        "mV": "rest threshold reset v",
        "pA": "current",
        "pF": "capacitance",
        "ms": "tau tau_syn refractory",
    },
    "lif_delta": {"mV": "rest threshold reset v current", "ms": "tau refractory"},
    "lif_exponential": {"mV": "rest threshold reset v current", "ms": "tau tau_exc tau_inh refractory"},
    "lif_conductance": {
        "mV": "rest rest_exc rest_inh threshold reset v current",
        "1": "exc inh",
        "ms": "tau tau_exc tau_inh refractory",
    },
    "adex": {
        "mV": "rest threshold sharpness reset peak rest_exc rest_inh v",
        "pA": "w b current",
        "nS": "leak a",
        "pF": "capacitance",
        "ms": "tau_w tau_exc tau_inh refractory",
    },
    "izhikevich": {"mV": "v c peak", "1": "u b d current", "kHz": "a", "ms": "tau_syn"},
    "hodgkin_huxley": {
        "mV": "rest_leak rest_sodium rest_potassium threshold rest_exc rest_inh v",
        "pA": "current",
        "nS": "leak sodium potassium",
        "pF": "capacitance",
        "ms": "tau_exc tau_inh",
    },
}  # fmt: skip
RECEPTORS = {
    "lif_current": {"syn": "pA"},
    "lif_delta": {"syn": "mV"},
    "lif_exponential": {"exc": "mV", "inh": "mV"},
    "lif_conductance": {"exc": "1", "inh": "1"},
    "adex": {"exc": "nS", "inh": "nS"},
    "izhikevich": {"syn": "1"},
    "hodgkin_huxley": {"exc": "nS", "inh": "nS"},
}
ARGUMENTS = [
    (model, name, unit) for model, by in MODELS.items() for unit, names in by.items() for name in names.split()
]


def test_all_arguments_of_models_have_a_unit():
    for model, by in MODELS.items():
        names = {*getattr(models, model).__kwdefaults__} - {"dt"}
        assert {name for words in by.values() for name in words.split()} == names, model


@pytest.mark.parametrize(("model", "name", "unit"), ARGUMENTS)
def test_an_argument_of_a_model_in_another_unit_is_refused(model, name, unit):
    make, right = getattr(models, model), 1.0 if unit == "1" else 1.0 * getattr(u, unit)
    make("n", 2, **{name: right})
    with pytest.raises(NetworkError) as caught:
        make("n", 2, **{name: 1.0 * u.meter})
    wanted = "a number without a unit" if unit == "1" else f"{unit}, or a number, which means {unit}"
    assert str(caught.value) == f"population n: {name}: has the unit m; pass {wanted}"


@pytest.mark.parametrize(("model", "receptor"), [(m, r) for m, by in RECEPTORS.items() for r in by])
def test_a_weight_into_a_model_in_another_unit_is_refused(model, receptor):
    neurons, unit = getattr(models, model)("to", 4), RECEPTORS[model][receptor]
    right = 2.0 if unit == "1" else 2.0 * getattr(u, unit)
    np.testing.assert_array_equal(built(right, neurons, into=receptor).connections(f"from->to.{receptor}").weights, 2)
    wrong = 2.0 * (u.nS if unit == "1" else u.meter)
    with pytest.raises(NetworkError, match=f"projection from->to.{receptor}: weight: has the unit"):
        built(wrong, neurons, into=receptor)


def test_a_conductance_where_leak_conductances_are_counted_says_to_divide():
    with pytest.raises(NetworkError) as caught:
        built(6 * u.nS, models.lif_conductance("to", 4), into="exc")
    assert str(caught.value) == (
        "projection from->to.exc: weight: has the unit nS; pass a number without a unit: in leak conductances, divide "
        "by the leak, as in 6 * u.nS / (10 * u.nS)"
    )
    with pytest.raises(NetworkError, match="inh: has the unit uS; pass a number without a unit: in leak conductances"):
        models.lif_conductance("to", 4, inh=1 * u.uS)
    weight = 6 * u.nS / (10 * u.nS)
    sim = built(weight, models.lif_conductance("to", 4), into="exc")
    np.testing.assert_allclose(sim.connections("from->to.exc").weights, 0.6, rtol=2e-3)


@pytest.mark.parametrize(
    ("drive", "words"),
    [
        (lambda n, x: models.step_current(n, amplitude=x, start=0, stop=1), "step_amplitude: has the unit mV; pass pA"),
        (lambda n, x: models.noise_current(n, sd=x), "noise_sd: has the unit mV; pass pA"),
        (lambda n, x: models.poisson_drive(n, rate=5.0, weight=x), "poisson_weight: has the unit mV; pass pA"),
    ],
)
def test_a_drive_has_the_unit_of_what_it_adds_to(drive, words):
    neurons = models.lif_current("n", 2)
    values = [float(np.max(value)) for value in drive(neurons, 0.0321 * u.nA).params.values()]
    assert any(value == pytest.approx(32.1) for value in values)
    with pytest.raises(NetworkError, match=f"population n: {words}"):
        drive(neurons, 2 * u.mV)


def test_a_drive_into_what_units_leave_out_names_it():
    neurons = probe(units={"level": "pA"})
    with pytest.raises(NetworkError) as caught:
        models.noise_current(neurons, sd=2 * u.Hz, into="rate", dt=0.1)
    assert "population to: noise_sd: has the unit Hz, but units= of population to has no 'rate'; add" in str(
        caught.value
    )


def test_an_input_current_has_the_unit_of_the_current():
    sim = be.Network([models.current_input(models.lif_current("n", 2))]).build(backend="interpreted")
    with pytest.raises(NetworkError, match=r"inputs: 'n\.input': has the unit mV; pass pA"):
        sim.run(1, inputs={"n.input": np.ones(1) * u.mV})


def test_what_is_computed_from_cannot_be_drawn():
    with pytest.raises(
        NetworkError, match=r"population n: tau is uniform\(5, 10\), but factors of a step are computed"
    ):
        models.lif_delta("n", 2, tau=be.uniform(5, 10))


# Units within a rule.


def adds(s, arriving, p):
    return s.replace(v=s.v + 1 * u.mV), s.v > 0


def compares(s, arriving, p):
    return s, s.v > -50 * u.mV


def chooses(s, arriving, p):
    return s.replace(v=jnp.where(s.v > 0, -60 * u.mV, s.v)), s.v > 0


def returns(s, arriving, p):
    return s.replace(v=s.v * u.mV), s.v > 0


def divides(s, arriving, p):
    return s.replace(v=s.v - s.v * (0.1 * u.ms / (20 * u.ms))), s.v > 0


def breaks(s, arriving, p):
    raise TypeError("not about that")


def in_rule(rule):
    return be.Network([be.Population("n", 2, rule, {"v": -60.0})]).build(backend="interpreted")


@pytest.mark.parametrize(
    ("rule", "said"), [(adds, "mV != 1"), (compares, "mV and 1"), (chooses, "where requires ndarray")]
)
def test_units_in_a_rule_are_refused_with_the_line(rule, said):
    with pytest.raises(RuleError) as caught:
        in_rule(rule)
    line = rule.__code__.co_firstlineno + 1
    words = str(caught.value)
    assert f"population n: rule {rule.__name__}, {__file__}:{line}: computes with units, but its values are" in words
    assert "write numbers without units, such as -60.0 instead of -60 * u.mV" in words
    assert said in words


def test_a_rule_that_returns_a_quantity_is_refused():
    with pytest.raises(
        RuleError, match="population n: rule returns: state v has the unit mV; compute with plain numbers"
    ):
        in_rule(returns)


def test_units_that_cancel_are_numbers():
    result = in_rule(divides).run(1, "n.v")["n.v"]
    np.testing.assert_allclose(result, -60 * (1 - 0.1 / 20), rtol=1e-6)


def test_other_errors_of_a_rule_are_its_own():
    with pytest.raises(TypeError, match=r"^not about that"):
        in_rule(breaks)
