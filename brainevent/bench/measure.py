# SPDX-License-Identifier: Apache-2.0
"""Time calls until their results are available, with warm or cold caches; and find the ceilings of a device."""

from __future__ import annotations

import functools
import math
import re
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from ..typing import PyTree
from .chain import Chain, device_of

__all__ = [
    "Measurement",
    "Timing",
    "benchmark_function",
    "check_counts",
    "flush_bytes",
    "loop_seconds",
    "measure",
    "measured_bandwidth",
    "measured_flops",
    "time_chained",
]

_CPU_SIDE, _GPU_SIDE = 2048, 8192  # of square matrices: the product takes milliseconds, and its call microseconds
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_GPU_BYTES = 256 << 20  # twice the largest second-level cache that GPUs have today
_UNKNOWN_BYTES = 64 << 20
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_BETTER = 0.99  # relative to the best run: warm-up continues while runs improve by this
_SETTLED = 3  # and stops after this number of runs without improvement
_SETTLE_SECONDS = 1.0  # or after this time
_MOST_CALLS = 1_000_000
_LOOP_RUNS, _LOOP_SECONDS = 5, 0.02  # of the loop alone
_IDLE_CALLS, _TOGETHER = 1000, 5  # iterations of the loops, and calls in an iteration


def cache_bytes(folder: Path = _CACHES) -> int | None:
    """Return the size of the largest cache of this CPU; None if it is not known."""
    sizes = [re.fullmatch(r"(\d+)([KMG]?)", path.read_text().strip()) for path in folder.glob("index*/size")]
    return max((int(size[1]) * _UNITS[size[2]] for size in sizes if size), default=None)


def flush_bytes(device: jax.Device) -> int:
    """Return the number of bytes to write so that nothing else stays in the caches of a device."""
    return 2 * (cache_bytes() or _UNKNOWN_BYTES) if device.platform == "cpu" else _GPU_BYTES


@dataclass
class Flush:
    """A buffer that is larger than the caches; `run` writes all of it."""

    buffer: jax.Array

    @classmethod
    def of(cls, arrays: Sequence[Any]) -> Flush:
        """Make the buffer on the device where the first of the arrays is, or else on the default device."""
        device = device_of(arrays)
        return cls(jnp.zeros(flush_bytes(device), jnp.uint8, device=device))

    def run(self) -> None:
        """Write the buffer, and wait until that is done."""
        self.buffer = jax.block_until_ready(_written(self.buffer))


_written = jax.jit(lambda buffer: buffer + jnp.uint8(1), donate_argnums=0)


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median of the runs, and the quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, samples: Sequence[float]) -> Timing:
        """Summarize the seconds per call of the runs."""
        if len(samples) == 1:
            return cls(samples[0], samples[0], samples[0])
        low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
        return cls(median, low, high)


@dataclass(frozen=True)
class Measurement:
    """The measurement of a function: seconds per call of each run, its output, and the loop's seconds per call.

    The time of the loop is included in the samples; it is 0 if calls were timed one by one.
    """

    samples: tuple[float, ...]
    output: Any
    loop: float = 0.0

    @property
    def mean(self) -> float:
        """The mean of the runs."""
        return statistics.fmean(self.samples)

    @property
    def std(self) -> float:
        """The standard deviation of the runs."""
        return statistics.pstdev(self.samples)

    @property
    def timing(self) -> Timing:
        """The median of the runs and its spread."""
        return Timing.of(self.samples)


def benchmark_function(
    fn: Callable[..., PyTree], n_warmup: int, n_runs: int, n_batch_per_run: int = 1, data: Sequence[PyTree] = ()
) -> tuple[float, float, float, float, PyTree]:
    """Time a function of arrays.

    Args:
        fn: The function, called as `fn(*data)`.
        n_warmup: Runs before those that are measured.
        n_runs: Runs that are measured.
        n_batch_per_run: Calls in a run. Several calls are one compiled loop, in which each waits for the one before;
            `fn` must be traceable then.
        data: The arguments of the function.

    Returns:
        The mean, standard deviation, least and most of the seconds per call, and the output of the first call.

    Raises:
        ValueError: If a number of runs or calls is out of range.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> mean, std, least, most, output = brainevent.benchmark_function(
        ...     jax.jit(jnp.sin), 2, 10, data=(jnp.zeros(3),)
        ... )
        >>> least <= mean <= most, output
        (True, Array([0., 0., 0.], dtype=float32))
    """
    found = measure(fn, data, n_warmup=n_warmup, n_runs=n_runs, n_batch_per_run=n_batch_per_run)
    return found.mean, found.std, min(found.samples), max(found.samples), found.output


def measure(
    fn: Callable[..., Any],
    data: Sequence[Any] = (),
    *,
    n_warmup: int,
    n_runs: int,
    n_batch_per_run: int = 1,
    cold: bool = False,
) -> Measurement:
    """Time `fn(*data)` in `n_runs` runs; `cold` empties the caches of the processor before each of them."""
    check_counts("benchmark_function", n_warmup=n_warmup, n_runs=n_runs, n_batch_per_run=n_batch_per_run, cold=cold)
    output = jax.block_until_ready(fn(*data))
    between = Flush.of(jax.tree.leaves((output, tuple(data)))).run if cold else _nothing
    if n_batch_per_run == 1:
        run: Callable[[], Any] = lambda: fn(*data)  # noqa: E731 - one of two ways to run
        _settle(run, n_warmup, between)
        return Measurement(tuple(_timed(run, between) for _ in range(n_runs)), output)
    samples = _chained(Chain.of(fn, data, n_batch_per_run), n_warmup, n_runs)
    empty = statistics.median(_chained(Chain.empty(data, n_batch_per_run), n_warmup, n_runs))
    return Measurement(tuple(samples), output, max(0.0, empty - _idle(device_of(data))))


