# SPDX-License-Identifier: Apache-2.0
"""The promise about other values of the same shapes: none active, all active, negative, NaN and infinity."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from ..compare import Skipped, during, is_inexact
from .memory import poisoned
from .poison import assert_right
from .subject import Subject, named

__all__ = ["check_values_of_its_own"]

Accepts = Callable[[Sequence[np.ndarray]], bool]  # whether the oracle's results determine those of the kernel


@dataclass(frozen=True)
class _Trial:
    """Operands, one of them with other values."""

    operand: int
    kind: str
    name: str
    values: tuple[np.ndarray, ...]
    accepts: Accepts
    needs_reference: bool = False


def check_values_of_its_own(subject: Subject) -> str:
    """Results are right for other values of each operand, over poisoned memory."""
    given = [samples[0] for samples in subject.samples]
    tried: dict[int, list[str]] = {}
    for trial in _trials(given):
        if _is_tried(subject, trial):
            tried.setdefault(trial.operand, []).append(trial.kind)
    if not tried:
        raise Skipped("it has no operand whose values could be varied")
    return _listed(tried, [i for i in range(subject.count) if i not in tried])


def _listed(tried: Mapping[int, Sequence[str]], kept: Sequence[int]) -> str:
    """Return a note on the values that were tried, such as 'operands 0, 2: zeros, negative; operand 1 kept'."""
    alike: dict[str, list[int]] = {}
    for i, kinds in tried.items():
        alike.setdefault(", ".join(dict.fromkeys(kinds)), []).append(i)
    said = [f"{named(operands)}: {kinds}" for kinds, operands in alike.items()]
    return "; ".join([*said, *([f"{named(kept)} kept"] if kept else [])])


def _is_tried(subject: Subject, trial: _Trial) -> bool:
    """Run the kernel, unless the reference does not determine its results."""
    operands = [jnp.array(x, copy=True) for x in trial.values]
    if subject.truth is None or (trial.needs_reference and subject.operator.definition.reference is None):
        wanted = None
        if trial.needs_reference:
            return False
    else:
        wanted = subject.truth(*operands)
        if not trial.accepts([np.asarray(x) for x in wanted]):
            return False
    with during(f"with operand {trial.operand} {trial.name}"):
        assert_right(poisoned(subject), operands, wanted, subject.tolerance, subject.expected())
    return True


def _trials(given: Sequence[np.ndarray]) -> Iterator[_Trial]:
    """Vary one operand after another; integers are kept, because they may be indices."""
    for i, x in enumerate(given):
        for kind, name, values in _finite_variations(x):
            if not np.array_equal(values, x):
                yield _Trial(i, kind, name, (*given[:i], values, *given[i + 1 :]), _are_finite)
    others = [_without_zeros(x) for x in given]  # zero times NaN or infinity may be zero or NaN
    for i, x in enumerate(others):
        if not is_inexact(x) or not x.size or _are_events(given[i]):
            continue
        for kind, special in (("NaN", np.nan), ("infinity", np.inf)):
            values = x.copy()
            values.reshape(-1)[x.size // 2] = special
            varied = (*others[:i], values, *others[i + 1 :])
            yield _Trial(i, kind, f"with {kind} in it", varied, _are_not_all_finite, needs_reference=True)


def _finite_variations(x: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    if not x.size:
        return
    first = np.arange(x.size).reshape(x.shape) == x.size // 2
    if x.dtype == np.bool_:
        yield "all or none", "all false", np.zeros_like(x)
        yield "all or none", "all true", np.ones_like(x)
        yield "all or none", "one true", first
    elif is_inexact(x):
        yield "zeros", "all zero", np.zeros_like(x)
        yield "zeros", "all zero but one", np.where(first, _without_zeros(x), 0).astype(x.dtype)
        yield "zeros", "with a zero", np.where(first, 0, x).astype(x.dtype)
        yield "zeros", "without zeros", _without_zeros(x)
        if not _are_events(x):
            yield "negative", "negated", -x


def _are_events(x: np.ndarray) -> bool:
    """Return whether numbers are zeros and ones, the only values for which an operator on events may be defined."""
    wide = np.asarray(x, np.complex128)
    return bool(np.isin(wide, (0, 1)).all() and (wide == 0).any())


def _without_zeros(x: np.ndarray) -> np.ndarray:
    if x.dtype == np.bool_:
        return np.ones_like(x)
    return np.where(x == 0, 1, x).astype(x.dtype) if is_inexact(x) else x


def _are_finite(results: Sequence[np.ndarray]) -> bool:
    return all(bool(np.isfinite(x.astype(np.complex128)).all()) for x in results if is_inexact(x))


def _are_not_all_finite(results: Sequence[np.ndarray]) -> bool:
    """Return whether NaN or infinity appears in a result: otherwise a kernel may ignore it."""
    return all(is_inexact(x) for x in results) and not _are_finite(results)
