# SPDX-License-Identifier: Apache-2.0
"""Plasticity by a user's own rule, in plain JAX: computed for every synapse, and kept where a neuron spikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from ...errors import ShapeError
from ...typing import ArrayLike, IndexLike, PyTree, Shape
from .. import units
from ..activity import is_active
from ..csr.format import CSR
from ..elements import taken_at
from ..structure import checked_shape
from .checked import spikes_of

__all__ = ["csr_apply_on_post", "csr_apply_on_pre"]

Rule = Callable[[Any, Any, Any, Any], Any]


def csr_apply_on_pre(
    rule: Rule,
    edge_state: PyTree,
    indices: IndexLike,
    indptr: IndexLike,
    pre_spike: ArrayLike,
    *,
    pre_vals: PyTree = None,
    post_vals: PyTree = None,
    params: PyTree = None,
    shape: Shape,
) -> PyTree:
    """Apply a user's rule to the synapses of presynaptic neurons that spiked, in compressed sparse rows.

    The rule is computed for every synapse, and its result is kept where the presynaptic neuron spiked. All of it is
    differentiable if the rule is.

    Args:
        rule: `rule(state, pre, post, params)` returns the new state of one synapse, with the structure of the old one.
        edge_state: A tree of arrays, (nse, ...), with an element for each synapse in the order of the rows.
        indices: The postsynaptic neuron of each synapse, int32 or int64, (nse,).
        indptr: Where the synapses of each presynaptic neuron begin, int32 or int64, (n_pre + 1,).
        pre_spike: Booleans or real numbers, of which every nonzero one is a spike, (n_pre,).
        pre_vals: A tree of arrays, (n_pre, ...), of which the rule gets the element of its presynaptic neuron; or None.
        post_vals: The same for postsynaptic neurons, (n_post, ...).
        params: A tree that the rule gets as it is.
        shape: The shape of the matrix, (n_pre, n_post).

    Returns:
        The tree of `edge_state`, with the same dtypes and units.

    Raises:
        TypeError: If the rule returns another structure.
        ShapeError: If the shapes do not fit each other.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> towards = lambda weight, pre, post, rate: weight + rate * (post - weight)
        >>> how = {"post_vals": jnp.array([1.0, 1.0, 5.0]), "params": 0.5, "shape": (2, 3)}
        >>> brainevent.csr_apply_on_pre(towards, jnp.zeros(3), indices, indptr, jnp.array([True, False]), **how)
        Array([0.5, 2.5, 0. ], dtype=float32)
    """
    given = (rule, edge_state, indices, indptr, pre_spike, pre_vals, post_vals, params, shape)
    return _applied("csr_apply_on_pre", *given, post=False)


def csr_apply_on_post(
    rule: Rule,
    edge_state: PyTree,
    indices: IndexLike,
    indptr: IndexLike,
    post_spike: ArrayLike,
    *,
    pre_vals: PyTree = None,
    post_vals: PyTree = None,
    params: PyTree = None,
    shape: Shape,
) -> PyTree:
    """Apply a user's rule to the synapses of postsynaptic neurons that spiked, in compressed sparse rows.

    The rule is computed for every synapse, and its result is kept where the postsynaptic neuron spiked.

    Args:
        rule: `rule(state, pre, post, params)` returns the new state of one synapse, with the structure of the old one.
        edge_state: A tree of arrays, (nse, ...), with an element for each synapse in the order of the rows.
        indices: The postsynaptic neuron of each synapse, int32 or int64, (nse,).
        indptr: Where the synapses of each presynaptic neuron begin, int32 or int64, (n_pre + 1,).
        post_spike: Booleans or real numbers, of which every nonzero one is a spike, (n_post,).
        pre_vals: A tree of arrays, (n_pre, ...), of which the rule gets the element of its presynaptic neuron; or None.
        post_vals: The same for postsynaptic neurons, (n_post, ...).
        params: A tree that the rule gets as it is.
        shape: The shape of the matrix, (n_pre, n_post).

    Returns:
        The tree of `edge_state`, with the same dtypes and units.

    Raises:
        TypeError: If the rule returns another structure.
        ShapeError: If the shapes do not fit each other.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> spikes, double = jnp.array([False, False, True]), lambda weight, pre, post, params: 2 * weight
        >>> brainevent.csr_apply_on_post(double, jnp.ones(3), indices, indptr, spikes, shape=(2, 3))
        Array([1., 2., 2.], dtype=float32)
    """
    given = (rule, edge_state, indices, indptr, post_spike, pre_vals, post_vals, params, shape)
    return _applied("csr_apply_on_post", *given, post=True)


def _applied(
    where: str,
    rule: Rule,
    state: Any,
    indices: Any,
    indptr: Any,
    spikes: Any,
    pre_vals: Any,
    post_vals: Any,
    params: Any,
    shape: Any,
    *,
    post: bool,
) -> Any:
    shape = checked_shape(where, shape)
    structure, _ = CSR.checked(where, (indices, indptr), shape, None)
    elements = CSR.elements(structure, shape)
    rows, columns = elements.numbers(elements.row), elements.numbers(elements.column)
    active = is_active(spikes_of(where, "post_spike" if post else "pre_spike", spikes, shape[post]))
    changes = taken_at(active, columns if post else rows) & elements.there
    state = _of_size(where, "edge_state", state, rows.size)
    pre = jax.tree.map(lambda x: taken_at(x, rows), _of_size(where, "pre_vals", pre_vals, shape[0]))
    other = jax.tree.map(lambda x: taken_at(x, columns), _of_size(where, "post_vals", post_vals, shape[1]))
    found = jax.vmap(rule, (0, 0, 0, None))(state, pre, other, params)
    old, kind = jax.tree.flatten(state, is_leaf=units.is_quantity)
    new, found_kind = jax.tree.flatten(found, is_leaf=units.is_quantity)
    if kind != found_kind:  # type: ignore[operator]
        raise TypeError(f"{where}: the rule returned {found_kind} for a state of {kind}; return a state of the same")
    return jax.tree.unflatten(kind, [_chosen(where, changes, x, y) for x, y in zip(old, new, strict=True)])


def _of_size(where: str, name: str, tree: Any, size: int) -> Any:
    """Return a tree of arrays, each with so many elements."""
    tree = jax.tree.map(jnp.asarray, tree)
    for leaf in jax.tree.leaves(tree):
        if leaf.shape[:1] != (size,):
            raise ShapeError(f"{where}: {name} has an array of shape {leaf.shape}; its first axis must be {size}")
    return tree


def _chosen(where: str, changes: jax.Array, old: Any, new: Any) -> Any:
    """Return new states where there are changes, in the dtype and unit of the old ones."""
    numbers, unit = units.split(old)
    found = jnp.asarray(units.numbers_in(new, unit))
    if found.shape != numbers.shape:
        raise ShapeError(
            f"{where}: the rule returned {found.shape[1:]} for a state of shape {numbers.shape[1:]}; return that shape"
        )
    mask = jnp.expand_dims(changes, range(1, numbers.ndim))
    return units.join(jnp.where(mask, found.astype(numbers.dtype), numbers), unit)
