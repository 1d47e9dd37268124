# SPDX-License-Identifier: Apache-2.0
"""A signal that neurons receive, and that rules of their synapses read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..description.populations import Population
from .drive import step_of
from .physical import Physical, Value, decay
from .watch import watched

__all__ = ["dopamine"]


def dopamine(
    population: Population, *, tau: Value = 200.0, receptor: str = "reward", dopamine: Value = 0.0, dt: Value = None
) -> Population:
    """Return a population with a state `dopamine`, which what arrives at a receptor raises.

    `plasticity.reward_stdp` reads it. The receptor gets rewards from `inputs=` of a run, or from a projection of
    neurons that release dopamine. What arrives in a step counts at once.

    Args:
        population: Neurons of any rule.
        tau: Time constant with which dopamine decays (ms).
        receptor: Name of the receptor.
        dopamine: Dopamine at the start.
        dt: Time step of the network (ms); by default the parameter dt of the population.

    Returns:
        A population of the same name and size.

    Raises:
        NetworkError: tau is not above 0, or the population has a state `dopamine` already.

    Examples:
        >>> import brainevent as be
        >>> exc = be.models.dopamine(be.models.lif_current("exc", 10), tau=500.0)
        >>> exc.state["dopamine"]
        0.0
    """
    read = Physical(population.name, step_of(population, dt))
    (tau,) = read.positive("ms", tau=tau)

    def watch(new: Any, spike: Any, arriving: Any, p: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return {"dopamine": new.dopamine * p.dopamine_decay + getattr(arriving, receptor)}, {}

    return watched(
        population,
        watch,
        state={"dopamine": dopamine},
        params={"dopamine_decay": decay(read.dt, tau)},
        units=dict.fromkeys(("dopamine", "dopamine_decay", receptor), "1"),
    )
