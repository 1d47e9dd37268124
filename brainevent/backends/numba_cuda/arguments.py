# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of Numba-CUDA kernels, on the GPU and in the simulator."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from ...errors import KernelArgumentError

__all__ = ["check_arity", "checked_dtype", "title_of", "weak_key"]

_keys: dict[int, Callable[..., Any]] = {}  # by id of a function, which lives as long as its key


def title_of(kernel: Any) -> str:
    """Return a kernel's name, for messages."""
    return str(getattr(getattr(kernel, "py_func", kernel), "__name__", type(kernel).__name__))


def checked_dtype(where: str, dtype: Any) -> np.dtype[Any]:
    """Return JAX's dtype of an array, if Numba-CUDA supports it."""
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(dtype))
    if dtype.name == "bfloat16" or dtype.kind not in "biufc":
        raise _DtypeError(
            f"{where}: Numba-CUDA kernels take no arrays of {dtype}; convert first, for example x.astype(jnp.float32)"
        )
    return dtype


def weak_key(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as the key of a weak dictionary, or a substitute that calls it if it cannot be a key."""
    try:
        hash(function)
        weakref.ref(function)
    except TypeError:
        return _keys.setdefault(id(function), functools.partial(function))
    return function


class _DtypeError(KernelArgumentError, ValueError):
    """An array of a dtype that Numba-CUDA lacks; existing programs expect a ValueError."""


def check_arity(where: str, function: Callable[..., Any], types: Sequence[Any]) -> None:
    """Raise unless a kernel takes this number of arguments."""
    try:
        inspect.signature(function).bind(*types)
    except TypeError:
        declared = ", ".join(inspect.signature(function).parameters)
        raise KernelArgumentError(
            f"{where}: the kernel takes ({declared}), but is called with {len(types)} arguments: "
            f"{', '.join(map(str, types))}. Inputs come first, then outputs: change the kernel or the call"
        ) from None
