# SPDX-License-Identifier: Apache-2.0
"""JAX's dtypes as Warp's, and the import of Warp when it is first needed."""

from __future__ import annotations

import functools
import importlib
import warnings
from typing import Any

import numpy as np

from ...typing import DTypeLike, PyTree, TypesLike

__all__ = ["jaxinfo_to_warpinfo", "jaxtype_to_warptype", "the_warp"]

_DTYPES = (
    "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
)  # fmt: skip


@functools.cache
def the_warp() -> Any:
    """Import Warp, without its messages on the screen."""
    try:
        warp: Any = importlib.import_module("warp")
    except ImportError as error:
        raise ImportError(f"NVIDIA Warp cannot be imported ({error}); run: pip install warp-lang") from error
    with warnings.catch_warnings():  # some releases warn that the next line is deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        warp.config.quiet = True
    if getattr(warp.config, "log_level", None) == getattr(warp, "LOG_INFO", ""):  # the setting of newer releases
        warp.config.log_level = warp.LOG_WARNING
    return warp


def jaxtype_to_warptype(dtype: DTypeLike) -> type:
    """Return the scalar type of Warp that holds a dtype.

    Args:
        dtype: A dtype of JAX or NumPy, or its name.

    Returns:
        A type such as `warp.float32`.

    Raises:
        ValueError: If Warp has no such type.
        ImportError: If Warp is not installed.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.jaxtype_to_warptype(jnp.int16).__name__
        'int16'
    """
    warp = the_warp()
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = repr(dtype)
    if name not in _DTYPES:
        raise ValueError(f"Warp does not support computations with dtype {name}; it knows {', '.join(_DTYPES)}")
    return getattr(warp, name)


def jaxinfo_to_warpinfo(jax_info: TypesLike) -> PyTree:
    """Return the annotation of a Warp kernel's parameter that takes arrays of a type.

    Args:
        jax_info: An array, or a `jax.ShapeDtypeStruct`.

    Returns:
        A `warp.array` with this dtype and number of dimensions.

    Raises:
        ValueError: If it has no dimension, or Warp does not have its dtype.
        ImportError: If Warp is not installed.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> annotation = brainevent.jaxinfo_to_warpinfo(jax.ShapeDtypeStruct((3, 4), jnp.float32))
        >>> annotation.dtype.__name__, annotation.ndim
        ('float32', 2)
    """
    warp = the_warp()
    if jax_info.ndim == 0:
        raise ValueError(
            "Warp has no 0-D arrays; give the array one axis, x.reshape(1), or make the parameter a number"
        )
    return warp.array(dtype=jaxtype_to_warptype(jax_info.dtype), ndim=jax_info.ndim)
