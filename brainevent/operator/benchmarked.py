# SPDX-License-Identifier: Apache-2.0
"""The methods of an operator that measure its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..config import PLATFORMS
from ..errors import RegistrationTypeError
from .lowering import REFERENCE

if TYPE_CHECKING:
    from ..bench.result import BenchmarkResult
    from .custom_kernel import XLACustomKernel

__all__ = ["Benchmarked", "backends_of"]


def backends_of(operator: XLACustomKernel, platform: str) -> list[str]:
    """Return the backends that an operator can be called with on a platform, the reference last."""
    found = operator.available_backends(platform)
    if operator._reference is not None and platform in PLATFORMS and REFERENCE not in found:
        found.append(REFERENCE)
    return found


class Benchmarked:
    """What an operator measures itself with."""

    name: str
    _benchmark_data_fn: Callable[..., Any] | None

    def def_benchmark_data(self, fn: Callable[..., Any]) -> None:
        """Store the function that makes data to measure with: `fn(*, platform)` returns a list of `BenchmarkConfig`."""
        if not callable(fn):
            raise RegistrationTypeError(
                f"operator {self.name!r}: the benchmark data function must be callable, found {type(fn).__name__}"
            )
        self._benchmark_data_fn = fn

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
    ) -> BenchmarkResult:
        """Time the call function on each backend of a platform, for each configuration of the benchmark data.

        Without `backends`, these are all that are registered: name "reference" to measure that too. Results are
        compared with those of the reference, which is not timed for this, or without one with those of the first
        backend that succeeds; differences are printed, and kept in the records.

        `n_batch_per_run` calls in one compiled loop, each waiting for the one before, are one run; `cold` empties the
        processor's caches before each run. A backend that fails gets a record that says so, or raises if
        `catch_errors` is False.

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

        operator: Any = self
        return benchmark(
            operator,
            platform=platform,
            backends=backends,
            counts={"n_warmup": n_warmup, "n_runs": n_runs, "n_batch_per_run": n_batch_per_run},
            cold=cold,
            tolerances=(rtol, atol) if compare_results else None,
            verbose=verbose,
            catch_errors=catch_errors,
        )
