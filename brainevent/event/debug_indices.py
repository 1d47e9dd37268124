# SPDX-License-Identifier: Apache-2.0
"""The checks that `config.debug_indices` adds to a program: they run with it, and name indices that are wrong.

The device finds the first wrong index. Four numbers go to the host: whether one is wrong, its place, its value, and the
value before it. A check costs one pass over the indices and one transfer to the host for each call.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import config
from .._compat import new_check, primitive_batchers

__all__ = ["report_indices", "report_pointers"]

_HINT = "reported by config.debug_indices; without it, {}"


@dataclass(frozen=True)
class _Range:
    """Indices that must be below a bound."""

    where: str
    name: str
    bound: int

    def wrong(self, indices: jax.Array) -> jax.Array:
        least, most = jnp.iinfo(indices.dtype).min, jnp.iinfo(indices.dtype).max
        negative = indices < 0 if least < 0 else jnp.zeros(indices.shape, bool)
        return negative | (indices >= self.bound) if self.bound <= most else negative

    def message(self, place: str, found: int, before: int) -> str:
        expected = f"pass indices from 0 to {self.bound - 1}" if self.bound else "no index is in range"
        return (
            f"{self.where}: {self.name}[{place}] is {found}, out of range for a size of {self.bound}; {expected} "
            f"({_HINT.format('it is ignored')})"
        )


@dataclass(frozen=True)
class _Pointers:
    """Row pointers that must cut a number of stored elements."""

    where: str
    name: str
    stored: int

    def wrong(self, pointers: jax.Array) -> jax.Array:
        wrong = jnp.append(pointers[:1] != 0, pointers[1:] < pointers[:-1])
        return wrong.at[-1].set(wrong[-1] | (pointers[-1] != self.stored))

    def message(self, place: str, found: int, before: int) -> str:
        if place == "0":
            rule = f"is {found}; it must be 0, where the first row begins"
        elif found < before:
            rule = f"is {found}, and the one before is {before}; pointers must not decrease"
        else:
            rule = f"is {found}; the last pointer must be {self.stored}, the number of stored elements"
        return f"{self.where}: {self.name}[{place}] {rule} ({_HINT.format('rows are cut where the pointers say')})"


_Question = _Range | _Pointers


def report_indices(where: str, name: str, indices: Any, bound: int) -> None:
    """With `config.debug_indices`, let the program that is traced raise when it runs if an index is out of range.

    `where` and `name` are the function or matrix, and its array.
    """
    if config.is_debugging_indices() and indices.size:
        _check.bind(indices, question=_Range(where, name, bound), levels=0)


def report_pointers(where: str, name: str, pointers: Any, stored: int) -> None:
    """Likewise, if pointers do not begin with 0, decrease, or do not end with the number of stored elements."""
    if config.is_debugging_indices() and pointers.size:
        _check.bind(pointers, question=_Pointers(where, name, stored), levels=0)


def _first_wrong(x: jax.Array, question: _Question, levels: int) -> tuple[jax.Array, ...]:
    """Return whether an index is wrong, its place in x, its value, and the value before it."""
    wrong: Callable[[jax.Array], jax.Array] = question.wrong
    for _ in range(levels):
        wrong = jax.vmap(wrong)
    flat, places = x.reshape(-1), wrong(x).reshape(-1)
    at = jnp.argmax(places)
    return places[at], at, flat[at], flat[jnp.maximum(at - 1, 0)]


def _raise_if_wrong(
    wrong: Any, at: Any, found: Any, before: Any, *, question: _Question, shape: tuple[int, ...], levels: int
) -> None:
    if not wrong:
        return
    numbers = [str(int(i)) for i in np.unravel_index(int(at), shape)]
    message = question.message(", ".join(numbers[levels:]), int(found), int(before))
    batch = f"\nin element [{', '.join(numbers[:levels])}] of the batch of jax.vmap" if levels else ""
    raise ValueError(message + batch)


def _answer(x: Any, question: _Question, levels: int) -> None:
    facts = jax.device_get(_first_wrong(x, question, levels))
    _raise_if_wrong(*facts, question=question, shape=x.shape, levels=levels)


def _call_back(x: Any, question: _Question, levels: int) -> None:
    answer = functools.partial(_raise_if_wrong, question=question, shape=x.shape, levels=levels)
    jax.debug.callback(answer, *_first_wrong(x, question, levels))


def _batch(operands: Sequence[Any], axes: Sequence[Any], *, question: _Question, levels: int) -> Any:
    (x,), (axis,) = operands, axes
    x = jnp.moveaxis(x, axis, 0)
    return (_check.bind(x, question=question, levels=levels + 1), []) if x.size else ([], [])


_check = new_check("brainevent_check_indices", _answer, _call_back)
primitive_batchers[_check] = _batch
