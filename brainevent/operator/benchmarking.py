# SPDX-License-Identifier: Apache-2.0
"""Measure all kernels of an operator on the same data, and compare their results."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from .. import config
from .._compat import program_leaves
from ..bench.chain import as_arrays
from ..bench.compare import difference, nans_in
from ..bench.measure import Measurement, check_counts, measure, measured_bandwidth, measured_flops
from ..bench.progress import shown
from ..bench.record import BenchmarkConfig, BenchmarkRecord, a_type, failed, succeeded
from ..bench.result import BenchmarkResult
from ..bench.words import time_text
from ..errors import BenchmarkDataFnNotProvidedError, did_you_mean
from .bind import check_operands, check_static
from .definition import Definition
from .entry import GENERAL, REFERENCE, meant
from .raised import listed
from .tuning_lookup import lowering_platform

__all__ = ["benchmark", "benchmark_data"]

_OPTIONS = (  # of `XLACustomKernel.benchmark`
    "platform", "n_warmup", "n_runs", "n_batch_per_run", "compare_results", "rtol", "atol", "verbose", "catch_errors",
    "backends", "cold", "n_configs",
)  # fmt: skip


def benchmark(
    definition: Definition,
    operands: Sequence[Any],
    *,
    platform: str | None,
    backends: Sequence[str] | None,
    counts: Mapping[str, int],
    cold: bool,
    tolerances: tuple[float, float] | None,
    verbose: bool,
    catch_errors: bool,
    n_configs: int | None = None,
    keywords: Mapping[str, Any] | None = None,
) -> BenchmarkResult:
    """Do what `XLACustomKernel.benchmark` says; without tolerances, results are not compared."""
    platform = _usual_platform(definition) if platform is None else platform
    chosen = _checked(definition, platform, backends, operands)
    limit = {} if n_configs is None else {"n_configs": n_configs}
    check_counts(f"operator {definition.name!r}: benchmark", cold=cold, **counts, **limit)
    timed: Callable[..., Measurement] = functools.partial(measure, **dict[str, Any](counts), cold=cold)
    run = _Run(definition, platform, _device(definition.name, platform), timed, tolerances, verbose, catch_errors)
    configs = _configs(definition, platform, operands, keywords or {})[:n_configs]
    pairs = [(config, backend) for config in configs for backend in chosen]
    records = [run.record(config, backend) for config, backend in shown(pairs, definition.name, quiet=verbose)]
    return BenchmarkResult(records, primitive_name=definition.name)


def _checked(
    definition: Definition, platform: str, backends: Sequence[str] | None, operands: Sequence[Any]
) -> list[str]:
    """Return the backends to measure, or raise if something is missing."""
    if definition.benchmark_data is None and not operands:
        raise BenchmarkDataFnNotProvidedError(
            f"operator {definition.name!r} has no benchmark data; pass operands, as in "
            f"{definition.name}.benchmark(x), or store a function with def_benchmark_data(fn), where "
            "fn(*, platform) returns a list of BenchmarkConfig"
        )
    known = definition.backends(platform)
    if not known:
        platforms = definition.platforms()
        advice = "" if platform in config.PLATFORMS else did_you_mean(platform, platforms)
        raise ValueError(
            f"operator {definition.name!r} has no backends for the platform {platform!r}{advice}; "
            f"platforms that have: {', '.join(platforms) or 'none'}"
        )
    if backends is None:
        return definition.registered(platform) or known
    wanted = [backends] if isinstance(backends, str) else list(backends)
    if not wanted:
        raise ValueError(f"operator {definition.name!r}: backends is empty; leave it out to measure {', '.join(known)}")
    for backend in wanted:
        if meant(backend, known) is None:
            raise ValueError(
                f"operator {definition.name!r}: unknown backend {backend!r} for {platform}"
                f"{did_you_mean(backend, known)}; registered: {', '.join(known)}"
            )
    return list(dict.fromkeys(meant(backend, known) or backend for backend in wanted))


def _device(name: str, platform: str) -> jax.Device:
    try:
        return jax.local_devices(backend=platform)[0]
    except RuntimeError as error:
        raise ValueError(
            f"operator {name!r}: benchmark on {platform!r} needs such a device, and JAX finds none here ({error}); "
            "choose another"
        ) from None


def _usual_platform(definition: Definition) -> str:
    """Return JAX's default platform, by the name under which the operator has kernels for it."""
    chosen: Any = jax.config.jax_default_device  # type: ignore[attr-defined]
    platform = lowering_platform(chosen if isinstance(chosen, jax.Device) else jax.local_devices()[0])
    general = GENERAL.get(platform, platform)
    return general if definition.kernels.get(general) and not definition.kernels.get(platform) else platform


def _configs(
    definition: Definition, platform: str, operands: Sequence[Any], keywords: Mapping[str, Any]
) -> list[BenchmarkConfig]:
    if operands:
        check_operands(definition.name, operands)
        _check_keywords(definition, operands, keywords)
        return [BenchmarkConfig(listed(operands), tuple(operands), dict(keywords))]
    if keywords:
        raise TypeError(
            f"operator {definition.name!r}: benchmark got {_named(keywords)} without operands, and benchmark data "
            "have their own; pass operands, too, or leave "
            f"{'them' if len(keywords) > 1 else 'it'} out{_meant_option(keywords)}"
        )
    return benchmark_data(definition, platform)


