# SPDX-License-Identifier: Apache-2.0
"""What a rule returns beside its state: a bool, or a mapping of its spike, the value of that, and other events."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from brainevent.errors import RuleError
from brainevent.scalar.form import Name
from brainevent.scalar.interpret import interpret
from brainevent.scalar.trace import Told, flat_rule, trace

STATE = {"v": 0.0, "u": 0.0}


def graded(s, arriving, p):
    v = s.v * p.decay + arriving.syn
    told = {"value": v * 2, "upstate": v > 3, "spike": v >= 1, "down": v < 0}
    return s.replace(v=v, u=s.u + 1), told


def test_outputs_are_states_then_the_spike_then_events_by_name_then_the_value():
    traced = trace(graded, STATE, ["syn"], {"decay": 0.5})
    assert (traced.events, traced.value) == (("spike", "down", "upstate"), True)
    assert [output.dtype for output in traced.form.outputs] == ["float32"] * 2 + ["bool"] * 3 + ["float32"]
    given = [[2, 8, -4], [0, 0, 0], [1, 0, 0], [0.5, 0.5, 0.5]]
    found = traced.outcome(interpret(traced.form, given))
    assert [state.tolist() for state in found.states] == [[2, 4, -2], [1, 1, 1]]
    assert (found.spike.tolist(), found.value.tolist()) == ([True, True, False], [4, 8, -4])
    assert {name: event.tolist() for name, event in found.events.items()} == {
        "spike": [True, True, False],
        "down": [False, False, True],
        "upstate": [False, True, False],
    }


def test_a_mapping_of_the_spike_alone_is_the_same_rule():
    plain = trace(lambda s, arriving, p: (s.replace(v=s.v + 1), s.v > 1), {"v": 0.0}, [], {})
    named = trace(lambda s, arriving, p: (s.replace(v=s.v + 1), {"spike": s.v > 1}), {"v": 0.0}, [], {})
    assert named.form == plain.form
    assert named.told == plain.told == Told(("spike",), value=False)
    found = plain.outcome([1, True])
    assert (found.states, found.spike, found.value, found.events) == ([1], True, None, {"spike": True})


def test_the_reference_returns_states_and_spike_or_all_outputs():
    traced = trace(graded, STATE, ["syn"], {"decay": 0.5})
    given = [np.float32(number) for number in (8, 0, 1, 0.5)]
    assert [float(one) for one in flat_rule(graded, traced)(*given)] == [5, 1, 1]
    assert [float(one) for one in flat_rule(graded, traced, whole=True)(*given)] == [5, 1, 1, 0, 1, 10]


@pytest.mark.parametrize("value", [1, 1.5, np.float32(2)])
def test_a_constant_is_a_value(value):
    traced = trace(lambda s, arriving, p: (s, {"spike": s.v > 0, "value": value}), {"v": 0.0}, [], {})
    assert interpret(traced.form, [np.float32([3])])[2].tolist() == [value]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_have_the_dtype_of_floats(dtype):
    def rule(s, arriving, p):
        return s, {"spike": s.v > 0, "value": s.v.astype(jnp.float32)}

    assert trace(rule, {"v": 0.0}, [], {}, dtype=dtype).form.outputs[-1].dtype == dtype


WRONG = {
    "no spike": (lambda s: {"value": s.v}, r"rule rule: returns 'value' beside its state, but no 'spike'; return"),
    "spikes": (lambda s: {"spikes": s.v > 0}, r"returns 'spikes' beside its state, but no 'spike'; rename it"),
    "nothing": (lambda s: {}, r"returns nothing beside its state, but no 'spike'"),
    "float spike": (lambda s: {"spike": s.v}, "spike is float32; return a bool"),
    "float event": (
        lambda s: {"spike": s.v > 0, "valeu": s.v},
        r"event 'valeu' is float32; did you mean 'value'\?; return a bool",
    ),
    "integer value": (
        lambda s: {"spike": s.v > 0, "value": s.v.astype(jnp.int32)},
        r"the value of its spike is int32; return a float, such as x\.astype\('float32'\)",
    ),
    "bool value": (lambda s: {"spike": s.v > 0, "value": s.v > 0}, "the value of its spike is bool; return a float"),
    "array value": (lambda s: {"spike": s.v > 0, "value": jnp.zeros(2)}, r"the value of its spike has shape \(2,\)"),
    "array event": (lambda s: {"spike": s.v > 0, "up": jnp.zeros(2, bool)}, r"event up has shape \(2,\)"),
    "a state": (lambda s: {"spike": s.v > 0, "u": s.v > 1}, "'u' is a state and an event; name the event otherwise"),
    "recorded": (lambda s: {"spike": s.v > 0, "spikes": s.v > 1}, "'spikes' is a reserved name; did you mean 'spike'"),
    "private": (lambda s: {"spike": s.v > 0, "_up": s.v > 1}, "'_up' is a reserved name; name the event otherwise"),
    "dotted": (lambda s: {"spike": s.v > 0, "a.b": s.v > 1}, r"the name of an event is 'a\.b'; pass letters"),
    "keyword": (lambda s: {"spike": s.v > 0, "if": s.v > 1}, "the name of an event is 'if'; pass letters"),
    "number": (lambda s: {"spike": s.v > 0, 3: s.v > 1}, "the name of an event is 3; pass letters"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_event_and_no_value_is_refused_with_a_reason(case):
    make, words = WRONG[case]

    def rule(s, arriving, p):
        return s, make(s)

    with pytest.raises(RuleError, match=words):
        trace(rule, STATE, [], {})


def test_a_rule_with_values_is_differentiable_by_jax():
    traced = trace(graded, STATE, ["syn"], {"decay": 0.5})
    flat = flat_rule(graded, traced, whole=True)
    assert float(jax.grad(lambda v: flat(v, 0.0, 1.0, 0.5)[-1])(jnp.float32(3))) == 1.0
    assert traced.arriving == (Name("a_syn", "float32"),)
