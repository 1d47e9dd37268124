# SPDX-License-Identifier: Apache-2.0
"""What a form of events is: `value` is the array of events, and functions use it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import jax
import jax.numpy as jnp
import numpy as np

from .. import _units as units
from ..typing import EventLike
from .activity import is_active

__all__ = ["EventForm", "numbers_of", "split_operand", "values_count"]


def numbers_of(x: Any) -> jax.Array:
    """Return the numbers of events or of a quantity, or x, as an array."""
    return jnp.asarray(units.split(x.value if isinstance(x, EventForm) else x)[0])


def split_operand(x: Any, *, event: bool) -> tuple[Any, Any]:
    """Return the numbers of an operand and their unit; booleans for events that count as one, if not `event`."""
    if not isinstance(x, EventForm):
        return units.split(x)
    numbers, unit = units.split(x.value)
    return numbers if event or x.graded else is_active(numbers), unit


class EventForm(ABC):
    """Events in some form, with the attributes of an array: the base class of all forms.

    Attributes:
        graded: Whether the values of events count, and not only whether they are zero.
    """

    graded: ClassVar[bool] = False

    @property
    @abstractmethod
    def value(self) -> Any:
        """The events as an array, or as a quantity."""

    @abstractmethod
    def with_value(self, value: EventLike) -> Self:
        """Return other events in this form.

        Args:
            value: Events in any form, or booleans or real numbers, as the class takes them.

        Returns:
            The events.
        """

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `value`."""
        return tuple(self.value.shape)

    @property
    def dtype(self) -> Any:
        """The dtype of `value`."""
        return self.value.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements, events or not."""
        return math.prod(self.shape)

    def tree_flatten(self) -> tuple[tuple[Any, ...], Any]:
        """Take apart for JAX.

        Returns:
            The leaves, and what is static.
        """
        keyed, static = self.tree_flatten_with_keys()
        return tuple(child for _, child in keyed), static

    @abstractmethod
    def tree_flatten_with_keys(self) -> tuple[tuple[tuple[Any, Any], ...], Any]:
        """Take apart for JAX, with the names of the leaves."""

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError(f"{type(self).__name__}: events without a dimension have no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def __getitem__(self, index: Any) -> Any:
        return self.value[index]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(units.split(self.value)[0], dtype, copy=copy)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


def values_count(where: str, events: Any, weighted: bool | None) -> bool:
    """Return whether the values of events count, as in a `WeightedArray`; raise if `weighted` contradicts the form."""
    own = events.graded if isinstance(events, EventForm) else None
    if weighted is not None and own is not None and bool(weighted) != own:
        kind = type(events).__name__
        says, instead = (
            (f"the values of a {kind} always count", "count each event as 1, pass brainevent.BinaryArray(x)")
            if own
            else (f"each event of a {kind} counts as 1", "count values, pass brainevent.WeightedArray(x)")
        )
        raise ValueError(f"{where}: weighted is {weighted}, but {says}; to {instead}; otherwise leave weighted out")
    return bool(own if weighted is None else weighted)
