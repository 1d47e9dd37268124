# SPDX-License-Identifier: Apache-2.0
"""Units of measurement go through products with events; and weights in the wrong unit are found out."""

import copy
import operator
import pickle
import re
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forked import run_forked

import brainevent
from brainevent import BinaryArray, BitPackedBinary, CompactBinary, binary_densemm, binary_densemv
from brainevent import _units as units

u = pytest.importorskip("brainunit")

WEIGHTS = jnp.arange(12.0).reshape(4, 3)
SPIKES = jnp.array([True, False, False, True])
SUMS = WEIGHTS[0] + WEIGHTS[3]


def same(found, numbers, unit):
    """Hold a quantity to its numbers and unit, which are compared as they are: mV is not V."""
    assert isinstance(found, u.Quantity)
    assert found.unit == unit
    np.testing.assert_allclose(found.mantissa, numbers, rtol=1e-6)


def test_a_quantity_is_split_and_joined():
    numbers, unit = units.split(WEIGHTS * u.mV)
    assert numbers is WEIGHTS
    assert unit == u.mV
    same(units.join(numbers, unit), WEIGHTS, u.mV)
    assert units.is_quantity(3 * u.mV)


@pytest.mark.parametrize("x", [WEIGHTS, np.ones(2), 3.0, [1, 2], BinaryArray(SPIKES), None])
def test_all_else_has_no_unit(x):
    assert units.split(x) == (x, None) if not isinstance(x, (jax.Array, np.ndarray)) else units.split(x)[0] is x
    assert units.split(x)[1] is None
    assert units.join(x, None) is x
    assert not units.is_quantity(x)


def test_units_multiply():
    assert units.product() is None
    assert units.product(None, None) is None
    assert units.product(u.mV, None) == units.product(None, u.mV) == u.mV
    assert units.product(u.mV, u.mA) == u.uwatt


def test_what_remains_of_equal_units_is_a_number():
    found = units.join(jnp.ones(2), units.product(u.mV, u.uvolt**-1))
    assert isinstance(found, jax.Array)
    np.testing.assert_allclose(found, [1000, 1000])  # a millivolt per microvolt


@pytest.mark.parametrize("form", [BinaryArray, BitPackedBinary, CompactBinary.from_array])
def test_weights_give_their_unit_to_products(form):
    same(form(SPIKES) @ (WEIGHTS * u.mS), SUMS, u.mS)
    same((WEIGHTS.T * u.mS) @ form(SPIKES), SUMS, u.mS)
    many = jnp.stack([SPIKES, ~SPIKES], 1)
    same((WEIGHTS.T * u.mS) @ form(many), WEIGHTS.T @ many, u.mS)
    same(form(many.T) @ (WEIGHTS * u.mS), many.T @ WEIGHTS, u.mS)


def test_units_of_weights_and_events_multiply():
    events = BinaryArray(SPIKES * 2.0 * u.mA)  # an event counts as one, in its unit
    assert units.is_quantity(events.value)
    same(events @ (WEIGHTS * u.mV), SUMS, u.uwatt)
    same(events @ WEIGHTS, SUMS, u.mA)
    same(binary_densemv(WEIGHTS * u.mV, events.value, transpose=True), SUMS, u.uwatt)
    same(binary_densemm(WEIGHTS.T * u.mV, SPIKES[:, None] * u.mA), SUMS[:, None], u.uwatt)
    same(jax.jit(lambda events, w: events @ w)(events, WEIGHTS * u.mV), SUMS, u.uwatt)


@pytest.mark.parametrize("weights", [WEIGHTS.T, WEIGHTS.T * u.mV, np.asarray(WEIGHTS.T)], ids=["array", "mV", "NumPy"])
def test_a_unit_that_would_be_lost_is_reported(weights):
    with pytest.raises(
        TypeError, match=r"weights @ BinaryArray: the events have the unit mA.*; write events @ weights.T"
    ):
        weights @ BinaryArray(SPIKES * u.mA)


@pytest.mark.parametrize("name", ["CSR", "CSC", "COO", "Dense"])
def test_sparse_matrices_give_their_unit_to_products(name):
    matrix = getattr(brainevent, name).fromdense(WEIGHTS * u.mS)
    same(BinaryArray(SPIKES) @ matrix, SUMS, u.mS)
    same(matrix.T @ BinaryArray(SPIKES), SUMS, u.mS)
    same(BinaryArray(SPIKES * u.mV) @ matrix, SUMS, u.mS * u.mV)


