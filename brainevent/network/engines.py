# SPDX-License-Identifier: Apache-2.0
"""The engines by the names that `build(backend=...)` takes; each is imported when it is asked for."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
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
    "devices_of",
    "engine_name",
    "hosts_of",
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


def devices_of(backend: str, devices: Any) -> list[Any] | None:
    """Return the GPUs that are named; None if none are, or raise if the backend runs on none."""
    if devices is None or backend not in ENGINES:  # which `make_engine` says
        return None
    _check_options({"devices": devices}, backend)
    found: list[Any] = importlib.import_module(f"{__package__}.gpu.several.devices").chosen_devices(devices)
    return found


def hosts_of(
    backend: str, hosts: Any, network: Any, threads: int | None, devices: Any = None, *, round_delays: bool
) -> Any:
    """Return the processes that run a network together: `hosts.engine.Hosts`; None without `hosts`."""
    if hosts is None or backend not in ENGINES:
        return None
    if devices is not None:
        _check_options({"devices": devices}, backend)
    room = importlib.import_module(f"{__package__}.hosts.engine")
    return room.joined_hosts(hosts, backend, network, threads, devices, round_delays=round_delays)


def _check_options(given: Mapping[str, Any], name: str) -> None:
    if given and name != "cuda":
        raise NetworkError(
            f"build: {next(iter(given))} is an option of backend='cuda', but the backend is {name!r}; leave it out, or "
            "pass backend='cuda' where JAX has an NVIDIA GPU"
        )


def make_engine(
    plan: Plan,
    backend: str | None = None,
    *,
    devices: Sequence[Any] | None = None,
    hosts: Any = None,
    **options: Any,
) -> Engine:
    """Return the engine of a backend, with the plan in it; None is what `chosen_name` returns.

    Options are those of "cuda", `blocks`, `shared_bytes` and `clocks`; None is what suits. So are `devices`, which
    `devices_of` returns. `hosts` are what `hosts_of` returns.
    """
    name = chosen_name(plan.dtype) if backend is None else backend
    if name not in ENGINES:
        raise NetworkError(
            f"build: unknown backend {name!r} for networks{did_you_mean(name, ENGINES)}; "
            f"registered: {', '.join(ENGINES)}"
        )
    given = {option: value for option, value in options.items() if value is not None}
    _check_options(given, name)
    check_dtype(plan.dtype, name)
    room, kind = ENGINES[name]
    if devices is not None and len(devices) > 1:
        room, kind, given["devices"] = "gpu.several.engine", "SeveralEngine", devices
    elif devices is not None:
        given["device"] = devices[0]
    elif hosts is not None:
        room, kind, given["hosts"] = "hosts.engine", "HostsEngine", hosts
    engine: Engine = getattr(importlib.import_module(f"{__package__}.{room}"), kind)(plan, **given)
    return engine


def beside(plan: Plan, backend: str) -> Engine:
    """Return an engine for one of several networks that run at the same time, each in a thread of its own."""
    room, kind = ENGINES[backend]
    options = {"alone": True} if backend == "numba" else {}
    engine: Engine = getattr(importlib.import_module(f"{__package__}.{room}"), kind)(plan, **options)
    return engine


def beside_on_gpu(engine: Engine, elements: int) -> Any:
    """Return what runs networks like that of an engine for GPUs side by side on its GPU: `gpu.beside.Beside`."""
    return importlib.import_module(f"{__package__}.gpu.beside").Beside(engine, elements)


def measure_of(name: str, devices: Sequence[Any] | None = None) -> Measure | None:
    """Return what draws synapses for a backend that draws them itself, on the first of some devices."""
    if name != "cuda":
        return None
    measure: Measure = importlib.import_module(f"{__package__}.gpu.engine").drawing_on_gpu(devices and devices[0])
    return measure


def chosen_name(dtype: str = "float32") -> str:
    """Return the backend that suits: "cuda" for float32 where JAX has such a GPU and NVRTC is there, else "numba"."""
    try:
        on_gpu = dtype == "float32" and jax.default_backend() == "gpu" and cuda_capabilities() != ()
        on_gpu = on_gpu and importlib.util.find_spec("cuda.bindings") is not None
    except (RuntimeError, ModuleNotFoundError):  # GPUs of another maker; no package called cuda
        on_gpu = False
    return "cuda" if on_gpu else "numba"


def engine_name(engine: Engine) -> str:
    """Return the backend of an engine."""
    kind = type(engine).__name__
    return next((name for name, (_, known) in ENGINES.items() if known == kind), getattr(engine, "name", kind))
