# SPDX-License-Identifier: Apache-2.0
"""How functions and matrices call operators of products and of rows: operands are checked, and units are split off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import _units as units
from .. import config
from ..errors import MathError, ShapeError
from .description import Description
from .form import split_operand, values_count
from .laws.products import VALUED
from .laws.rules import has_kernel_for
from .operands import checked_indices, promises, promoted
from .room import check_array
from .structure import as_array, check_indices, check_once, checked_shape, checked_weights
from .table import apply

__all__ = ["by_values", "checked_structure", "checked_x", "multiplied", "product", "sliced_rows", "weights_of"]


def product(
    of: Description,
    weights: Any,
    structure: Sequence[Any],
    named: tuple[str, Any],
    shape: Any,
    transpose: bool,
    backend: str | None,
    indices_sorted: bool = False,
    weighted: bool = False,
) -> Any:
    """Return the product of operands that users pass; all are checked. Messages use the name of x.

    If `weighted`, or if the form of events says so, events count as their values.
    """
    name, x = named
    of = by_values(of, x, weighted=weighted)
    shape, transpose = checked_shape(of.name, shape), bool(transpose)
    structure, within = checked_structure(of, structure, shape, None)
    (weights, weight_unit), (x, unit) = units.split(weights), split_operand(x, event=of.law.event)
    weights = weights_of(of, weights, structure, shape)
    x = checked_x(of, name, x, shape, transpose=transpose)
    how = {"shape": shape, "transpose": transpose, "backend": backend}
    found = _called(of, weights, structure, x, **how, indices_sorted=indices_sorted, indices_within=within)
    return units.join(found, units.product(weight_unit, unit))


def by_values(of: Description, x: Any, *, weighted: bool) -> Description:
    """Return the description of a product with events, or of that in which events count as their values."""
    return of.also(law=VALUED) if of.law.event and values_count(of.name, x, weighted or None) else of


def multiplied(
    of: Description,
    weights: Any,
    structure: Sequence[Any],
    x: Any,
    *,
    shape: tuple[int, int],
    indices_within: bool,
    **how: Any,
) -> Any:
    """Return the product of a matrix with an x that the matrix has checked; only the weights are checked again."""
    within = indices_within
    if config.is_debugging_indices():
        structure, within = checked_structure(of, structure, shape, within)
    (weights, weight_unit), (x, unit) = units.split(weights), split_operand(x, event=of.law.event)
    weights = weights_of(of, weights, structure, shape)
    found = _called(of, weights, structure, x, shape=shape, indices_within=within, **how)
    return units.join(found, units.product(weight_unit, unit))


def weights_of(of: Description, given: Any, structure: Sequence[Any], shape: tuple[int, int]) -> jax.Array:
    """Return weights as operators take them: one for all stored elements, (1,), or one for each."""
    stored = of.format.stored(structure, shape)
    weights = checked_weights(of.name, as_array(given), stored, of.format.weights)
    return weights if weights.shape == stored else weights.reshape(1)


def checked_x(of: Description, name: str, x: Any, shape: tuple[int, int], *, transpose: bool) -> jax.Array:
    """Return x as an array; raise if a matrix of this shape, or its transpose, cannot be multiplied with it."""
    where, x, rank = of.name, as_array(x), 2 if of.columns else 1
    if x.ndim != rank:
        advice = f"; call {of.also(columns=not of.columns).name}" if x.ndim in (1, 2) else ""
        raise MathError(f"{where}: {name} has shape {x.shape}; its rank must be {rank}{advice}")
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError(f"{where}: {name} is {x.dtype}; pass booleans, integers or real numbers")
    taken = shape[not transpose]
    if x.shape[0] != taken:
        raise ShapeError(
            f"{where}: a matrix of shape {shape} with transpose={transpose} takes {name} of {taken} rows; "
            f"{name} has shape {x.shape}"
        )
    return x


def checked_structure(
    of: Description, structure: Sequence[Any], shape: tuple[int, int], within: bool | None, *, where: str = ""
) -> tuple[list[Any], bool]:
    """Return arrays of indices that fit together, and whether all indices are known to be in range."""
    where, count = where or of.name, len(of.format.arrays)
    arrays, known = of.format.checked(where, structure[:count], shape, within)
    if not of.indexed:
        return arrays, known
    perm, stored = checked_indices(where, "perm", structure[count], 1), arrays[0].shape
    if perm.shape != stored:
        raise ShapeError(f"{where}: perm has shape {perm.shape}; pass one place for each of {stored[0]}")
    known &= check_once(check_indices, where, "perm", perm, within=within, bound=perm.size)
    return [*arrays, perm], known


def _called(
    of: Description,
    weights: Any,
    structure: Sequence[Any],
    x: Any,
    *,
    shape: tuple[int, int],
    transpose: bool,
    backend: str | None,
    **known: bool,
) -> Any:
    weights = promoted(weights, x, event=of.law.event)
    if of.law is VALUED and not has_kernel_for(apply.operator(of), {"backend": backend}):
        backend = None  # the name is that of a kernel of the product with events
    out = jax.ShapeDtypeStruct((shape[transpose], *x.shape[1:]), weights.dtype)
    how: dict[str, Any] = {"transpose": transpose, "backend": backend}
    if of.format.arrays:  # else the weights have the shape, and there are no indices
        how |= {"shape": shape, **promises(**known)}
    (found,) = apply(of, weights, *structure, x, outs=[out], **how)
    return found


def sliced_rows(
    of: Description,
    data: Any,
    structure: Sequence[Any],
    rows: Any,
    shape: Any,
    backend: str | None,
    within: bool | None,
) -> Any:
    """Return the dense rows that an operator copies; `within` says whether indices are known to be in range."""
    shape = checked_shape(of.name, shape)
    data, unit = units.split(data)
    structure, _ = of.format.checked(of.name, structure, shape, within)
    data = weights_of(of, data, structure, shape)
    if single := np.ndim(rows) == 0:
        rows = (rows if hasattr(rows, "dtype") else np.asarray(rows)).reshape(1)
    rows = checked_indices(of.name, "row_indices", rows, 1)
    out = jax.ShapeDtypeStruct((rows.shape[0], shape[1]), data.dtype)
    check_array(of.name, out.shape, out.dtype)
    (found,) = apply(of, data, *structure, rows, outs=[out], shape=shape, backend=backend)
    return units.join(found[0] if single else found, unit)
