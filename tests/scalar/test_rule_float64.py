# SPDX-License-Identifier: Apache-2.0
"""Rules in float64: by the interpreter beside JAX, by Numba beside the interpreter, and what they draw."""

import dataclasses
import functools
import math

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from jax import lax
from neuron_rules import RULES, hard_values, mild_values, traced

from brainevent.errors import RuleError
from brainevent.scalar.float64 import PRIMITIVES_64, of_float64
from brainevent.scalar.form import Assign
from brainevent.scalar.interpret import interpret
from brainevent.scalar.on_numba import compiled_forms
from brainevent.scalar.random import Random
from brainevent.scalar.trace import flat_rule, trace

OF_FLOAT32 = ("clamp", "updated", "set", "add_at", "largest_at")  # JAX does not mix their own float32 with float64
BITS = ("sign_bit", "copysign", "bit_cast")
NAMES = tuple(name for name in RULES if name not in OF_FLOAT32 + BITS)
EXACT = {"rtol": 1e-12, "atol": 1e-12}
COUNT = 1000


@functools.cache
def form_of(name):
    form = traced(name, "float64").form
    return dataclasses.replace(form, name=f"rule_{name}", inputs=form.inputs[:6], outputs=form.outputs[6:7])


def wide(values):
    """Return values with float64 numbers in the place of float32."""
    with np.errstate(invalid="ignore"):  # bits of NaN that signal
        return [value.astype(np.float64) if value.dtype == np.float32 else value for value in values]


@functools.cache
def by_jax():
    def every_rule(*values):
        return {name: jnp.asarray(RULES[name](*values)) for name in NAMES}

    with jax.enable_x64(True):
        return {key: np.asarray(out) for key, out in jax.jit(jax.vmap(every_rule))(*wide(mild_values(COUNT))).items()}


@pytest.mark.covering(strength=1, most=45)
@pytest.mark.parametrize("name", NAMES)
def test_rules_agree_with_jax(name):
    (ours,), theirs = interpret(form_of(name), wide(mild_values(COUNT))), by_jax()[name]
    if theirs.dtype.kind != "f":
        np.testing.assert_array_equal(ours, theirs)  # of 32 bits or, in JAX, of 64
    else:
        assert ours.dtype == np.float64
        close = EXACT if theirs.dtype == np.float64 else {"rtol": 3e-6, "atol": 1e-6}
        np.testing.assert_allclose(ours, theirs, **close)


def operations(form):
    """Return the operations of a form that have to do with float64."""
    lines = [line for part in (form, *form.functions) for line in part.all_lines() if isinstance(line, Assign)]
    typed = {(line.op, line.target.dtype, line.operands[0].dtype) for line in lines}
    return {one for one in typed if "float64" in one[1:]}


@functools.cache
def cost(form):
    return 20 + sum(len(list(part.all_lines())) for part in (form, *form.functions))


@functools.cache
def few_rules():
    """Return rules that together have every operation of all: Numba takes long to compile."""
    chosen, left = [], set().union(*(operations(form_of(name)) for name in NAMES))
    while left:
        chosen.append(max(NAMES, key=lambda name: len(operations(form_of(name)) & left) / cost(form_of(name))))
        left -= operations(form_of(chosen[-1]))
    return tuple(chosen)


@functools.cache
def by_numba():
    """Compile a function of values that returns the results of rules by name."""
    names = few_rules()
    scope = {
        f"be_{key}": value for key, value in compiled_forms([form_of(name) for name in names], by_hand=True).items()
    }
    outs = [f"o{place}" for place in range(len(names))]
    calls = [f"        o{k}[k] = be_rule_{name}(x[k], y[k], i[k], j[k], u[k], b[k])" for k, name in enumerate(names)]
    exec("\n".join([f"def run(x, y, i, j, u, b, {', '.join(outs)}):", "    for k in range(x.size):", *calls]), scope)
    run = numba.njit(error_model="numpy")(scope["run"])

    def called(values):
        results = [np.empty(len(values[0]), form_of(name).outputs[0].dtype) for name in names]
        run(*values, *results)
        return dict(zip(names, results, strict=True))

    return called


def test_numba_agrees_with_the_interpreter():
    assert {op for name in few_rules() for op, *_ in operations(form_of(name))} >= set(PRIMITIVES_64) - {
        of_float64("log2")
    }
    for values in (mild_values(COUNT), hard_values(COUNT)):
        for name, found in by_numba()(wide(values)).items():
            (expected,) = interpret(form_of(name), wide(values))
            np.testing.assert_allclose(found, expected, **EXACT, err_msg=name)


def test_results_do_not_depend_on_the_position_in_an_array():
    values = wide(mild_values(64))
    whole = by_numba()(values)
    for begin, end in ((1, 64), (7, 20), (63, 64)):
        for name, part in by_numba()([value[begin:end] for value in values]).items():
            assert part.tobytes() == whole[name][begin:end].tobytes(), name


