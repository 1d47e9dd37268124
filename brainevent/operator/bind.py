# SPDX-License-Identifier: Apache-2.0
"""The parameters of a bind: operands are arrays, keyword arguments are static, and the rest is one frozen value."""

from __future__ import annotations

import dataclasses
import enum
import numbers
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import _jit_key
from .._compat import Tracer
from .batch import Levels

__all__ = ["CARRIED", "RESERVED", "Carried", "check_operands", "check_static", "completed", "split", "with_levels"]

CARRIED = "_carried"  # the parameter with this value, if it is not empty


def check_operands(operator: str, operands: Sequence[Any]) -> None:
    """Raise if an operand is a type, a container of arrays, or numbers with a unit."""
    for i, x in enumerate(operands):
        if isinstance(x, jax.ShapeDtypeStruct):
            raise TypeError(
                f"operator {operator!r}: operand {i} is a ShapeDtypeStruct; outs is a keyword (op(*arrays, outs=...))"
            )
        if isinstance(x, (list, tuple, dict)) or x is None:
            raise TypeError(
                f"operator {operator!r}: operand {i} is a {type(x).__name__}; pass each array as an operand "
                "of its own (op(*arrays, outs=...))"
            )
        if hasattr(type(x), "mantissa"):  # a quantity of brainunit, which is never imported here
            raise TypeError(
                f"operator {operator!r}: operand {i} is a {type(x).__name__} in {x.unit}; operators take numbers "
                "without units: pass x.to_decimal(unit), or x.mantissa for its numbers in its own unit"
            )


def check_static(operator: str, key: str, value: Any) -> None:
    """Raise if the value cannot be part of a cache key."""
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value)):
        raise TypeError(
            f"operator {operator!r}: keyword argument '{key}'= is a traced value, and keyword arguments are static "
            f"and must be hashable. Name it in jax.jit(..., static_argnames={key!r}), close over a Python value, or "
            "pass it as an operand"
        )
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"operator {operator!r}: keyword argument '{key}'= is {_a(value)}, and keyword arguments "
            "must be hashable. Pass a tuple instead of a list, or pass an array as an operand"
        ) from None


def _a(value: Any) -> str:
    return "an array" if isinstance(value, (jax.Array, np.ndarray)) else f"a {type(value).__name__}"


def kinds_of(params: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return a pair for each keyword whose kind must be known: 1, 1.0 and True are equal to a cache."""
    return tuple((key, kind) for key in sorted(params) if (kind := _kind(params[key])) is not None)


def _kind(value: Any) -> Any:
    """Return what distinguishes a value from equal values of another type or sign, or None if not needed."""
    if type(value) is int or (type(value) is float and not value.is_integer()):
        return None
    if isinstance(value, (numbers.Number, enum.Enum)):
        return type(value), repr(value)
    if isinstance(value, frozenset):
        return frozenset((item, kind) for item in value if (kind := _kind(item)) is not None) or None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = tuple(getattr(value, field.name) for field in dataclasses.fields(value))
    if isinstance(value, tuple):
        kinds = tuple(map(_kind, value))
        return (type(value), kinds) if type(value) is not tuple or any(kind is not None for kind in kinds) else None
    return None


class Carried(NamedTuple):
    """The part of a bind that authors do not see. A tuple, because JAX hashes it at each call."""

    levels: Levels = ()  # the levels of vmap
    block: tuple[tuple[str, str], ...] = ()  # the choices of the `with` blocks around the call
    tree: tuple[Any, ...] = ()  # the structure of outs, if it is not a sequence; None cannot be compared
    kinds: tuple[tuple[str, Any], ...] = ()  # distinguishes keyword arguments that are equal

    @property
    def structure(self) -> Any:
        """The structure of `outs`, None for a sequence."""
        return self.tree[0] if self.tree else None

    def __repr__(self) -> str:
        said = (f"{name}={value!r}" for name, value in self._asdict().items() if value != self._field_defaults[name])
        return f"Carried({', '.join(said)})"


_NOTHING = Carried()
RESERVED = frozenset({CARRIED, *(f"_{name}" for name in Carried._fields)})  # reserved keywords


def split(params: dict[str, Any]) -> tuple[dict[str, Any], Carried]:
    """Separate a bind's parameters into those that authors see, and `Carried`."""
    mine = dict(params)
    carried: Carried = mine.pop(CARRIED, _NOTHING)
    return mine, carried


def with_levels(params: dict[str, Any], levels: Levels) -> dict[str, Any]:
    """Return the parameters of the same bind with other levels of `vmap`."""
    return {**params, CARRIED: params.get(CARRIED, _NOTHING)._replace(levels=levels)}


def completed(params: dict[str, Any]) -> dict[str, Any]:
    """Add to a bind's parameters the choices at the place of the call, and the kinds of equal values."""
    block = _jit_key.block_choices()
    if CARRIED not in params:
        kinds = kinds_of(params)
        return {**params, CARRIED: Carried((), block, (), kinds)} if block or kinds else params
    mine, given = split(params)
    return {**mine, CARRIED: Carried(given.levels, given.block or block, given.tree, kinds_of(mine))}
