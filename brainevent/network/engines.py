# SPDX-License-Identifier: Apache-2.0
"""The engines by the names that `build(backend=...)` takes; each is imported when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from ..errors import NetworkError, did_you_mean
from ..ffi.devices import cuda_capabilities
from .engine import Engine
from .plan.plan import Plan

if TYPE_CHECKING:
    from .plan.drawing import Measure

__all__ = [
    "ENGINES",
    "beside",
    "beside_on_gpu",
    "check_dtype",
    "chosen_name",
    "engine_name",
    "make_engine",
    "measure_of",
]

ENGINES = {
    "numba": ("cpu.engine", "NumbaEngine"),
    "cuda": ("gpu.engine", "CudaEngine"),
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
            f"build: backend {backend!r} computes in float32 only; pass dtype='float32', or one of these as backend=: "
            f"{', '.join(map(repr, _WIDE))}"
        )


def make_engine(plan: Plan, backend: str | None = None, **options: Any) -> Engine:
    """Return the engine of a backend, with the plan in it; None is what `chosen_name` returns.

    Options are those of "cuda", `blocks`, `shared_bytes` and `clocks`; None is what suits.
    """
    graded = [one.name for one in plan.plastic if one.graded]
    name = chosen_name(plan.dtype, graded=bool(graded)) if backend is None else backend
    if name not in ENGINES:
        raise NetworkError(
            f"build: unknown backend {name!r} for networks{did_you_mean(name, ENGINES)}; "
            f"registered: {', '.join(ENGINES)}"
        )
    given = {option: value for option, value in options.items() if value is not None}
    if given and name != "cuda":
        raise NetworkError(
            f"build: {next(iter(given))} is an option of backend='cuda', but the backend is {name!r}; leave it out"
        )
    check_dtype(plan.dtype, name)
    _check_graded(graded, name)
    room, kind = ENGINES[name]
    engine: Engine = getattr(importlib.import_module(f"{__package__}.{room}"), kind)(plan, **given)
    return engine


def _check_graded(projections: Sequence[str], backend: str) -> None:
    """Raise unless a backend delivers spikes with values through plastic synapses, if there are such projections."""
    if projections and backend == "cuda":
        raise NetworkError(
            f"build: backend 'cuda' does not deliver values of spikes through plastic synapses, which those of "
            f"{', '.join(projections)} are; pass backend='numba' or 'jax'"
        )


def beside(plan: Plan, backend: str) -> Engine:
    """Return an engine for one of several networks that run at the same time, each in a thread of its own."""
    room, kind = ENGINES[backend]
    options = {"alone": True} if backend == "numba" else {}
    engine: Engine = getattr(importlib.import_module(f"{__package__}.{room}"), kind)(plan, **options)
    return engine


def beside_on_gpu(engine: Engine, elements: int) -> Any:
    """Return what runs networks like that of an engine for GPUs side by side on its GPU: `gpu.beside.Beside`."""
    return importlib.import_module(f"{__package__}.gpu.beside").Beside(engine, elements)


def measure_of(name: str) -> Measure | None:
    """Return what draws synapses for a backend that draws them itself."""
    if name != "cuda":
        return None
    measure: Measure = importlib.import_module(f"{__package__}.gpu.engine").drawing_on_gpu()
    return measure


def chosen_name(dtype: str = "float32", *, graded: bool = False) -> str:
    """Return the backend that suits: "cuda" for float32 where JAX has such a GPU and NVRTC is there, else "numba".

    Networks in which spikes with values reach plastic synapses, `graded`, run on the CPU.
    """
    if graded:
        return "numba"
    try:
        on_gpu = dtype == "float32" and jax.default_backend() == "gpu" and cuda_capabilities() != ()
        on_gpu = on_gpu and importlib.util.find_spec("cuda.bindings") is not None
    except (RuntimeError, ModuleNotFoundError):  # GPUs of another maker; no package called cuda
        on_gpu = False
    return "cuda" if on_gpu else "numba"


def engine_name(engine: Engine) -> str:
    """Return the backend of an engine."""
    kind = type(engine).__name__
    return next((name for name, (_, known) in ENGINES.items() if known == kind), kind)
