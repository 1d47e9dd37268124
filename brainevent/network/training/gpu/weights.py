# SPDX-License-Identifier: Apache-2.0
"""Weights in the order in which tensor cores take them: as whole numbers of a quantum forward, in 16 bits backward."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .layer import Layers, Piece
from .shape import Shape

__all__ = ["LARGEST", "backward_weights", "forward_weights", "power_of_two", "quanta_of", "quantum_of"]

Array = Any

_BITS = 14  # of the magnitude of a weight, in quanta
_LOW = 7  # of them in the lower plane
LARGEST = 2**_BITS - 1  # in quanta
_SMALLEST = 2.0**-100


def power_of_two(x: Array) -> Array:
    """Return the power of two above a number: NaN for NaN and infinity, 1 for 0."""
    exponent = jnp.frexp(jnp.maximum(x, _SMALLEST))[1]
    return jnp.where(jnp.isfinite(x), jnp.where(x > 0, jnp.ldexp(jnp.float32(1), exponent), 1), jnp.nan)


def quantum_of(*weights: Array) -> Array:
    """Return the smallest power of two of which all weights are at most 16383: float32, NaN if any is not finite."""
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(x)) for x in weights]))
    quantum = power_of_two(largest) * 2.0**-_BITS
    return jnp.where(jnp.round(largest / quantum) <= LARGEST, quantum, 2 * quantum)


def quanta_of(layers: Layers, weights: Sequence[Array], given: Sequence[Array | None]) -> list[Array]:
    """Return what the weights of each link are whole numbers of: those into the same receptor have one quantum.

    For links that have one, it is what is given.
    """
    places = [(link.target, link.into) for link in layers.links]
    of = {place: [x for x, other in zip(weights, places, strict=True) if other == place] for place in places}
    found = {place: quantum_of(*some) for place, some in of.items()}
    return [found[place] if known is None else known for place, known in zip(places, given, strict=True)]


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
        matrix = next(which, jnp.zeros(size, dtype))
        found.append(jnp.pad(matrix, [(0, most - n) for most, n in zip(size, matrix.shape, strict=True)]))
    return jnp.concatenate(found, int(forward))


def forward_weights(layers: Layers, weights: Sequence[Array], quanta: Sequence[Array], shape: Shape) -> Array:
    """Return weights (source, target) as two planes: int8 [block, warp, step, tile, plane, lane, byte].

    Rows are targets. The bits of a word of spikes, of which lane q takes every fourth, say which byte is which source.
    """
    whole = [jnp.round(x / quantum).astype(jnp.int32) for x, quantum in zip(weights, quanta, strict=True)]
    found = []
    for piece in layers.pieces["forward"]:
        sources, targets = (shape.parts, -1, 4, 2, 4), (shape.blocks, shape.own // 32, 2, 2, 8)
        # part, step, byte, high, lane; block, across, tile, row, lane
        ordered = _piece(layers, shape, piece, whole).reshape(*sources, *targets)
        found.append(ordered.transpose(5, 0, 6, 1, 7, 9, 4, 3, 8, 2))
    all_ = jnp.concatenate(found, 3)
    planes = [all_ >> _LOW, all_ & (2**_LOW - 1)]
    return jnp.stack(planes, 5).astype(jnp.int8)


def backward_weights(
    layers: Layers, weights: Sequence[Array], quanta: Sequence[Array], scales: Sequence[Array], shape: Shape
) -> Array:
    """Return the weights of the forward step, times scales, as float16 [block, warp, step, tile, lane, element].

    Rows are sources. Precise ones are sums of two planes: bfloat16 [block, warp, step, tile, plane, lane, element].
    """
    exact = [jnp.round(x / q) * q * scale for x, q, scale in zip(weights, quanta, scales, strict=True)]
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
