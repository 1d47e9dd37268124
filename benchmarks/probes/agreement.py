# SPDX-License-Identifier: Apache-2.0
"""Measure kernels of known length as brainevent's benchmarks do, and beside it in other ways."""

import statistics
import timeit
from collections.abc import Callable, Mapping
from typing import Any

import jax

from benchmarks.probes.progress import tell
from benchmarks.probes.spin import Spin, make_clock

Samples = dict[str, list[float]]
# Each takes one sample of some quantities: seconds by name.
Takes = dict[str, Callable[[], dict[str, float]]]

_WARM = 3
_CHAIN_RUNS = 7
_SINGLE_S, _CHAIN_S = 0.05, 0.02  # what all runs of single calls last, and one run of a chain


def measure(part: str, language: str, rounds: int, durations: dict[str, float]) -> Samples:
    """Seconds per call, as `WAY DURATION`, for each of the named durations."""
    spin, takes = Spin.of(language), {}
    for name, about in durations.items():
        takes |= _PARTS[part](spin, name, about)
    return take_turns(takes, rounds)


def take_turns(takes: Takes, rounds: int) -> Samples:
    """Take each sample once a round, A B C, then C B A."""
    samples: Samples = {}
    for index in range(rounds):
        tell(f"round {index + 1} of {rounds}")
        for name in takes if index % 2 == 0 else reversed(list(takes)):
            for what, seconds in takes[name]().items():
                samples.setdefault(what, []).append(seconds)
    return samples


def time_single(call: Callable[..., Any], operands: tuple[Any, ...], about: float) -> float:
    """What our benchmark says of single calls, each of about so many seconds: the median of the runs."""
    from brainevent.bench.measure import measure as benchmark

    return benchmark(call, operands, n_warmup=_WARM, n_runs=_runs(about)).timing.median


def time_chain(call: Callable[..., Any], operands: tuple[Any, ...], calls: int) -> Mapping[str, float]:
    """What it says of chained calls: the median of the runs, the empty loop's, and what is left without it."""
    from brainevent.bench.measure import measure as benchmark

    found = benchmark(call, operands, n_warmup=_WARM, n_runs=_CHAIN_RUNS, n_batch_per_run=calls)
    reported = found.timing.median
    return {"reported": reported, "loop": found.loop, "net": reported - found.loop}


def _runs(about: float) -> int:
    return min(500, max(7, round(_SINGLE_S / about)))


def _single(spin: Spin, name: str, about: float) -> Takes:
    """Single calls, beside `timeit` of calls that are waited for: the median of as many."""
    operands = spin.operands(about)
    timer = timeit.Timer(lambda: jax.block_until_ready(spin.call(*operands)))

    def take_timeit() -> dict[str, float]:
        timer.repeat(_WARM, number=1)
        return {f"timeit {name}": statistics.median(timer.repeat(_runs(about), number=1))}

    return {
        f"timeit {name}": take_timeit,
        f"ours {name}": lambda: {f"ours {name}": time_single(spin.call, operands, about)},
    }


def _chain(spin: Spin, name: str, about: float) -> Takes:
    """Chained calls, beside a clock of the kernel alone."""
    operands, calls = spin.operands(about), max(3, round(_CHAIN_S / about))
    clock = make_clock(spin.language, operands)

    def take() -> dict[str, float]:
        found = time_chain(spin.call, operands, calls)
        return {f"clock {name}": clock(_CHAIN_RUNS, calls), **{f"{what} {name}": found[what] for what in found}}

    return {name: take}


_PARTS = {"single": _single, "chain": _chain}
