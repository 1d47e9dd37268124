# SPDX-License-Identifier: Apache-2.0
"""Plasticity by a user's own rule: for the synapses of neurons that spiked, natively or in plain JAX, or for all."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ... import _units as units
from ..._documented import documented
from ...errors import ShapeError
from ...typing import ArrayLike, IndexLike, PyTree, Shape
from .. import entries
from ..activity import is_active
from ..csr.format import CSR
from ..elements import taken_at
from ..operands import is_within
from ..structure import checked_shape
from .checked import spikes_of
from .native_rules import applied_natively
from .rule_form import NativeRule, native_rule

__all__ = ["applied_by_columns", "csr_apply_on_post", "csr_apply_on_pre"]

Rule = Callable[[Any, Any, Any, Any], Any]
_MANY = 2**14  # synapses from which on computing only those of spikes is faster
_CHUNK = 2**10  # synapses at once
# A GPU computes 20 synapses in the time in which it finds one.
_MANY_ON_GPU = 2**26
_CHUNK_ON_GPU = 2**20


_documented = documented(
    {
        **entries.EDGES,
        **entries.SPIKES,
        "edge_state": "A tree of arrays, (nse, ...), with an element for each synapse in the order of the rows.",
        "indices": "The postsynaptic neuron of each synapse, int32 or int64, (nse,).",
        "indptr": "Where the synapses of each presynaptic neuron begin, int32 or int64, (n_pre + 1,).",
        "pre_vals": "A tree of arrays, (n_pre, ...), of which the rule gets the element of its presynaptic neuron; or "
        "None.",
        "post_vals": "The same for postsynaptic neurons, (n_post, ...).",
        "params": "A tree that the rule gets as it is.",
    },
    entries.RULES,
    "The tree of `edge_state`, with the same dtypes and units.",
)


@_documented
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

    The rule is computed for the synapses of neurons that spiked: the time depends on these. It becomes a kernel of its
    own; if it cannot, as it draws random numbers, for example, it runs in JAX (on a GPU, for every synapse unless there
    are more than 67 million). In a differentiated function, and for fewer than 16 384 synapses, the rule is computed
    for every synapse, and its result is kept where the presynaptic neuron spiked. All of it is differentiable if the
    rule is.

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


@_documented
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

    The rule is computed for every synapse, since rows do not list the synapses that end on a neuron, and its result is
    kept where the postsynaptic neuron spiked.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
        >>> spikes, double = jnp.array([False, False, True]), lambda weight, pre, post, params: 2 * weight
        >>> brainevent.csr_apply_on_post(double, jnp.ones(3), indices, indptr, spikes, shape=(2, 3))
        Array([1., 2., 2.], dtype=float32)
    """
    given = (rule, edge_state, indices, indptr, post_spike, pre_vals, post_vals, params, shape)
    return _applied("csr_apply_on_post", *given, post=True)


def applied_by_columns(
    turned: tuple[Any, Any, Any],
    rule: Rule,
    state: Any,
    indices: Any,
    indptr: Any,
    spikes: Any,
    *,
    pre_vals: Any = None,
    post_vals: Any = None,
    params: Any = None,
    shape: Shape,
) -> Any:
    """Return what `csr_apply_on_post` returns; with `turned`, only synapses of neurons that spiked are computed."""
    given = (rule, state, indices, indptr, spikes, pre_vals, post_vals, params, shape)
    return _applied("csr_apply_on_post", *given, post=True, turned=turned)


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
    turned: tuple[Any, Any, Any] | None = None,
) -> Any:
    if not callable(rule):
        raise TypeError(f"{where}: rule is {rule!r}; pass a function of (state, pre, post, params)")
    shape = checked_shape(where, shape)
    structure, _ = CSR.checked(where, (indices, indptr), shape, None)
    stored = structure[0].size
    active = is_active(spikes_of(where, "post_spike" if post else "pre_spike", spikes, shape[post]))
    state = _of_size(where, "edge_state", state, stored)
    pre, other = _of_size(where, "pre_vals", pre_vals, shape[0]), _of_size(where, "post_vals", post_vals, shape[1])
    synapses = _Synapses(where, rule, shape, post)
    if (post and turned is None) or stored < _MANY:
        return synapses.all(structure, active, state, pre, other, params)
    one = jax.tree.map(lambda x: x[0], (state, pre, other))
    # Values that a rule closes over have derivatives, too, and so must be arguments of a function with its own.
    synapses.rule, closed = jax.closure_convert(rule, *one, params)
    return synapses.of_events((*structure, *(turned or ())), active, state, pre, other, params, *closed)


