# SPDX-License-Identifier: Apache-2.0
"""`as_numbers`: what `simulate` is given in a dtype of the network, or what is wrong with it; JAX may trace it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer, behind
from ...errors import NetworkError
from ..description.exact import refuse_rounded

__all__ = ["as_numbers", "check_fit", "check_whole"]

Array = Any
_KINDS = {"b": (np.bool_,), "i": (np.bool_, np.integer), "f": (np.bool_, np.integer, np.floating)}
_SAID = {"b": "booleans", "i": "integers", "f": "real numbers"}


def as_numbers(where: str, value: Any, dtype: Any, exact: Any = None) -> Array:
    """Return numbers in a dtype of the form; raise if they would be others, as `check_fit` does.

    `exact` is the dtype of floats that integers become where a rule reads them.
    """
    check_fit(where, value, dtype)
    if exact is not None:
        check_whole(where, value, exact)
    return jnp.asarray(value, dtype)


def check_fit(where: str, value: Any, dtype: Any) -> None:
    """Raise if numbers would be others in a dtype of the form, but for floats that are rounded.

    NaN and infinite numbers stay. In a program of JAX no value is known: integers of a wider dtype are refused, since
    they might wrap around, and floats that are too large become infinite; `exact_integers` says of integers whether
    floats have them.
    """
    dtype = np.dtype(dtype)
    found = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    kind = dtype.kind.replace("u", "i")
    if not any(jnp.issubdtype(found, one) for one in _KINDS[kind]):
        raise NetworkError(f"simulate: {where} is {found}; pass {_SAID[kind]}, which become {dtype}")
    if found != dtype:
        known = behind(value)
        _check_unknown(where, found, dtype) if isinstance(known, Tracer) else _check(where, np.asarray(known), dtype)


def check_whole(where: str, value: Any, dtype: Any) -> None:
    """Raise if numbers are integers that a dtype of floats rounds, as far as that is known."""
    known = behind(value)
    if not isinstance(known, Tracer):
        refuse_rounded(f"simulate: {where}", np.asarray(known), dtype)


def _check(where: str, numbers: Array, dtype: np.dtype[Any]) -> None:
    with np.errstate(over="ignore"):
        new = numbers.astype(dtype)
    beyond = np.isinf(new) & ~np.isinf(numbers) if dtype.kind == "f" else new != numbers
    if beyond.any():
        raise NetworkError(f"simulate: {where}: {numbers[beyond][0]} does not fit in {dtype}; pass numbers that do")
    refuse_rounded(f"simulate: {where}", numbers, dtype)


def _check_unknown(where: str, found: Any, dtype: np.dtype[Any]) -> None:
    """Raise for integers that might wrap around; those of int32 may be for uint32: keys and steps are bits."""
    if dtype.kind not in "iu" or np.can_cast(found, dtype) or (found == np.int32 and dtype == np.uint32):
        return
    raise NetworkError(
        f"simulate: {where} is {found} in a program of JAX, where its values are unknown and may not fit in {dtype}; "
        f"pass it as {dtype}, with .astype({str(dtype)!r})"
    )
