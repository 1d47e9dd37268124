# SPDX-License-Identifier: Apache-2.0
"""`as_numbers`: what `simulate` is given in a dtype of the network, or what is wrong with it; JAX may trace it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..._compat import Tracer
from ...errors import NetworkError

__all__ = ["as_numbers", "check_fit"]

Array = Any
_KINDS = {"b": (np.bool_,), "i": (np.bool_, np.integer), "f": (np.bool_, np.integer, np.floating)}
_SAID = {"b": "booleans", "i": "integers", "f": "real numbers"}


def as_numbers(where: str, value: Any, dtype: Any) -> Array:
    """Return numbers in a dtype of the form; raise if they would be others, as `check_fit` does."""
    check_fit(where, value, dtype)
    return jnp.asarray(value, dtype)


def check_fit(where: str, value: Any, dtype: Any) -> None:
    """Raise if numbers would be others in a dtype of the form, but for rounding, as far as that is known.

    NaN and infinite numbers stay.
    """
    dtype = np.dtype(dtype)
    found = value.dtype if hasattr(value, "dtype") else np.asarray(value).dtype
    kind = dtype.kind.replace("u", "i")
    if not any(jnp.issubdtype(found, one) for one in _KINDS[kind]):
        raise NetworkError(f"simulate: {where} is {found}; pass {_SAID[kind]}, which become {dtype}")
    if found != dtype and not isinstance(value, Tracer):
        numbers = np.asarray(value)
        with np.errstate(over="ignore"):
            new = numbers.astype(dtype)
        beyond = np.isinf(new) & ~np.isinf(numbers) if kind == "f" else new != numbers
        if beyond.any():
            raise NetworkError(f"simulate: {where}: {numbers[beyond][0]} does not fit in {dtype}; pass numbers that do")
