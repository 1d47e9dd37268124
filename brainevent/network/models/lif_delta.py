# SPDX-License-Identifier: Apache-2.0
"""Leaky integrate-and-fire neurons whose potential jumps when a spike arrives."""

from __future__ import annotations

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.populations import Population
from .arguments import model
from .physical import Physical, Value, by_name, decay, rise

__all__ = ["lif_delta", "lif_delta_rule"]

_UNITS = by_name({"mV": "v rest threshold reset current syn"})


def lif_delta_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate the potential of one neuron over a step; arriving spikes are added, unless it is refractory.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.lif_delta("cells", 5).rule is brainevent.models.lif_delta_rule
        True
    """
    v = p.rest + (s.v - p.rest) * p.decay + p.current * p.current_gain + arriving.syn
    v = jnp.where(s.pause > 0, s.v, v)
    spike = v >= p.threshold
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, p.reset, v), pause=pause), spike


@model
def lif_delta(
    name: str,
    size: int,
    *,
    dt: Value = 0.1,
    tau: Value = 20.0,
    rest: Value = 0.0,
    threshold: Value = 20.0,
    reset: Value = 10.0,
    refractory: Value = 2.0,
    current: Value = 0.0,
    v: Value = None,
) -> Population:
    """Return neurons with a membrane that leaks, and synapses without a time course.

    `dv/dt = (rest - v + current) / tau`, and each spike adds its weight to v. Spikes that arrive while a neuron is
    refractory are lost. Each step is the exact solution. The defaults are those of Brunel (2000).

    Args:
        name: Name of the population.
        size: Number of neurons.
        dt: Time step of the network (ms).
        tau: Time constant of the membrane (ms).
        rest: Potential at rest (mV).
        threshold: Potential at which a neuron spikes (mV).
        reset: Potential after a spike (mV).
        refractory: How long the potential stays there (ms), rounded to whole steps.
        current: Constant current times the resistance of the membrane (mV).
        v: Potential at the start (mV); by default that at rest.

    Returns:
        A population with the receptor "syn" (mV).

    Raises:
        NetworkError: The time constant is not above 0.

    Examples:
        >>> import brainevent as be
        >>> be.models.lif_delta("exc", 100, tau=15.0).params["threshold"]
        20.0
    """
    read = Physical(name, dt)
    (tau,) = read.positive("ms", tau=tau)
    (refractory,) = read.steps(refractory=refractory)
    params = {
        "dt": read.dt,
        "decay": decay(read.dt, tau),
        "current_gain": rise(read.dt, tau),
        "rest": rest,
        "threshold": threshold,
        "reset": reset,
        "refractory": refractory,
        "current": current,
    }
    return Population(name, size, lif_delta_rule, {"v": rest if v is None else v, "pause": 0}, params, units=_UNITS)
