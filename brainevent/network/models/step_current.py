# SPDX-License-Identifier: Apache-2.0
"""A current that flows between two times."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ..description.populations import Population
from .drive import driven, step_of
from .physical import Physical, Value

__all__ = ["step_current"]


def step_current(
    population: Population,
    *,
    amplitude: Value,
    start: Value,
    stop: Value,
    into: str = "current",
    name: str = "step",
    dt: Value = None,
) -> Population:
    """Return a population with a current that flows from `start` to `stop`.

    Args:
        population: Neurons of any rule.
        amplitude: What is added: a number, or an array of one a neuron, in the unit of `into`.
        start: Time of the first step with the current (ms), rounded to whole steps.
        stop: Time of the first step without it (ms), rounded likewise.
        into: Name of the parameter or the receptor to which it is added.
        name: Of the state, which counts steps, and in front of the names of parameters.
        dt: Time step of the network (ms); by default the parameter dt of the population.

    Returns:
        A population of the same name and size.

    Raises:
        NetworkError: A time is negative, or beyond 2**31 - 1 steps, a unit is not that of `into`, or the population
            has a state of this name already.
        UnknownNameError: At build: the rule does not read `into`.

    Examples:
        >>> import brainevent as be
        >>> exc = be.models.step_current(be.models.lif_current("exc", 10), amplitude=400.0, start=20.0, stop=80.0)
        >>> exc.params["step_start"], exc.params["step_stop"]
        (np.int32(200), np.int32(800))
    """
    first, last = Physical(population.name, step_of(population, dt)).steps(start=start, stop=stop)

    def amount(s: Any, arriving: Any, p: Any) -> Any:
        step = getattr(s, name)
        on = (step >= getattr(p, f"{name}_start")) & (step < getattr(p, f"{name}_stop"))
        return {name: step + 1}, jnp.where(on, getattr(p, f"{name}_amplitude"), 0.0)

    params = {f"{name}_amplitude": amplitude, f"{name}_start": first, f"{name}_stop": last}
    return driven(
        population,
        amount,
        into=into,
        state={name: 0},
        params=params,
        like_into=[f"{name}_amplitude"],
        kind="step_current",
    )
