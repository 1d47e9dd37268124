# SPDX-License-Identifier: Apache-2.0
"""How a network shows itself in a notebook: its populations and projections, as they are described."""

from __future__ import annotations

from typing import Any

from ..._html import document, table

__all__ = ["shown"]


def shown(network: Any) -> str:
    """Return tables in HTML."""
    populations = [
        (p.name, p.size, getattr(p.rule, "__name__", type(p.rule).__name__), _names(p.state), _names(p.params))
        for p in network.populations
    ]
    projections = [
        (name, p.source.name, p.target.name, p.into, _how(p.connect), _delay(p.delay))
        for name, p in zip(network.projection_names, network.projections, strict=True)
    ]
    parts = [table(("population", "neurons", "rule", "states", "parameters"), populations, right=[1])]
    if projections:
        parts.append(table(("projection", "from", "to", "into", "connections", "delay (ms)"), projections))
    neurons = sum(p.size for p in network.populations)
    return document(f"network of {neurons} neurons, dt {network.dt:g} ms", *parts)


def _names(values: Any) -> str:
    return ", ".join(values) or "none"


def _how(connect: Any) -> str:
    """Return a description as it is written; of a matrix, what it is."""
    if type(connect).__name__ == "Connect":
        return repr(connect)
    return f"{type(connect).__name__} {getattr(connect, 'shape', '')}".rstrip()


def _delay(delay: Any) -> str:
    if delay is None:
        return "one step"
    return f"{delay.dtype} {delay.shape}" if getattr(delay, "ndim", 0) else str(delay)
