# SPDX-License-Identifier: Apache-2.0
"""Arithmetic with drawn matrices: it changes the numbers of their weights, and so the existing elements only.

Operations that are linear in these numbers work for all distributions, others only if all elements have one weight.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Self

import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ..drawn.format import JITN, JITS
from ..structure import are_known

__all__ = ["DrawnArithmetic"]


class DrawnArithmetic:
    """All operators of drawn matrices but `@`; a sum with a number stays drawn, and has the same elements."""

    shape: tuple[int, int]
    corder: bool
    drawn: Any
    _format: Any
    _like: Any
    product: Any

    @property
    def _parts(self) -> tuple[Any, ...]:
        """The numbers of the weights."""
        raise NotImplementedError

    def _one_weight(self, sign: str) -> Any:
        if self._format is not JITS:
            raise NotImplementedError(
                f"{type(self).__name__} {sign}: it would make other distributions of weights; use .tocsr()"
            )
        return self._parts[0]

    def _beside(self, sign: str, other: Any) -> Any:
        """Return a number, or the numbers of another matrix of the same elements."""
        if isinstance(other, DrawnArithmetic):
            self._check_same(sign, other)
            return other._parts
        numbers, unit = units.split(other)
        if np.size(numbers) != 1:
            raise NotImplementedError(
                f"{type(self).__name__} {sign} with object of shape {np.shape(numbers)}: pass a number, or use .tocsr()"
            )
        return units.join(jnp.reshape(numbers, ()), unit) if np.shape(numbers) else other

    def _check_same(self, sign: str, other: DrawnArithmetic) -> None:
        """Raise unless another matrix has its elements in the same places, and the same distribution of weights."""
        names = f"{type(self).__name__} {sign} {type(other).__name__}"
        for what, same in (
            ("distributions of weights", self._format is other._format),
            ("shapes", self.shape == other.shape),
            ("corder", self.corder == other.corder),
        ):
            if not same:
                raise NotImplementedError(f"{names}: the two have different {what}; use .tocsr() of both")
        if self.drawn is other.drawn:
            return
        if not are_known(self.drawn, other.drawn):
            raise NotImplementedError(f"{names}: under tracing, two seeds count as different")
        found = np.asarray(self.drawn) == np.asarray(other.drawn)
        if not found.all():
            what = "seeds" if found[7] else "prob"
            raise NotImplementedError(f"{names}: the two have different {what}; use .tocsr() of both")

    def _added(self, sign: str, function: Callable[[Any, Any], Any], other: Any) -> Self:
        value, parts = self._beside(sign, other), self._parts
        if isinstance(value, tuple):
            return self._made([function(a, b) for a, b in zip(parts, value, strict=True)])
        moved = parts[:1] if self._format is JITN else parts  # a standard deviation stays as it is
        return self._made([*(function(part, value) for part in moved), *parts[len(moved) :]])

    def _times(self, sign: str, function: Callable[[Any, Any], Any], other: Any) -> Self:
        value = self._beside(sign, other)
        if isinstance(value, tuple):
            return self._made([function(self._one_weight(sign), value[0])])
        return self._made([function(part, value) for part in self._parts])

    def _mapped(self, sign: str, function: Callable[[Any], Any]) -> Self:
        return self._made([function(self._one_weight(sign))])

    def _made(self, parts: list[Any]) -> Self:
        found: Self = self._like(parts[0] if len(parts) == 1 else tuple(parts))
        return found

    def __neg__(self) -> Self:
        return self._made([-part for part in self._parts])

    def __abs__(self) -> Self:
        return self._mapped("abs", abs)

    def __mul__(self, other: Any) -> Self:
        return self._times("*", operator.mul, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Self:
        return self._times("/", operator.truediv, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._mapped("/", lambda weight: self._beside("/", other) / weight)

    def __mod__(self, other: Any) -> Self:
        return self._mapped("%", lambda weight: weight % self._beside("%", other))

    def __rmod__(self, other: Any) -> Self:
        return self._mapped("%", lambda weight: self._beside("%", other) % weight)

    def __add__(self, other: Any) -> Self:
        return self._added("+", operator.add, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Self:
        return self._added("-", operator.sub, other)

    def __rsub__(self, other: Any) -> Self:
        return (-self)._added("-", operator.add, other)
