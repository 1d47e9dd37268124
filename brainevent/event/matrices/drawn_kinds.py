# SPDX-License-Identifier: Apache-2.0
"""The classes of drawn matrices that users make, by distribution of weights, and by what `corder` means for them."""

from __future__ import annotations

from ..._documented import documented
from .. import entries
from ..saved import register_pair
from .drawn import JITCMatrix, JITCNormalMatrix, JITCScalarMatrix, JITCUniformMatrix

__all__ = ["JITCNormalC", "JITCNormalR", "JITCScalarC", "JITCScalarR", "JITCUniformC", "JITCUniformR"]


_documented = documented(
    {**entries.STORED, "corder": "Whether the matrix is drawn row by row, and not column by column."},
    {
        "ValueError": "If there are too few or too many numbers, or the probability is not between 0 and 1.",
        "TypeError": "If a number of the weights is not floating, or the seed is neither an integer nor a key.",
    },
)


@register_pair
@_documented
class JITCScalarR(JITCScalarMatrix):
    """A random matrix of one weight, drawn when needed: `JITCScalarR((weight, prob, seed), shape=(m, k))`.

    Each element exists with probability `prob`. Without `corder`, columns are drawn, and `matrix @ events` draws only
    those of events; with it, rows are, and `events @ matrix` is fast.

    Args:
        *given: The weight, the probability, and the seed: an integer, a key of `jax.random.key`, or None for a new one.

    Raises:
        TypeError: If the weight is not floating, or the seed is neither an integer nor a key.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.JITCScalarR((1.5, 1.0, 42), shape=(2, 3))
        >>> matrix @ brainevent.BinaryArray(jnp.ones(3))
        Array([4.5, 4.5], dtype=float32)
        >>> matrix.apply(lambda weight: 2 * weight).weight, matrix.with_data(0.5).todense()
        (Array(3., dtype=float32), Array([[0.5, 0.5, 0.5],
               [0.5, 0.5, 0.5]], dtype=float32))
        >>> matrix.tocsr(), matrix.tocoo()
        (CSR(float32[2, 3], nse=6), COO(float32[2, 3], nse=6))
        >>> brainevent.JITCScalarR.fromdense(jnp.eye(2))
        Traceback (most recent call last):
            ...
        brainevent.errors.UnsupportedOperationError: JITCScalarR.fromdense: its elements are drawn; use CSR.fromdense
        >>> matrix.update_on_post(jnp.ones(2), jnp.ones(3))  # nor update_on_pre
        Traceback (most recent call last):
            ...
        brainevent.errors.UnsupportedOperationError: JITCScalarR: it stores no weight for each synapse; update .tocsr()
    """


@register_pair
class JITCScalarC(JITCScalarMatrix):
    """The same matrix as `JITCScalarR` of the same arguments; the transpose of either is the other.

    Examples:
        >>> import brainevent
        >>> brainevent.JITCScalarC((1.5, 1.0, 42), shape=(2, 3)).T
        JITCScalarR(float32[3, 2], corder=True)
    """


@register_pair
@_documented
class JITCNormalR(JITCNormalMatrix):
    """A random matrix with normally distributed weights: `JITCNormalR((loc, scale, prob, seed), shape=(m, k))`.

    Each element exists with probability `prob`. Without `corder`, columns are drawn, and `matrix @ events` draws only
    those of events; with it, rows are, and `events @ matrix` is fast.

    Args:
        *given: The mean and the standard deviation of the weights, the probability, and the seed: an integer, a key of
            `jax.random.key`, or None for a new one.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.JITCNormalR((1.5, 0.1, 1.0, 42), shape=(2, 3))
        >>> (matrix @ jnp.ones(3)).shape
        (2,)
    """


@register_pair
class JITCNormalC(JITCNormalMatrix):
    """The same matrix as `JITCNormalR` of the same arguments; the transpose of either is the other.

    Examples:
        >>> import brainevent
        >>> brainevent.JITCNormalC((1.5, 0.1, 1.0, 42), shape=(2, 3)).T
        JITCNormalR(float32[3, 2], corder=True)
    """


@register_pair
@_documented
class JITCUniformR(JITCUniformMatrix):
    """A random matrix with uniformly distributed weights: `JITCUniformR((low, high, prob, seed), shape=(m, k))`.

    Each element exists with probability `prob`. Without `corder`, columns are drawn, and `matrix @ events` draws only
    those of events; with it, rows are, and `events @ matrix` is fast.

    Args:
        *given: The bounds of the weights, the probability, and the seed: an integer, a key of `jax.random.key`, or None
            for a new one.

    Raises:
        ValueError: If there are too few or too many numbers, the probability is not between 0 and 1, or the lower bound
            is above the upper one.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.JITCUniformR((0.5, 1.5, 1.0, 42), shape=(2, 3))
        >>> (matrix @ jnp.ones(3)).shape
        (2,)
    """


@register_pair
class JITCUniformC(JITCUniformMatrix):
    """The same matrix as `JITCUniformR` of the same arguments; the transpose of either is the other.

    Examples:
        >>> import brainevent
        >>> brainevent.JITCUniformC((0.5, 1.5, 1.0, 42), shape=(2, 3)).T
        JITCUniformR(float32[3, 2], corder=True)
    """


_PAIRS: tuple[tuple[type[JITCMatrix], type[JITCMatrix]], ...] = (
    (JITCScalarR, JITCScalarC),
    (JITCNormalR, JITCNormalC),
    (JITCUniformR, JITCUniformC),
)
for _rows, _columns in _PAIRS:
    _rows._turned, _columns._turned = _columns, _rows
