# SPDX-License-Identifier: Apache-2.0
"""Leaky integrate-and-fire neurons with two kinds of exponential synapses, in millivolts: those of CUBA."""

from __future__ import annotations

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.populations import Population
from .arguments import model
from .physical import Physical, Value, by_name, decay, gain, rise

__all__ = ["lif_exponential", "lif_exponential_rule"]

_UNITS = by_name({"mV": "v rest threshold reset current exc inh"})


def lif_exponential_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate potential and two synaptic inputs of one neuron over a step.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.lif_exponential("cells", 5).rule is brainevent.models.lif_exponential_rule
        True
    """
    v = p.rest + (s.v - p.rest) * p.decay + s.exc * p.gain_exc + s.inh * p.gain_inh + p.current * p.current_gain
    v = jnp.where(s.pause > 0, s.v, v)
    exc = s.exc * p.decay_exc + arriving.exc
    inh = s.inh * p.decay_inh + arriving.inh
    spike = v >= p.threshold
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, p.reset, v), exc=exc, inh=inh, pause=pause), spike


@model
def lif_exponential(
    name: str,
    size: int,
    *,
    dt: Value = 0.1,
    tau: Value = 20.0,
    tau_exc: Value = 5.0,
    tau_inh: Value = 10.0,
    rest: Value = -49.0,
    threshold: Value = -50.0,
    reset: Value = -60.0,
    refractory: Value = 5.0,
    current: Value = 0.0,
    v: Value = None,
) -> Population:
    """Return neurons with a membrane that leaks, and two synaptic inputs that decay exponentially.

    `dv/dt = (rest - v + exc + inh + current) / tau`. Weights are in mV; those of inhibitory synapses are negative. Each
    step is the exact solution. The defaults are those of CUBA (Vogels and Abbott 2005, Brette et al. 2007), whose
    neurons spike without input since they rest above the threshold.

    Args:
        name: Name of the population.
        size: Number of neurons.
        dt: Time step of the network (ms).
        tau: Time constant of the membrane (ms).
        tau_exc: Time constant of the input from "exc" (ms).
        tau_inh: Time constant of the input from "inh" (ms).
        rest: Potential at rest (mV).
        threshold: Potential at which a neuron spikes (mV).
        reset: Potential after a spike (mV).
        refractory: How long the potential stays there (ms), rounded to whole steps.
        current: Constant current times the resistance of the membrane (mV).
        v: Potential at the start (mV); by default that at rest.

    Returns:
        A population with the receptors "exc" and "inh" (mV).

    Raises:
        NetworkError: A time constant is not above 0.

    Examples:
        >>> import brainevent as be
        >>> sorted(be.models.lif_exponential("exc", 3200).state)
        ['exc', 'inh', 'pause', 'v']
    """
    read = Physical(name, dt)
    tau, tau_exc, tau_inh = read.positive("ms", tau=tau, tau_exc=tau_exc, tau_inh=tau_inh)
    (refractory,) = read.steps(refractory=refractory)
    params = {
        "dt": read.dt,
        "decay": decay(read.dt, tau),
        "gain_exc": gain(read.dt, tau, tau_exc),
        "gain_inh": gain(read.dt, tau, tau_inh),
        "current_gain": rise(read.dt, tau),
        "decay_exc": decay(read.dt, tau_exc),
        "decay_inh": decay(read.dt, tau_inh),
        "rest": rest,
        "threshold": threshold,
        "reset": reset,
        "refractory": refractory,
        "current": current,
    }
    state = {"v": rest if v is None else v, "exc": 0.0, "inh": 0.0, "pause": 0}
    return Population(name, size, lif_exponential_rule, state, params, units=_UNITS)
