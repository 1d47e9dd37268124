# SPDX-License-Identifier: Apache-2.0
"""Compare the names that a population gives values or units with those that its rule reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from ...scalar.trace import TracedRule
from ..description.populations import Population
from ..description.units import array_in
from ..description.values import Values

__all__ = ["check_names", "with_step"]

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
    there = [*population.state, *population.params, *receptors]
    for name in population.units:
        if name not in there:
            raise NetworkError(
                f"{where}: units has {name!r}, which is no state, parameter or receptor{did_you_mean(name, there)}; "
                f"there are {', '.join(there) or 'none'}"
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