def test_units_in_jit_vmap_and_grad():
    events = jnp.stack([SPIKES, ~SPIKES])
    found = jax.jit(jax.vmap(lambda x: BinaryArray(x) @ (WEIGHTS * u.mS)))(events)
    same(found, events @ WEIGHTS, u.mS)
    by_weights = jax.grad(lambda w: ((BinaryArray(SPIKES) @ (w * u.mS)) / u.mS).sum())(WEIGHTS)
    np.testing.assert_array_equal(by_weights, np.repeat(np.asarray(SPIKES)[:, None], 3, 1))
    by_quantity = u.autograd.grad(lambda w: (BinaryArray(SPIKES) @ w).sum())(WEIGHTS * u.mS)
    np.testing.assert_array_equal(u.get_mantissa(by_quantity), np.repeat(np.asarray(SPIKES)[:, None], 3, 1))


# ---- the trap: weights in a unit of their own -------------------------------------------------------------------

V, DRIVE, E_SYN, TAU, DT = jnp.array([-55.0, -60.0, -50.0]) * u.mV, 20 * u.mV, 0 * u.mV, 20 * u.ms, 0.1 * u.ms
REST = -60 * u.mV


def step(weights, spikes):
    """Return the potentials after one step: tau dv/dt = g (E - v) + drive - (v - rest), g in units of the leak."""
    g = BinaryArray(spikes) @ weights
    return V + DT / TAU * (g * (E_SYN - V) + DRIVE - (V - REST))


def test_weights_that_are_conductances_do_not_go_with_a_drive_in_volts():
    with pytest.raises(u.UnitMismatchError, match="units do not match"):
        step(WEIGHTS * u.mS, SPIKES)
    with pytest.raises(u.UnitMismatchError, match="units do not match"):
        step(WEIGHTS * u.mV, SPIKES)


@pytest.mark.parametrize("leak", [1 * u.mS, 1e3 * u.usiemens, 1e-3 * u.siemens], ids=["mS", "uS", "S"])
def test_weights_relative_to_the_leak_couple_as_they_should(leak):
    found = step(WEIGHTS * u.mS / leak, SPIKES)
    true = step(WEIGHTS, SPIKES)
    np.testing.assert_allclose((found / u.mV), (true / u.mV), rtol=1e-6)


def test_weights_without_their_unit_couple_a_thousand_times_too_weakly():
    """What a program gets that brings all to SI units and drops them: no error, and hardly a synapse."""
    kick = lambda weights: (step(weights, SPIKES) - step(0 * WEIGHTS, SPIKES)) / u.mV
    right, dropped = kick(WEIGHTS), kick((WEIGHTS * u.mS).to_decimal(u.siemens))
    np.testing.assert_allclose(1000 * dropped, right, rtol=1e-2)
    assert (abs(right) > 1).all()


# ---- without brainunit ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", ["", "sys.modules['brainunit'] = sys.modules['saiunit'] = None; "])
def test_brainunit_is_not_imported(hidden):
    program = f"""
import sys; {hidden}
import jax.numpy as jnp, brainevent
events = brainevent.BinaryArray(jnp.array([True, False]))
assert (events @ jnp.ones((2, 3)) == 1).all() and (jnp.ones((3, 2)) @ events.bitpack() == 1).all()
assert not sys.modules.get("brainunit") and not sys.modules.get("saiunit")
"""
    run_forked(program)


def test_a_package_that_is_being_imported_is_not_asked(monkeypatch):
    class Half:
        pass

    monkeypatch.setitem(sys.modules, "brainunit", Half())
    monkeypatch.setitem(sys.modules, "saiunit", Half())
    assert units.split(WEIGHTS * u.mV)[1] is None


MATRIX = brainevent.CSR.fromdense(WEIGHTS)
FORMATS = [MATRIX, MATRIX.tocsc(), MATRIX.tocoo(), brainevent.Dense(WEIGHTS)]


@pytest.mark.parametrize("matrix", FORMATS, ids=lambda matrix: type(matrix).__name__)
def test_a_matrix_that_units_take_for_theirs_is_of_its_own_type(matrix):
    assert issubclass(matrix.__class__, type(matrix))
    assert issubclass(matrix.__class__, u.sparse.SparseMatrix)
    assert not isinstance(matrix, u.Quantity)
    again = matrix.__class__(WEIGHTS) if type(matrix) is brainevent.Dense else matrix.__class__.fromdense(WEIGHTS)
    copies = [copy.copy(matrix), copy.deepcopy(matrix), again]
    copies += [pickle.loads(pickle.dumps(matrix, protocol)) for protocol in (0, 2, pickle.HIGHEST_PROTOCOL)]
    for each in copies:
        assert type(each) is type(matrix)
        np.testing.assert_array_equal(each.todense(), WEIGHTS)


