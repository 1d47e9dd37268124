# SPDX-License-Identifier: Apache-2.0
"""Keys of `jax.random` in a loop: typed keys are their two words, so that what is done with them is elementwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import bind_equation, key_function
from .values import UnfitError

__all__ = ["KEYS", "OF_KEYS", "has_keys", "is_key", "key_rule", "words_of"]

KEYS = "threefry2x32"  # the kind of keys that loops have
OF_KEYS = ("random_wrap", "random_unwrap")  # whose results are the words of their operands
_MOVES = (
    "broadcast_in_dim", "concatenate", "dynamic_slice", "expand_dims", "reshape", "select_n", "slice", "squeeze",
    "stack", "transpose", "unstack",
)  # fmt: skip


def is_key(aval: Any) -> bool:
    """Say whether a type, or an array, is one of typed keys."""
    return bool(jnp.issubdtype(aval.dtype, jax.dtypes.prng_key))


def has_keys(eqn: Any) -> bool:
    """Say whether an equation has typed keys."""
    return any(is_key(var.aval) for var in (*eqn.invars, *eqn.outvars))


def words_of(aval: Any) -> Any:
    """Return the type of a value in a loop: that of the words of keys, which must be those of threefry."""
    if not is_key(aval):
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype)
    if "fry" not in str(aval.dtype):
        raise UnfitError(f"random keys of {aval.dtype}; loops have those of threefry")
    return jax.ShapeDtypeStruct((*aval.shape, 2), np.uint32)


def key_rule(eqn: Any) -> Callable[..., Any]:
    """Return what an equation of keys does to their words, as a function of arrays."""
    name = eqn.primitive.name
    for var in (*eqn.invars, *eqn.outvars):
        words_of(var.aval)
    if name in _MOVES:
        axes = [-1 if is_key(var.aval) else None for var in eqn.invars]
        return jax.vmap(lambda *each: tuple(bind_equation(eqn, each)), in_axes=axes, out_axes=-1)
    shape = np.broadcast_shapes(*(var.aval.shape for var in eqn.invars))  # one key and many numbers, or many and one
    function = key_function(eqn, len(shape))
    if function is None:
        raise UnfitError(f"{name} of keys")
    shapes = [words_of(jax.ShapeDtypeStruct(shape, var.aval.dtype)).shape for var in eqn.invars]
    return lambda *x: (function(*map(jnp.broadcast_to, x, shapes)),)
