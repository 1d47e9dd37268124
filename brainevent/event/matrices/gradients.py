# SPDX-License-Identifier: Apache-2.0
"""`grad` and `value_and_grad`: those of JAX, which take matrices, with an error for arguments passed by keyword."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...typing import PyTree

__all__ = ["grad", "value_and_grad"]


def grad(
    fun: Callable[..., PyTree], argnums: int | Sequence[int] = 0, has_aux: bool = False, **how: Any
) -> Callable[..., PyTree]:
    """Return the function that computes the gradient of `fun`, as `jax.grad` does, also with respect to matrices.

    `jax.grad` does the same. A matrix is differentiated with respect to its leaves: its data, and floating buffers. Its
    gradient is a matrix of the same structure, whose data are the gradients with respect to each stored weight.

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
    both = jax.value_and_grad(fun, argnums, has_aux, **how)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        last = max((argnums,) if isinstance(argnums, int) else tuple(argnums), default=-1)
        if last >= len(args):
            raise TypeError(
                f"grad: argnums is {argnums!r}, and there are {len(args)} positional arguments; pass at least "
                f"{last + 1} by position"
            )
        return both(*args, **kwargs)

    return call
