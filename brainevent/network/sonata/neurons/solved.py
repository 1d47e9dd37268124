# SPDX-License-Identifier: Apache-2.0
"""The parameters of a model of NEST from a population: its factors of a step, solved for what made them.

Of numbers from which the same factor follows, the one with at most 12 digits is taken, which is usually the one that a
user gave. The population is then made again from them, and must have the same parameters and states.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ....errors import NetworkError
from ...models.lif_current import lif_current_rule
from ...models.lif_delta import lif_delta_rule
from ...models.lif_exponential import lif_exponential_rule
from ...models.physical import decay, rise
from .conductance import IAF_COND_ALPHA, IAF_COND_EXP, iaf_cond_alpha_rule, iaf_cond_exp_rule
from .current import IAF_PSC_ALPHA, IAF_PSC_DELTA, IAF_PSC_EXP, iaf_psc_alpha_rule
from .glif import FLAGS, GLIF, LISTS, RULE, glif_rule
from .parameters import NestNeuron, Values

__all__ = ["READY", "RULE_NAMES", "neuron_of", "solved_values"]

READY = "be.models.lif_delta, lif_exponential and lif_current, and populations of read_sonata"
_DIGITS = 12
_DOUBLE = {"gain_exc": "gain", "gain_inh": "gain", "decay_exc": "decay_syn", "decay_inh": "decay_syn"}
_DOUBLE |= {"exc": "i", "inh": "i"}  # lif_current has one current; two with the same time constant do the same

Array = Any
Given = Mapping[str, Array]  # parameters and states, float64 () or (neurons,)
Rule = Callable[..., Any]
Solve = Callable[[Given, float], Values]


def neuron_of(rule: Rule) -> NestNeuron | None:
    """Return the model of NEST that has a rule; None if none has."""
    if (model := _model(rule)) is not None:
        return model[0]
    return GLIF[0] if _glif_size(rule) else None


def _model(rule: Rule) -> tuple[NestNeuron, Solve] | None:
    return next(((neuron, solve) for one, neuron, solve in _MODELS if one is rule), None)


def solved_values(where: str, rule: Rule, name: str, size: int, given: Given, dt: float) -> Values:
    """Return the parameters of the model of a rule, of which `given` are parameters and states."""
    neuron, model = neuron_of(rule), _model(rule)
    assert neuron is not None
    with np.errstate(all="ignore"):  # of what no neuron has, which is refused below
        values = _glif(given, dt, *_glif_size(rule)) if model is None else model[1](given, dt)
    full = {key: _broadcast(value, size, neuron.defaults.get(key)) for key, value in values.items()}
    defaults = {key: _broadcast(one, size, one) for key, one in neuron.defaults.items() if key not in full}
    try:
        made = neuron.make(name, size, {**defaults, **full}, dt)
    except NetworkError as error:
        raise NetworkError(f"{where}: its parameters are those of no {neuron.name}: {error}") from None
    names = _DOUBLE if rule is lif_current_rule else {}
    for kind, group in (("parameter", made.params), ("state", made.state)):
        for key, value in group.items():
            old = names.get(key, key)
            if not np.all(np.float32(value) == np.float32(given[old])):
                raise _not_the_same(where, kind, old, given[old], neuron)
    return full


def _not_the_same(where: str, kind: str, key: str, value: Array, neuron: NestNeuron) -> NetworkError:
    first = np.reshape(value, -1)[0]
    if kind == "state":
        return NetworkError(
            f"{where}: state {key} begins at {first:g}, and {neuron.name} has no parameter for it; let it begin at 0"
        )
    return NetworkError(
        f"{where}: parameter {key} is {first:g}, which does not follow from the same {neuron.name} as the others; set "
        "all parameters that depend on a time constant together"
    )


def _broadcast(value: Any, size: int, default: Any) -> Array:
    one = np.asarray(value, np.float64)
    return np.array(np.broadcast_to(one, (size, one.shape[-1]) if isinstance(default, tuple) else size))


# ---- numbers from factors


def _short(raw: Array) -> Array:
    """Return numbers with at most 12 digits."""
    raw = np.asarray(raw, np.float64)
    power = _DIGITS - 1 - np.floor(np.log10(np.abs(np.where(raw == 0, 1.0, raw))))
    up, down = 10.0 ** np.maximum(power, 0), 10.0 ** np.maximum(-power, 0)
    return np.rint(raw * up / down) * down / up


def _solved(target: Array, factor: Callable[[Array], Array], raw: Array, *more: Array) -> Array:
    """Return, for each element, the first number from which the factor follows, and else `raw`."""
    found = np.asarray(raw, np.float64)
    for candidate in (*more[::-1], _short(raw)):
        found = np.where(factor(candidate) == target, candidate, found)
    return found


def _tau(factor: Array, dt: float) -> Array:
    """Return the time constant of what decays by a factor in a step."""
    return _solved(factor, lambda tau: decay(dt, tau), -dt / np.log(factor))


def _rate(factor: Array, dt: float) -> Array:
    """Return the rate at which something decays by a factor in a step."""
    return _solved(factor, lambda rate: np.exp(-rate * dt), -np.log(factor) / dt)


def _time(steps: Array, dt: float) -> Array:
    return _solved(steps, lambda time: np.rint(time / dt), steps * dt)


# ---- models


def _shared(g: Given, dt: float) -> Values:
    shared = {"E_L": g["rest"], "V_th": g["threshold"], "V_reset": g["reset"], "V_m": g["v"], "I_e": g["current"]}
    return shared | {"t_ref": _time(g["refractory"], dt)}


def _delta(g: Given, dt: float) -> Values:
    tau = _tau(g["decay"], dt)
    raw = tau * rise(dt, tau) / g["current_gain"]
    capacitance = _solved(g["current_gain"], lambda c: tau / c * rise(dt, tau), raw, tau)
    return _shared(g, dt) | {"tau_m": tau, "C_m": capacitance}


def _exponential(g: Given, dt: float) -> Values:
    return _delta(g, dt) | {"tau_syn_ex": _tau(g["decay_exc"], dt), "tau_syn_in": _tau(g["decay_inh"], dt)}


def _one_current(g: Given, dt: float) -> Values:
    tau = _tau(g["decay_syn"], dt)
    return _delta(g, dt) | {"tau_syn_ex": tau, "tau_syn_in": tau}


def _peaks(g: Given) -> Values:
    ends = (("tau_syn_ex", g["peak_exc"]), ("tau_syn_in", g["peak_inh"]))
    return {key: _solved(peak, lambda tau: math.e / tau, math.e / peak) for key, peak in ends}


def _alpha(g: Given, dt: float) -> Values:
    return _delta(g, dt) | _peaks(g)


def _conductance(g: Given, dt: float) -> Values:
    own = {"C_m": g["capacitance"], "g_L": g["leak"], "E_ex": g["rest_exc"], "E_in": g["rest_inh"]}
    return _shared(g, dt) | own | {"tau_syn_ex": _tau(g["decay_exc"], dt), "tau_syn_in": _tau(g["decay_inh"], dt)}


def _conductance_alpha(g: Given, dt: float) -> Values:
    return _conductance(g, dt) | _peaks(g)


def _glif_size(rule: Rule) -> tuple[int, ...]:
    """Return how many after-spike currents and receptors a GLIF neuron has; nothing of another rule."""
    numbers = getattr(rule, "__name__", "").removeprefix(RULE).split("_")
    if len(numbers) != 2 or not all(number.isdecimal() for number in numbers):
        return ()
    size = (int(numbers[0]), int(numbers[1]))
    return size if glif_rule(*size) is rule else ()


def _glif(g: Given, dt: float, currents: int, receptors: int) -> Values:
    adapts = (g["voltage_ratio"] != 0) | (g["adapted"] != 0)
    resets = adapts | (g["reset_fraction"] != 0) | (g["spike_add"] != 0) | (g["raised"] != 0)
    on = np.asarray(adapts)
    for k in range(currents):
        on = on | (g[f"asc_decay{k}"] != 1) | (g[f"asc_add{k}"] != 0) | (g[f"asc{k}"] != 0)
    leak, rest = g["leak"], g["rest"]
    spike_rate, voltage_rate = _rate(g["spike_decay"], dt), _rate(g["voltage_decay"], dt)
    raw = np.where(spike_rate > 0, -np.log(g["spike_pause"]) / spike_rate, np.nan)
    paused = _solved(g["spike_pause"], lambda time: np.exp(-spike_rate * time), raw)
    paused = np.where(np.rint(paused / dt) == g["refractory"], paused, _short(raw))  # half a step is rounded either way
    values: Values = {"E_L": rest, "V_m": g["v"], "V_th": g["threshold"], "I_e": g["current"], "g": leak}
    values["C_m"] = _solved(g["decay"], lambda c: decay(dt, c / leak), -dt / np.log(g["decay"]) * leak)
    values["t_ref"] = time = np.where(spike_rate > 0, paused, _time(g["refractory"], dt))
    values["V_reset"] = np.where(resets, rest, _solved(g["reset_add"], lambda v: v - rest, rest + g["reset_add"]))
    values["voltage_reset_fraction"] = g["reset_fraction"]
    values["voltage_reset_add"] = np.where(resets, g["reset_add"], 0.0)
    values |= {"th_spike_add": g["spike_add"], "th_spike_decay": spike_rate, "threshold_spike": g["raised"]}
    values |= {"th_voltage_decay": voltage_rate, "threshold_voltage": g["adapted"]}
    values["th_voltage_index"] = _solved(
        g["voltage_ratio"], lambda index: index / voltage_rate, g["voltage_ratio"] * voltage_rate
    )
    values |= dict(zip(FLAGS, (np.float64(flag) for flag in (resets, on, adapts)), strict=True))
    if currents:
        values |= _after_spikes(g, dt, currents, on, time)
    peaks = [g[f"peak{k}"] for k in range(receptors)]
    values["tau_syn"] = _columns([_solved(peak, lambda tau: math.e / tau, math.e / peak) for peak in peaks])
    return values


def _after_spikes(g: Given, dt: float, currents: int, on: Array, time: Array) -> Values:
    """Return the lists of after-spike currents, NaN where a neuron has fewer; any numbers where it has none."""
    columns: dict[str, list[Array]] = {name: [] for name in LISTS}
    for k in range(currents):
        rate = _rate(g[f"asc_decay{k}"], dt)
        left = np.exp(-rate * time)
        r = _solved(g[f"asc_kept{k}"], functools.partial(np.multiply, left), g[f"asc_kept{k}"] / left)
        one = {"asc_init": g[f"asc{k}"], "asc_decay": rate, "asc_amps": g[f"asc_add{k}"], "asc_r": r}
        for name, value in one.items():
            columns[name].append(np.where(on, np.where(rate == 0, np.nan, value), 1.0))
    return {name: _columns(found) for name, found in columns.items()}


def _columns(values: list[Array]) -> Array:
    """Return lists (neurons, elements), or (1, elements) if all neurons have the same."""
    return np.stack(np.broadcast_arrays(*(np.atleast_1d(value) for value in values)), axis=-1)


_MODELS: list[tuple[Rule, NestNeuron, Solve]] = [
    (lif_delta_rule, IAF_PSC_DELTA, _delta),
    (lif_exponential_rule, IAF_PSC_EXP, _exponential),
    (lif_current_rule, IAF_PSC_EXP, _one_current),
    (iaf_psc_alpha_rule, IAF_PSC_ALPHA, _alpha),
    (iaf_cond_exp_rule, IAF_COND_EXP, _conductance),
    (iaf_cond_alpha_rule, IAF_COND_ALPHA, _conductance_alpha),
]
RULE_NAMES = tuple(rule.__name__ for rule, _, _ in _MODELS)
