# SPDX-License-Identifier: Apache-2.0
"""The engines by the names that `build(backend=...)` takes; each is imported when it is asked for."""

from __future__ import annotations

import importlib

from ..errors import NetworkError, did_you_mean
from .engine import Engine
from .plan.plan import Plan

__all__ = ["ENGINES", "check_dtype", "engine_name", "make_engine"]

ENGINES = {
    "numba": ("cpu.engine", "NumbaEngine"),
    "jax": ("reference.engine", "ReferenceEngine"),
    "interpreted": ("interpreted", "Interpreted"),
}
_DTYPES = ("float32", "float64")
_WIDE = ("numba", "jax", "interpreted")  # that compute in float64


def check_dtype(dtype: str, backend: str | None) -> None:
    """Raise unless networks are computed in a dtype, by this backend."""
    if dtype not in _DTYPES:
        guess = did_you_mean(str(dtype), _DTYPES)
        raise NetworkError(f"build: unknown dtype {dtype!r}{guess}; pass one of {', '.join(map(repr, _DTYPES))}")
    if dtype == "float64" and backend in ENGINES and backend not in _WIDE:
        raise NetworkError(
            f"build: backend {backend!r} computes in float32 alone; pass dtype='float32', or backend= one of "
            f"{', '.join(map(repr, _WIDE))}"
        )


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
