# SPDX-License-Identifier: Apache-2.0
"""What functions and matrices do with a product: operands are checked, units taken off, and its operator is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from .. import config
from ..errors import MathError, ShapeError
from . import units
from .description import Description
from .form import EventForm, split_operand
from .laws.products import VALUED
from .laws.rules import has_kernel_for
from .operands import checked_indices, promises, promoted
from .structure import as_array, check_indices, check_once, checked_shape, checked_weights
from .table import apply

__all__ = ["by_values", "checked_structure", "checked_x", "multiplied", "product", "weights_of"]


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
    """Return a product of what users pass: all is checked, and the name of x is for messages.

    If `weighted`, or if the events are, these count as their values.
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
    """Return the product with events, or the one in which these count as their values."""
    return of.also(law=VALUED) if of.law.event and (weighted or (isinstance(x, EventForm) and x.graded)) else of


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
    """Return a product of what a matrix holds, and of an x that it has checked: weights alone are looked at again."""
    within = indices_within
    if config.is_debugging_indices():
        structure, within = checked_structure(of, structure, shape, within)
    (weights, weight_unit), (x, unit) = units.split(weights), split_operand(x, event=of.law.event)
    weights = weights_of(of, weights, structure, shape)
    found = _called(of, weights, structure, x, shape=shape, indices_within=within, **how)
    return units.join(found, units.product(weight_unit, unit))


def weights_of(of: Description, given: Any, structure: Sequence[Any], shape: tuple[int, int]) -> jax.Array:
    """Return weights as operators take them: a vector of one for all stored elements, or one for each."""
    stored = of.format.stored(structure, shape)
    weights = checked_weights(of.name, as_array(given), stored, of.format.weights)
    return weights if weights.shape == stored else weights.reshape(1)


def checked_x(of: Description, name: str, x: Any, shape: tuple[int, int], *, transpose: bool) -> jax.Array:
    """Return x as an array, if a matrix of this shape can be multiplied with it, or its transpose."""
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
    """Return arrays of indices, if they go together, and whether all are known to be in range."""
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
        backend = None  # which is one of the product with events
    out = jax.ShapeDtypeStruct((shape[transpose], *x.shape[1:]), weights.dtype)
    how: dict[str, Any] = {"transpose": transpose, "backend": backend}
    if of.format.arrays:  # else there is nothing to know, and the weights have the shape
        how |= {"shape": shape, **promises(**known)}
    (found,) = apply(of, weights, *structure, x, outs=[out], **how)
    return found
