# SPDX-License-Identifier: Apache-2.0
"""The operator that applies a user's rule to the synapses of neurons that spiked, with kernels made of its form.

Its operands are: whether each neuron spiked; the neuron at the other end of each of their synapses; where the synapses
of each neuron begin; how many neurons there are at the other end, (1,); with `post`, the place of each synapse in the
state; and the leaves of the state and of both neurons, (n,) or (n, elements of one), and further arrays, (elements,).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...operator.custom_kernel import XLACustomKernel
from ..elements import taken_at
from ..operands import is_within
from .rule_form import NativeRule

__all__ = ["applied_natively"]

_applied = XLACustomKernel("apply_rule_to_synapses")


def applied_natively(
    native: NativeRule, structure: Sequence[Any], others: int, state: Any, pre: Any, other: Any, *rest: Any
) -> Any:
    """Return the new state; `structure` is active, indices, row pointers and, of neurons at columns, places."""
    rows = [
        leaf if leaf.ndim == 1 else leaf.reshape(leaf.shape[0], -1) for leaf in jax.tree.leaves((state, pre, other))
    ]
    further = [jnp.ravel(leaf) for leaf in jax.tree.leaves(rest)]
    active, indices, indptr, *places = structure
    leaves, kind = jax.tree.flatten(state)
    found = _applied(
        *(active, indices, indptr, jnp.array([others], jnp.int32), *places, *rows, *further),
        outs=[jax.ShapeDtypeStruct(row.shape, row.dtype) for row in rows[: len(leaves)]],
        native=native,
        post=bool(places),
    )
    return jax.tree.unflatten(kind, [new.reshape(old.shape) for new, old in zip(found, leaves, strict=True)])


@_applied.def_reference
def _reference(*operands: Any, native: NativeRule, post: bool, **_: Any) -> list[Any]:
    """Compute the rule for every synapse, and keep what is new where a neuron spiked."""
    (active, indices, indptr, others), leaves = operands[:4], operands[4 + post :]
    at = jnp.arange(indices.size, dtype=indptr.dtype)
    row = jnp.clip(jnp.searchsorted(indptr, at, side="right") - 1, 0, active.size - 1)
    place = operands[4] if post else at
    changes = taken_at(active, row) & (at >= indptr[0]) & (at < indptr[-1])
    changes &= (indices >= 0) & (indices < others[0]) & is_within(place, indices.size)
    state, pre, other, rest = native.cut(leaves)
    own, second = (indices, row) if post else (row, indices)
    taken = [taken_at(x, places) for group, places in ((state, place), (pre, own), (other, second)) for x in group]
    columns = [column for x in taken for column in (x.T if x.ndim == 2 else [x])]
    scalars = [x[k] for x in rest for k in range(x.size)]
    found = iter(jax.vmap(native.function, (*[0] * len(columns), *[None] * len(scalars)))(*columns, *scalars))
    to = jnp.where(changes, place, indices.size)
    news = [
        (jnp.stack([next(found) for _ in range(old.shape[1])], 1) if old.ndim == 2 else next(found)).astype(old.dtype)
        for old in state
    ]
    return [old.at[to].set(new, mode="drop") for old, new in zip(state, news, strict=True)]


def _of_language(kernel_of: Callable[[], Any]) -> Callable[..., Any]:
    """Return a generator of kernels that change the leaves of the state in place."""

    def generator(*, outs: Any, native: NativeRule, post: bool, **_: Any) -> Any:
        first = 4 + post
        aliases = {first + k: k for k in range(len(outs))}
        return kernel_of()(native, list(outs), aliases, post=post)

    return generator


def _numba() -> Any:
    from .on_cpu_rule import kernel

    return kernel


def _cuda() -> Any:
    from .on_gpu_rule import kernel

    return kernel


_applied.def_kernel("numba", "cpu", _of_language(_numba), language="numba")
_applied.def_kernel("cuda_raw", "gpu", _of_language(_cuda), language="nvrtc")
