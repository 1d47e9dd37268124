# SPDX-License-Identifier: Apache-2.0
"""Tracing a rule: what becomes of states and dtypes, and what a rule must not do, in words."""

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from brainevent.errors import RuleError, UnknownNameError
from brainevent.scalar.form import Branch, Constant, Loop, Name
from brainevent.scalar.interpret import interpret
from brainevent.scalar.record import Record
from brainevent.scalar.trace import trace

STATE = {"v": -60.0, "i": 0, "pause": 0}
PARAMS = {"rest": -60.0, "decay": 0.9, "threshold": -50.0}


def lif(s, arriving, p):
    v = jnp.where(s.pause > 0, s.v, p.rest + (s.v - p.rest) * p.decay + s.i)
    i = s.i * 0.5 + arriving.syn
    spike = v >= p.threshold
    pause = jnp.where(spike, 20, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, p.rest, v), i=i, pause=pause), spike


def test_states_have_the_dtypes_that_the_rule_returns():
    traced = trace(lif, STATE, ["syn"], PARAMS)
    assert traced.states == (Name("s_v", "float32"), Name("s_i", "float32"), Name("s_pause", "int32"))
    assert traced.arriving == (Name("a_syn", "float32"),)
    assert [name.text for name in traced.params] == ["p_rest", "p_decay", "p_threshold"]
    assert traced.form.inputs == traced.states + traced.arriving + traced.params
    assert [output.dtype for output in traced.form.outputs] == ["float32", "float32", "int32", "bool"]


def test_a_step_of_a_neuron():
    v, i, pause, spike = interpret(trace(lif, STATE, ["syn"], PARAMS).form, [[-60, -51], [1, 9], 0, 2, -60, 0.9, -50])
    np.testing.assert_allclose(v, [-59, -60])
    np.testing.assert_allclose(i, [2.5, 6.5])
    assert (pause.tolist(), spike.tolist()) == ([0, 20], [False, True])


@pytest.mark.parametrize("x64", [False, True])
def test_the_form_does_not_depend_on_x64(x64):
    with jax.enable_x64(x64):
        assert trace(lif, STATE, ["syn"], PARAMS) == trace(lif, STATE, ["syn"], PARAMS)
        assert {name.dtype for name in trace(lif, STATE, ["syn"], PARAMS).form.inputs} == {"float32", "int32"}


def test_an_integer_of_the_rule_fits_a_float_state():
    form = trace(lambda s, a, p: (s.replace(v=0), s.v > 1), {"v": 1.0}, [], {}).form
    assert [output.dtype for output in form.outputs] == ["float32", "bool"]


def test_functions_of_constants_are_computed_once():
    """No compiler of an engine computes them, perhaps with other bits: 0x3F7E6BA3, which is not the nearest number."""
    form = trace(lambda s, a, p: (s.replace(v=s.v + jnp.log1p(1.7015615)), s.v > 1), {"v": 1.0}, [], {}).form
    assert form.functions == ()
    assert [operand for operand in form.lines[0].operands if isinstance(operand, Constant)] == [
        Constant(0x3F7E6BA3, "float32")
    ]


def test_loops_and_branches_are_part_of_the_form():
    def rule(s, arriving, p):
        v = lax.fori_loop(0, 3, lambda k, c: lax.cond(c > 0, lambda: c * 2, lambda: c + k), s.v)
        return s.replace(v=v), v > 0

    kinds = {type(line) for line in trace(rule, {"v": 0.0}, [], {}).form.all_lines()}
    assert {Loop, Branch} <= kinds


KEY = jax.random.key(0)


def returning(make):
    return lambda s, arriving, p: make(s)


