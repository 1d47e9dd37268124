# SPDX-License-Identifier: Apache-2.0
"""`grad` and `value_and_grad` that take matrices: the gradient is a matrix of the same structure."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...typing import PyTree
from .base import DataRepresentation

__all__ = ["grad", "value_and_grad"]


def grad(
    fun: Callable[..., PyTree], argnums: int | Sequence[int] = 0, has_aux: bool = False, **how: Any
) -> Callable[..., PyTree]:
    """Return the function that computes the gradient of `fun`, as `jax.grad` does, also with respect to matrices.

    A matrix is differentiated with respect to its floating leaves: its data, and buffers. Its gradient is a matrix of
    the same structure, whose data are the gradients with respect to each stored weight.

    Args:
        fun: A function that returns a real scalar.
        argnums: The number of the positional argument, or numbers of several, to differentiate with respect to.
        has_aux: Whether `fun` returns a pair, whose second value is not differentiated.
        **how: Further keywords of `jax.value_and_grad`.

    Returns:
        A function with the arguments of `fun`, which returns the gradient, or a tuple of them; with `has_aux`, a pair
        of that and the second value.

    Raises:
        TypeError: When it is called: if an argument of `argnums` is not passed by position.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0], [2.0, 3.0]]))
        >>> brainevent.grad(lambda m: (m @ jnp.array([1.0, 10.0])).sum())(matrix).todense()
        Array([[ 1.,  0.],
               [ 1., 10.]], dtype=float32)
    """
    both = value_and_grad(fun, argnums, has_aux, **how)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        value, found = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return call


def value_and_grad(
    fun: Callable[..., PyTree], argnums: int | Sequence[int] = 0, has_aux: bool = False, **how: Any
) -> Callable[..., PyTree]:
    """Return the function that computes the value of `fun` and its gradient, as `jax.value_and_grad` does.

    Matrices are differentiated as by `grad`.

    Args:
        fun: A function that returns a real scalar.
        argnums: The number of the positional argument, or numbers of several, to differentiate with respect to.
        has_aux: Whether `fun` returns a pair, whose second value is not differentiated.
        **how: Further keywords of `jax.value_and_grad`.

    Returns:
        A function with the arguments of `fun`, which returns its value and the gradient, or a tuple of gradients.

    Raises:
        TypeError: When it is called: if an argument of `argnums` is not passed by position.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSR.fromdense(jnp.array([[1.0, 0.0], [2.0, 3.0]]))
        >>> value, gradient = brainevent.value_and_grad(lambda m: (m @ jnp.array([1.0, 10.0])).sum())(matrix)
        >>> value, gradient
        (Array(33., dtype=float32), CSR(float32[2, 2], nse=3))
    """

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        places = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if places and max(places) >= len(args):
            raise TypeError(
                f"grad: argnums is {argnums!r}, and there are {len(args)} positional arguments; pass at least "
                f"{max(places) + 1} by position"
            )
        parts = [_Parts(args[place]) for place in places]

        def of_leaves(leaves: list[list[Any]]) -> Any:
            given = list(args)
            for place, part, own in zip(places, parts, leaves, strict=True):
                given[place] = part.joined(own)
            return fun(*given, **kwargs)

        value, found = jax.value_and_grad(of_leaves, has_aux=has_aux, **how)([part.leaves for part in parts])
        gradients = tuple(part.joined(own) for part, own in zip(parts, found, strict=True))
        return value, gradients[0] if isinstance(argnums, int) else gradients

    return call


class _Parts:
    """An argument, split into leaves with respect to which it is differentiated, and the other leaves of matrices."""

    def __init__(self, argument: Any):
        matrices, self._tree = jax.tree.flatten(argument, is_leaf=lambda x: isinstance(x, DataRepresentation))
        self._trees, self._kept = [], []
        self.leaves: list[Any] = []
        for each in matrices:
            leaves, tree = jax.tree.flatten(each)
            whole = not isinstance(each, DataRepresentation)  # JAX raises for integers outside of matrices
            counts = [whole or jnp.issubdtype(jnp.result_type(leaf), jnp.inexact) for leaf in leaves]
            self._trees.append(tree)
            self._kept.append([_WANTED if by else leaf for leaf, by in zip(leaves, counts, strict=True)])
            self.leaves += [leaf for leaf, by in zip(leaves, counts, strict=True) if by]

    def joined(self, leaves: Sequence[Any]) -> Any:
        """Return the argument with other leaves."""
        rest = iter(leaves)
        matrices = [
            jax.tree.unflatten(tree, [next(rest) if leaf is _WANTED else leaf for leaf in kept])
            for tree, kept in zip(self._trees, self._kept, strict=True)
        ]
        return jax.tree.unflatten(self._tree, matrices)


_WANTED = object()
