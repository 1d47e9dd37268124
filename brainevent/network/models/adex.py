# SPDX-License-Identifier: Apache-2.0
"""Adaptive exponential integrate-and-fire neurons (Brette and Gerstner 2005)."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.conductances import conductances
from ..description.populations import Population
from .arguments import model
from .physical import Physical, Value, by_name, decay

__all__ = ["adex", "adex_rule"]

_UNITS = by_name(
    {
        "mV": "v rest threshold sharpness reset peak rest_exc rest_inh",
        "pA": "w b current",
        "nS": "leak a exc inh",
    }
)


@conductances("exc", "inh")
def adex_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate potential, adaptation and two conductances of one neuron over a step.

    Half a step of the adaptation, then half a step of leak and currents, the exponential upstroke, and both halves
    again in reverse order. The upstroke is solved exactly: a neuron spikes if it becomes infinite within the step. The
    error falls with the square of the step.

    Args:
        s: The state of one neuron: each state by name, and `replace`.
        arriving: The sum of what arrives in this step, by receptor.
        p: The parameters of the neuron, by name.

    Returns:
        The new state, and whether the neuron spikes.

    Examples:
        >>> import brainevent
        >>> brainevent.models.adex("cells", 5).rule is brainevent.models.adex_rule
        True
    """
    exc, inh = s.exc * p.half_exc, s.inh * p.half_inh  # in the middle of the step
    target = p.a * (s.v - p.rest)
    w = target + (s.w - target) * p.half_w
    pull = p.leak * p.rest + exc * p.rest_exc + inh * p.rest_inh + p.current - w
    total = p.leak + exc + inh
    v = _half_step(s.v, pull, total, p)
    left = 1.0 - jnp.exp((v - p.threshold) / p.sharpness) * p.upstroke
    infinite = left <= 0.0
    v = v - p.sharpness * jnp.log(jnp.where(infinite, 1.0, left))
    v = _half_step(v, pull, total, p)
    spike = (s.pause == 0) & (infinite | (v >= p.peak))
    v = jnp.where(s.pause > 0, s.v, jnp.where(spike, p.peak, v))
    target = p.a * (v - p.rest)
    w = target + (w - target) * p.half_w
    v, w = jnp.where(spike, p.reset, v), jnp.where(spike, w + p.b, w)
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    exc, inh = exc * p.half_exc + arriving.exc, inh * p.half_inh + arriving.inh
    return s.replace(v=v, w=w, exc=exc, inh=inh, pause=pause), spike


def _half_step(v: Any, pull: Any, total: Any, p: Any) -> Any:
    """Integrate `capacitance dv/dt = pull - total v` by the implicit midpoint rule."""
    return (v * (1.0 - total * p.quarter_step) + pull * (2.0 * p.quarter_step)) / (1.0 + total * p.quarter_step)


@model
def adex(
    name: str,
    size: int,
    *,
    dt: Value = 0.1,
    capacitance: Value = 281.0,
    leak: Value = 30.0,
    rest: Value = -70.6,
    threshold: Value = -50.4,
    sharpness: Value = 2.0,
    tau_w: Value = 144.0,
    a: Value = 4.0,
    b: Value = 80.5,
    reset: Value = -70.6,
    peak: Value = 0.0,
    refractory: Value = 0.0,
    tau_exc: Value = 5.0,
    tau_inh: Value = 10.0,
    rest_exc: Value = 0.0,
    rest_inh: Value = -80.0,
    current: Value = 0.0,
    v: Value = None,
    w: Value = 0.0,
) -> Population:
    """Return neurons with an exponential upstroke, and an adaptation current that grows with each spike.

    `capacitance dv/dt = leak (rest - v + sharpness exp((v - threshold) / sharpness)) - w + current + synapses`, and
    `tau_w dw/dt = a (v - rest) - w`. A spike ends where v reaches the peak; then v is reset and w grows by b. The
    defaults are those of Brette and Gerstner (2005).

    Args:
        name: Name of the population.
        size: Number of neurons.
        dt: Time step of the network (ms).
        capacitance: Capacitance of the membrane (pF).
        leak: Leak conductance (nS).
        rest: Potential at rest (mV).
        threshold: Potential at which the upstroke begins (mV).
        sharpness: How gradually it does (mV).
        tau_w: Time constant of the adaptation (ms).
        a: Adaptation to the potential (nS).
        b: Adaptation to a spike (pA).
        reset: Potential after a spike (mV).
        peak: Potential at which a spike is counted (mV).
        refractory: How long the potential stays at the reset (ms), rounded to whole steps.
        tau_exc: Time constant of the conductance "exc" (ms).
        tau_inh: Time constant of the conductance "inh" (ms).
        rest_exc: Potential to which "exc" pulls (mV).
        rest_inh: Potential to which "inh" pulls (mV).
        current: Constant current (pA).
        v: Potential at the start (mV); by default that at rest.
        w: Adaptation current at the start (pA).

    Returns:
        A population with the receptors "exc" and "inh" (nS).

    Raises:
        NetworkError: A time constant, the capacitance, the leak or the sharpness is not above 0.

    Examples:
        >>> import brainevent as be
        >>> bursting = be.models.adex("bursting", 10, current=800.0, reset=-47.2, tau_w=20.0, b=500.0)
        >>> sorted(bursting.state)
        ['exc', 'inh', 'pause', 'v', 'w']
    """
    read = Physical(name, dt)
    tau_w, tau_exc, tau_inh = read.positive("ms", tau_w=tau_w, tau_exc=tau_exc, tau_inh=tau_inh)
    (capacitance,) = read.positive("pF", capacitance=capacitance)
    (leak,) = read.positive("nS", leak=leak)
    (sharpness,) = read.positive("mV", sharpness=sharpness)
    (refractory,) = read.steps(refractory=refractory)
    of_membrane = {"leak": leak, "rest": rest, "threshold": threshold, "sharpness": sharpness}
    of_spikes = {"a": a, "b": b, "reset": reset, "peak": peak, "refractory": refractory}
    params = {
        "dt": read.dt,
        "quarter_step": read.dt / (4 * capacitance),
        "upstroke": read.dt * leak / capacitance,
        **of_membrane,
        "half_w": decay(read.dt / 2, tau_w),
        **of_spikes,
        "half_exc": decay(read.dt / 2, tau_exc),
        "half_inh": decay(read.dt / 2, tau_inh),
        "rest_exc": rest_exc,
        "rest_inh": rest_inh,
        "current": current,
    }
    state = {"v": rest if v is None else v, "w": w, "exc": 0.0, "inh": 0.0, "pause": 0}
    return Population(name, size, adex_rule, state, params, units=_UNITS)
