# SPDX-License-Identifier: Apache-2.0
"""Trace the rules of populations: find their receptors, and check the names that populations give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ...errors import NetworkError, RuleError, UnknownNameError, did_you_mean
from ...scalar.form import FLOATS
from ...scalar.record import Record
from ...scalar.trace import TracedRule, trace
from ..description.populations import Population
from ..description.units import array_in, plain
from ..description.values import Values
from .distribution import INTEGERS

__all__ = ["all_traced", "check_names", "check_receptor", "receptors_of", "with_step"]

Examples = dict[str, Any]


def all_traced(
    populations: Iterable[Population], dtype: str = "float32", *, prints: bool = False
) -> dict[str, TracedRule]:
    """Return the rules of populations by their names, as forms of which `arriving` are receptors.

    Populations of one rule and the same dtypes share a form. Rules may print if `prints`.
    """
    known: dict[Any, TracedRule] = {}
    found = {}
    for population in populations:
        groups = _examples(population)
        dtypes = [(name, type(one) is int, np.asarray(one).dtype) for group in groups for name, one in group.items()]
        key = (id(population.rule), len(groups[0]), population.value_range, *dtypes)
        if key not in known:
            known[key] = _traced(population, *groups, dtype, prints=prints)
        found[population.name] = known[key]
    return found


def _traced(population: Population, state: Examples, params: Examples, dtype: str, *, prints: bool) -> TracedRule:
    receptors: list[str] = []
    while True:
        try:
            traced = trace(
                population.rule,
                state,
                receptors,
                params,
                prints=prints,
                dtype=dtype,
                value_range=population.value_range,
            )
            _check_value(population, traced)
            return traced
        except RuleError as error:
            what, name = _missed(error)
            if what == "arriving" and name not in receptors:
                receptors.append(name)
            elif (what, name) == ("params", "dt"):
                params = {**params, "dt": 0.1}  # each network has its own
            else:
                error.args = (f"population {population.name}: {error}",)
                raise


def _check_value(population: Population, rule: TracedRule) -> None:
    """Raise unless a rule whose spikes have values has a range of these, and a state that says if one is wrong."""
    where = f"population {population.name}"
    if rule.value and rule.value_range is None:
        raise NetworkError(
            f"{where}: its rule {rule.name} returns the value of its spike, and sums must be bounded; pass "
            "value_range=(low, high), the smallest and the largest value"
        )
    if rule.value_range is not None and not rule.value:
        raise NetworkError(
            f"{where}: has value_range={rule.value_range}, but its rule {rule.name} returns no value; return "
            "{'spike': ..., 'value': ...} beside the state, or leave value_range out"
        )
    if rule.value and not any(name.dtype in FLOATS for name in rule.states):
        raise NetworkError(
            f"{where}: its rule {rule.name} returns the value of its spike, and has no float state, which becomes NaN "
            "if the value is not in value_range; store the value in a state, such as s.replace(value=...)"
        )


def _missed(error: RuleError) -> tuple[str, str]:
    """Return the record in which a rule read a name that is not there, and the name; of another error "" twice."""
    # Python notes which name of which object was missed.
    if isinstance(error, UnknownNameError) and isinstance(error.obj, Record) and error.name:
        return error.obj._what, str(error.name)
    return "", ""


def receptors_of(rule: TracedRule) -> list[str]:
    """Return the names of the receptors that a rule reads."""
    return [name.text.removeprefix("a_") for name in rule.arriving]


def check_receptor(where: str, population: str, receptor: str, known: Iterable[str]) -> None:
    """Raise if the rule of a population does not read a receptor."""
    known = list(known)
    if receptor not in known:
        raise NetworkError(
            f"{where}: the rule of {population} reads no arriving.{receptor}{did_you_mean(receptor, known)}; "
            f"it reads {', '.join(known) or 'none'}"
        )


def _examples(population: Population) -> tuple[Examples, Examples]:
    """Return values of which the dtypes count: of states and of parameters."""
    state, params = (
        {name: _example(f"population {population.name}: {kind}", name, value) for name, value in given.items()}
        for kind, given in (("state", population.state), ("params", population.params))
    )
    return state, params


def _example(where: str, name: str, value: Any) -> Any:
    """Return a value of which the dtype counts, as the rule's trace takes it."""
    if isinstance(value, Values):
        return 0 if value.law.kind == INTEGERS else 0.0
    where = f"{where} {name}"
    value = plain(where, value, hint=f", or declare its unit, such as units={{{name!r}: 'Hz'}}")
    if isinstance(value, (bool, int, float)):
        return value
    array = array_in(where, value)
    if array.dtype.kind not in "biuf":
        raise NetworkError(f"{where}: is {value!r}; pass a number, an array, or values such as uniform(-60, -50)")
    return np.zeros((), array.dtype)[()]


_STEP = "dt"  # of the network: a rule reads it as p.dt, whether it is a parameter of the population or not
_NEAR = 1e-6


def check_names(population: Population, rule: TracedRule, dt: float) -> None:
    """Raise for a parameter dt that is not the step of the network, unused names, and units of nothing."""
    _check_step(population, dt)
    where, read = f"population {population.name}", [name.text[2:] for name in rule.params if name.text[2:] in rule.read]
    for name in population.params:
        if name not in rule.read and name != _STEP:
            raise NetworkError(
                f"{where}: params has {name!r}, which its rule {rule.name} does not read{did_you_mean(name, read)}; "
                f"leave it out, or read p.{name}; the rule reads {', '.join(read) or 'none'}"
            )
    used = [name for name in population.state if name in rule.used]
    for name in population.state:
        if name not in rule.used:
            raise NetworkError(
                f"{where}: state has {name!r}, which its rule {rule.name} neither reads nor changes"
                f"{did_you_mean(name, used)}; leave it out, or read s.{name}; the rule uses {', '.join(used) or 'none'}"
            )
    receptors = [name.text[2:] for name in rule.arriving]
    there = [*population.state, *population.params, *receptors, *population.at]
    for name in population.units:
        if name not in there:
            raise NetworkError(
                f"{where}: units has {name!r}, which is no state, parameter, receptor or attribute"
                f"{did_you_mean(name, there)}; there are {', '.join(there) or 'none'}"
            )


def with_step(params: Mapping[str, Any], rule: TracedRule, dt: float) -> dict[str, Any]:
    """Return parameters with the step of the network, if the rule reads it and they do not have it."""
    names = [name.text[2:] for name in rule.params]
    return {**params, _STEP: dt} if _STEP in names and _STEP not in params else dict(params)


def _check_step(population: Population, dt: float) -> None:
    """Raise if the parameter dt, from which others may have been computed, is not the step of the network."""
    own = population.params.get(_STEP, dt)
    where = f"population {population.name}: its parameter dt"
    numbers = np.nan if isinstance(own, Values) else array_in(where, own, "ms").astype(np.float64)
    if not np.all(np.abs(numbers - dt) <= _NEAR * dt):
        found = repr(own) if isinstance(own, Values) else f"{float(np.ravel(numbers)[0]):g} ms"
        raise NetworkError(
            f"{where} is {found}, but dt in a rule is the time step of the network, {dt:g} ms; make the model with "
            f"dt={dt:g}, leave dt out of the params of a rule of your own, or rename a parameter that means another dt"
        )
