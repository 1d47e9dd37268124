# SPDX-License-Identifier: Apache-2.0
"""Populations as NIR nodes: which rules have equations in NIR, and with which values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.exact import exact_value
from ..description.populations import Population
from ..description.values import Values
from ..models.lif_delta import lif_delta_rule
from ..models.spike_source import relay_rule
from .factors import node_values
from .rules import EVENTS, INPUT, OUTPUT, WAIT, NodeRule, history_name, spikes

__all__ = ["Neurons", "method_of", "neurons_of"]

Array = Any
_READY = "populations of from_nir, be.models.lif_delta and be.models.relay"


@dataclass(frozen=True, eq=False)
class Neurons:
    """A population as a NIR node.

    Attributes:
        name: Of the population.
        size: Number of neurons.
        kind: Kind of node: "Input" and "Output" too.
        values: Values of the node, each (neurons,).
        sent: The states that it sends in every step, each as old as its place; none if it sends spikes.
        scale: By which the node's input is divided to give that of the rule: (neurons,) or one number.
        bias: Constant input of the node: (neurons,).
        latency: In which step of the network it does the first step of the graph.
    """

    name: str
    size: int
    kind: str
    values: Mapping[str, Array]
    sent: tuple[str, ...] = ()
    scale: Array = 1.0
    bias: Array = field(default_factory=lambda: np.zeros(1))
    latency: int = 0


def neurons_of(population: Population, params: Mapping[str, Array], method: str, dt: float) -> Neurons:
    """Return the node of a population, whose parameters are those of now; raise if there is none."""
    where = f"to_nir: population {population.name}"
    rule = population.rule
    values = {key: exact_value(population.params.get(key), value) for key, value in params.items()}
    if isinstance(rule, NodeRule):
        return _of_node(where, population, rule, values, dt)
    if rule is relay_rule:
        return Neurons(population.name, population.size, "Threshold", _full(population, {"threshold": 0.0}))
    if rule is not lif_delta_rule:
        name = getattr(rule, "__name__", type(rule).__name__)
        raise NetworkError(f"{where}: its rule {name} has no node in NIR; those that have: {_READY}")
    if method != "exact":
        raise NetworkError(
            f"{where}: lif_delta is the exact solution, but other populations take Euler steps, and a graph is read "
            "with one method; make those by from_nir(..., method='exact')"
        )
    if np.any(values["refractory"] != 0):
        raise NetworkError(f"{where}: refractory is not 0, and NIR has no refractory time; pass refractory=0")
    _check_start(where, population, {"v": values["rest"], "pause": 0})
    gain = 1 - values["decay"]
    if not (np.allclose(gain, values["current_gain"], rtol=1e-5, atol=0) and np.all((gain > 0) & (gain < 1))):
        raise NetworkError(f"{where}: decay and current_gain do not belong to the same time constant; set both")
    below = np.nextafter(np.float32(values["threshold"]), np.float32(-np.inf))  # NIR spikes above, the rule from it on
    found = {"tau": -dt / 1000 / np.log(values["decay"]), "r": 1.0, "v_leak": values["rest"], "v_threshold": below}
    found = _full(population, found | {"v_reset": values["reset"]})
    bias = np.broadcast_to(values["current"], population.size)
    return Neurons(population.name, population.size, "LIF", found, scale=gain, bias=bias)


def method_of(populations: Any) -> str:
    """Return how the equations are integrated: "exact" if any is lif_delta, else as the populations of from_nir are."""
    methods = {population.rule.method for population in populations if isinstance(population.rule, NodeRule)}
    if len(methods) > 1:
        raise NetworkError("to_nir: some populations take Euler steps and some exact ones; read all with one method")
    return methods.pop() if methods else "exact"


def _of_node(where: str, population: Population, rule: NodeRule, values: dict[str, Array], dt: float) -> Neurons:
    """Return the node from which `from_nir` made a population."""
    kind, size = rule.kind, population.size
    sent = () if spikes(kind) else tuple(history_name(kind, age) for age in range(rule.history + 1))
    begin = values.get("v_leak", 0.0)
    names = [history_name(kind, age) for age in range(rule.history + 1)]
    _check_start(where, population, {**dict.fromkeys(names, begin), "i": 0})
    if kind in (INPUT, EVENTS):
        return Neurons(population.name, size, "Input", {}, sent)
    bias = np.broadcast_to(values.pop("bias"), size)
    latency = population.state[WAIT]
    if kind == OUTPUT:
        return Neurons(population.name, size, "Output", {}, sent, bias=bias, latency=latency)
    found = _full(population, node_values(kind, rule.method, dt, values, where))
    return Neurons(population.name, size, kind, found, sent, bias=bias, latency=latency)


def _full(population: Population, values: Mapping[str, Array]) -> dict[str, Array]:
    return {key: np.array(np.broadcast_to(np.float64(value), population.size)) for key, value in values.items()}


def _check_start(where: str, population: Population, start: Mapping[str, Array]) -> None:
    """Raise unless states begin where those of a NIR graph do: a graph does not say it."""
    for key, value in start.items():
        given = population.state.get(key, value)
        if isinstance(given, Values) or not np.all(np.float32(given) == np.float32(value)):
            raise NetworkError(
                f"{where}: state {key} begins at {given!r}, and NIR has no initial states; let it begin at "
                f"{'rest' if key.startswith('v') else value}"
            )
