# SPDX-License-Identifier: Apache-2.0
"""Measure all kernels of an operator on the same data, and compare their results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from .. import config
from ..bench.ceilings import measured_bandwidth, measured_flops
from ..bench.chain import as_arrays
from ..bench.compare import difference, nans_in
from ..bench.measure import Measurement, check_counts, measure
from ..bench.progress import shown
from ..bench.record import BenchmarkConfig, BenchmarkRecord, failed, succeeded
from ..bench.result import BenchmarkResult
from ..errors import BenchmarkDataFnNotProvidedError, did_you_mean
from .lowering import REFERENCE

if TYPE_CHECKING:
    from .custom_kernel import XLACustomKernel

__all__ = ["benchmark"]


def benchmark(
    operator: XLACustomKernel,
    *,
    platform: str,
    backends: Sequence[str] | None,
    counts: Mapping[str, int],
    cold: bool,
    tolerances: tuple[float, float] | None,
    verbose: bool,
    catch_errors: bool,
) -> BenchmarkResult:
    """Do what `XLACustomKernel.benchmark` says; without tolerances, results are not compared."""
    chosen = _checked(operator, platform, backends)
    check_counts(f"operator {operator.name!r}: benchmark", cold=cold, **counts)
    timed: Callable[..., Measurement] = functools.partial(measure, **dict[str, Any](counts), cold=cold)
    run = _Run(operator, platform, _device(operator.name, platform), timed, tolerances, verbose, catch_errors)
    pairs = [(config, backend) for config in _configs(operator, platform) for backend in chosen]
    records = [run.record(config, backend) for config, backend in shown(pairs, operator.name, quiet=verbose)]
    return BenchmarkResult(records, primitive_name=operator.name)


def _checked(operator: XLACustomKernel, platform: str, backends: Sequence[str] | None) -> list[str]:
    """Return the backends to measure, if all is there that is needed."""
    if operator._call_fn is None:
        raise ValueError(f"No call function registered for {operator.name!r}; store one with def_call(fn)")
    if operator._benchmark_data_fn is None:
        raise BenchmarkDataFnNotProvidedError(
            f"operator {operator.name!r} has no benchmark data; store a function with def_benchmark_data(fn), "
            "where fn(*, platform) returns a list of BenchmarkConfig"
        )
    known = operator.available_backends(platform)
    chosen = known or [REFERENCE]
    if operator._reference is not None and platform in config.PLATFORMS:
        known = [*known, REFERENCE]
    if not known:
        platforms = sorted(name for name, table in operator._kernels.items() if table)
        raise ValueError(
            f"operator {operator.name!r} has no backends for the platform {platform!r}"
            f"{did_you_mean(platform, platforms)}; platforms that have: {', '.join(platforms) or 'none'}"
        )
    if backends is None:
        return chosen
    wanted = [backends] if isinstance(backends, str) else list(backends)
    if not wanted:
        raise ValueError(f"operator {operator.name!r}: backends is empty; leave it out to measure {', '.join(known)}")
    for backend in wanted:
        if backend not in known:
            raise ValueError(
                f"operator {operator.name!r}: unknown backend {backend!r} for {platform}"
                f"{did_you_mean(backend, known)}; registered: {', '.join(known)}"
            )
    return list(dict.fromkeys(wanted))


def _device(name: str, platform: str) -> jax.Device:
    try:
        return jax.local_devices(backend=platform)[0]
    except RuntimeError as error:
        raise ValueError(
            f"operator {name!r}: benchmark on {platform!r} needs such a device, and JAX finds none here ({error})"
        ) from None


def _configs(operator: XLACustomKernel, platform: str) -> list[BenchmarkConfig]:
    make: Any = operator._benchmark_data_fn
    configs = list(make(platform=platform))
    for config_ in configs:
        if not isinstance(config_, BenchmarkConfig):
            raise TypeError(
                f"operator {operator.name!r}: the benchmark data function returned a {type(config_).__name__}; "
                "return a list of brainevent.BenchmarkConfig"
            )
    return configs


@dataclass
class _Run:
    """One benchmark under way; it remembers the data of the current configuration, and its first results."""

    operator: XLACustomKernel
    platform: str
    device: jax.Device
    timed: Callable[..., Measurement]
    tolerances: tuple[float, float] | None
    verbose: bool
    catch_errors: bool
    config: BenchmarkConfig | None = None
    args: tuple[Any, ...] = ()
    first: tuple[str, Any] | None = None  # a backend, and its results

    def record(self, config: BenchmarkConfig, backend: str) -> BenchmarkRecord:
        """Measure one configuration on one backend."""
        if config is not self.config:
            self.config, self.first = config, None
            self.args = _on(self.device, config.args)
        try:
            record = self._succeeded(config, backend)
        except Exception as error:
            if not self.catch_errors:
                raise
            record = failed(config, self.platform, backend, error)
        self._say(record)
        return record

    def _succeeded(self, config: BenchmarkConfig, backend: str) -> BenchmarkRecord:
        call = functools.partial(self.operator.call, backend=backend, **config.kernel_kwargs)
        function, arrays = as_arrays(call, self.args)
        with jax.default_device(self.device):
            found = self.timed(jax.jit(function), (arrays,))
        record = succeeded(config, self.platform, backend, found)
        record.nans = nans_in(found.output)
        if config.bytes is not None:
            record.peak_bandwidth = measured_bandwidth(self.device)
            record.peak_fraction = config.bytes / (record.median_ms * 1e-3) / record.peak_bandwidth
        if config.flops is not None:
            record.peak_flops = measured_flops(self.device)
        if self.tolerances is not None:
            if self.first is None:
                self.first = backend, found.output
            elif said := difference(found.output, *self.first, *self.tolerances):
                record.mismatch = said
        return record

    def _say(self, record: BenchmarkRecord) -> None:
        who = f"[{self.operator.name}] [{record.platform}|{record.backend}] {record.label}"
        if self.verbose and record.success:
            times = (f"{name}={value:.4f}ms" for name, value in _shown_times(record))
            print(f"{who}: {' '.join(times)}", flush=True)  # noqa: T201
        elif self.verbose:
            print(f"{who}: FAILED — {record.error}", flush=True)  # noqa: T201
        if record.mismatch is not None:
            print(f"{who}: mismatch: {record.mismatch}", flush=True)  # noqa: T201


def _shown_times(record: BenchmarkRecord) -> list[tuple[str, float]]:
    times = [("mean", record.mean_ms), ("std", record.std_ms), ("min", record.min_ms)]
    times += [("median", record.median_ms), ("loop", record.loop_ms)]
    return [(name, value) for name, value in times if name != "loop" or value]


def _on(device: jax.Device, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put the arrays among the arguments on a device; numbers and the like stay what they are."""
    return jax.block_until_ready(
        jax.tree.map(lambda leaf: jax.device_put(leaf, device) if hasattr(leaf, "dtype") else leaf, tuple(args))
    )
