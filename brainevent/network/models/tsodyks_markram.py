# SPDX-License-Identifier: Apache-2.0
"""Short-term plasticity (Tsodyks and Markram 1997), as terminals whose spikes have the value u x."""

from __future__ import annotations

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.populations import Population
from .arguments import model
from .physical import Physical, Value, decay

__all__ = ["tsodyks_markram", "tsodyks_markram_rule"]


def tsodyks_markram_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, dict[str, ArrayLike]]:
    """Spike with the value u x when a spike arrives at one terminal.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes, with the value of its spike.

    Examples:
        >>> import brainevent
        >>> brainevent.models.tsodyks_markram("cells", 5).rule is brainevent.models.tsodyks_markram_rule
        True
    """
    x = 1.0 - (1.0 - s.x) * p.decay_x
    u = s.u * p.decay_u
    arrived = arriving.spikes > 0
    u = jnp.where(arrived, u + p.use * (1.0 - u), u)
    used = u * x
    return s.replace(x=jnp.where(arrived, x - used, x), u=u), {"spike": arrived, "value": used}


@model
def tsodyks_markram(
    name: str,
    size: int,
    *,
    dt: Value = 0.1,
    use: Value = 0.5,
    tau_recover: Value = 800.0,
    tau_facilitate: Value = 0.0,
) -> Population:
    """Return terminals, one a source neuron, whose synapses depress or facilitate while their neuron spikes.

    A spike that arrives raises u by `use * (1 - u)`, then uses the share u of the resource x, which recovers to 1 with
    `tau_recover`; u returns to 0 with `tau_facilitate`. The terminal then spikes with the value u x, so each of its
    synapses delivers its weight times u x: the model of Tsodyks and Markram, for any number of targets. Synapses of one
    neuron that differ in these parameters have terminals of their own. Several spikes that arrive at a terminal in one
    step count as one.

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
        A population with the receptor "spikes" (a number of spikes), whose spikes have values from 0 to 1.

    Raises:
        NetworkError: tau_recover is not above 0, tau_facilitate is negative, or use is not from 0 to 1.

    Examples:
        >>> import brainevent as be
        >>> terminals = be.models.tsodyks_markram("terminals", 100, use=0.4)
        >>> sorted(terminals.state), terminals.value_range
        (['u', 'x'], (0.0, 1.0))
    """
    read = Physical(name, dt)
    (tau_recover,) = read.positive("ms", tau_recover=tau_recover)
    (tau_facilitate,) = read.not_negative("ms", tau_facilitate=tau_facilitate)
    read.shares(use=use)
    params = {
        "dt": read.dt,
        "decay_x": decay(read.dt, tau_recover),
        "decay_u": decay(read.dt, tau_facilitate),
        "use": use,
    }
    units = dict.fromkeys(("x", "u", "use", "spikes"), "1")
    state = {"x": 1.0, "u": 0.0}
    return Population(name, size, tsodyks_markram_rule, state, params, units=units, value_range=(0.0, 1.0))
