# SPDX-License-Identifier: Apache-2.0
"""What is to be measured, and what was measured: one configuration, one record."""

from __future__ import annotations

import dataclasses
import math
import numbers
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from .measure import Measurement

__all__ = ["BenchmarkConfig", "BenchmarkRecord", "a_type", "failed", "succeeded"]

_NAN = math.nan


@dataclass
class BenchmarkConfig:
    """Operands and keywords to measure a call function with; `bytes` or `flops` say how much work one call is.

    >>> import jax.numpy as jnp, brainevent
    >>> config = brainevent.BenchmarkConfig("n=3", (jnp.ones(3),), data_kwargs={"n": 3}, bytes=24)
    >>> config.put_args().args
    (Array([1., 1., 1.], dtype=float32),)
    """

    name: str
    args: tuple[Any, ...]
    kernel_kwargs: dict[str, Any] = field(default_factory=dict)
    data_kwargs: dict[str, Any] = field(default_factory=dict)
    bytes: float | None = None
    flops: float | None = None

    def __post_init__(self) -> None:
        """Refuse what could not be measured, where it is written down."""
        if not isinstance(self.name, str):
            raise TypeError(f"BenchmarkConfig: name must be a string, found {self.name!r:.60}")
        where = f"BenchmarkConfig {self.name!r}"
        if not isinstance(self.args, (tuple, list)):
            raise TypeError(f"{where}: args must be a tuple, found {a_type(self.args)}; one alone is (x,)")
        for name in ("kernel_kwargs", "data_kwargs"):
            if not isinstance(value := getattr(self, name), dict):
                raise TypeError(f"{where}: {name} must be a dictionary, found {a_type(value)}")
        for name in ("bytes", "flops"):
            if (value := getattr(self, name)) is not None:
                _check_work(f"{where}: {name}", value)

    def put_args(self, device: Any = None) -> BenchmarkConfig:
        """Return a copy whose `args` are on the device, and ready."""
        return dataclasses.replace(self, args=jax.block_until_ready(jax.device_put(tuple(self.args), device)))


def a_type(value: Any) -> str:
    """Return "an array" or "a list": what a value is."""
    name = "array" if isinstance(value, (jax.Array, np.ndarray)) else type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _check_work(what: str, value: Any) -> None:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        error = ValueError if is_number else TypeError
        raise error(f"{what} must be a positive number or None, found {value!r}")


@dataclass
class BenchmarkRecord:
    """What was measured of one configuration on one backend; times are milliseconds per call.

    `low_ms` and `high_ms` are quartiles. `loop_ms` is what the loop around chained calls costs by itself, and part of
    the times. `throughput` is in `unit`, and `peak_fraction` relates it to a copy of memory. `mismatch` says how the
    results differ from the reference's, and `nans` how many of them are NaN. `bytes` and `flops` are the work of a
    call, `peak_bandwidth` and `peak_flops` what the device was measured to reach of them in a second.

    >>> import brainevent
    >>> record = brainevent.BenchmarkRecord("cpu", "numba", "n=3", 0.2, 0.01, 0.19, None, True, None, {}, {"n": 3})
    >>> record.success, record.mismatch
    (True, None)
    """

    platform: str
    backend: str
    label: str
    mean_ms: float
    std_ms: float
    min_ms: float
    throughput: float | None
    success: bool
    error: str | None
    kernel_kwargs: dict[str, Any]
    data_kwargs: dict[str, Any]
    median_ms: float = _NAN
    low_ms: float = _NAN
    high_ms: float = _NAN
    loop_ms: float = 0.0
    unit: str = ""
    peak_fraction: float | None = None
    mismatch: str | None = None
    nans: int = 0
    bytes: float | None = None
    flops: float | None = None
    peak_bandwidth: float | None = None
    peak_flops: float | None = None

    @property
    def typical_ms(self) -> float:
        """How long a call takes: the median, or the mean where there is none. By this, kernels are compared."""
        return self.mean_ms if math.isnan(self.median_ms) else self.median_ms


def succeeded(config: BenchmarkConfig, platform: str, backend: str, found: Measurement) -> BenchmarkRecord:
    """Record what was measured, with throughput if the configuration tells its work."""
    timing = found.timing
    work, unit = (config.bytes, "GB/s") if config.bytes is not None else (config.flops, "GFLOP/s")
    return BenchmarkRecord(
        platform,
        backend,
        config.name,
        mean_ms=found.mean * 1e3,
        std_ms=found.std * 1e3,
        min_ms=min(found.samples) * 1e3,
        throughput=None if work is None else work / timing.median / 1e9,
        success=True,
        error=None,
        kernel_kwargs=dict(config.kernel_kwargs),
        data_kwargs=dict(config.data_kwargs),
        median_ms=timing.median * 1e3,
        low_ms=timing.low * 1e3,
        high_ms=timing.high * 1e3,
        loop_ms=found.loop * 1e3,
        unit="" if work is None else unit,
        bytes=config.bytes,
        flops=config.flops,
    )


def failed(config: BenchmarkConfig, platform: str, backend: str, error: BaseException) -> BenchmarkRecord:
    """Record that a backend failed, and how."""
    said = f"{type(error).__name__}: {error}"
    kwargs = dict(config.kernel_kwargs), dict(config.data_kwargs)
    return BenchmarkRecord(platform, backend, config.name, _NAN, _NAN, _NAN, None, False, said, *kwargs)


BenchmarkConfig.__module__ = "brainevent"
BenchmarkRecord.__module__ = "brainevent"
