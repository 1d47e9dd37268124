# SPDX-License-Identifier: Apache-2.0
"""The promise about other values of the same shapes: none active, all active, negative, NaN, duplicates, one array."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from ..compare import Skipped, assert_zero_signs, during, is_inexact
from .guards import assert_right
from .memory import poisoned
from .subject import Subject, are_sorted, levelled, named

__all__ = ["check_values_of_its_own"]

_DUPLICATES, _NEGATIVE_ZEROS = "duplicates", "all zero, negated"
_DISTINCT = re.compile(r"\bscatter\[|unique_indices=True")
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
    distinct = _wants_distinct_indices(subject)
    for trial in (*_trials(given, subject.signed_zeros), *_shared(given)):
        if not (distinct and trial.kind == _DUPLICATES) and _is_tried(subject, trial):
            tried.setdefault(trial.operand, []).append(trial.kind)
    if not tried:
        raise Skipped("it has no operand whose values could be varied")
    return _listed(tried, [i for i in range(subject.count) if i not in tried])


def _wants_distinct_indices(subject: Subject) -> bool:
    """Return whether the reference sets elements by index, or promises distinct indices: JAX defines no duplicates."""
    reference = subject.operator.definition.reference
    if reference is None:
        return False
    function = reference.generator(outs=subject.out_types, **subject.kwargs)
    return bool(_DISTINCT.search(str(jax.make_jaxpr(function)(*subject.operands()))))


def _listed(tried: Mapping[int, Sequence[str]], kept: Sequence[int]) -> str:
    """Return a note on the values that were tried, such as 'operands 0, 2: zeros, negative; operand 1 kept'."""
    alike: dict[str, list[int]] = {}
    for i, kinds in tried.items():
        alike.setdefault(", ".join(dict.fromkeys(kinds)), []).append(i)
    said = [f"{named(operands)}: {kinds}" for kinds, operands in alike.items()]
    return "; ".join([*said, *([f"{named(kept)} kept"] if kept else [])])


def _is_tried(subject: Subject, trial: _Trial) -> bool:
    """Run the kernel, unless the reference does not determine its results."""
    own = {id(x): jnp.array(x, copy=True) for x in trial.values}
    operands = [own[id(x)] for x in trial.values]  # one array where the trial has one
    if subject.truth is None or (trial.needs_reference and subject.operator.definition.reference is None):
        wanted = None
        if trial.needs_reference:
            return False
    else:
        wanted = subject.truth(*operands)
        if not trial.accepts([np.asarray(x) for x in wanted]):
            return False
    with during(f"with {trial.name}"):
        found = assert_right(poisoned(subject), operands, wanted, subject.tolerance, subject.expected())
        if subject.signed_zeros and wanted is not None:
            assert_zero_signs(found, wanted)
    return True


def _trials(given: Sequence[np.ndarray], signed_zeros: bool) -> Iterator[_Trial]:
    """Vary one operand after another; integers, which may be indices, only become duplicates of one another."""
    for i, x in enumerate(given):
        is_integer = jnp.issubdtype(x.dtype, jnp.integer)
        for kind, name, values in _with_duplicates(x) if is_integer else _finite_variations(x, signed_zeros):
            if not np.array_equal(values, x) or name == _NEGATIVE_ZEROS:
                varied = (*given[:i], values, *given[i + 1 :])
                yield _Trial(i, kind, f"operand {i} {name}", varied, _are_finite, needs_reference=is_integer)
    others = [_without_zeros(x) for x in given]  # zero times NaN or infinity may be zero or NaN
    for i, x in enumerate(others):
        if not is_inexact(x) or not x.size or _are_events(given[i]):
            continue
        for kind, special in (("NaN", np.nan), ("infinity", np.inf)):
            values = x.copy()
            values.reshape(-1)[x.size // 2] = special
            varied = (*others[:i], values, *others[i + 1 :])
            name = f"operand {i} with {kind} in it"
            yield _Trial(i, kind, name, varied, _are_not_all_finite, needs_reference=True)


def _shared(given: Sequence[np.ndarray]) -> Iterator[_Trial]:
    """Pass one array as two operands of the same type, if its values suit both."""
    for (i, x), (k, y) in itertools.combinations(enumerate(given), 2):
        if x.size and (x.shape, x.dtype) == (y.shape, y.dtype):
            for shared in (x, y):
                if _suits(shared, x) and _suits(shared, y):
                    values = tuple(shared if j in (i, k) else each for j, each in enumerate(given))
                    yield _Trial(i, f"one array with {k}", f"one array for operands {i} and {k}", values, _are_finite)
                    break


def _suits(x: np.ndarray, y: np.ndarray) -> bool:
    """Return whether one operand may have the values of another of its type: indices must stay valid."""
    if x is y or x.dtype == np.bool_:
        return True
    if is_inexact(x):
        return _are_events(x) or not _are_events(y)
    within = bool(y.min() <= x.min() and x.max() <= y.max())
    return within and not are_sorted(x) and not are_sorted(y) and (_are_distinct(x) or not _are_distinct(y))


def _are_distinct(x: np.ndarray) -> bool:
    return np.unique(x).size == x.size


def _with_duplicates(x: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """Repeat some integers, the smaller ones, so that a sum of lengths stays within the memory that there is."""
    if x.size < 2:
        return
    if are_sorted(x):  # perhaps row pointers: the ends stay
        yield _DUPLICATES, "with duplicates", levelled(x, 1)
        return
    flat, pairs = x.reshape(-1), x.size // 2 * 2
    some = flat.copy()
    some[0:pairs:2] = some[1:pairs:2] = np.minimum(flat[0:pairs:2], flat[1:pairs:2])
    yield _DUPLICATES, "with duplicates", some.reshape(x.shape)
    yield _DUPLICATES, "all equal", np.full_like(x, x.min())


def _finite_variations(x: np.ndarray, signed_zeros: bool) -> Iterator[tuple[str, str, np.ndarray]]:
    if not x.size:
        return
    first = np.arange(x.size).reshape(x.shape) == x.size // 2
    if x.dtype == np.bool_:
        yield "all or none", "all false", np.zeros_like(x)
        yield "all or none", "all true", np.ones_like(x)
        yield "all or none", "one true", first
    elif is_inexact(x):
        yield "zeros", "all zero", np.zeros_like(x)
        if signed_zeros:
            yield "zeros", _NEGATIVE_ZEROS, -np.zeros_like(x)
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