def test_quantities_are_divided_by_what_a_matrix_stores():
    found = (2 * u.mV) / MATRIX
    np.testing.assert_allclose(found.data.to_decimal(u.mV), 2 / np.asarray(MATRIX.data), rtol=1e-6)
    with pytest.raises(u.UnitMismatchError):
        (2 * u.mV) % MATRIX
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for .*: 'Quantity' and 'CSR'"):
        (2 * u.mV) // MATRIX


# ---- bare units -------------------------------------------------------------------------------------------------

OPERANDS = {
    "CSR": MATRIX,
    "CSC": MATRIX.tocsc(),
    "COO": MATRIX.tocoo(),
    "Dense": brainevent.Dense(WEIGHTS),
    "CSR of a unit": MATRIX * u.mS,
    "FixedNumPerPre": brainevent.FixedNumPerPre((jnp.ones((2, 2)), jnp.array([[0, 1], [1, 2]])), shape=(2, 3)),
    "JITCScalarR": brainevent.JITCScalarR((1.0, 0.5, 1), shape=(2, 3)),
}
EVENTS = {
    "BinaryArray": BinaryArray(SPIKES),
    "WeightedArray": brainevent.WeightedArray(SPIKES),
    "BitPackedBinary": BitPackedBinary(SPIKES),
    "CompactBinary": CompactBinary.from_array(SPIKES),
}


@pytest.mark.parametrize("unit", [u.mV, u.UNITLESS, u.mV / u.ms], ids=["mV", "none", "compound"])
@pytest.mark.parametrize("name", OPERANDS)
def test_a_unit_makes_no_quantity_of_a_matrix(name, unit):
    matrix = OPERANDS[name]
    kind = type(matrix).__name__
    for sign, operator_ in (("*", operator.mul), ("/", operator.truediv)):
        words = (
            f"{unit} {sign} {kind}: a unit takes this as the numbers of a quantity, which has no product; write matr"
        )
        with pytest.raises(TypeError, match=re.escape(words)):
            operator_(unit, matrix)
        found = operator_(matrix, unit)
        assert type(found) is type(matrix)
    own = units.split(matrix.data)[1] or u.UNITLESS if hasattr(matrix, "data") else u.UNITLESS
    for found, expected in (
        (matrix * unit, own * unit),
        (2.0 * unit * matrix, own * unit),
        (1 * unit / matrix, unit / own),
    ):
        assert type(found) is type(matrix)
        assert not units.is_quantity(found)
        product = found @ jnp.ones(matrix.shape[1])
        assert (units.split(product)[1] or u.UNITLESS).has_same_dim(expected)


@pytest.mark.parametrize("unit", [u.mV, u.UNITLESS], ids=str)
@pytest.mark.parametrize("name", EVENTS)
def test_a_unit_makes_no_quantity_of_events(name, unit):
    events = EVENTS[name]
    orders = {
        f"{unit} * {name}": lambda: unit * events,
        f"{name} * {unit}": lambda: events * unit,
        f"{unit} / {name}": lambda: unit / events,
        f"{name} / {unit}": lambda: events / unit,
    }
    for words, make in orders.items():
        with pytest.raises(TypeError, match=re.escape(f"{words}: a unit takes this as the numbers of a quantity")):
            make()
    for operator_ in (operator.mul, operator.truediv):
        for one, other in ((2 * unit, events), (events, 2 * unit)):
            with pytest.raises(TypeError):
                operator_(one, other)


@pytest.mark.parametrize("name", [*OPERANDS, *EVENTS])
def test_bare_units_are_no_factors_of_products(name):
    operand = (OPERANDS | EVENTS)[name]
    for one, other in ((u.mV, operand), (operand, u.mV)):
        with pytest.raises(TypeError):
            one @ other


@pytest.mark.parametrize("name", EVENTS)
def test_events_are_of_their_class(name):
    events = EVENTS[name]
    assert events.__class__ is type(events)
    assert isinstance(events, brainevent.EventRepresentation)
    assert not isinstance(events, u.Quantity)
    for each in (copy.copy(events), copy.deepcopy(events), pickle.loads(pickle.dumps(events))):
        assert type(each) is type(events)
        np.testing.assert_array_equal(each.value, events.value)