WRONG = {
    "nothing": (lambda s: None, r"returns NoneType; return \(state.replace\(...\), spike\)"),
    "no spike": (lambda s: s, "returns a record of v; return"),
    "another record": (lambda s: (Record("params", {}), s.v > 0), "returns a record of nothing; return"),
    "a dictionary": (lambda s: ({"v": s.v}, s.v > 0), "returns a tuple of dict, a number; return"),
    "no number": (lambda s: (s, None), "spike is NoneType; return a scalar"),
    "no bool": (lambda s: (s, s.v), "spike is float32; return a bool"),
    "another dtype": (lambda s: (s.replace(v=s.v > 0), s.v > 0), "state v is float32 but the rule returns bool"),
    "an array": (lambda s: (s.replace(v=jnp.stack([s.v, s.v])), s.v > 0), r"state v has shape \(2,\)"),
    "an array spike": (lambda s: (s, jnp.zeros(3, bool)), r"spike has shape \(3,\)"),
    "text": (lambda s: (s.replace(v="high"), s.v > 0), "state v is str; return a scalar"),
    "a large array": (lambda s: (s.replace(v=jnp.arange(100.0).sum() + s.v), s.v > 0), r"arrays of up to 64 elements"),
    "a sort": (lambda s: (s.replace(v=jnp.sort(jnp.stack([s.v, 1.0]))[0]), s.v > 0), "the JAX primitive sort; use"),
    "half": (lambda s: (s, s.v.astype("float16") > 0), r"makes float16\[\]; a rule"),
    "a key": (lambda s: (s, jax.random.bernoulli(jax.random.key(0))), r"uses jax\.random; draw with the fourth"),
    "a constant key": (lambda s: (s, jax.random.bernoulli(KEY)), r"uses jax\.random; draw with the fourth argument"),
    "NumPy": (lambda s: (s, np.exp(s.v) > 1), "and jnp instead of np and math"),
    "a print": (lambda s: (jax.debug.print("{}", s.v), (s, s.v > 0))[1], r'debug\.print; .*backend="jax", which'),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_no_engine_can_run_is_refused_with_a_reason(case):
    make, words = WRONG[case]
    with pytest.raises(RuleError, match=words):
        trace(returning(make), {"v": 0.0}, [], {})


@pytest.mark.parametrize("name", ["be_bits", "be_keys", "be_more_bits"])
def test_functions_of_users_may_have_our_names(name):
    def double(x):
        return 2 * x

    double.__name__ = name
    traced = trace(lambda s, arriving, p: (s.replace(v=jax.jit(double)(s.v)), s.v > 1), {"v": 0.0}, [], {})
    assert interpret(traced.form, [np.float32([3])])[0] == 6


@pytest.mark.parametrize("rule", [max, dict])
def test_functions_that_are_not_written_in_python_are_no_rules(rule):
    with pytest.raises(RuleError, match=r"rule (max|dict): .* is built in; write a function rule\(s, arriving, p\)"):
        trace(rule, {"v": 0.0}, [], {})


def needs_value(s, arriving, p):
    if s.v > 1:  # line of the error
        return s, s.v > 0
    return s, s.v < 0


@pytest.mark.parametrize(
    ("rule", "offset"), [(needs_value, 1), (lambda s, a, p: (s.replace(v=jnp.sort(s.v[None])[0]), s.v > 0), 0)]
)
def test_errors_name_the_line_of_the_rule(rule, offset):
    line = rule.__code__.co_firstlineno + offset
    with pytest.raises(RuleError, match=rf"test_rule_trace\.py:{line}: "):
        trace(rule, {"v": 0.0}, [], {})


def test_what_jax_traces_outside_is_no_part_of_a_rule():
    @jax.jit
    def inside(decay):
        trace(lambda s, arriving, p: (s.replace(v=decay * s.v), s.v > 0), {"v": 0.0}, [], {})

    words = r"uses an array from outside that JAX traces; use one that is known, outside of jax\.jit, jax\.vmap"
    with pytest.raises(RuleError, match=words):
        inside(0.5)


def test_python_needs_a_value():
    with pytest.raises(RuleError, match=r"use jnp\.where, jax\.lax\.cond") as caught:
        trace(needs_value, {"v": 0.0}, [], {})
    assert isinstance(caught.value.__cause__, jax.errors.TracerBoolConversionError)


@pytest.mark.parametrize("value", [1 + 2j, "high", np.float16(1), np.int8(1)])
def test_values_of_other_dtypes_are_refused(value):
    with pytest.raises(RuleError, match=r"rule lif: state v is .*; pass one of float32, int32, uint32, bool"):
        trace(lif, {**STATE, "v": value}, ["syn"], PARAMS)
    with pytest.raises(RuleError, match="rule lif: parameter rest is"):
        trace(lif, STATE, ["syn"], {**PARAMS, "rest": value})


def test_a_record_guesses_names_and_is_frozen():
    record = Record("state", {"voltage": 1.0, "pause": 2})
    assert record.replace(pause=3).pause == 3
    assert record.pause == 2
    assert list(record) == ["voltage", "pause"]
    assert repr(record) == "state(voltage=1.0, pause=2)"
    with pytest.raises(UnknownNameError, match=r"state has no 'voltag'; did you mean 'voltage'.*names: voltage, pause"):
        _ = record.voltag
    with pytest.raises(UnknownNameError, match="state has no 'w'; names: voltage, pause"):
        record.replace(w=1)
    with pytest.raises(RuleError, match=r"state\.pause = \.\.\.: a record is frozen; return state\.replace"):
        record.pause = 3
    assert not hasattr(record, "w")


def test_a_record_is_a_pytree():
    record = Record("state", {"v": 1.0, "i": 2.0})
    assert jax.tree.map(lambda x: x * 2, record).i == 4.0
    assert jax.tree.leaves(record) == [1.0, 2.0]


@pytest.mark.parametrize("draw", [np.random.randn, random.random])
def test_draws_of_the_time_of_tracing_are_refused(draw):
    with pytest.raises(RuleError, match=r"rule <lambda>: draws from numpy.random or random, .* use random.normal\(\)"):
        trace(lambda s, a, p: (s.replace(v=s.v + draw()), s.v > 1), {"v": 1.0}, [], {})


def test_draws_that_change_no_rule_are_let_through():
    assert trace(lambda s, a, p: (s.replace(v=s.v + 0 * abs(random.random())), s.v > 1), {"v": 1.0}, [], {}).form.lines
