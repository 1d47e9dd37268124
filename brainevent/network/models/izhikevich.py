# SPDX-License-Identifier: Apache-2.0
"""The simple model of spiking neurons (Izhikevich 2003)."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from ...typing import ArrayLike, PyTree
from ..description.populations import Population
from .arguments import model
from .physical import Physical, Value, by_name, decay

__all__ = ["izhikevich", "izhikevich_rule"]

_UNITS = by_name({"mV": "v c peak", "1": "u b d i current syn"})


def izhikevich_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate potential, recovery and synaptic current of one neuron over a step.

    Half a step of u, a step of v, half a step of u. For v^2 stands the product of v before and after the step, and for
    5 v their mean (Kahan 1993): v can become infinite within a step, as in the equation, and the neuron spikes then.
    The error falls with the square of the step.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.izhikevich("cells", 5).rule is brainevent.models.izhikevich_rule
        True
    """
    i = s.i * p.half_syn  # in the middle of the step
    target = p.b * s.v
    u = target + (s.u - target) * p.half_u
    left = 1.0 - p.dt * (0.04 * s.v + 2.5)
    infinite = left <= 0.0
    v = (s.v + p.dt * (2.5 * s.v + 140.0 - u + i + p.current)) / jnp.where(infinite, 1.0, left)
    spike = infinite | (v >= p.peak)
    target = p.b * jnp.where(spike, p.peak, v)
    u = target + (u - target) * p.half_u
    v, u = jnp.where(spike, p.c, v), jnp.where(spike, u + p.d, u)
    return s.replace(v=v, u=u, i=i * p.half_syn + arriving.syn), spike


@model
def izhikevich(
    name: str,
    size: int,
    *,
    dt: Value = 0.1,
    a: Value = 0.02,
    b: Value = 0.2,
    c: Value = -65.0,
    d: Value = 8.0,
    peak: Value = 30.0,
    tau_syn: Value = 5.0,
    current: Value = 0.0,
    v: Value = -70.0,
    u: Value = -14.0,
) -> Population:
    """Return neurons that spike regularly, fast, in bursts, and in other ways, set by four parameters.

    `dv/dt = 0.04 v^2 + 5 v + 140 - u + i + current` and `du/dt = a (b v - u)`; where v reaches the peak, v becomes c
    and u grows by d. The synaptic current i decays exponentially. Times are in ms and v is in mV; the other values have
    no unit, as in the paper. Its (a, b, c, d): regular spiking (0.02, 0.2, -65, 8), intrinsically bursting
    (0.02, 0.2, -55, 4), chattering (0.02, 0.2, -50, 2), fast spiking (0.1, 0.2, -65, 2), low-threshold spiking
    (0.02, 0.25, -65, 2).

    Args:
        name: Name of the population.
        size: Number of neurons.
        dt: Time step of the network (ms).
        a: How fast the recovery u follows (1/ms).
        b: How strongly it follows v.
        c: Potential after a spike (mV).
        d: How much u grows with a spike.
        peak: Potential at which a spike is counted (mV).
        tau_syn: Time constant of the synaptic current (ms).
        current: Constant current.
        v: Potential at the start (mV).
        u: Recovery at the start.

    Returns:
        A population with the receptor "syn" (in units of the current).

    Raises:
        NetworkError: The time constant is not above 0, or a is negative.

    Examples:
        >>> import brainevent as be
        >>> fast_spiking = be.models.izhikevich("inh", 200, a=0.1, d=2.0, current=10.0)
        >>> fast_spiking.params["c"]
        -65.0
    """
    read = Physical(name, dt)
    (tau_syn,) = read.positive("ms", tau_syn=tau_syn)
    (a,) = read.not_negative("kHz", a=a)
    params = {
        "dt": read.dt,
        "half_u": np.exp(-a * read.dt / 2),
        "b": b,
        "c": c,
        "d": d,
        "peak": peak,
        "half_syn": decay(read.dt / 2, tau_syn),
        "current": current,
    }
    return Population(name, size, izhikevich_rule, {"v": v, "u": u, "i": 0.0}, params, units=_UNITS)
