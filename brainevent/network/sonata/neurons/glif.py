# SPDX-License-Identifier: Apache-2.0
"""Generalized leaky integrate-and-fire neurons of Teeter et al. (2018), levels 1 to 5: `glif_psc` of NEST.

The potential leaks; an after-spike current k decays at the rate `asc_decay`, and the threshold has two components that
decay: one grows with each spike, the other follows the potential:

    C du/dt = -g u + I + sum of after-spike currents + synaptic currents        u is the potential above E_L
    d(component)/dt = -th_spike_decay component
    d(other)/dt = th_voltage_index u - th_voltage_decay other

A spike changes u to `voltage_reset_fraction u + voltage_reset_add` (levels 2, 4, 5), or to the reset. Synaptic currents
have alpha shape, each with its own time constant; edges name one by `receptor_type`, from 1 on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from ....errors import NetworkError
from ....typing import ArrayLike, PyTree
from ...description.populations import Population
from ...models.physical import Physical, decay, gain, rise
from .current import alpha_gain
from .parameters import NestNeuron, Values, compact

__all__ = ["FLAGS", "GLIF", "LISTS", "RULE", "glif_rule"]

_DEFAULTS: dict[str, float | tuple[float, ...]] = {"V_m": -78.85, "E_L": -78.85, "C_m": 58.72, "g": 9.43}
_DEFAULTS |= {"I_e": 0.0, "t_ref": 3.75, "V_th": -51.68, "V_reset": -78.85, "tau_syn": (2.0,)}
_DEFAULTS |= {"voltage_reset_fraction": 0.2, "voltage_reset_add": 18.51, "th_spike_add": 0.37, "th_spike_decay": 0.009}
_DEFAULTS |= {"th_voltage_index": 0.005, "th_voltage_decay": 0.09, "threshold_spike": 0.0, "threshold_voltage": 0.0}
_DEFAULTS |= {"asc_init": (0.0, 0.0), "asc_decay": (0.003, 0.1), "asc_amps": (-9.18, -198.94), "asc_r": (1.0, 1.0)}
FLAGS = ("spike_dependent_threshold", "after_spike_currents", "adapting_threshold")
_LEVELS = {  # names of models in which the flags are not parameters
    "glif_lif_psc": (0.0, 0.0, 0.0),
    "glif_lif_r_psc": (1.0, 0.0, 0.0),
    "glif_lif_asc_psc": (0.0, 1.0, 0.0),
    "glif_lif_r_asc_psc": (1.0, 1.0, 0.0),
    "glif_lif_r_asc_a_psc": (1.0, 1.0, 1.0),
}
RULE = "glif_rule_"  # begins the name of a rule
LISTS = ("asc_init", "asc_decay", "asc_amps", "asc_r")

Array = Any


def _made(name: str, size: int, values: Values, dt: float) -> Population:
    read = Physical(name, dt)
    (capacitance,), (leak,) = read.positive("pF", C_m=values["C_m"]), read.positive("nS", g=values["g"])
    (refractory,) = read.steps(t_ref=values["t_ref"])
    resets, currents, adapts = (np.asarray(values[flag]) != 0 for flag in FLAGS)
    _check_levels(name, resets, adapts, currents)
    tau = capacitance / leak
    rest = values["E_L"]
    params: dict[str, Any] = {
        "dt": read.dt,
        "leak": leak,
        "decay": decay(dt, tau),
        "gain": rise(dt, tau) / leak,
        "rest": rest,
        "threshold": values["V_th"],
        "current": values["I_e"],
        "refractory": refractory,
        "reset_fraction": np.where(resets, values["voltage_reset_fraction"], 0.0),
        "reset_add": np.where(resets, values["voltage_reset_add"], values["V_reset"] - rest),
    }
    params |= _threshold(read, values, resets, adapts, tau)
    state = {"v": values["V_m"], "pause": 0, "raised": np.where(resets, values["threshold_spike"], 0.0)}
    state["adapted"] = np.where(adapts, values["threshold_voltage"], 0.0)
    after = _after_spikes(name, read, values, currents)
    taus = values["tau_syn"].reshape(-1, values["tau_syn"].shape[-1]).T
    for k, given in enumerate(taus):
        params |= _synapse(read, k, given, tau, capacitance)
        state |= {f"syn{k}": 0.0, f"rise{k}": 0.0}
    for k, one in enumerate(after):
        params |= {f"{key}{k}": value for key, value in one.items() if key != "asc"}
        state[f"asc{k}"] = one["asc"]
    params, state = ({key: compact(value) for key, value in given.items()} for given in (params, state))
    units = {"v": "mV", "rest": "mV", "threshold": "mV", "current": "pA"}
    units |= {f"syn{k}": "pA" for k in range(len(taus))}
    units |= {key: "1" for key in (*params, *state) if key not in units and key != "dt"}
    return Population(name, size, glif_rule(len(after), len(taus)), state, params, units=units)


def _synapse(read: Physical, k: int, given: Array, tau: Array, capacitance: Array) -> dict[str, Any]:
    """Return the parameters of receptor k, with a time constant for each neuron; a neuron without it has NaN."""
    (tau_syn,) = read.positive("ms", tau_syn=np.where(np.isnan(given), 1.0, given))
    return {
        f"gain_syn{k}": tau / capacitance * gain(read.dt, tau, tau_syn),
        f"gain_rise{k}": tau / capacitance * alpha_gain(read.dt, tau, tau_syn),
        f"decay_syn{k}": decay(read.dt, tau_syn),
        f"peak{k}": math.e / tau_syn,
    }


def _threshold(read: Physical, values: Values, resets: Array, adapts: Array, tau: Array) -> dict[str, Any]:
    """Return what changes the components of the threshold."""
    spike_decay, index, voltage_decay = (
        np.asarray(values[key]) for key in ("th_spike_decay", "th_voltage_index", "th_voltage_decay")
    )
    apart = voltage_decay - 1 / tau
    if (adapts & (np.abs(apart) < 1e-9 / tau)).any():
        raise NetworkError(
            f"population {read.population}: th_voltage_decay is g / C_m, for which glif_psc has no solution; change "
            "one of them slightly"
        )
    if (adapts & ~(voltage_decay > 0)).any():
        raise NetworkError(f"population {read.population}: th_voltage_decay must be above 0")
    return {
        "spike_decay": np.exp(-spike_decay * read.dt),
        "spike_pause": np.exp(-spike_decay * values["t_ref"]),
        "spike_add": np.where(resets, values["th_spike_add"], 0.0),
        "voltage_decay": np.exp(-voltage_decay * read.dt),
        "voltage_ratio": np.where(adapts, index / np.where(adapts, voltage_decay, 1.0), 0.0),
        "phi": np.where(adapts, index / np.where(adapts, apart, 1.0), 0.0),
    }


def _after_spikes(name: str, read: Physical, values: Values, on: Array) -> list[dict[str, Any]]:
    """Return state and parameters of each after-spike current; none if no neuron has them."""
    if not on.any():
        return []
    lists = {key: values[key].reshape(-1, values[key].shape[-1]) for key in LISTS}
    counts = {key: (~np.isnan(one)).sum(1).max() for key, one in lists.items()}
    if len(set(counts.values())) > 1:
        raise NetworkError(f"population {name}: {', '.join(f'{k} has {n}' for k, n in counts.items())} elements")
    found = []
    for k in range(lists["asc_amps"].shape[1]):
        begins, rate, amps, r = (np.where(on & ~np.isnan(one[:, k]), one[:, k], 0.0) for one in lists.values())
        if (rate < 0).any() or (on & ~np.isnan(lists["asc_decay"][:, k]) & (rate == 0)).any():
            raise NetworkError(f"population {name}: asc_decay must be above 0")
        steps = rate * read.dt
        found.append(
            {
                "asc": begins,
                "asc_mean": np.where(steps > 0, -np.expm1(-steps) / np.where(steps > 0, steps, 1.0), 1.0),
                "asc_decay": np.exp(-steps),
                "asc_add": amps,
                "asc_kept": r * np.exp(-rate * values["t_ref"]),
            }
        )
    return found


def _check_levels(name: str, resets: Array, adapts: Array, currents: Array) -> None:
    """Raise unless the flags are those of one of the five levels, as NEST does."""
    wrong = adapts & ~(resets & currents)
    if np.any(wrong):
        raise NetworkError(
            f"population {name}: adapting_threshold needs spike_dependent_threshold and after_spike_currents: that is "
            "level 5"
        )


@functools.cache
def glif_rule(currents: int, receptors: int) -> Callable[..., tuple[PyTree, ArrayLike]]:
    """Return the rule of neurons with so many after-spike currents and receptors."""

    def rule(s: PyTree, arriving: PyTree, p: PyTree) -> tuple[PyTree, ArrayLike]:
        """Integrate a neuron over a step."""
        held, new, old = s.pause > 0, {}, s.v - p.rest
        after: Any = 0.0
        for k in range(currents):
            asc = getattr(s, f"asc{k}")
            after = after + getattr(p, f"asc_mean{k}") * asc
            new[f"asc{k}"] = asc * getattr(p, f"asc_decay{k}")
        constant = p.current + after
        u = old * p.decay + constant * p.gain
        for k in range(receptors):
            syn, rise_ = getattr(s, f"syn{k}"), getattr(s, f"rise{k}")
            u = u + syn * getattr(p, f"gain_syn{k}") + rise_ * getattr(p, f"gain_rise{k}")
        raised = s.raised * p.spike_decay
        above = constant / p.leak
        adapted = s.adapted * p.voltage_decay
        adapted = adapted + p.phi * (old - above) * (p.decay - p.voltage_decay)
        adapted = adapted + p.voltage_ratio * above * (1 - p.voltage_decay)
        spike = (~held) & (u > p.threshold - p.rest + raised + adapted)
        for k in range(currents):
            reset = getattr(p, f"asc_add{k}") + new[f"asc{k}"] * getattr(p, f"asc_kept{k}")
            new[f"asc{k}"] = jnp.where(held, getattr(s, f"asc{k}"), jnp.where(spike, reset, new[f"asc{k}"]))
        u = jnp.where(spike, p.reset_fraction * old + p.reset_add, u)
        raised = jnp.where(spike, raised * p.spike_pause + p.spike_add, raised)
        for k in range(receptors):
            d, syn, rise_ = getattr(p, f"decay_syn{k}"), getattr(s, f"syn{k}"), getattr(s, f"rise{k}")
            new[f"syn{k}"] = d * (syn + p.dt * rise_)
            new[f"rise{k}"] = d * rise_ + getattr(p, f"peak{k}") * getattr(arriving, f"syn{k}")
        new["v"] = jnp.where(held, s.v, u + p.rest)
        new["raised"] = jnp.where(held, s.raised, raised)
        new["adapted"] = jnp.where(held, s.adapted, adapted)
        new["pause"] = jnp.where(spike, p.refractory, jnp.maximum(s.pause - 1, 0))
        return s.replace(**new), spike

    rule.__name__ = f"{RULE}{currents}_{receptors}"
    return rule


GLIF = [
    NestNeuron("glif_psc", _DEFAULTS | dict.fromkeys(FLAGS, 0.0), _made),
    *(
        NestNeuron(
            name, _DEFAULTS | dict(zip(FLAGS, flags, strict=True)), _made, fixed=dict(zip(FLAGS, flags, strict=True))
        )
        for name, flags in _LEVELS.items()
    ),
]
