# SPDX-License-Identifier: Apache-2.0
"""Noise that is added to a current: correlated for a while (Ornstein-Uhlenbeck), or new in each step."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..description.populations import Population
from .drive import driven, step_of
from .physical import Physical, Value, decay

__all__ = ["noise_current"]


def noise_current(
    population: Population,
    *,
    sd: Value,
    tau: Value = 5.0,
    into: str = "current",
    name: str = "noise",
    dt: Value = None,
) -> Population:
    """Return a population with a normally distributed current of mean 0, independent in each neuron.

    An Ornstein-Uhlenbeck process, solved exactly: its autocorrelation decays with `tau`. If tau is 0, each step has a
    new value, and what it does to a neuron depends on the time step: the variance of the potential grows with
    `sd**2 * dt`. The noise begins at 0 and has its standard deviation after a few tau.

    Args:
        population: Neurons of any rule.
        sd: Standard deviation: a number, or an array of one a neuron, in the unit of `into`.
        tau: Correlation time (ms); 0 for white noise.
        into: Name of the parameter or the receptor to which the noise is added.
        name: Of the state, which is the noise, and in front of the names of parameters.
        dt: Time step of the network (ms); by default the parameter dt of the population.

    Returns:
        A population of the same name and size.

    Raises:
        NetworkError: tau is negative, a unit is not that of `into`, or the population has a state of this name already.
        UnknownNameError: At build: the rule does not read `into`.

    Examples:
        >>> import brainevent as be
        >>> exc = be.models.noise_current(be.models.lif_current("exc", 10), sd=100.0, tau=2.0)
        >>> exc.params["noise_decay"].round(3)
        np.float64(0.951)
    """
    read = Physical(population.name, step_of(population, dt))
    (tau,) = read.not_negative("ms", tau=tau)
    kept = decay(read.dt, tau)

    def amount(s: Any, arriving: Any, p: Any, random: Any) -> Any:
        fresh = getattr(p, f"{name}_sd") * getattr(p, f"{name}_fresh") * random.normal()
        value = getattr(s, name) * getattr(p, f"{name}_decay") + fresh
        return {name: value}, value

    params = {f"{name}_sd": sd, f"{name}_decay": kept, f"{name}_fresh": np.sqrt(1 - kept**2)}
    return driven(
        population,
        amount,
        into=into,
        state={name: 0.0},
        params=params,
        draws=True,
        like_into=[name, f"{name}_sd"],
        kind="noise_current",
    )
