# SPDX-License-Identifier: Apache-2.0
"""The engines by the names that `build(backend=...)` takes; each is imported when it is asked for."""

from __future__ import annotations

import importlib

from ..errors import NetworkError, did_you_mean
from .engine import Engine
from .plan.plan import Plan

__all__ = ["ENGINES", "engine_name", "make_engine"]

ENGINES = {
    "numba": ("cpu.engine", "NumbaEngine"),
    "jax": ("reference.engine", "ReferenceEngine"),
    "interpreted": ("interpreted", "Interpreted"),
}


def make_engine(plan: Plan, backend: str | None = None) -> Engine:
    """Return the engine of a backend, with the plan in it; None is "numba"."""
    name = "numba" if backend is None else backend
    if name not in ENGINES:
        raise NetworkError(
            f"build: unknown backend {name!r} for networks{did_you_mean(name, ENGINES)}; "
            f"registered: {', '.join(ENGINES)}"
        )
    room, kind = ENGINES[name]
    engine: Engine = getattr(importlib.import_module(f"{__package__}.{room}"), kind)(plan)
    return engine


def engine_name(engine: Engine) -> str:
    """Return the backend of an engine."""
    kind = type(engine).__name__
    return next((name for name, (_, known) in ENGINES.items() if known == kind), kind)
