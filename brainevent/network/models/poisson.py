# SPDX-License-Identifier: Apache-2.0
"""Spikes of a Poisson process: as a population, and as a drive of neurons."""

from __future__ import annotations

from typing import Any

from ...errors import NetworkError
from ...typing import ArrayLike, PyTree
from ..description.populations import Population
from .arguments import model
from .drive import driven, step_of
from .physical import Physical, Value

__all__ = ["poisson_drive", "poisson_source", "poisson_source_rule"]


def poisson_source_rule(s: PyTree, arriving: PyTree, p: PyTree, random: PyTree) -> tuple[PyTree, ArrayLike]:
    """Let one neuron spike with a fixed probability in each step.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.
        random: The random numbers of the neuron in this step.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.poisson_source("cells", 5, rate=10.0).rule is brainevent.models.poisson_source_rule
        True
    """
    return s, random.bernoulli(p.chance)


@model
def poisson_source(name: str, size: int, *, rate: Value, dt: Value = 0.1) -> Population:
    """Return neurons that spike at random and independently, and do nothing else.

    A neuron spikes at most once in a step, with the probability `rate * dt`: its mean rate is exact.

    Args:
        name: Name of the population.
        size: Number of neurons.
        rate: Mean rate (Hz): a number, or an array of one a neuron.
        dt: Time step of the network (ms).

    Returns:
        A population without a receptor.

    Raises:
        NetworkError: A rate is negative, or above one spike a step.

    Examples:
        >>> import brainevent as be
        >>> be.models.poisson_source("inputs", 400, rate=20.0).params["chance"].round(6)
        np.float64(0.002)
    """
    read = Physical(name, dt)
    (rate,) = read.not_negative("Hz", rate=rate)
    chance = rate * read.dt / 1000
    if (chance > 1).any():
        raise NetworkError(
            f"population {name}: rate is {rate.max():g} Hz, which is {chance.max():g} spikes in a step of {read.dt:g} "
            "ms; a neuron spikes at most once in a step: use more neurons, a smaller step, or poisson_drive"
        )
    return Population(name, size, poisson_source_rule, {}, {"dt": read.dt, "chance": chance}, units={"chance": "1"})


def poisson_drive(
    population: Population,
    *,
    rate: Value,
    weight: Value,
    into: str = "syn",
    name: str = "poisson",
    dt: Value = None,
) -> Population:
    """Return a population in which each neuron receives spikes of a Poisson process of its own, without a source.

    The number of spikes in a step has a Poisson distribution, so that the rate may be that of thousands of sources.

    Args:
        population: Neurons of any rule.
        rate: Mean rate of all sources of a neuron (Hz): a number, or an array of one a neuron.
        weight: What a spike adds, in the unit of `into`.
        into: Name of the receptor, or of the parameter, to which it is added.
        name: In front of the names of parameters.
        dt: Time step of the network (ms); by default the parameter dt of the population.

    Returns:
        A population of the same name and size.

    Raises:
        NetworkError: A rate is negative, a unit is not that of `into`, or the population has parameters of this name
            already.
        UnknownNameError: At build: the rule does not read `into`.

    Examples:
        >>> import brainevent as be
        >>> exc = be.models.poisson_drive(be.models.lif_current("exc", 10), rate=1600 * 8.0, weight=87.81)
        >>> exc.params["poisson_mean"].round(6)
        np.float64(1.28)
    """
    read = Physical(population.name, step_of(population, dt))
    (rate,) = read.not_negative("Hz", rate=rate)

    def amount(s: Any, arriving: Any, p: Any, random: Any) -> Any:
        return {}, getattr(p, f"{name}_weight") * random.poisson(getattr(p, f"{name}_mean"))

    params = {f"{name}_mean": rate * read.dt / 1000, f"{name}_weight": weight}
    return driven(
        population,
        amount,
        into=into,
        state={},
        params=params,
        draws=True,
        like_into=[f"{name}_weight"],
        kind="poisson_drive",
    )
