# SPDX-License-Identifier: Apache-2.0
"""The methods of an operator that measure its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import RegistrationTypeError
from .definition import Definition

if TYPE_CHECKING:
    from ..bench.result import BenchmarkResult

__all__ = ["BenchmarkMethods"]


class BenchmarkMethods:
    """What an operator measures itself with."""

    definition: Definition

    def def_benchmark_data(self, fn: Callable[..., Any]) -> None:
        """Store the function that makes data to measure with: `fn(*, platform)` returns a list of `BenchmarkConfig`."""
        if not callable(fn):
            where = f"operator {self.definition.name!r}"
            raise RegistrationTypeError(
                f"{where}: the benchmark data function must be callable, found {type(fn).__name__}"
            )
        self.definition.benchmark_data = fn

    def benchmark(
        self,
        *,
        platform: str,
        n_warmup: int = 5,
        n_runs: int = 20,
        n_batch_per_run: int = 1,
        compare_results: bool = True,
        rtol: float = 1e-3,
        atol: float = 1e-3,
        verbose: bool = False,
        catch_errors: bool = True,
        backends: Sequence[str] | None = None,
        cold: bool = False,
        n_configs: int | None = None,
    ) -> BenchmarkResult:
        """Time the call function on each backend of a platform, for each configuration of the benchmark data.

        Without `backends`, these are all that are registered: name "reference" to measure that too. Results are
        compared with those of the reference, which is not timed for this, or without one with those of the first
        backend that succeeds; differences are printed, and kept in the records.

        `n_batch_per_run` calls in one compiled loop, each waiting for the one before, are one run; `cold` empties the
        processor's caches before each run. `n_configs` limits the measurement to the first configurations. A backend
        that fails gets a record that says so, or raises if `catch_errors` is False.

        >>> import jax.numpy as jnp, brainevent
        >>> negated = brainevent.XLACustomKernel("doc_negated")
        >>> negate = negated.def_reference(lambda x: -x)
        >>> negated.def_call(negated)
        >>> negated.def_benchmark_data(lambda *, platform: [brainevent.BenchmarkConfig("n=3", (jnp.ones(3),))])
        >>> result = negated.benchmark(platform="cpu", n_warmup=1, n_runs=3)
        >>> [(record.backend, record.label, record.success) for record in result.records]
        [('reference', 'n=3', True)]
        """
        from .benchmarking import benchmark  # when used, so that `import brainevent` stays light

        return benchmark(
            self.definition,
            platform=platform,
            backends=backends,
            counts={"n_warmup": n_warmup, "n_runs": n_runs, "n_batch_per_run": n_batch_per_run},
            cold=cold,
            tolerances=(rtol, atol) if compare_results else None,
            verbose=verbose,
            catch_errors=catch_errors,
            n_configs=n_configs,
        )