def time_chained(function: Callable[..., Any], operands: Sequence[Any], *, runs: int, seconds: float) -> Timing:
    """Time `function(*operands)`, chained in one compiled loop, in `runs` runs that together last about `seconds`.

    >>> import jax.numpy as jnp
    >>> timing = time_chained(jnp.sin, [jnp.ones(1000)], runs=3, seconds=0.01)
    >>> 0 < timing.low <= timing.median <= timing.high
    True
    """
    check_counts("time_chained", runs=runs)
    if not 0 < seconds < math.inf:
        raise ValueError(f"time_chained: seconds must be a number above 0, found {seconds!r}")
    calls = 1
    while True:
        chain = Chain.of(function, operands, calls)
        run = _Run(chain)
        run()
        spent = min(_timed(run, _nothing) for _ in range(2))
        wanted = seconds / runs
        # A short run says little about a call: grow until a run is most of what it should be.
        if spent > wanted / 2 or calls >= _MOST_CALLS:
            break
        calls = min(_MOST_CALLS, calls * max(2, math.ceil(wanted / max(spent, wanted / 1000))))
    return Timing.of([_timed(run, _nothing) / calls for _ in range(runs)])


@functools.cache
def loop_seconds(device: jax.Device) -> float:
    """Return how long an iteration of the loop around chained calls takes by itself; a shorter call is not measured."""
    one = jnp.zeros((), device=device)
    empty = time_chained(lambda x: x + 1, [one], runs=_LOOP_RUNS, seconds=_LOOP_SECONDS).median
    return max(0.0, empty - _idle(device))


class _Run:
    """Run a chain repeatedly, each time on the state of the previous run."""

    def __init__(self, chain: Chain):
        self.chain = chain
        self.state = chain.state

    def __call__(self) -> Any:
        self.state = self.chain.run(*self.state)
        return self.state


def _chained(chain: Chain, n_warmup: int, n_runs: int) -> list[float]:
    run = _Run(chain)
    jax.block_until_ready(run())  # compiles
    _settle(run, n_warmup, _nothing)
    return [_timed(run, _nothing) / chain.calls for _ in range(n_runs)]


@functools.cache
def _idle(device: jax.Device) -> float:
    """Return how long a GPU waits for the host in each iteration of an empty loop; with a kernel it does not wait.

    It is the time of an empty iteration minus the time that an iteration adds to a call, which five calls per iteration
    instead of one reduce to a fifth.
    """
    if device.platform == "cpu":
        return 0.0
    matrices = [jnp.full((512, 512), float(i), device=device) for i in range(_TOGETHER)]
    empty, one, together = (
        statistics.median(_chained(chain, _TOGETHER, 2 * _TOGETHER))
        for chain in (
            Chain.empty(matrices, _IDLE_CALLS),
            Chain.of(_squares, matrices[:1], _IDLE_CALLS),
            Chain.of(_squares, matrices, _IDLE_CALLS),
        )
    )
    return max(0.0, empty - (_TOGETHER * one - together) / (_TOGETHER - 1))


def _squares(*matrices: jax.Array) -> list[jax.Array]:
    """Multiply each matrix with itself, one after another."""
    found: list[jax.Array] = []
    for matrix in matrices:
        after, _ = jax.lax.optimization_barrier((matrix, found))
        found.append(after @ after)
    return found


def _nothing() -> None:
    """Do nothing between runs."""


def _timed(run: Callable[[], Any], between: Callable[[], None]) -> float:
    between()
    start = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - start


def _settle(run: Callable[[], Any], n_warmup: int, between: Callable[[], None]) -> None:
    """Run `n_warmup` times, and longer while runs get faster, for example with a rising clock; not if it is 0."""
    end = time.perf_counter() + _SETTLE_SECONDS
    best, done, no_better = math.inf, 0, 0
    while done < n_warmup or (n_warmup and no_better < _SETTLED and time.perf_counter() < end):
        spent = _timed(run, between)
        no_better = 0 if spent < _BETTER * best else no_better + 1
        best, done = min(best, spent), done + 1


def check_counts(where: str, *, cold: bool = False, **counts: Any) -> None:
    """Raise unless the numbers of runs and calls are valid."""
    for name, value in counts.items():
        least = 0 if name == "n_warmup" else 1
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{where}: {name} must be an integer of at least {least}, found {value!r}")
    if cold and counts.get("n_batch_per_run", 1) != 1:
        raise ValueError(
            f"{where}: cold=True times single calls, as the second call in a run finds warm caches; "
            f"leave n_batch_per_run at 1, found {counts['n_batch_per_run']}"
        )


@functools.cache
def measured_bandwidth(device: jax.Device) -> float:
    """Return the bytes per second of a loop that negates numbers of twice the size of the caches."""
    numbers = jnp.zeros(flush_bytes(device) // 4, jnp.float32, device=device)
    # Many calls per run: otherwise most of the time is the first access to new memory.
    found = measure(jnp.negative, (numbers,), n_warmup=1, n_runs=5, n_batch_per_run=20)
    return 2 * numbers.nbytes / min(found.samples)


@functools.cache
def measured_flops(device: jax.Device) -> float:
    """Return the floating-point operations per second of a product of square float32 matrices, in full precision."""
    side = _CPU_SIDE if device.platform == "cpu" else _GPU_SIDE
    matrix = jnp.full((side, side), 1 / side, jnp.float32, device=device)
    product = jax.jit(functools.partial(jnp.matmul, precision="highest"))  # otherwise a GPU rounds the operands
    found = measure(product, (matrix, matrix), n_warmup=1, n_runs=5)
    return 2 * side**3 / min(found.samples)
