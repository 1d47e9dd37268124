# SPDX-License-Identifier: Apache-2.0
"""Neurons with sodium and potassium channels (Hodgkin and Huxley 1952)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.conductances import conductances
from ..description.populations import Population
from .arguments import model
from .physical import Physical, Value, by_name, decay

__all__ = ["hodgkin_huxley", "hodgkin_huxley_rule"]

_UNITS = by_name(
    {
        "mV": "v rest_leak rest_sodium rest_potassium threshold rest_exc rest_inh",
        "pA": "current",
        "nS": "leak sodium potassium exc inh",
        "pF": "capacitance",
    }
)


def _ratio(x: Any) -> Any:
    """Return x / (exp(x) - 1), which is 1 at 0."""
    zero = x == 0
    return jnp.where(zero, 1.0, x / jnp.expm1(jnp.where(zero, 1.0, x)))


def _gate(gate: Any, opening: Any, closing: Any, dt: Any) -> Any:
    """Return a gate after a step in which its rates (1/ms) do not change: the exact solution."""
    rate = opening + closing
    return gate + (opening / rate - gate) * -jnp.expm1(-rate * dt)


@conductances("exc", "inh")
def hodgkin_huxley_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate potential, three gates and two conductances of one neuron over a step.

    Gates are half a step ahead of the potential: each is solved exactly while the other does not change. The error
    falls with the square of the step, and no step is too large to be stable.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.hodgkin_huxley("cells", 5).rule is brainevent.models.hodgkin_huxley_rule
        True
    """
    exc, inh = s.exc * p.half_exc, s.inh * p.half_inh  # in the middle of the step
    sodium = p.sodium * s.m * s.m * s.m * s.h
    potassium = p.potassium * s.n * s.n * s.n * s.n
    total = p.leak + sodium + potassium + exc + inh
    pull = p.leak * p.rest_leak + sodium * p.rest_sodium + potassium * p.rest_potassium
    target = (pull + exc * p.rest_exc + inh * p.rest_inh + p.current) / total
    v = target + (s.v - target) * jnp.exp(-p.dt / p.capacitance * total)
    m = _gate(s.m, _ratio(-(v + 40.0) / 10.0), 4.0 * jnp.exp(-(v + 65.0) / 18.0), p.dt)
    h = _gate(s.h, 0.07 * jnp.exp(-(v + 65.0) / 20.0), 1.0 / (1.0 + jnp.exp(-(v + 35.0) / 10.0)), p.dt)
    n = _gate(s.n, 0.1 * _ratio(-(v + 55.0) / 10.0), 0.125 * jnp.exp(-(v + 65.0) / 80.0), p.dt)
    exc = exc * p.half_exc + arriving.exc
    inh = inh * p.half_inh + arriving.inh
    spike = (s.v < p.threshold) & (v >= p.threshold)
    return s.replace(v=v, m=m, h=h, n=n, exc=exc, inh=inh), spike


@model
def hodgkin_huxley(
    name: str,
    size: int,
    *,
    dt: Value = 0.1,
    capacitance: Value = 100.0,
    leak: Value = 30.0,
    sodium: Value = 12000.0,
    potassium: Value = 3600.0,
    rest_leak: Value = -54.4,
    rest_sodium: Value = 50.0,
    rest_potassium: Value = -77.0,
    threshold: Value = 0.0,
    tau_exc: Value = 5.0,
    tau_inh: Value = 10.0,
    rest_exc: Value = 0.0,
    rest_inh: Value = -80.0,
    current: Value = 0.0,
    v: Value = -65.0,
) -> Population:
    """Return neurons whose spikes arise from sodium and potassium channels.

    `capacitance dv/dt = leak (rest_leak - v) + sodium m^3 h (rest_sodium - v) + potassium n^4 (rest_potassium - v) +
    current + synapses`, with the rates of Hodgkin and Huxley (1952) for m, h and n, and the potential at rest at
    -65 mV. The defaults are those of the squid's axon for 10 000 square micrometres of membrane: 100 pA are
    1 uA/cm^2. There is no reset: a spike is an upward crossing of the threshold.

    Args:
        name: Name of the population.
        size: Number of neurons.
        dt: Time step of the network (ms).
        capacitance: Capacitance of the membrane (pF).
        leak: Leak conductance (nS).
        sodium: Largest sodium conductance (nS).
        potassium: Largest potassium conductance (nS).
        rest_leak: Potential to which the leak pulls (mV).
        rest_sodium: Potential to which sodium pulls (mV).
        rest_potassium: Potential to which potassium pulls (mV).
        threshold: Potential whose upward crossing is a spike (mV).
        tau_exc: Time constant of the conductance "exc" (ms).
        tau_inh: Time constant of the conductance "inh" (ms).
        rest_exc: Potential to which "exc" pulls (mV).
        rest_inh: Potential to which "inh" pulls (mV).
        current: Constant current (pA).
        v: Potential at the start (mV). The gates begin as they are at rest.

    Returns:
        A population with the receptors "exc" and "inh" (nS).

    Raises:
        NetworkError: A time constant, the capacitance or the leak is not above 0.

    Examples:
        >>> import brainevent as be
        >>> sorted(be.models.hodgkin_huxley("axon", 1, current=1000.0).state)
        ['exc', 'h', 'inh', 'm', 'n', 'v']
    """
    read = Physical(name, dt)
    tau_exc, tau_inh = read.positive("ms", tau_exc=tau_exc, tau_inh=tau_inh)
    (capacitance,) = read.positive("pF", capacitance=capacitance)
    (leak,) = read.positive("nS", leak=leak)
    params = {
        "dt": read.dt,
        "capacitance": capacitance,
        "leak": leak,
        "sodium": sodium,
        "potassium": potassium,
        "rest_leak": rest_leak,
        "rest_sodium": rest_sodium,
        "rest_potassium": rest_potassium,
        "threshold": threshold,
        "half_exc": decay(read.dt / 2, tau_exc),
        "half_inh": decay(read.dt / 2, tau_inh),
        "rest_exc": rest_exc,
        "rest_inh": rest_inh,
        "current": current,
    }
    state = {"v": v, "m": 0.05293, "h": 0.59612, "n": 0.31768, "exc": 0.0, "inh": 0.0}
    return Population(name, size, hodgkin_huxley_rule, state, params, units=_UNITS)
