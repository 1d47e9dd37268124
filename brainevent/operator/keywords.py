# SPDX-License-Identifier: Apache-2.0
"""Operands are arrays; keywords are static: hashable, not traced, and distinguished if they are equal."""

from __future__ import annotations

import dataclasses
import enum
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from .._compat import Tracer

__all__ = ["check_operands", "check_static", "kinds_of"]


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
