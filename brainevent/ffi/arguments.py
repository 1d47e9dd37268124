# SPDX-License-Identifier: Apache-2.0
"""Checks of the arguments of wrappers of kernel languages: operands, outs, aliases, vmap_method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .._compat import ShapedArray
from ..errors import did_you_mean
from .call import VMAP_METHODS, declared_aval

__all__ = ["canonical_outs", "check_operands", "check_vmap_method", "checked_aliases", "flat_outs"]


def check_vmap_method(where: str, method: str | None) -> None:
    """Raise unless `jax.ffi.ffi_call` knows the method."""
    if method not in VMAP_METHODS:
        raise ValueError(
            f"{where}: unknown vmap_method {method!r}{did_you_mean(method, filter(None, VMAP_METHODS))}; "
            f"known: {', '.join(map(str, VMAP_METHODS))}"
        )


def flat_outs(where: str, outs: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    """Return the types that a pytree of outs describes, unchanged, and its structure."""
    leaves: list[Any]
    leaves, tree = jax.tree.flatten(outs)
    return tuple(declared_aval(f"{where}: outs leaf {i}", leaf) for i, leaf in enumerate(leaves)), tree


def canonical_outs(declared: Sequence[ShapedArray]) -> tuple[ShapedArray, ...]:
    """Return types of outputs as JAX has them now: call it for each call, because x64 may be enabled late."""
    return tuple(ShapedArray(out.shape, jax.dtypes.canonicalize_dtype(out.dtype)) for out in declared)


def check_operands(where: str, operands: Sequence[Any]) -> None:
    """Raise unless every operand is an array."""
    for i, x in enumerate(operands):
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise AttributeError(
                f"{where}: operand {i} is a {type(x).__name__}, which has no shape and dtype; "
                "pass an array (jnp.asarray(x))"
            )
        if jnp.issubdtype(x.dtype, jax.dtypes.extended):
            raise TypeError(
                f"{where}: operand {i} is of the extended dtype {x.dtype}; pass its data, as jax.random.key_data(key)"
            )


def checked_aliases(
    where: str, aliases: Any, operands: Sequence[Any], outs: Sequence[ShapedArray]
) -> tuple[tuple[int, int], ...]:
    """Return pairs (input, output) that may share memory."""
    if not isinstance(aliases, Mapping) or not all(isinstance(n, int) for pair in aliases.items() for n in pair):
        raise TypeError(f"{where}: input_output_aliases is {aliases!r}; pass a dict of positions, {{input: output}}")
    for i, o in aliases.items():
        place = f"{where}: input_output_aliases {{{i}: {o}}}"
        if not (0 <= i < len(operands) and 0 <= o < len(outs)):
            raise ValueError(f"{place}: there are {len(operands)} inputs and {len(outs)} outputs, counted from 0")
        x, out = operands[i], outs[o]
        if tuple(x.shape) != tuple(out.shape) or jax.dtypes.canonicalize_dtype(x.dtype) != out.dtype:
            raise ValueError(
                f"{place}: the input is {x.dtype}{list(x.shape)} and the output {out.dtype}{list(out.shape)}; "
                "both must have the same shape and dtype"
            )
    if len(set(aliases.values())) < len(aliases):
        raise ValueError(f"{where}: input_output_aliases gives two inputs to one output; leave one out")
    return tuple(sorted((int(i), int(o)) for i, o in aliases.items()))
