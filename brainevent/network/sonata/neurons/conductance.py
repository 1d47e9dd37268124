# SPDX-License-Identifier: Apache-2.0
"""Leaky neurons with synaptic conductances: `iaf_cond_exp` and `iaf_cond_alpha` of NEST."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ....typing import ArrayLike, PyTree
from ...description.conductances import conductances
from ...description.populations import Population
from ...models.physical import Physical, by_name, decay
from .parameters import NestNeuron, Values, compact

__all__ = ["IAF_COND_ALPHA", "IAF_COND_EXP", "iaf_cond_alpha_rule", "iaf_cond_exp_rule"]

_DEFAULTS = {"V_m": -70.0, "E_L": -70.0, "C_m": 250.0, "g_L": 16.6667, "t_ref": 2.0, "V_th": -55.0, "V_reset": -60.0}
_DEFAULTS |= {"E_ex": 0.0, "E_in": -85.0, "tau_syn_ex": 0.2, "tau_syn_in": 2.0, "I_e": 0.0}
_EARLY, _LATE = 0.5 - math.sqrt(3) / 6, 0.5 + math.sqrt(3) / 6  # stages of a step, as parts of it
_STAGES = {"early": _EARLY, "late": _LATE}

Array = Any


def _made(name: str, size: int, values: Values, dt: float, rule: Callable[..., Any], rises: bool) -> Population:
    read = Physical(name, dt)
    (capacitance,), (leak,) = read.positive("pF", C_m=values["C_m"]), read.positive("nS", g_L=values["g_L"])
    (refractory,) = read.steps(t_ref=values["t_ref"])
    names = {"rest": "E_L", "rest_exc": "E_ex", "rest_inh": "E_in", "threshold": "V_th", "reset": "V_reset"}
    params: dict[str, Any] = {"dt": read.dt, "capacitance": compact(capacitance), "leak": compact(leak)}
    params |= {ours: compact(values[key]) for ours, key in names.items()}
    params |= {"refractory": compact(refractory), "current": compact(values["I_e"])}
    state: dict[str, Any] = {"v": compact(values["V_m"]), "exc": 0.0, "inh": 0.0, "pause": 0}
    for receptor, key in (("exc", "tau_syn_ex"), ("inh", "tau_syn_in")):
        (tau,) = read.positive("ms", **{key: values[key]})
        params[f"decay_{receptor}"] = compact(decay(dt, tau))
        params |= {f"{stage}_{receptor}": compact(decay(part * dt, tau)) for stage, part in _STAGES.items()}
        if rises:
            params[f"peak_{receptor}"] = compact(math.e / tau)
            state[f"{receptor}_rise"] = 0.0
    units = by_name({"mV": "v rest rest_exc rest_inh threshold reset", "pA": "current", "pF": "capacitance"})
    units |= by_name({"nS": "leak exc inh"} | ({"1": "exc_rise inh_rise"} if rises else {}))
    return Population(name, size, rule, state, params, units=units)


def _exponential(name: str, size: int, values: Values, dt: float) -> Population:
    return _made(name, size, values, dt, iaf_cond_exp_rule, rises=False)


def _alpha(name: str, size: int, values: Values, dt: float) -> Population:
    return _made(name, size, values, dt, iaf_cond_alpha_rule, rises=True)


@conductances("exc", "inh")
def iaf_cond_exp_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate the potential over a step, with two conductances that decay exponentially."""
    early, late = (s.exc * p.early_exc, s.inh * p.early_inh), (s.exc * p.late_exc, s.inh * p.late_inh)
    v, pause, spike = _after_step(s, p, early, late)
    exc, inh = s.exc * p.decay_exc + arriving.exc, s.inh * p.decay_inh + arriving.inh
    return s.replace(v=v, pause=pause, exc=exc, inh=inh), spike


@conductances("exc", "inh")
def iaf_cond_alpha_rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
    """Integrate the potential over a step, with two conductances of alpha shape, whose peak is the weight."""

    def at(part: float, exc: Array, inh: Array) -> tuple[Array, Array]:
        return (s.exc + part * p.dt * s.exc_rise) * exc, (s.inh + part * p.dt * s.inh_rise) * inh

    early, late = at(_EARLY, p.early_exc, p.early_inh), at(_LATE, p.late_exc, p.late_inh)
    v, pause, spike = _after_step(s, p, early, late)
    exc, inh = at(1.0, p.decay_exc, p.decay_inh)
    exc_rise = s.exc_rise * p.decay_exc + p.peak_exc * arriving.exc
    inh_rise = s.inh_rise * p.decay_inh + p.peak_inh * arriving.inh
    return s.replace(v=v, pause=pause, exc=exc, inh=inh, exc_rise=exc_rise, inh_rise=inh_rise), spike


def _after_step(s: PyTree, p: PyTree, early: tuple[Array, Array], late: tuple[Array, Array]) -> tuple[Array, ...]:
    """Return potential, pause and spike after a step, given the conductances at its two stages.

    The potential follows the implicit method of Gauss with two stages, solved in closed form: its error falls with the
    fourth power of the step, and it is stable for every conductance.
    """
    h = p.dt / p.capacitance
    pulls = [h * (p.leak + exc + inh) for exc, inh in (early, late)]
    pushes = [
        h * (p.leak * p.rest + exc * p.rest_exc + inh * p.rest_inh + p.current) - pull * s.v
        for (exc, inh), pull in zip((early, late), pulls, strict=True)
    ]
    a, b = 1 + pulls[0] / 4, 1 + pulls[1] / 4
    upper, lower = pulls[0] * (0.25 - math.sqrt(3) / 6), pulls[1] * (0.25 + math.sqrt(3) / 6)
    change = (pushes[0] * (b - lower) + pushes[1] * (a - upper)) / (2 * (a * b - upper * lower))
    v = jnp.where(s.pause > 0, s.v, s.v + change)
    spike = v >= p.threshold
    pause = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
    return jnp.where(spike, p.reset, v), pause, spike


IAF_COND_EXP = NestNeuron("iaf_cond_exp", _DEFAULTS, _exponential, ("exc", "inh"), positive=True)
IAF_COND_ALPHA = NestNeuron("iaf_cond_alpha", _DEFAULTS, _alpha, ("exc", "inh"), positive=True)
