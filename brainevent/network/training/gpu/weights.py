# SPDX-License-Identifier: Apache-2.0
"""Weights in the order in which tensor cores take them: as whole numbers of a quantum forward, in 16 bits backward."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .layer import Layers, Piece
from .shape import Shape

__all__ = [
    "backward_weights",
    "bits_of",
    "forward_weights",
    "in_quanta",
    "largest",
    "largest_of",
    "power_of_two",
    "quantum_of",
]

Array = Any

_BITS = 14  # of the magnitude of a weight in two planes, in quanta
_LOW = 7  # of them in the second plane
_LOWEST = 8  # those of a third plane, in which numbers are -128 to 127
_MOST = 2 ** (31 - _BITS)  # sums of fewer weights have 32 bits: of those in two planes, and of third planes
_SMALLEST = 2.0**-100
_EXPONENT, _ONE_MORE = np.int32(0x7F800000), np.int32(0x00800000)  # of the bits of a float32


def bits_of(planes: int) -> int:
    """Return how many bits the magnitude of a weight in planes of 8 bits has."""
    return _BITS + _LOWEST * (planes - 2)


def largest_of(planes: int) -> int:
    """Return how many quanta a weight in planes of 8 bits is at most, such that the first one has it."""
    return 2**_BITS - 1 if planes == 2 else (2**_BITS - 1 << _LOWEST) + 2 ** (_LOWEST - 1) - 1


def power_of_two(x: Array) -> Array:
    """Return the power of two above a float32 that is not negative: NaN for NaN and infinity, 1 for 0."""
    bits = jax.lax.bitcast_convert_type(jnp.maximum(x, np.float32(_SMALLEST)), np.int32)
    above = jax.lax.bitcast_convert_type((bits & _EXPONENT) + _ONE_MORE, np.float32)
    # That above NaN and infinity is -0.
    return jnp.where(x == 0, np.float32(1), jnp.where(above > 0, above, np.float32(np.nan)))


def largest(arrays: Sequence[Array]) -> Array:
    """Return the largest magnitude in some arrays, NaN if there is one."""
    return functools.reduce(jnp.maximum, [jnp.max(jnp.abs(x)) for x in arrays])


def quantum_of(*weights: Array, planes: int = 2) -> Array:
    """Return the smallest power of two of which planes have all weights: float32, NaN if any weight is not finite."""
    most = largest(weights)
    quantum = power_of_two(most) * 2.0 ** -bits_of(planes)
    return jnp.where(jnp.round(most / quantum) <= largest_of(planes), quantum, 2 * quantum)


def in_quanta(
    layers: Layers, weights: Sequence[Array], given: Sequence[Array | None]
) -> tuple[list[Array], list[Array]]:
    """Return the weights of each link as whole numbers, float32, and of what: one quantum for those into a receptor.

    Weights of links whose quantum is given are whole numbers of it already.
    """
    places = [(link.target, link.into) for link in layers.links]
    of = {place: [x for x, other in zip(weights, places, strict=True) if other == place] for place in places}
    found = {place: quantum_of(*some, planes=layers.planes) for place, some in of.items()}
    quanta = [found[place] if known is None else known for place, known in zip(places, given, strict=True)]
    whole = [
        jnp.round(x / quantum) if known is None else x for x, quantum, known in zip(weights, quanta, given, strict=True)
    ]
    return whole, quanta


def _piece(layers: Layers, shape: Shape, piece: Piece, matrices: Sequence[Array]) -> Array:
    """Return the matrices (sources, targets) of a piece as one, with zeros between neurons without a link.

    Forward, its columns are the neurons of all blocks; backward its rows.
    """
    forward, dtype = shape.way == "forward", matrices[0].dtype
    found = []
    for place in range(len(layers.layers)):
        ends = (piece.of, place) if forward else (place, piece.of)
        size = tuple(shape.wide_of(end) for end in ends)
        which = (
            matrix
            for link, matrix in zip(layers.links, matrices, strict=True)
            if ((link.source, link.target), layers.sum_of(link), link.delay) == (ends, piece.sum, piece.delay)
        )
        matrix = next(which, None)
        if matrix is None:
            found.append(jnp.zeros(size, dtype))
        elif matrix.shape == size:
            found.append(matrix)
        else:
            found.append(jnp.pad(matrix, [(0, most - n) for most, n in zip(size, matrix.shape, strict=True)]))
    return jnp.concatenate(found, int(forward))


def forward_weights(layers: Layers, whole: Sequence[Array], shape: Shape) -> Array:
    """Return weights (source, target) in quanta as planes: int8 [block, warp, step, tile, plane, lane, byte].

    Rows are targets. The bits of a word of spikes, of which lane q takes every fourth, say which byte is which source.
    """
    assert shape.inner(layers) < _MOST  # a cluster has no room for more
    found, numbers = [], [x.astype(jnp.int32) for x in whole]
    for piece in layers.pieces["forward"]:
        sources, targets = (shape.parts, -1, 4, 2, 4), (shape.blocks, shape.own // 32, 2, 2, 8)
        # part, step, byte, high, lane; block, across, tile, row, lane
        ordered = _piece(layers, shape, piece, numbers).reshape(*sources, *targets)
        found.append(ordered.transpose(5, 0, 6, 1, 7, 9, 4, 3, 8, 2))
    all_, lowest = jnp.concatenate(found, 3), []
    if layers.planes > 2:
        half = 2 ** (_LOWEST - 1)
        lowest = [(all_ + half & 2**_LOWEST - 1) - half]
        all_ = all_ - lowest[0] >> _LOWEST
    return jnp.stack([all_ >> _LOW, all_ & (2**_LOW - 1), *lowest], 5).astype(jnp.int8)


def backward_weights(
    layers: Layers, whole: Sequence[Array], quanta: Sequence[Array], scales: Sequence[Array], shape: Shape
) -> Array:
    """Return the weights of the forward step, times scales, as float16 [block, warp, step, tile, lane, element].

    Rows are sources. Precise ones are sums of two planes: bfloat16 [block, warp, step, tile, plane, lane, element].
    """
    exact = [x * q * scale for x, q, scale in zip(whole, quanta, scales, strict=True)]
    found = []
    for piece in layers.pieces["backward"]:
        sources, targets = (shape.blocks, shape.own // 32, 2, 2, 8), (shape.parts, -1, 2, 4, 2)
        # block, across, tile, row, lane; part, step, high, lane, element
        ordered = _piece(layers, shape, piece, exact).reshape(*sources, *targets)
        found.append(ordered.transpose(0, 5, 1, 6, 2, 4, 8, 7, 3, 9))
    all_ = jnp.concatenate(found, 3)
    if not layers.precise:
        return all_.astype(np.float16)
    high = jax.lax.reduce_precision(all_, 8, 7)  # XLA removes a conversion to bfloat16 and back
    return jnp.stack([high, all_ - high], 5).astype(jnp.bfloat16)
