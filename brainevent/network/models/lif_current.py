# SPDX-License-Identifier: Apache-2.0
"""Leaky integrate-and-fire neurons with an exponential synaptic current, solved exactly."""

from __future__ import annotations

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.populations import Population
from .arguments import model
from .physical import Physical, Value, by_name, decay, gain, rise

__all__ = ["lif_current", "lif_current_rule"]

_UNITS = by_name({"mV": "v rest threshold reset", "pA": "i current syn"})


def lif_current_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate potential and synaptic current of one neuron over a step.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.lif_current("cells", 5).rule is brainevent.models.lif_current_rule
        True
    """
    v = p.rest + (s.v - p.rest) * p.decay + s.i * p.gain + p.current * p.current_gain
    v = jnp.where(s.pause > 0, s.v, v)
    i = s.i * p.decay_syn + arriving.syn
    spike = v >= p.threshold
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, p.reset, v), i=i, pause=pause), spike


@model
def lif_current(
    name: str,
    size: int,
    *,
    dt: Value = 0.1,
    tau: Value = 10.0,
    capacitance: Value = 250.0,
    tau_syn: Value = 0.5,
    rest: Value = -65.0,
    threshold: Value = -50.0,
    reset: Value = -65.0,
    refractory: Value = 2.0,
    current: Value = 0.0,
    v: Value = None,
) -> Population:
    """Return neurons with a membrane that leaks, and one synaptic current that decays exponentially.

    `dv/dt = (rest - v) / tau + (i + current) / capacitance` and `di/dt = -i / tau_syn`. Each step is the exact
    solution. The defaults are those of Potjans and Diesmann (2014).

    Args:
        name: Name of the population.
        size: Number of neurons.
        dt: Time step of the network (ms).
        tau: Time constant of the membrane (ms).
        capacitance: Capacitance of the membrane (pF).
        tau_syn: Time constant of the synaptic current (ms).
        rest: Potential at rest (mV).
        threshold: Potential at which a neuron spikes (mV).
        reset: Potential after a spike (mV).
        refractory: How long the potential stays there (ms), rounded to whole steps.
        current: Constant current (pA).
        v: Potential at the start (mV); by default that at rest.

    Returns:
        A population with the receptor "syn" (pA).

    Raises:
        NetworkError: A time constant or the capacitance is not above 0.

    Examples:
        >>> import brainevent as be
        >>> exc = be.models.lif_current("exc", 100, current=300.0)
        >>> exc.params["refractory"], exc.params["decay"].round(4)
        (np.int32(20), np.float64(0.99))
    """
    read = Physical(name, dt)
    tau, tau_syn = read.positive("ms", tau=tau, tau_syn=tau_syn)
    (capacitance,) = read.positive("pF", capacitance=capacitance)
    (refractory,) = read.steps(refractory=refractory)
    params = {
        "dt": read.dt,
        "decay": decay(read.dt, tau),
        "gain": tau / capacitance * gain(read.dt, tau, tau_syn),
        "current_gain": tau / capacitance * rise(read.dt, tau),
        "decay_syn": decay(read.dt, tau_syn),
        "rest": rest,
        "threshold": threshold,
        "reset": reset,
        "refractory": refractory,
        "current": current,
    }
    return Population(
        name, size, lif_current_rule, {"v": rest if v is None else v, "i": 0.0, "pause": 0}, params, units=_UNITS
    )
