# SPDX-License-Identifier: Apache-2.0
"""Leaky integrate-and-fire neurons whose synapses open conductances: those of COBA."""

from __future__ import annotations

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.conductances import conductances
from ..description.populations import Population
from .arguments import model
from .physical import Physical, Value, by_name, decay

__all__ = ["lif_conductance", "lif_conductance_rule"]

_UNITS = by_name({"mV": "v rest rest_exc rest_inh threshold reset current", "1": "exc inh"})


@conductances("exc", "inh")
def lif_conductance_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate potential and two conductances of one neuron over a step; the conductance of the leak is 1.

    The potential follows the implicit midpoint rule: its error falls with the square of the step, and it is stable for
    every conductance.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.lif_conductance("cells", 5).rule is brainevent.models.lif_conductance_rule
        True
    """
    exc, inh = s.exc * p.half_exc, s.inh * p.half_inh  # in the middle of the step
    target = p.rest + p.current + exc * p.rest_exc + inh * p.rest_inh
    pull = (1 + exc + inh) * p.half_step
    v = (s.v * (1 - pull) + target * (2 * p.half_step)) / (1 + pull)
    v = jnp.where(s.pause > 0, s.v, v)
    exc = exc * p.half_exc + arriving.exc
    inh = inh * p.half_inh + arriving.inh
    spike = v >= p.threshold
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, p.reset, v), exc=exc, inh=inh, pause=pause), spike


@model
def lif_conductance(
    name: str,
    size: int,
    *,
    dt: Value = 0.1,
    tau: Value = 20.0,
    tau_exc: Value = 5.0,
    tau_inh: Value = 10.0,
    rest: Value = -60.0,
    rest_exc: Value = 0.0,
    rest_inh: Value = -80.0,
    threshold: Value = -50.0,
    reset: Value = -60.0,
    refractory: Value = 5.0,
    current: Value = 0.0,
    v: Value = None,
    exc: Value = 0.0,
    inh: Value = 0.0,
) -> Population:
    """Return neurons with a membrane that leaks, and two synaptic conductances that decay exponentially.

    `dv/dt = (rest - v + exc (rest_exc - v) + inh (rest_inh - v) + current) / tau`. Conductances and weights are in
    units of the leak conductance, and weights of inhibitory synapses are positive. The defaults are those of COBA
    (Vogels and Abbott 2005, Brette et al. 2007), which has a current of 20 mV besides.

    Args:
        name: Name of the population.
        size: Number of neurons.
        dt: Time step of the network (ms).
        tau: Time constant of the membrane (ms).
        tau_exc: Time constant of the conductance "exc" (ms).
        tau_inh: Time constant of the conductance "inh" (ms).
        rest: Potential at rest (mV).
        rest_exc: Potential to which "exc" pulls (mV).
        rest_inh: Potential to which "inh" pulls (mV).
        threshold: Potential at which a neuron spikes (mV).
        reset: Potential after a spike (mV).
        refractory: How long the potential stays there (ms), rounded to whole steps.
        current: Constant current over the leak conductance (mV).
        v: Potential at the start (mV); by default that at rest.
        exc: Conductance "exc" at the start.
        inh: Conductance "inh" at the start.

    Returns:
        A population with the receptors "exc" and "inh" (in units of the leak conductance).

    Raises:
        NetworkError: A time constant is not above 0.

    Examples:
        >>> import brainevent as be
        >>> be.models.lif_conductance("exc", 3200, current=20.0).params["rest_inh"]
        -80.0
    """
    read = Physical(name, dt)
    tau, tau_exc, tau_inh = read.positive("ms", tau=tau, tau_exc=tau_exc, tau_inh=tau_inh)
    (refractory,) = read.steps(refractory=refractory)
    params = {
        "dt": read.dt,
        "half_step": read.dt / (2 * tau),
        "half_exc": decay(read.dt / 2, tau_exc),
        "half_inh": decay(read.dt / 2, tau_inh),
        "rest": rest,
        "rest_exc": rest_exc,
        "rest_inh": rest_inh,
        "threshold": threshold,
        "reset": reset,
        "refractory": refractory,
        "current": current,
    }
    state = {"v": rest if v is None else v, "exc": exc, "inh": inh, "pause": 0}
    return Population(name, size, lif_conductance_rule, state, params, units=_UNITS)