@pytest.mark.parametrize("y", [1 - 2**-53, 1 - 2**-40, 0.999, 0.5, 0.1, 1e-8, 1e-300])
def test_the_inverse_of_erf_is_accurate_in_the_tails_too(y):
    lower = trace(lambda s, arriving, p: (s.replace(x=lax.erf_inv(s.x)), s.x > 0), {"x": 0.0}, [], {}, dtype="float64")
    up, down = (float(interpret(lower.form, [np.float64(sign * y)])[0][0]) for sign in (1, -1))
    assert up == -down
    found, expected = (math.erfc(up), 1 - y) if y > 0.5 else (math.erf(up), y)
    assert found == pytest.approx(expected, rel=1e-14)


def drawn(method, dtype, count=4000):
    """Return the draws of many neurons in one step."""

    def draw(neuron):
        return method(Random(neuron, jnp.uint32(3), jnp.uint32(5), jnp.uint32(7), dtype=dtype))

    with jax.enable_x64(dtype == "float64"):
        return np.asarray(jax.vmap(draw)(jnp.arange(count, dtype=jnp.uint32)))


def test_a_uniform_number_has_53_bits_that_begin_as_in_float32():
    fine, coarse = (drawn(lambda random: random.uniform(), dtype) for dtype in ("float64", "float32"))
    assert fine.dtype == np.float64
    np.testing.assert_array_equal(np.floor(fine * 2**24) / 2**24, coarse)
    rest = fine * 2**24 % 1  # what is left is uniform itself
    np.testing.assert_array_equal(rest * 2**29 % 1, 0)
    assert abs(rest.mean() - 0.5) < 4 / np.sqrt(12 * rest.size)
    assert len(np.unique(rest * 2**29 % 2**8)) == 2**8


@pytest.mark.parametrize(
    ("method", "near"),
    [
        (lambda random: random.uniform(-3.0, 5.0), 1e-6),
        (lambda random: random.normal(2.0, 3.0), 1e-2),  # far out, 24 bits are few
        (lambda random: random.exponential(4.0), 1e-2),
    ],
    ids=["uniform", "normal", "exponential"],
)
def test_numbers_are_those_of_float32_with_more_bits(method, near):
    fine, coarse = drawn(method, "float64"), drawn(method, "float32")
    assert fine.dtype == np.float64
    np.testing.assert_allclose(fine, coarse, atol=near)
    assert np.median(np.abs(fine - coarse)) > 1e-8


@pytest.mark.parametrize(
    "method",
    [
        lambda random: random.bits(),
        lambda random: random.integers(-5, 1000),
        lambda random: random.poisson(1.75),
        lambda random: random.poisson(90.0),
        lambda random: random.bernoulli(0.25),
    ],
    ids=["bits", "integers", "poisson", "large poisson", "bernoulli"],
)
def test_counts_and_bits_are_those_of_float32(method):
    fine, coarse = drawn(method, "float64"), drawn(method, "float32")
    assert fine.dtype == coarse.dtype
    np.testing.assert_array_equal(fine, coarse)


def test_a_bernoulli_number_has_the_limits_of_float32():
    for p, expected in ((0.0, False), (-1.0, False), (np.nan, False), (1.0, True), (2.0, True)):
        np.testing.assert_array_equal(drawn(lambda random, p=p: random.bernoulli(p), "float64", 500), expected)


def many(s, arriving, p):
    best = jnp.argmax(jnp.array([s.v, p.a, arriving.syn]))
    return s.replace(
        v=s.v * p.a + 0.1, count=s.count + 1, best=best, flag=s.v > 0, zero=jnp.where(s.flag, 0.5, 0)
    ), s.flag


def test_states_are_float64_or_of_32_bits():
    state = {"v": np.float32(1), "count": 0, "best": 0, "flag": False, "zero": 0}
    traced_ = trace(many, state, ["syn"], {"a": 0.9}, dtype="float64")
    assert [name.dtype for name in traced_.states] == ["float64", "int32", "int32", "bool", "float64"]
    assert [name.dtype for name in (*traced_.arriving, *traced_.params)] == ["float64", "float64"]
    values = [np.float64(3), np.int32(1), np.int32(0), np.bool_(True), np.float64(0), np.float64(0.25), np.float64(0.9)]
    with jax.enable_x64(True):
        theirs = flat_rule(many, traced_)(*values)
    for ours, other in zip(interpret(traced_.form, values), theirs, strict=True):
        assert ours.dtype == other.dtype
        assert ours[0] == np.asarray(other)


@pytest.mark.parametrize(
    ("update", "words"),
    [
        (lambda v: jnp.copysign(v, -1.0), "no engine supports a bitcast of 64-bit numbers"),
        (
            lambda v: v + jnp.where(v > 0, 2**40, 0),
            "uses the integer 1099511627776, which does not fit in int32; use a smaller one",
        ),
    ],
    ids=["bits", "integer"],
)
def test_what_no_engine_has_is_refused_with_a_reason(update, words):
    def grown(s, arriving, p):
        return s.replace(v=update(s.v)), s.v > 0

    with pytest.raises(RuleError, match=f"rule grown, .*test_rule_float64.py:.*{words}"):
        trace(grown, {"v": 0.0}, [], {}, dtype="float64")
