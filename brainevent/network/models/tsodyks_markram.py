# SPDX-License-Identifier: Apache-2.0
"""Short-term plasticity (Tsodyks and Markram 1997), as terminals that release at random."""

from __future__ import annotations

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.populations import Population
from .physical import Physical, Value, decay

__all__ = ["tsodyks_markram", "tsodyks_markram_rule"]


def tsodyks_markram_rule(s: PyTree, arriving: PyTree, p: PyTree, random: PyTree) -> tuple[PyTree, ArrayLike]:
    """Release at one terminal, with the probability u x, when a spike arrives.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.
        random: The random numbers of the neuron in this step.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.tsodyks_markram("cells", 5).rule is brainevent.models.tsodyks_markram_rule
        True
    """
    x = 1.0 - (1.0 - s.x) * p.decay_x
    u = s.u * p.decay_u
    arrived = arriving.spikes > 0
    u = jnp.where(arrived, u + p.use * (1.0 - u), u)
    used = jnp.where(arrived, u * x, 0.0)
    return s.replace(x=x - used, u=u), random.bernoulli(used)


def tsodyks_markram(
    name: str,
    size: int,
    *,
    dt: Value = 0.1,
    use: Value = 0.5,
    tau_recover: Value = 800.0,
    tau_facilitate: Value = 0.0,
) -> Population:
    """Return terminals, one a source neuron, that release less and less while their neuron spikes.

    A spike that arrives raises u by `use * (1 - u)`, then uses the share u of the resource x, which recovers to 1 with
    `tau_recover`; u returns to 0 with `tau_facilitate`. In the model of Tsodyks and Markram a synapse would transmit
    its weight times u x. A neuron spikes or does not, so a terminal spikes, which transmits the whole weight, with the
    probability u x. The mean of what is transmitted, given the spikes that arrive, is exactly that of the model; its
    variance is u x (1 - u x) of the squared weight larger, and all synapses of a terminal share its releases.

    Put it between source and target: a projection one to one with weight 1 from the source into "spikes", and the
    synapses from here to the target. Each of both has a delay of one step at least.

    Args:
        name: Name of the population.
        size: Number of terminals.
        dt: Time step of the network (ms).
        use: By how much of the distance to 1 a spike raises u, from 0 to 1.
        tau_recover: Time constant with which the resource recovers (ms).
        tau_facilitate: Time constant with which u returns to 0 (ms); 0 for depression alone.

    Returns:
        A population with the receptor "spikes" (a number of spikes).

    Raises:
        NetworkError: tau_recover is not above 0, or tau_facilitate is negative.

    Examples:
        >>> from brainevent.network.models import tsodyks_markram
        >>> sorted(tsodyks_markram("terminals", 100, use=0.4).state)
        ['u', 'x']
    """
    read = Physical(name, dt)
    (tau_recover,) = read.positive("ms", tau_recover=tau_recover)
    (tau_facilitate,) = read.not_negative("ms", tau_facilitate=tau_facilitate)
    params = {
        "dt": read.dt,
        "decay_x": decay(read.dt, tau_recover),
        "decay_u": decay(read.dt, tau_facilitate),
        "use": use,
    }
    units = dict.fromkeys(("x", "u", "use", "spikes"), "1")
    return Population(name, size, tsodyks_markram_rule, {"x": 1.0, "u": 0.0}, params, units=units)
