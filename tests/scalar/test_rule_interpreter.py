# SPDX-License-Identifier: Apache-2.0
"""Rules by the NumPy interpreter: what they mean at the limits, and beside JAX."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from neuron_rules import RULES, hard_values, mild_values, traced

from brainevent.scalar.form import Assign, Constant, constant
from brainevent.scalar.interpret import interpret
from brainevent.scalar.primitives import apply

F = np.float32
COUNT = 2000
LOOSE = {"erf_inv": 1e-4, "tanh": 1e-5, "random_normal": 1e-4, "random_loop": 1e-4}


def interpreted(name, values):
    form = traced(name).form
    start = np.zeros_like(values[0], form.inputs[6].dtype)
    return interpret(form, [*values, start])[6]


@functools.cache
def by_jax():
    with jax.enable_x64(False):
        table = jax.jit(jax.vmap(lambda *v: {name: jnp.asarray(rule(*v)) for name, rule in RULES.items()}))
        return {name: np.asarray(out) for name, out in table(*mild_values(COUNT)).items()}


@pytest.mark.parametrize("name", RULES)
def test_rules_agree_with_jax(name):
    ours, theirs = interpreted(name, mild_values(COUNT)), by_jax()[name]
    assert ours.dtype == theirs.dtype
    if theirs.dtype != F:
        np.testing.assert_array_equal(ours, theirs)
    else:
        theirs = np.where(np.abs(theirs) < 2.0**-126, 0, theirs)
        np.testing.assert_allclose(ours, theirs, rtol=LOOSE.get(name, 3e-6), atol=1e-6)


def test_rules_give_no_denormals():
    for name in RULES:
        out = interpreted(name, hard_values(500))
        assert out.dtype != F or not np.any((np.abs(out) < 2.0**-126) & (out != 0)), name
        assert out.shape == (500,), name


@pytest.mark.parametrize(
    ("op", "dtype", "operands", "expected"),
    [
        ("div", "int32", [[7, -7, 5, -(2**31)], [-2, 2, 0, -1]], [-3, -3, -1, -(2**31)]),
        ("rem", "int32", [[7, -7, 5, -(2**31)], [-2, 2, 0, -1]], [1, -1, 5, 0]),
        ("div", "uint32", [[7, 2**32 - 1], [0, 2]], [2**32 - 1, 2**31 - 1]),
        ("shift_left", "int32", [[1, 1, 1, 1], [31, 32, 33, -1]], [-(2**31), 0, 0, 0]),
        ("shift_right_logical", "int32", [[-1, -1, -1], [31, 32, -1]], [1, 0, 0]),
        ("shift_right_arithmetic", "int32", [[-8, -8, 8], [1, 32, 32]], [-4, -1, 0]),
        ("max", "float32", [[np.nan, 1, 1], [1, np.nan, 2]], [np.nan, np.nan, 2]),
        ("min", "float32", [[np.nan, 1, 1], [1, np.nan, 2]], [np.nan, np.nan, 1]),
        ("mul", "float32", [[2.0**-100, -(2.0**-100)], [2.0**-27, 2.0**-27]], [0.0, -0.0]),
        ("mul", "float32", [[float.fromhex("0x1.6afb1ap-1")], [float.fromhex("0x1.691952p-126")]], [0.0]),
        ("mul", "float32", [[float.fromhex("-0x1.fffffep-64")], [float.fromhex("0x1p-63")]], [-0.0]),
        ("div", "float32", [[float.fromhex("0x1.fffffep-126"), 2.0**-125], [2.0, 2.0]], [0.0, 2.0**-126]),
        ("add", "int32", [[2**31 - 1], [1]], [-(2**31)]),
        ("round", "float32", [[0.5, 1.5, -0.5]], [0.0, 2.0, -0.0]),
    ],
)
def test_primitives_at_their_limits(op, dtype, operands, expected):
    result = apply(op, dtype, tuple(np.array(o, np.dtype(dtype)) for o in operands))
    assert result.dtype == dtype
    np.testing.assert_array_equal(result, np.array(expected, dtype))
    if dtype == "float32":
        numbers = ~np.isnan(result)
        np.testing.assert_array_equal(np.signbit(result[numbers]), np.signbit(np.array(expected)[numbers]))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("int32", [0, 2**31 - 1, -(2**31), -1, 2**31 - 1]), ("uint32", [0, 2**32 - 1, 0, 0, 3 * 10**9])],
)
def test_floats_saturate_as_integers(dtype, expected):
    values = F([np.nan, np.inf, -np.inf, -1.9, 3e9])
    np.testing.assert_array_equal(apply("convert", dtype, (values,)), np.array(expected, dtype))


def test_all_nan_have_the_same_bits():
    bits = np.array([0x7FC00000, 0xFFC00001, 0x7F800001], np.uint32)
    assert set(apply("bitcast", "uint32", (bits.view(F),))) == {0x7FC00000}
    assert constant(np.nan, "float32") == constant(np.nan, "float32")
    assert constant(0.0, "float32") != constant(-0.0, "float32")
    assert Constant(0x80000000, "float32").value == 0


def test_constants_of_a_rule_add_no_lines():
    form = traced("constant").form
    assert form.lines == ()
    assert form.outputs[6] == constant(1.5, "float32")


def test_lines_name_the_line_of_the_rule():
    lines = [line for line in traced("contraction").form.all_lines() if isinstance(line, Assign)]
    assert [line.op for line in lines] == ["mul", "add"]
    assert all("neuron_rules.py:" in line.source for line in lines)


def test_scalars_are_broadcast():
    form = traced("contraction").form
    assert interpret(form, [F(2), F([3, 4]), 0, 0, 0, True, 0])[6].tolist() == [7.5, 9.5]
