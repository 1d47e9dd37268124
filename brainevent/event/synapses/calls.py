# SPDX-License-Identifier: Apache-2.0
"""Values of synapses times values of neurons, computed and checked for every format."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ... import _units as units
from ...errors import MathError, ShapeError
from ..description import Description
from ..operands import promises
from ..structure import checked_shape
from ..table import apply

__all__ = ["values"]


def values(
    of: Description,
    names: tuple[str, str],
    y: Any,
    w: Any,
    structure: Sequence[Any],
    shape: Any,
    of_columns: bool,
    backend: str | None = None,
    *,
    within: bool | None = None,
    named: str = "w",
    unit_of_y: bool = False,
) -> Any:
    """Return values times those of rows or columns, in the unit of w, or of the product.

    For messages, `names` are that of the function that was called and that of the one for batches, or for vectors.
    `within` says whether all indices are known to be in range; None to look.
    """
    where = names[0]
    (w, unit), (y, other_unit) = units.split(w), units.split(y)
    shape = checked_shape(where, shape)
    structure, within = of.format.checked(where, structure, shape, within)
    y, w = _promoted(where, y, w, named)
    _check_neurons(names, y, shape[of_columns], batched=of.columns)
    stored = of.format.stored(structure, shape)
    w = _for_each(where, w, stored, batched=of.columns, name=named)
    batch: tuple[int, ...] = ()
    if of.columns:
        batch = _batch(names, y, w, len(stored), named)
        y, w = jnp.atleast_2d(y), w if w.ndim > len(stored) else w[None]
    out = jax.ShapeDtypeStruct((*batch, *stored), w.dtype)
    how = {"transpose": bool(of_columns), "backend": backend, **promises(indices_within=within)}
    (found,) = apply(of, y, w, *structure, outs=[out], shape=shape, **how)
    return units.join(found, units.product(unit, other_unit if unit_of_y else None))


# ---- checks


def _promoted(where: str, y: Any, w: Any, name: str) -> tuple[jax.Array, jax.Array]:
    """Return both as arrays of the dtype to which JAX promotes them; w is floating."""
    y, w = jnp.asarray(y), jnp.asarray(w)
    if not jnp.issubdtype(w.dtype, jnp.floating):
        raise TypeError(f'{where}: {name} is {w.dtype}; pass floating values ({name}.astype("float32"))')
    if jnp.issubdtype(y.dtype, jnp.complexfloating):
        raise TypeError(f"{where}: y is {y.dtype}; pass booleans, integers or real numbers")
    dtype = jnp.result_type(y, w)
    return y.astype(dtype), w.astype(dtype)


def _check_neurons(names: tuple[str, str], y: jax.Array, size: int, *, batched: bool) -> None:
    where, other = names
    if y.ndim not in ((1, 2) if batched else (1,)):
        advice = f"; call {other}" if y.ndim == 2 else ""
        raise MathError(f"{where}: y has shape {y.shape}; its rank must be {'1 or 2' if batched else 1}{advice}")
    if y.shape[-1] != size:
        raise ShapeError(f"{where}: y has shape {y.shape}; pass one value for each of {size}")


def _for_each(where: str, w: jax.Array, stored: tuple[int, ...], *, batched: bool, name: str) -> jax.Array:
    """Return a value for each stored element, and for each entry of a batch if there is an axis for it."""
    if w.size == 1:
        return jnp.broadcast_to(w.reshape(()), stored)
    if w.shape == stored or (batched and w.shape[1:] == stored):
        return w
    axis = ", with a leading axis for a batch or without" if batched else ""
    raise ShapeError(
        f"{where}: {name} has shape {w.shape}; pass one number, or one for each stored element, {stored}{axis}"
    )


def _batch(names: tuple[str, str], y: jax.Array, w: jax.Array, stored: int, name: str) -> tuple[int, ...]:
    """Return the size of the batch; `stored` axes of w are those of the stored elements."""
    where, other = names
    given = {*y.shape[:-1], *w.shape[: w.ndim - stored]}
    sizes = given - {1} or given
    if len(sizes) == 1:
        return tuple(sizes)
    if not sizes:
        raise MathError(f"{where}: neither y nor {name} has an axis for a batch; call {other}")
    raise ShapeError(f"{where}: y has shape {y.shape} and {name} {w.shape}; pass batches of the same size")
