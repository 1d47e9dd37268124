# SPDX-License-Identifier: Apache-2.0
"""The base classes of matrices that are drawn from a seed whenever they are needed.

Those whose names end in C are transposes of those whose names end in R; the same arguments give the same matrix.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NoReturn, Self

import jax
import jax.numpy as jnp
import numpy as np

from ... import _units as units
from ...errors import UnsupportedOperationError, did_you_mean
from ...typing import PyTree
from ..calls import multiplied
from ..description import Description, Format, Shape
from ..drawn.calls import stored, times, whole
from ..drawn.checked import drawn_from, numbers_of_weights, weights_of
from ..drawn.format import JITN, JITS, JITU, tables
from ..laws.products import EVENTS, NUMBERS
from ..laws.whole import WHOLE
from ..structure import are_known, checked_shape
from .base import DataRepresentation
from .conversions import format_named

__all__ = ["JITCMatrix", "JITCNormalMatrix", "JITCScalarMatrix", "JITCUniformMatrix"]


class JITCMatrix(DataRepresentation):
    """A random matrix that is drawn line by line from a seed whenever it is needed, and never stored.

    With `corder` its lines are rows, and `x @ matrix` draws only those of events. Without, they are columns, and
    `matrix @ x` does. Products the other way draw the whole matrix. As a pytree it has the numbers of its weights
    as leaves; programs also take its probability and its seed, so one jitted function takes all of them.

    Args:
        *given: The numbers of the weights, the probability and the seed, one by one or in a tuple.
        **named: The same by their names; the seed may be left out, which is a new one.
        shape: The shape of the matrix, (m, k).
        corder: Whether the matrix is drawn row by row, and not column by column.
        backend: The name of the kernel for products; None for the default.
        buffers: Further arrays that travel with the matrix, by name.

    Raises:
        ValueError: If there are too few or too many numbers, or the probability is not between 0 and 1.
        TypeError: If a number of the weights is not floating, or the seed is neither an integer nor a key.
    """

    drawn: jax.Array
    corder: bool
    _structure = ("drawn",)
    _format: Format
    _numbers: ClassVar[tuple[str, ...]]  # the attributes with the numbers of the weights
    _names: ClassVar[tuple[str, ...]]  # the same as arguments
    _turned: ClassVar[type[JITCMatrix]]

    def __init__(
        self,
        *given: Any,
        shape: Sequence[int] | None = None,
        corder: bool = False,
        backend: str | None = None,
        buffers: Mapping[str, Any] | None = None,
        **named: Any,
    ) -> None:
        where = type(self).__name__
        *numbers, prob, seed = _arguments(where, (*self._names, "prob", "seed"), given, named)
        size = checked_shape(where, shape)
        data = numbers_of_weights(where, self._numbers, numbers)
        self._check_numbers(data)
        self._hold(_single(data), (drawn_from(where, prob, seed),), size, backend, buffers, within=False)
        self.corder = bool(corder)

    def _check_numbers(self, data: Sequence[Any]) -> None:
        """Raise if these numbers are not those of a distribution of weights."""

    # ---- as a pytree and with other data

    @property
    def _facts(self) -> Any:
        return self.corder

    def _recall(self, facts: Any) -> None:
        self.corder = facts

    def _like(self, data: Any) -> Self:
        known: dict[str, Any] = {"backend": self.backend, "buffers": self._buffers, "indices_within": False}
        made = self._of(data, (self.drawn,), self.shape, **known)
        made.corder = self.corder
        return made

    def with_data(self, data: PyTree) -> Self:
        """Return a matrix with the same elements, whose weights are drawn from other numbers.

        Args:
            data: The number of the weights, or the pair of them.

        Returns:
            The matrix, of the same class.

        Raises:
            ValueError: If there are too few or too many numbers.
        """
        where = f"{type(self).__name__}.with_data"
        given = data if len(self._numbers) > 1 else (data,)
        if not isinstance(given, (tuple, list)) or len(given) != len(self._numbers):
            raise ValueError(f"{where}: pass {', '.join(self._numbers)}")
        found = numbers_of_weights(where, self._numbers, given)
        self._check_numbers(found)
        return self._like(_single(found))

    # ---- what it is

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.data if isinstance(self.data, tuple) else (self.data,)

    @property
    def tables(self) -> jax.Array:
        """The tables that operators of drawn matrices take after `drawn`; all matrices have the same."""
        return tables()

    @property
    def prob(self) -> jax.Array:
        """The probability of each element, float32."""
        return jax.lax.bitcast_convert_type(self.drawn[7], jnp.float32)

    @property
    def seed(self) -> Any:
        """The seed, an integer from -2^63 to 2^63 - 1; if it is traced, its two words, uint32 (2,).

        Other matrices take either.
        """
        words = self.drawn[8:]
        if not are_known(words):
            return words
        low, high = np.asarray(words).tolist()
        return low + ((high - 2**32 if high >= 2**31 else high) << 32)

    @property
    def nse(self) -> int:
        """Not available: call `matrix.tocsr().nse`, which draws the elements to count them."""
        raise AttributeError

    def __getattr__(self, name: str) -> Any:
        """Return a buffer; Python finds all other attributes first."""
        if name == "nse":
            raise AttributeError(
                f"{type(self).__name__}: nse is unknown before the elements are drawn; call .tocsr().nse"
            )
        return super().__getattr__(name)

    @property
    def dtype(self) -> Any:
        """The dtype of the weights."""
        return units.split(self._parts[0])[0].dtype

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.dtype}{list(self.shape)}, corder={self.corder})"

    @property
    def mv(self) -> Self:
        """The matrix itself: products with vectors and with matrices use the same elements."""
        return self

    mm = mv

    # ---- arithmetic changes the numbers of the weights, and so only elements that exist

    def _mapped(self, sign: str, function: Callable[[Any], Any]) -> Self:
        return self._like(_single(tuple(map(function, self._parts if sign == "-" else (self._one_weight(sign),)))))

    def _times(self, sign: str, function: Callable[[Any, Any], Any], other: Any) -> Self:
        if function not in (operator.mul, operator.truediv):
            self._one_weight(sign)
        value = self._beside(sign, other)
        if isinstance(value, tuple):
            return self._like(function(self._one_weight(sign), value[0]))
        return self._like(_single(tuple(function(part, value) for part in self._parts)))

    def _plus(self, sign: str, function: Callable[[Any, Any], Any], other: Any) -> Self:
        value, parts = self._beside(sign, other), self._parts
        if isinstance(value, tuple):
            return self._like(_single(tuple(map(function, parts, value))))
        moved = parts[:1] if self._format is JITN else parts  # a standard deviation stays as it is
        return self._like(_single((*(function(part, value) for part in moved), *parts[len(moved) :])))

    def __rsub__(self, other: Any) -> Self:
        return (-self)._plus("-", operator.add, other)  # type: ignore[no-any-return]

    def _one_weight(self, sign: str) -> Any:
        if self._format is not JITS:
            raise NotImplementedError(
                f"{type(self).__name__} {sign}: it would make other distributions of weights; use .tocsr()"
            )
        return self._parts[0]

    def _beside(self, sign: str, other: Any) -> Any:
        """Return a number, or the numbers of another matrix of the same elements."""
        if isinstance(other, JITCMatrix):
            self._check_same(sign, other)
            return other._parts
        numbers, unit = units.split(other)
        if np.size(numbers) != 1:
            raise NotImplementedError(
                f"{type(self).__name__} {sign} with object of shape {np.shape(numbers)}: pass a number, or use .tocsr()"
            )
        return units.join(jnp.reshape(numbers, ()), unit) if np.shape(numbers) else other

    def _check_same(self, sign: str, other: JITCMatrix) -> None:
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

    # ---- products and conversions

    @property
    def _lines(self) -> Shape:
        return self.shape if self.corder else (self.shape[1], self.shape[0])

    @property
    def _weights(self) -> Any:
        return weights_of(self._parts, to=self._format is JITU)

    def _multiply(self, x: Any, *, transpose: bool, event: bool) -> Any:
        of = Description(self._format, EVENTS if event else NUMBERS, columns=x.ndim == 2)
        how: dict[str, Any] = {"shape": self._lines, "transpose": transpose ^ (not self.corder)}
        return multiplied(
            of, self._weights, [self.drawn, tables()], x, indices_within=True, backend=self.backend, **how
        )

    def _transposed(self) -> JITCMatrix:
        made = self._turned._of(self.data, (self.drawn,), self.shape[::-1], backend=self.backend, buffers=self._buffers)
        made.indices_within, made.corder = False, not self.corder
        return made

    def todense(self) -> jax.Array:
        of = Description(self._format, WHOLE)
        return whole(of, self._weights, self.drawn, self._lines, by_rows=self.corder, backend=self.backend)

    def tocsr(self) -> DataRepresentation:
        """Store the elements of the matrix and a weight for each, in compressed sparse rows.

        Returns:
            A `CSR`.

        Raises:
            RuntimeError: If it is called under `jax.jit`, where the number of elements is unknown.
        """
        data, structure = stored(self._format, f"{type(self).__name__}.tocsr", self._weights, self.drawn, self._lines)
        lines = format_named("CSR")._of(data, structure, self._lines, backend=self.backend, indices_sorted=True)
        return lines if self.corder else lines.transpose().tocsr()

    def tocoo(self) -> DataRepresentation:
        """Store the elements of the matrix and a weight for each, in coordinates.

        Returns:
            A `COO`.

        Raises:
            RuntimeError: If it is called under `jax.jit`, where the number of elements is unknown.
        """
        return self.tocsr().tocoo()

    def _per_synapse(self, y: Any, w: Any, *, of_columns: bool, where: str = "") -> Any:
        matrix = self.tocsr()
        where = where or f"{type(self).__name__}.dt2t{'_transposed' * of_columns}"
        return times(where, y, matrix.data if w is None else w, matrix, of_columns=of_columns, backend=None)

    # ---- what is not offered

    @classmethod
    def fromdense(cls, *_: Any, **__: Any) -> NoReturn:
        """Raise an error: a random matrix is not made from an array.

        Raises:
            UnsupportedOperationError: Always; call `CSR.fromdense`.
        """
        raise UnsupportedOperationError(f"{cls.__name__}.fromdense: its elements are drawn; use CSR.fromdense")

    def update_on_pre(self, *_: Any, **__: Any) -> NoReturn:
        """Raise an error: a drawn matrix stores no weights.

        Raises:
            UnsupportedOperationError: Always; update `matrix.tocsr()`.
        """
        raise UnsupportedOperationError(f"{type(self).__name__}: it stores no weight for each synapse; update .tocsr()")

    update_on_post = update_on_pre

    def apply(self, fn: Callable[[Any], Any]) -> Self:
        """Return the matrix with `fn(weight)` as weight, where all elements have one weight.

        Args:
            fn: Takes the weight, and returns another one.

        Returns:
            The matrix, of the same class.

        Raises:
            NotImplementedError: If the weights have a distribution.
        """
        return self.with_data(fn(self._one_weight("apply")))


class JITCScalarMatrix(JITCMatrix):
    """A random matrix whose elements all have one weight: the base of `JITCScalarR` and `JITCScalarC`."""

    _format, _numbers, _names = JITS, ("weight",), ("weight",)  # type: ignore[misc]

    @property
    def weight(self) -> Any:
        """The weight of all elements, a scalar or a quantity."""
        return self._parts[0]


class JITCNormalMatrix(JITCMatrix):
    """A random matrix with normally distributed weights: the base of `JITCNormalR` and `JITCNormalC`."""

    _format, _numbers, _names = JITN, ("wloc", "wscale"), ("loc", "scale")  # type: ignore[misc]

    @property
    def wloc(self) -> Any:
        """The mean of the weights, a scalar or a quantity."""
        return self.data[0]

    @property
    def wscale(self) -> Any:
        """The standard deviation of the weights; a negative one mirrors them."""
        return self.data[1]


class JITCUniformMatrix(JITCMatrix):
    """A random matrix with uniformly distributed weights: the base of `JITCUniformR` and `JITCUniformC`."""

    _format, _numbers, _names = JITU, ("wlow", "whigh"), ("low", "high")  # type: ignore[misc]

    def _check_numbers(self, data: Sequence[Any]) -> None:
        """Raise if the lower bound is known to be above the upper one; both are in one unit."""
        low, high = (units.split(number)[0] for number in data)
        if are_known(low, high) and float(low) > float(high):
            raise ValueError(f"{type(self).__name__}: wlow must be <= whigh; found {data[0]} and {data[1]}")

    @property
    def wlow(self) -> Any:
        """The lower bound of the weights, a scalar or a quantity."""
        return self.data[0]

    @property
    def whigh(self) -> Any:
        """The upper bound of the weights, a scalar or a quantity."""
        return self.data[1]


def _arguments(where: str, names: Sequence[str], given: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
    """Return what is given by place, in a tuple or by name, in the order of names; the seed may be missing."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given, in_tuple = tuple(given[0]), True
    else:
        in_tuple = False
    if unknown := [name for name in named if name not in names]:
        raise TypeError(
            f"{where}: there is no argument {unknown[0]!r}{did_you_mean(unknown[0], names)}; "
            f"it takes {', '.join(names)}"
        )
    if twice := [name for name in names[: len(given)] if name in named]:
        raise TypeError(f"{where}: {twice[0]} is given twice")
    found = dict(zip(names, given, strict=False)) | named
    if not in_tuple and len(found) > 1:
        found.setdefault("seed", None)
    if len(given) > len(names) or len(found) != len(names):
        count = max(len(given), len(given) + len(named))
        raise ValueError(f"{where}: {count} values are given; pass ({', '.join(names)})")
    return tuple(found[name] for name in names)


def _single(numbers: tuple[Any, ...]) -> Any:
    return numbers if len(numbers) > 1 else numbers[0]
