# SPDX-License-Identifier: Apache-2.0
"""A user's rule for one synapse as a form, which native kernels compute for the synapses of neurons that spiked."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import inner_jaxprs
from ...errors import RuleError
from ...scalar.form import DTYPES, Form
from ...scalar.lower import MOST_ELEMENTS, form_of_jaxpr
from ...scalar.narrow import is_narrow

__all__ = ["NativeRule", "native_rule"]

Sizes = tuple[int, ...]  # how many elements a leaf has for each synapse or neuron; 0 for one that is no array


@dataclass(frozen=True)
class NativeRule:
    """A rule as a form, whose inputs are the elements of the leaves of four trees, one after another.

    `state`, `pre` and `other` are the sizes of leaves for a synapse, a presynaptic and a postsynaptic neuron, and
    `rest` those of all further arrays. Outputs are the elements of the new state. `function` is the rule in
    JAX, of the same scalars.
    """

    form: Form
    state: Sizes
    pre: Sizes
    other: Sizes
    rest: Sizes
    function: Callable[..., list[Any]] = field(compare=False)

    def leaves(self, *, post: bool) -> list[tuple[str, str, int]]:
        """Return, of each leaf, its name in the text of a kernel, the place of its elements, and its size.

        Row i, of a neuron that spiked, has a synapse whose state is at place k, with neuron j at the other end.
        """
        own, others = ("j", "i") if post else ("i", "j")
        groups = (("s", self.state, "k"), ("p", self.pre, own), ("q", self.other, others), ("r", self.rest, ""))
        return [(f"{letter}{leaf}", place, size) for letter, sizes, place in groups for leaf, size in enumerate(sizes)]

    def cut(self, leaves: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
        """Return the leaves of state, pre, other and rest."""
        given = iter(leaves)
        state, pre, other, rest = (
            [next(given) for _ in sizes] for sizes in (self.state, self.pre, self.other, self.rest)
        )
        return state, pre, other, rest


def native_rule(rule: Callable[..., Any], trees: tuple[Any, Any, Any], *rest: Any) -> NativeRule | None:
    """Return a rule as a form, or None if it, or an array that it takes, has none.

    `rule(state, pre, other, *rest)` returns the leaves of the new state. The trees hold arrays whose first axis is that
    of synapses or neurons.
    """
    kinds = [[jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in jax.tree.leaves(tree)] for tree in trees]
    kinds.append([jax.ShapeDtypeStruct(jnp.shape(leaf), jnp.result_type(leaf)) for leaf in jax.tree.leaves(rest)])
    whole = [kind for group in kinds for kind in group]
    sizes = [math.prod(kind.shape) for kind in whole]
    if not all(str(kind.dtype) in DTYPES for kind in whole) or not all(0 < size <= MOST_ELEMENTS for size in sizes):
        return None
    structures = [jax.tree.structure(tree) for tree in (*trees, rest)]

    def flat(*scalars: Any) -> list[Any]:
        elements = iter(scalars)

        def array(kind: Any) -> Any:
            taken = [next(elements) for _ in range(math.prod(kind.shape))]
            return jnp.stack(taken).reshape(kind.shape) if kind.shape else taken[0]

        parts = [
            jax.tree.unflatten(structure, [array(kind) for kind in group])
            for structure, group in zip(structures, kinds, strict=True)
        ]
        return [element for leaf in rule(*parts[:3], *parts[3]) for element in jnp.ravel(leaf)]

    scalars = [
        jax.ShapeDtypeStruct((), kind.dtype) for kind, size in zip(whole, sizes, strict=True) for _ in range(size)
    ]
    jaxpr = jax.make_jaxpr(flat)(*scalars)
    if jaxpr.effects or not all(str(dtype) in DTYPES or is_narrow(dtype) for dtype in _dtypes(jaxpr.jaxpr)):
        return None
    try:
        form = form_of_jaxpr("rule", jaxpr)
    except RuleError:
        return None
    state, pre, other, further = (
        tuple(math.prod(kind.shape) if kind.shape else 0 for kind in group) for group in kinds
    )
    return NativeRule(form, state, pre, other, further, flat)


def _dtypes(jaxpr: Any) -> Iterator[Any]:
    """Yield the dtypes of all that a jaxpr computes: with 64 bits, integers of rules would be cut."""
    yield from (getattr(var.aval, "dtype", var.aval) for eqn in jaxpr.eqns for var in eqn.outvars)
    for inner in inner_jaxprs(jaxpr):
        yield from _dtypes(inner)
