# SPDX-License-Identifier: Apache-2.0
"""A configuration to measure, and a record of a measurement."""

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
    """Operands and keyword arguments to measure a call function with.

    Attributes:
        name: A label, such as "n=1000".
        args: The operands, in a tuple.
        kernel_kwargs: The keyword arguments of the call.
        data_kwargs: What makes this configuration differ from others, as columns of the table.
        bytes: How many bytes a call must move, for the throughput; None if unknown.
        flops: How many operations a call must do, for the throughput; None if unknown.

    Raises:
        TypeError: If an attribute has a wrong type.
        ValueError: If `bytes` or `flops` is not positive.

    Examples:
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
        """Check the attributes when the configuration is made."""
        if not isinstance(self.name, str):
            raise TypeError(f"BenchmarkConfig: name must be a string, found {self.name!r:.60}")
        where = f"BenchmarkConfig {self.name!r}"
        if not isinstance(self.args, (tuple, list)):
            raise TypeError(f"{where}: args must be a tuple, found {a_type(self.args)}; for one operand pass (x,)")
        for name in ("kernel_kwargs", "data_kwargs"):
            if not isinstance(value := getattr(self, name), dict):
                raise TypeError(f"{where}: {name} must be a dictionary, found {a_type(value)}")
        for name in ("bytes", "flops"):
            if (value := getattr(self, name)) is not None:
                _check_work(f"{where}: {name}", value)

    def put_args(self, device: jax.Device | None = None) -> BenchmarkConfig:
        """Return a copy whose operands are on a device, and ready.

        Args:
            device: The device; None for that of JAX.

        Returns:
            The copy.
        """
        return dataclasses.replace(self, args=jax.block_until_ready(jax.device_put(tuple(self.args), device)))


def a_type(value: Any) -> str:
    """Return the type of a value, such as "an array" or "a list"."""
    name = "array" if isinstance(value, (jax.Array, np.ndarray)) else type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _check_work(what: str, value: Any) -> None:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 < value < math.inf:
        error = ValueError if is_number else TypeError
        raise error(f"{what} must be a positive number or None, found {value!r}")


@dataclass
class BenchmarkRecord:
    """What was measured for one configuration on one backend.

    Attributes:
        platform: The platform.
        backend: The backend.
        label: The name of the configuration.
        mean_ms: The mean time of a call in milliseconds, as all times.
        std_ms: The standard deviation.
        min_ms: The least time.
        throughput: Work per second, in `unit`; None if the work is unknown.
        success: Whether the backend ran.
        error: Why it did not; None if it did.
        kernel_kwargs: The keyword arguments of the call.
        data_kwargs: What makes the configuration differ from others.
        median_ms: The median.
        low_ms: The lower quartile.
        high_ms: The upper quartile.
        loop_ms: The time of the loop around chained calls alone; it is included in the times.
        unit: "GB/s" or "GFLOP/s".
        peak_fraction: Throughput relative to a copy of memory.
        mismatch: How the results differ from those of the reference; None if they agree.
        nans: How many results are NaN.
        bytes: The bytes of a call.
        flops: The operations of a call.
        peak_bandwidth: The measured bytes per second of the device.
        peak_flops: The measured operations per second of the device.

    Examples:
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
        """The time of a call for comparisons of kernels: the median, or the mean if there is none."""
        return self.mean_ms if math.isnan(self.median_ms) else self.median_ms


def succeeded(config: BenchmarkConfig, platform: str, backend: str, found: Measurement) -> BenchmarkRecord:
    """Make the record of a measurement, with throughput if the configuration gives its work."""
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
    """Make the record of a backend that failed."""
    said = f"{type(error).__name__}: {error}"
    kwargs = dict(config.kernel_kwargs), dict(config.data_kwargs)
    return BenchmarkRecord(platform, backend, config.name, _NAN, _NAN, _NAN, None, False, said, *kwargs)


BenchmarkConfig.__module__ = "brainevent"
BenchmarkRecord.__module__ = "brainevent"
