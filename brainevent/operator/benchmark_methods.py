# SPDX-License-Identifier: Apache-2.0
"""The methods of an operator that measure its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import RegistrationTypeError
from ..typing import ArrayLike
from .definition import Definition

if TYPE_CHECKING:
    from ..bench.result import BenchmarkResult

__all__ = ["BenchmarkMethods"]


class BenchmarkMethods:
    """The methods of an operator that measure it."""

    definition: Definition

    def def_benchmark_data(self, fn: Callable[..., Any]) -> None:
        """Store the function that makes data to measure with.

        Args:
            fn: `fn(*, platform)` returns a list of `BenchmarkConfig`.

        Raises:
            RegistrationTypeError: If it is not callable.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> halved = brainevent.XLACustomKernel("doc_halved")
            >>> halve = halved.def_reference(lambda x: x / 2)
            >>> halved.def_benchmark_data(lambda *, platform: [brainevent.BenchmarkConfig("n=3", (jnp.ones(3),))])
            >>> [record.label for record in halved.benchmark(platform="cpu", n_warmup=1, n_runs=3).records]
            ['n=3']
        """
        if not callable(fn):
            where = f"operator {self.definition.name!r}"
            raise RegistrationTypeError(
                f"{where}: the benchmark data function must be callable, found {type(fn).__name__}"
            )
        self.definition.benchmark_data = fn

    def benchmark(
        self,
        /,
        *operands: ArrayLike,
        platform: str | None = None,
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
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Time the call function on each backend of a platform, for these operands, or else for the benchmark data.

        The call function is that of `def_call`, or the operator itself. Results are compared with those of the
        reference, or without one with those of the first backend that succeeds; differences are printed, and kept in
        the records.

        Args:
            *operands: What to call it with; without operands, the benchmark data are used.
            platform: The platform to run on; None for the default of JAX.
            n_warmup: Runs before those that are measured.
            n_runs: Runs that are measured.
            n_batch_per_run: Calls of a run, in one compiled loop in which each waits for the one before.
            compare_results: Whether to compare results.
            rtol: The relative tolerance of the comparison.
            atol: The absolute tolerance of the comparison.
            verbose: Whether to print each measurement.
            catch_errors: Whether a backend that fails gets a record that says so, or raises.
            backends: The backends to measure; None for all that are registered. "reference" measures the reference,
                too.
            cold: Whether to empty the caches of the processor before each run.
            n_configs: The number of configurations to measure, the first ones; None for all.
            **kwargs: The other keyword arguments of a call with these operands. Those of benchmark data are in each
                `BenchmarkConfig`, as are those with the name of an argument above.

        Returns:
            The records; they print as a table.

        Raises:
            BenchmarkDataFnNotProvidedError: If there are neither operands nor benchmark data.
            TypeError: If there are keyword arguments without operands, or the call function does not take them.
            ValueError: If a backend is unknown.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> negated = brainevent.XLACustomKernel("doc_negated")
            >>> negate = negated.def_reference(lambda x: -x)
            >>> result = negated.benchmark(jnp.ones(3), platform="cpu", n_warmup=1, n_runs=3)
            >>> [(record.backend, record.label, record.success) for record in result.records]
            [('reference', 'float32[3]', True)]
        """
        from .benchmarking import benchmark  # imported when used, so that `import brainevent` stays light

        return benchmark(
            self.definition,
            operands,
            platform=platform,
            backends=backends,
            counts={"n_warmup": n_warmup, "n_runs": n_runs, "n_batch_per_run": n_batch_per_run},
            cold=cold,
            tolerances=(rtol, atol) if compare_results else None,
            verbose=verbose,
            catch_errors=catch_errors,
            n_configs=n_configs,
            keywords=kwargs,
        )
