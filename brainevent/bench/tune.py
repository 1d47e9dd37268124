# SPDX-License-Identifier: Apache-2.0
"""Compare functions that should give the same results: first the results, then the times."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from .._html import document, table
from .chain import device_of
from .measure import loop_seconds, time_chained
from .progress import shown
from .words import columns, time_text

__all__ = ["Candidate", "Trial", "TuneResult", "try_all"]

RUNS = 10  # at least
_HEAD = ("backend", "variant", "median", "spread")


@dataclass(frozen=True)
class Candidate:
    """One way to compute the results."""

    backend: str
    variant: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class Trial:
    """The result of a candidate: the median, lowest and highest time of a call in seconds, or what is wrong.

    `loop` is the time of the loop in which it was called: a median below it says only that a call is shorter.
    """

    backend: str
    variant: str
    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    error: str | None = None
    loop: float = 0.0

    @property
    def too_short(self) -> bool:
        """Whether a call takes less time than the loop around it."""
        return self.seconds is not None and self.seconds < self.loop


@dataclass(frozen=True)
class TuneResult:
    """The result of `tune`, which prints as a table.

    Attributes:
        operator: The name of the operator.
        platform: The platform on which it was tuned.
        device: The device.
        shapes: The types of the operands.
        trials: All measurements, the fastest first and those that failed last.
        remembered: Whether later processes will choose the same.

    Examples:
        >>> import brainevent
        >>> brainevent.TuneResult("double", "cpu", "cpu", "float32[3]", (), True).remembered
        True
    """

    operator: str
    platform: str
    device: str
    shapes: str
    trials: tuple[Trial, ...]
    remembered: bool

    @property
    def backend(self) -> str:
        """The fastest backend."""
        return self.trials[0].backend

    @property
    def variant(self) -> str:
        """The name of the fastest variant, such as "block=128"; an empty string if the backend has but one."""
        return self.trials[0].variant

    def __str__(self) -> str:
        return f"{self._title}\n\n{columns([_HEAD, *self._rows])}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return what notebooks show."""
        return document(self._title, table(_HEAD, self._rows, right=[2], marked=[0]))

    @property
    def _title(self) -> str:
        return f"operator {self.operator!r} on {self.platform} ({self.device}): {self.shapes}"

    @property
    def _rows(self) -> list[tuple[str, ...]]:
        return [(trial.backend, trial.variant, *_times(trial)) for trial in self.trials]


def _times(trial: Trial) -> tuple[str, str]:
    if trial.seconds is None or trial.low is None or trial.high is None:
        return "failed", textwrap.shorten(trial.error or "", 100, placeholder=" ...")
    if trial.too_short:
        return f"< {time_text(trial.loop)}", "below the loop's own time"
    return time_text(trial.seconds), f"{time_text(trial.low)} to {time_text(trial.high)}"


def try_all(
    candidates: Sequence[Candidate],
    operands: Sequence[Any],
    why_wrong: Callable[[Candidate, Any], str | None],
    seconds: float,
    what: str,
) -> list[Trial]:
    """Return a trial for each candidate, the fastest first; candidates with wrong results are not timed.

    `why_wrong(candidate, results)` describes what is wrong, if anything; `seconds` is the time for each. Among those
    whose times cannot be distinguished from the fastest, the earliest candidate comes first. `what` is the title of
    the progress bar.
    """
    trials = [_trial(candidate, operands, why_wrong, seconds) for candidate in shown(candidates, what)]
    fastest = min(trials, key=_seconds)
    equal = max(fastest.high or 0, fastest.loop)
    first = next(t for t in trials if t is fastest or _seconds(t) <= equal)
    return [first, *sorted((trial for trial in trials if trial is not first), key=_seconds)]


def _seconds(trial: Trial) -> float:
    return float("inf") if trial.seconds is None else trial.seconds


def _trial(
    candidate: Candidate,
    operands: Sequence[Any],
    why_wrong: Callable[[Candidate, Any], str | None],
    seconds: float,
) -> Trial:
    try:
        fresh = [jnp.array(x, copy=True) for x in operands]  # a kernel may write to its operands
        results = jax.block_until_ready(jax.jit(candidate.function)(*fresh))
        if wrong := why_wrong(candidate, results):
            return Trial(candidate.backend, candidate.variant, error=wrong)
        timing = time_chained(candidate.function, operands, runs=RUNS, seconds=seconds)
        loop = loop_seconds(device_of(operands))
    except Exception as error:  # noqa: BLE001 - whatever a kernel raises, others may be fine
        text = str(error).strip() or "no message"
        return Trial(candidate.backend, candidate.variant, error=f"{type(error).__name__}: {text}")
    return Trial(candidate.backend, candidate.variant, timing.median, timing.low, timing.high, loop=loop)
