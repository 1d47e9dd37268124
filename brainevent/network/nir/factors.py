# SPDX-License-Identifier: Apache-2.0
"""Values of NIR nodes as parameters of their rules, and back: time constants in seconds as factors of one step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import NetworkError
from .nodes import Node

__all__ = ["METHODS", "node_values", "params_of"]

METHODS = ("euler", "exact")
_TIMES = {"LI": ("tau",), "LIF": ("tau",), "CubaLI": ("tau_syn", "tau_mem"), "CubaLIF": ("tau_syn", "tau_mem")}
_AS_THEY_ARE = {
    "LI": ("r", "v_leak"),
    "LIF": ("r", "v_leak", "v_threshold", "v_reset"),
    "IF": ("v_threshold", "v_reset"),
    "CubaLI": ("r", "v_leak", "w_in"),
    "CubaLIF": ("r", "v_leak", "w_in", "v_threshold", "v_reset"),
}
_CLOSE = 1e-5  # relative difference of factors that are those of the same time constants

Array = Any
Params = dict[str, Any]


def params_of(node: Node, size: int, method: str, dt: float) -> Params:
    """Return the parameters of a node's neurons: one number if all are equal, else one for each."""
    if node.kind == "Threshold":
        return {"v_threshold": _each(node, "threshold", size)}
    params = {name: _each(node, name, size) for name in _AS_THEY_ARE.get(node.kind, ())}
    if node.kind in ("I", "IF"):
        return {"dt": dt, "gain": _each(node, "r", size) * (dt / 1000), **params}
    ratios = [dt / 1000 / _time(node, name, size, method, dt) for name in _TIMES[node.kind]]
    return {"dt": dt, **_gains(ratios, method), **params}


def _gains(ratios: list[Array], method: str) -> Params:
    """Return the factors of a step, given the step divided by each time constant: that of the membrane is last."""
    *syn, mem = ratios
    if not syn:
        return {"gain": mem if method == "euler" else -np.expm1(-mem)}
    if method == "euler":  # the current first, then the membrane with the new current
        return {"gain": mem, "gain_syn": syn[0], "gain_x": mem * syn[0], "gain_i": mem * (1 - syn[0])}
    gain, difference = -np.expm1(-mem), syn[0] - mem
    safe = np.where(difference == 0, 1.0, difference)
    gain_i = np.exp(-syn[0]) * mem * np.where(difference == 0, 1.0, np.expm1(safe) / safe)
    return {"gain": gain, "gain_syn": -np.expm1(-syn[0]), "gain_x": gain - gain_i, "gain_i": gain_i}


def node_values(kind: str, method: str, dt: float, params: Mapping[str, Any], where: str) -> dict[str, Array]:
    """Return the values of a NIR node, in seconds, that `params_of` turned into parameters."""
    held = {name: np.asarray(value, np.float64) for name, value in params.items()}
    if kind == "Threshold":
        return {"threshold": held["v_threshold"]}
    values = {name: held[name] for name in _AS_THEY_ARE.get(kind, ())}
    if kind in ("I", "IF"):
        return {"r": held["gain"] / (dt / 1000), **values}
    gains = [held[name] for name in ("gain_syn", "gain") if name in held]
    least, most = (min(f(one) for one, f in ((g, np.min) for g in gains)), max(np.max(g) for g in gains))
    if not (least > 0 and (most <= 1 if method == "euler" else most < 1)):
        raise NetworkError(f"{where}: gain is from {least:g} to {most:g}, so that no time constant has this factor")
    ratios = gains if method == "euler" else [-np.log1p(-gain) for gain in gains]
    for name, wanted in _gains(ratios, method).items():
        if not np.allclose(held[name], wanted, rtol=_CLOSE, atol=0):
            raise NetworkError(
                f"{where}: {name} does not belong to the time constants that gain and gain_syn have; set all four"
            )
    return {name: dt / 1000 / ratio for name, ratio in zip(_TIMES[kind], ratios, strict=True)} | values


def _each(node: Node, name: str, size: int) -> Array:
    """Return a value for each neuron, or one number if all are equal."""
    value = getattr(node.given, name)
    if name == "v_reset" and value is None:
        return np.float64(0)
    found = node.numbers(name).reshape(-1)
    if found.size not in (1, size):
        raise NetworkError(f"{node.where}: {name} has shape {np.shape(value)}; pass one number for each of {size}")
    return found if size and (found != found[0]).any() else found[0]


def _time(node: Node, name: str, size: int, method: str, dt: float) -> Array:
    """Return a time constant, in seconds."""
    found = _each(node, name, size)
    if not (found > 0).all():
        raise NetworkError(f"{node.where}: {name} is {np.min(found):g} s; pass numbers above 0")
    if method == "euler" and (found * 1000 < dt * (1 - 1e-6)).any():
        raise NetworkError(
            f"{node.where}: {name} is {np.min(found):g} s, shorter than the time step, {dt:g} ms, so that Euler steps "
            'overshoot; pass a smaller dt, or method="exact"; times of NIR are in seconds'
        )
    return found
