# SPDX-License-Identifier: Apache-2.0
"""Check that a given value is a number, or numbers, and a name one that rules can read; one boolean is no number."""

from __future__ import annotations

import inspect
import keyword
import operator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._units import is_about_units, split
from ...errors import NetworkError
from ...scalar.record import Record

__all__ = ["as_count", "check_key", "check_numbers", "is_integer", "is_number", "is_word", "named", "takes_two"]


def as_count(value: Any, most: int) -> int | None:
    """Return a number of Python, NumPy or JAX from 1 to `most` as an int; None of anything else."""
    if isinstance(value, bool):
        return None
    try:
        count = operator.index(value)
    except TypeError:
        return None
    return count if 1 <= count <= most else None


def is_integer(value: Any) -> bool:
    """Say whether a value is one integer."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """Say whether a value is one real number, or an array () of one."""
    try:
        return is_integer(value) or (np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf")
    except TypeError:  # of a quantity with a unit
        return False


def is_word(value: Any) -> bool:
    """Say whether a value is a string that is not empty."""
    return isinstance(value, str) and value != ""


def takes_two(value: Any) -> bool:
    """Say whether a value is a function of two neurons."""
    if not callable(value) or isinstance(value, type):
        return False
    try:
        inspect.signature(value).bind("pre", "post")
    except (TypeError, ValueError):
        return False
    return True


def named(value: Any) -> str:
    """Return a value as it is written; of a function, its name."""
    return getattr(value, "__name__", type(value).__name__) if callable(value) else repr(value)


def check_numbers(where: str, value: Any, instead: str, *, booleans: bool = False) -> None:
    """Raise unless a value is real numbers, with or without a unit: one, an array, or nested lists of them.

    Arrays that JAX traces are arrays too. `instead` says what to pass, and `booleans` whether one boolean will do.
    """
    numbers = split(value)[0]
    if not isinstance(numbers, (np.ndarray, np.generic, jax.Array)):
        try:
            numbers = np.asarray(numbers)
        except ValueError:
            kind = type(numbers).__name__
            raise NetworkError(
                f"{where}: parts of this {kind} have different shapes; pass one array of numbers"
            ) from None
        except TypeError as error:
            if not is_about_units(error):
                raise
            kind = type(numbers).__name__
            raise NetworkError(
                f"{where}: is a {kind} of quantities; pass one quantity, such as [1, 2] * unit instead of [1 * unit, "
                "2 * unit]"
            ) from None
    kinds = (np.floating, np.integer, *((np.bool_,) if booleans or numbers.ndim else ()))
    if not any(jnp.issubdtype(numbers.dtype, kind) for kind in kinds):
        shown = f"{type(value).__name__} of {numbers.dtype}" if numbers.ndim else repr(value)
        raise NetworkError(f"{where} is {shown}; pass {instead}")


def check_key(where: str, key: str) -> None:
    """Raise if a rule cannot read a value by this name, as in `s.v`."""
    if not key.isascii() or not key.isidentifier() or keyword.iskeyword(key):
        raise NetworkError(f"{where} is not a valid name; pass letters, digits and _, beginning with a letter")
    if key.startswith("_") or hasattr(Record, key):
        raise NetworkError(f"{where} is a reserved name; pass another one")
