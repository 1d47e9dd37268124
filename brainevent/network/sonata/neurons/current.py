# SPDX-License-Identifier: Apache-2.0
"""Leaky neurons with synaptic currents: `iaf_psc_delta`, `iaf_psc_exp` and `iaf_psc_alpha` of NEST."""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from ....typing import ArrayLike, PyTree
from ...description.populations import Population
from ...models.lif_delta import lif_delta_rule
from ...models.lif_exponential import lif_exponential_rule
from ...models.physical import Physical, by_name, decay, gain, rise
from .parameters import NestNeuron, Values, compact

__all__ = ["IAF_PSC_ALPHA", "IAF_PSC_DELTA", "IAF_PSC_EXP", "alpha_gain", "iaf_psc_alpha_rule"]

_MEMBRANE = {"V_m": -70.0, "E_L": -70.0, "C_m": 250.0, "tau_m": 10.0, "t_ref": 2.0, "V_th": -55.0, "V_reset": -70.0}
_MEMBRANE |= {"I_e": 0.0}
_SYNAPSES = {"tau_syn_ex": 2.0, "tau_syn_in": 2.0}
_PA = by_name({"mV": "v rest threshold reset", "pA": "current exc inh"})

Array = Any


def _membrane(read: Physical, values: Values) -> tuple[Array, Array, Values]:
    """Return the time constant and the resistance of the membrane, and the parameters that all models share."""
    (tau,), (capacitance,) = read.positive("ms", tau_m=values["tau_m"]), read.positive("pF", C_m=values["C_m"])
    (refractory,) = read.steps(t_ref=values["t_ref"])
    shared = {
        "dt": read.dt,
        "decay": compact(decay(read.dt, tau)),
        "current_gain": compact(tau / capacitance * rise(read.dt, tau)),
        "rest": compact(values["E_L"]),
        "threshold": compact(values["V_th"]),
        "reset": compact(values["V_reset"]),
        "refractory": compact(refractory),
        "current": compact(values["I_e"]),
    }
    return tau, tau / capacitance, shared


def _delta(name: str, size: int, values: Values, dt: float) -> Population:
    params = _membrane(Physical(name, dt), values)[2]
    units = by_name({"mV": "v rest threshold reset syn", "pA": "current"})
    return Population(name, size, lif_delta_rule, {"v": compact(values["V_m"]), "pause": 0}, params, units=units)


def _exponential(name: str, size: int, values: Values, dt: float) -> Population:
    read = Physical(name, dt)
    tau, resistance, params = _membrane(read, values)
    for receptor, key in (("exc", "tau_syn_ex"), ("inh", "tau_syn_in")):
        (tau_syn,) = read.positive("ms", **{key: values[key]})
        params[f"gain_{receptor}"] = compact(resistance * gain(dt, tau, tau_syn))
        params[f"decay_{receptor}"] = compact(decay(dt, tau_syn))
    state = {"v": compact(values["V_m"]), "exc": 0.0, "inh": 0.0, "pause": 0}
    return Population(name, size, lif_exponential_rule, state, params, units=_PA)


def _alpha(name: str, size: int, values: Values, dt: float) -> Population:
    read = Physical(name, dt)
    tau, resistance, params = _membrane(read, values)
    for receptor, key in (("exc", "tau_syn_ex"), ("inh", "tau_syn_in")):
        (tau_syn,) = read.positive("ms", **{key: values[key]})
        params[f"gain_{receptor}"] = compact(resistance * gain(dt, tau, tau_syn))
        params[f"gain_{receptor}_rise"] = compact(resistance * alpha_gain(dt, tau, tau_syn))
        params[f"decay_{receptor}"] = compact(decay(dt, tau_syn))
        params[f"peak_{receptor}"] = compact(math.e / tau_syn)
    state = {"v": compact(values["V_m"]), "exc": 0.0, "exc_rise": 0.0, "inh": 0.0, "inh_rise": 0.0, "pause": 0}
    return Population(name, size, iaf_psc_alpha_rule, state, params, units=_PA | dict.fromkeys(_RISES, "1"))


_RISES = ("exc_rise", "inh_rise")


def iaf_psc_alpha_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate the potential and two currents of alpha shape over a step; both are exact.

    A weight is the peak of its current, which it reaches one time constant after the spike arrives.
    """
    v = p.rest + (s.v - p.rest) * p.decay + p.current * p.current_gain
    v = v + s.exc * p.gain_exc + s.exc_rise * p.gain_exc_rise + s.inh * p.gain_inh + s.inh_rise * p.gain_inh_rise
    v = jnp.where(s.pause > 0, s.v, v)
    exc, inh = p.decay_exc * (s.exc + p.dt * s.exc_rise), p.decay_inh * (s.inh + p.dt * s.inh_rise)
    exc_rise = p.decay_exc * s.exc_rise + p.peak_exc * arriving.exc
    inh_rise = p.decay_inh * s.inh_rise + p.peak_inh * arriving.inh
    spike = v >= p.threshold
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    v = jnp.where(spike, p.reset, v)
    return s.replace(v=v, exc=exc, exc_rise=exc_rise, inh=inh, inh_rise=inh_rise, pause=pause), spike


def alpha_gain(dt: float, tau: Array, tau_in: Array) -> Array:
    """Return how much `dv/dt = (x - v) / tau` changes v in a step, where x is t exp(-t / tau_in).

    It is the exact solution: the integral of (s / tau) exp(-s / tau_in) exp(-(dt - s) / tau), also where both time
    constants are equal.
    """
    x = np.asarray(dt / tau_in - dt / tau, np.float64)
    near = np.abs(x) < 0.3
    apart = np.where(near, 1.0, x)
    far = (-np.expm1(-apart) - apart * np.exp(-apart)) / apart**2
    series = sum(((-1) ** k / (math.factorial(k) * (k + 2))) * np.where(near, x, 0.0) ** k for k in range(16))
    return dt**2 / tau * decay(dt, tau) * np.where(near, series, far)


IAF_PSC_DELTA = NestNeuron(
    "iaf_psc_delta",
    _MEMBRANE,
    _delta,
    ("syn", "syn"),
    fixed={"V_min": -math.inf, "refractory_input": 0.0},
)
IAF_PSC_EXP = NestNeuron(
    "iaf_psc_exp", _MEMBRANE | _SYNAPSES, _exponential, ("exc", "inh"), fixed={"rho": 0.01, "delta": 0.0}
)
IAF_PSC_ALPHA = NestNeuron("iaf_psc_alpha", _MEMBRANE | _SYNAPSES, _alpha, ("exc", "inh"), fixed={"V_min": -math.inf})
