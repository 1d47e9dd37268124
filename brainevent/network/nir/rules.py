# SPDX-License-Identifier: Apache-2.0
"""Rules of the nodes that have a state: one step of their equations, of the input that is constant within the step."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

__all__ = ["EVENTS", "INPUT", "OUTPUT", "WAIT", "NodeRule", "history_name", "node_rule", "sent_state", "spikes"]

INPUT, EVENTS, OUTPUT = "Input", "Input of events", "Output"
WAIT = "wait"  # the state that counts the steps until the first one of the graph

Values = Any  # of one neuron, by name


def _integrator(s: Values, x: Any, p: Values) -> dict[str, Any]:
    return {"v": s.v + p.gain * x}


def _leaky(s: Values, x: Any, p: Values) -> dict[str, Any]:
    return {"v": s.v + p.gain * (p.v_leak - s.v + p.r * x)}


def _current(s: Values, x: Any, p: Values) -> dict[str, Any]:
    x = p.w_in * x
    v = s.v + p.gain * (p.v_leak - s.v) + p.r * (p.gain_i * s.i + p.gain_x * x)
    return {"v": v, "i": s.i + p.gain_syn * (x - s.i)}


def _value(s: Values, x: Any, p: Values) -> dict[str, Any]:
    return {"x": x}


_STEPS: dict[str, Callable[[Values, Any, Values], dict[str, Any]]] = {
    "I": _integrator,
    "IF": _integrator,
    "LI": _leaky,
    "LIF": _leaky,
    "CubaLI": _current,
    "CubaLIF": _current,
    INPUT: _value,
    EVENTS: _value,
    OUTPUT: _value,
}


@dataclass(frozen=True)
class NodeRule:
    """The rule of a node: its kind, how it is integrated, and of how many steps it keeps what it sent."""

    kind: str
    method: str
    history: int = 0

    @property
    def __name__(self) -> str:
        return self.kind.replace(" ", "_")

    def __call__(self, s: Values, arriving: Values, p: Values) -> Any:
        """Return the new state of one neuron, and whether it spikes."""
        if self.kind in (INPUT, EVENTS):
            return self._sent(s, arriving.x)
        started = s.wait <= 0
        x = arriving.input + p.bias
        new = _STEPS[self.kind](s, x, p) if self.kind in _STEPS else {}
        spike: Any = False
        if spikes(self.kind):
            spike = started & ((new["v"] if new else x) > p.v_threshold)
            if new:
                new["v"] = jnp.where(spike, p.v_reset, new["v"])
        new |= self._kept(s)
        held = {name: jnp.where(started, value, getattr(s, name)) for name, value in new.items()}
        return s.replace(**held, wait=jnp.maximum(s.wait - 1, 0)), spike

    def _sent(self, s: Values, x: Any) -> Any:
        """Return the state of an input, and its spike: as an event that has the value, or none."""
        new = s.replace(x=x, **self._kept(s))
        return new, {"spike": x != 0, "value": x} if self.kind == EVENTS else False

    def _kept(self, s: Values) -> dict[str, Any]:
        """Return what was sent in steps before, each a step older."""
        names = [history_name(self.kind, age) for age in range(self.history + 1)]
        return {older: getattr(s, newer) for newer, older in itertools.pairwise(names)}


@functools.cache
def node_rule(kind: str, method: str, history: int = 0) -> NodeRule:
    """Return the rule of a node: the same object for the same rule, of which the package traces one."""
    return NodeRule(kind, method, history)


def spikes(kind: str) -> bool:
    """Say whether a node sends spikes; others send a state in every step."""
    return kind in ("IF", "LIF", "CubaLIF", "Threshold", EVENTS)


def sent_state(kind: str) -> str:
    """Return the name of the state that a node sends."""
    return "x" if kind in (INPUT, EVENTS, OUTPUT) else "v"


def history_name(kind: str, age: int) -> str:
    """Return the name of the state that has what a node sent some steps before."""
    return f"{sent_state(kind)}{f'_{age}' if age else ''}"