def benchmark_data(definition: Definition, platform: str) -> list[BenchmarkConfig]:
    """Return the configurations that the author's function makes, or raise if they are none."""
    make: Any = definition.benchmark_data
    found = make(platform=platform)
    configs = list(found) if isinstance(found, Iterable) else []
    strange = next((config_ for config_ in configs if not isinstance(config_, BenchmarkConfig)), None)
    if strange is not None or not isinstance(found, Iterable):
        what = f"a list with {a_type(strange)}" if strange is not None else "None" if found is None else a_type(found)
        raise TypeError(
            f"operator {definition.name!r}: the benchmark data function returned {what}; "
            "return a list of brainevent.BenchmarkConfig"
        )
    return configs


def _check_keywords(definition: Definition, operands: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise if the call function does not take the keywords; one that is meant for `benchmark` may be misspelt."""
    for name, value in keywords.items():
        if name != "outs":
            check_static(definition.name, name, value)
    if not keywords:
        return
    call: Any = definition.call
    try:
        inspect.signature(call).bind(*operands, backend=None, **keywords)
    except TypeError as error:
        raise TypeError(
            f"operator {definition.name!r}: benchmark calls it with {listed(operands)} and "
            f"{_named(keywords) or 'no keyword arguments'}: {error}{_meant_option(keywords)}"
        ) from None


def _named(keywords: Mapping[str, Any]) -> str:
    """Return the keywords, as in a call."""
    return ", ".join(f"{name}=" for name in keywords)


def _meant_option(keywords: Mapping[str, Any]) -> str:
    return next((said for name in keywords if (said := did_you_mean(name, _OPTIONS))), "")


@dataclass
class _Run:
    """One benchmark; it stores the data and the correct results of the current configuration."""

    definition: Definition
    platform: str
    device: jax.Device
    timed: Callable[..., Measurement]
    tolerances: tuple[float, float] | None
    verbose: bool
    catch_errors: bool
    config: BenchmarkConfig | None = None
    args: tuple[Any, ...] = ()
    truth: tuple[str, Any] | None = None  # a backend and its results
    warned: bool = False  # warned that the reference fails

    def record(self, config: BenchmarkConfig, backend: str) -> BenchmarkRecord:
        """Measure one configuration on one backend."""
        if config is not self.config:
            self.config, self.args = config, _on(self.device, config.args)
            self.truth = self._reference_results(config)
        try:
            record = self._succeeded(config, backend)
        except Exception as error:
            if not self.catch_errors:
                raise
            record = failed(config, self.platform, backend, error)
        self._say(record)
        return record

    def _call(self, config: BenchmarkConfig, backend: str) -> tuple[Callable[..., Any], list[jax.Array]]:
        """Return the call function on one backend, as a function of the arrays among the arguments, with these."""
        call: Any = self.definition.call
        call = functools.partial(call, backend=backend, **config.kernel_kwargs)
        return as_arrays(call, self.args)

    def _reference_results(self, config: BenchmarkConfig) -> tuple[str, Any] | None:
        """Return the results of the reference, in full precision, if results are compared and there is one."""
        if self.tolerances is None or self.definition.reference is None:
            return None
        try:
            function, arrays = self._call(config, REFERENCE)
            with jax.default_device(self.device), jax.default_matmul_precision("highest"):
                return REFERENCE, jax.block_until_ready(jax.jit(function)(arrays))
        except Exception as error:  # noqa: BLE001 - the kernels may be fine
            if not self.warned:
                self.warned = True
                said = f"{type(error).__name__}: {error}".splitlines()[0]
                who = f"[{self.definition.name}] [{self.platform}|{REFERENCE}] {config.name}"
                print(  # noqa: T201
                    f"{who}: fails ({said}); results are compared with those of the first backend that succeeds",
                    flush=True,
                )
        return None

    def _succeeded(self, config: BenchmarkConfig, backend: str) -> BenchmarkRecord:
        function, arrays = self._call(config, backend)
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
            if self.truth is None:
                self.truth = backend, found.output
            if backend != self.truth[0]:
                record.mismatch = difference(found.output, *self.truth, *self.tolerances)
        return record

    def _say(self, record: BenchmarkRecord) -> None:
        who = f"[{self.definition.name}] [{record.platform}|{record.backend}] {record.label}"
        if self.verbose and record.success:
            times = (f"{name}={time_text(value * 1e-3)}" for name, value in _shown_times(record))
            print(f"{who}: {', '.join(times)}", flush=True)  # noqa: T201
        elif self.verbose:
            print(f"{who}: FAILED — {record.error}", flush=True)  # noqa: T201
        if record.mismatch is not None:
            print(f"{who}: mismatch: {record.mismatch}", flush=True)  # noqa: T201


def _shown_times(record: BenchmarkRecord) -> list[tuple[str, float]]:
    times = [("mean", record.mean_ms), ("std", record.std_ms), ("min", record.min_ms)]
    times += [("median", record.median_ms), ("loop", record.loop_ms)]
    return [(name, value) for name, value in times if name != "loop" or value]


def _on(device: jax.Device, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put the arrays among the arguments on a device; other arguments are unchanged."""
    leaves, tree = program_leaves(tuple(args))  # with the indices of matrices
    moved = (jax.device_put(leaf, device) if hasattr(leaf, "dtype") else leaf for leaf in leaves)
    return jax.block_until_ready(tree.unflatten(moved))  # type: ignore[no-any-return]
