# SPDX-License-Identifier: Apache-2.0
"""What of a rule is computed before the rest: both together have the bits of the whole."""

import numpy as np
import pytest

from brainevent.network.plan.build import build_plan
from brainevent.scalar.foresee import foreseen
from brainevent.scalar.form import Assign
from brainevent.scalar.interpret import interpret
from examples.networks import coba, reward


def rule_of(network):
    """Return the first population's rule of a network."""
    return build_plan(network, seed=1, parts=1, warn=False).populations[0].rule


def values(names, count=50):
    """Return numbers for inputs, by their names."""
    random = np.random.default_rng(1)
    return {
        name: random.uniform(-70, 40, count).astype(name.dtype)
        if name.dtype == "float32"
        else random.integers(0, 1000, count).astype(name.dtype)
        for name in names
    }


def test_random_numbers_are_known_before_the_step():
    rule = rule_of(reward.network())
    early, rest = foreseen(rule.form, rule.random)
    assert set(early.inputs) <= set(rule.random)
    assert rest.inputs == (*rule.form.inputs, *early.outputs)
    assert any(line.op == "bits" for line in early.lines)
    assert not any(line.op == "bits" for line in rest.all_lines() if isinstance(line, Assign))
    given = values(rule.form.inputs)
    known = interpret(early, [given[name] for name in early.inputs])
    found = interpret(rest, [*(given[name] for name in rule.form.inputs), *known])
    for ours, theirs in zip(found, interpret(rule.form, list(given.values())), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_rules_without_random_numbers_stay_as_they_are():
    rule = rule_of(coba.network())
    assert foreseen(rule.form, rule.random) == (None, rule.form)


@pytest.mark.parametrize("most", [0, 4])
def test_few_words_are_kept(monkeypatch, most):
    monkeypatch.setattr("brainevent.scalar.foresee._MOST", most)
    rule = rule_of(reward.network())
    assert (foreseen(rule.form, rule.random)[0] is None) == (most == 0)