@dataclass(eq=False)
class _Synapses:
    """A rule, and the synapses of a matrix of a shape, to which it is applied."""

    where: str
    rule: Callable[..., Any]
    shape: tuple[int, int]
    post: bool

    def all(self, structure: Any, active: Any, state: Any, pre: Any, other: Any, *rest: Any) -> Any:
        """Compute the rule for every synapse, and keep the new state where a neuron spiked."""
        elements = CSR.elements(structure[:2], self.shape)
        rows, columns = elements.numbers(elements.row), elements.numbers(elements.column)
        changes = taken_at(active, columns if self.post else rows) & elements.there
        pre, other = _at(pre, rows), _at(other, columns)
        found = jax.vmap(self.rule, (0, 0, 0, *[None] * len(rest)))(state, pre, other, *rest)

        def changed(old: Any, new: Any) -> Any:
            return jnp.where(jnp.expand_dims(changes, range(1, old.ndim)), new, old)

        return _changed(self.where, state, state, found, changed)

    def of_events(self, *operands: Any) -> Any:
        """Compute the rule for synapses of neurons that spiked; derivatives are computed for all synapses."""
        native = native_rule(self._new_leaves, operands[2:5], *operands[5:])
        apply = jax.custom_jvp(functools.partial(self._on_platform, native))
        apply.defjvp(lambda primals, tangents: jax.jvp(self.all, primals, tangents))
        return apply(*operands)

    def _new_leaves(self, state: Any, *given: Any) -> list[Any]:
        """Return the leaves of the new state of one synapse, as one of one."""
        old, found = (jax.tree.map(lambda x: jnp.asarray(x)[None], tree) for tree in (state, self.rule(state, *given)))
        return [leaf[0] for leaf in jax.tree.leaves(_changed(self.where, old, old, found, lambda _, new: new))]

    def _on_platform(self, native: NativeRule | None, structure: Any, *rest: Any) -> Any:
        few = structure[0].size < _MANY_ON_GPU
        on_gpu = self.all if few else functools.partial(self._of_events, chunk=_CHUNK_ON_GPU)
        here = functools.partial(self._of_events, chunk=_CHUNK)
        if native is None:
            return jax.lax.platform_dependent(structure, *rest, cuda=on_gpu, rocm=on_gpu, default=here)
        indices, indptr, *places = structure[2:] if self.post else structure
        return applied_natively(native, (rest[0], indices, indptr, *places), self.shape[not self.post], *rest[1:])

    def _of_events(self, structure: Any, active: Any, state: Any, pre: Any, other: Any, *rest: Any, chunk: int) -> Any:
        indices, indptr, places = structure[2:] if self.post else (*structure, None)  # of the side that spikes
        spiked = jnp.nonzero(active, size=active.size, fill_value=active.size)[0]
        begins, ends = (jnp.clip(taken_at(x, spiked), 0, indices.size) for x in (indptr[:-1], indptr[1:]))
        counts = jnp.where(spiked < active.size, jnp.maximum(ends - begins, 0), 0)
        upto = counts.cumsum()
        rule = jax.vmap(self.rule, (0, 0, 0, *[None] * len(rest)))

        def step(carry: tuple[Any, Any]) -> tuple[Any, Any]:
            first, state = carry
            number = first + jnp.arange(chunk, dtype=upto.dtype)
            i = jnp.minimum(jnp.searchsorted(upto, number, side="right"), active.size - 1)
            at = begins[i] + number - (upto[i] - counts[i])
            index, place = taken_at(indices, at), at if places is None else taken_at(places, at)
            there = (number < upto[-1]) & is_within(index, self.shape[not self.post])
            old, (row, column) = _at(state, place), (index, spiked[i]) if self.post else (spiked[i], index)
            found = rule(old, _at(pre, row), _at(other, column), *rest)
            to = jnp.where(there, place, indices.size)

            def change(before: Any, new: Any) -> Any:
                return before.at[to].set(new, mode="drop")

            return first + chunk, _changed(self.where, old, state, found, change)

        _, found = jax.lax.while_loop(lambda carry: carry[0] < upto[-1], step, (jnp.zeros((), upto.dtype), state))
        return found


def _at(tree: Any, places: Any) -> Any:
    return jax.tree.map(lambda x: taken_at(x, places), tree)


def _changed(where: str, taken: Any, state: Any, found: Any, change: Callable[..., Any]) -> Any:
    """Return the state with the changes of the rule; structure, dtypes and units stay those of the state."""
    leaves = [jax.tree.flatten(tree, is_leaf=units.is_quantity) for tree in (taken, state, found)]
    (old, _), (before, kind), (new, found_kind) = leaves
    if kind != found_kind:  # type: ignore[operator]
        raise TypeError(f"{where}: the rule returned {found_kind} for a state of {kind}; return the same structure")
    return jax.tree.unflatten(kind, [_of_leaf(where, *leaf, change) for leaf in zip(old, before, new, strict=True)])


def _of_size(where: str, name: str, tree: Any, size: int) -> Any:
    """Return a tree of arrays, each with `size` elements along its first axis."""
    tree = jax.tree.map(jnp.asarray, tree)
    for leaf in jax.tree.leaves(tree):
        if leaf.shape[:1] != (size,):
            raise ShapeError(f"{where}: {name} has an array of shape {leaf.shape}; its first axis must be {size}")
    return tree


def _of_leaf(where: str, taken: Any, before: Any, new: Any, change: Callable[..., Any]) -> Any:
    (old, _), (numbers, unit) = units.split(taken), units.split(before)
    found = jnp.asarray(units.numbers_in(new, unit))
    if found.shape != old.shape:
        raise ShapeError(
            f"{where}: the rule returned {found.shape[1:]} for a state of shape {old.shape[1:]}; return that shape"
        )
    found = found if found.dtype == numbers.dtype else found.astype(numbers.dtype)  # keys have no astype
    return units.join(change(numbers, found), unit)
