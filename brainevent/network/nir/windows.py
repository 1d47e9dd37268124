# SPDX-License-Identifier: Apache-2.0
"""Convolutions and pools as sparse matrices: which elements a window at each place covers, and with which weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import NetworkError
from .nodes import Node

__all__ = ["conv_matrix", "conv_shape", "pool_matrix", "pool_shape"]

Array = Any
Shape = tuple[int, ...]


@dataclass(frozen=True)
class _Window:
    """Windows over one dimension: how far apart they are, and how many elements before the first they begin."""

    size: int  # of the dimension
    width: int
    stride: int
    before: int
    after: int
    dilation: int

    @property
    def places(self) -> int:
        """How many windows there are."""
        reach = self.dilation * (self.width - 1) + 1
        return (self.size + self.before + self.after - reach) // self.stride + 1

    def covered(self) -> tuple[Array, Array, Array]:
        """Return for each element that a window covers the window, the place within it, and the element."""
        place, within = (part.ravel() for part in np.indices((self.places, self.width)))
        element = place * self.stride - self.before + within * self.dilation
        inside = (element >= 0) & (element < self.size)
        return place[inside], within[inside], element[inside]


def conv_shape(node: Node, shape: Shape) -> Shape:
    """Return the shape (channels, places) of what leaves a convolution."""
    return (np.shape(node.given.weight)[0], *(window.places for window in _conv_windows(node, shape)))


def conv_matrix(node: Node, shape: Shape) -> Any:
    """Return the matrix of a convolution of what has this shape: (targets, sources)."""
    weight = node.numbers("weight")
    (groups,) = node.counts("groups", 1, 1)
    return _matrix(shape, weight, groups, _conv_windows(node, shape))


def pool_shape(node: Node, shape: Shape) -> Shape:
    """Return the shape (channels, height, width) of what leaves a pool."""
    return (shape[0], *(window.places for window in _pool_windows(node, shape)))


def pool_matrix(node: Node, shape: Shape) -> Any:
    """Return the matrix of a pool: each window sums what it covers, or takes the mean, in which padding counts."""
    windows = _pool_windows(node, shape)
    widths = [window.width for window in windows]
    weight = 1.0 if node.kind == "SumPool2d" else 1.0 / math.prod(widths)
    return _matrix(shape, np.full((shape[0], 1, *widths), weight), shape[0], windows)


def _conv_windows(node: Node, shape: Shape) -> list[_Window]:
    """Return the windows over each dimension of a convolution; raise if its channels do not fit."""
    weight, (groups,) = np.shape(node.given.weight), node.counts("groups", 1, 1)
    dimensions = 1 if node.kind == "Conv1d" else 2
    if len(weight) != dimensions + 2 or 0 in weight:
        names = "length" if dimensions == 1 else "height, width"
        raise NetworkError(
            f"{node.where}: weight has shape {weight}; pass (channels out, channels in, {names}), none of them 0"
        )
    _check_dimensions(node, shape, dimensions)
    if shape[0] != weight[1] * groups or weight[0] % groups:
        raise NetworkError(
            f"{node.where}: weight has shape {weight} and groups is {groups}, but {shape[0]} channels arrive; pass "
            "weights (channels out, channels in / groups, ...), where groups divides both"
        )
    stride, dilation = (node.counts(name, dimensions, 1) for name in ("stride", "dilation"))
    sides = _padding(node, stride, dilation, weight[2:])
    return _checked(node, [_Window(*one) for one in zip(shape[1:], weight[2:], stride, *sides, dilation, strict=True)])


def _padding(
    node: Node, stride: Sequence[int], dilation: Sequence[int], widths: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return how many elements that are 0 are before the first one and after the last one, in each dimension."""
    given = node.given.padding
    given = given.decode() if isinstance(given, bytes) else given
    if not isinstance(given, str):
        both = node.counts("padding", len(widths), 0)
        return both, both
    if given == "valid":
        return (0,) * len(widths), (0,) * len(widths)
    if given != "same":
        raise NetworkError(f"{node.where}: padding is {given!r}; pass 'same', 'valid' or integers")
    if any(one != 1 for one in stride):
        raise NetworkError(f"{node.where}: padding is 'same' and stride is {stride}; pass stride 1, or integers to pad")
    total = [step * (width - 1) for step, width in zip(dilation, widths, strict=True)]
    return tuple(one // 2 for one in total), tuple(one - one // 2 for one in total)


def _pool_windows(node: Node, shape: Shape) -> list[_Window]:
    _check_dimensions(node, shape, 2)
    widths, stride = (node.counts(name, 2, 1) for name in ("kernel_size", "stride"))
    padding = node.counts("padding", 2, 0)
    ones = zip(shape[1:], widths, stride, padding, padding, (1, 1), strict=True)
    return _checked(node, [_Window(*one) for one in ones])


def _check_dimensions(node: Node, shape: Shape, dimensions: int) -> None:
    if len(shape) != dimensions + 1:
        names = "channels, length" if dimensions == 1 else "channels, height, width"
        raise NetworkError(f"{node.where}: what arrives has shape {shape}; it must have ({names})")


def _checked(node: Node, windows: list[_Window]) -> list[_Window]:
    for window in windows:
        if window.places < 1:
            raise NetworkError(
                f"{node.where}: a window of {window.width} elements does not fit in {window.size} that arrive; pass a "
                "smaller one, or more padding"
            )
    return windows


def _matrix(shape: Shape, weight: Array, groups: int, windows: Sequence[_Window]) -> Any:
    """Return the matrix of weights (channels out, channels in a group, ...) in all windows."""
    from scipy.sparse import coo_array

    covered = [window.covered() for window in windows]
    place, within, element = (
        _joined([one[part] for one in covered], sizes)
        for part, sizes in enumerate(([w.places for w in windows], [w.width for w in windows], shape[1:]))
    )
    channels, inward = weight.shape[:2]
    channel, inner, _ = np.ogrid[:channels, :inward, :1]
    places, size = math.prod(w.places for w in windows), math.prod(shape[1:])
    rows = channel * places + place
    columns = (channel // (channels // groups) * inward + inner) * size + element
    values = weight.reshape(channels, inward, -1)[:, :, within]
    rows, columns = (np.broadcast_to(one, values.shape).ravel() for one in (rows, columns))
    return coo_array((values.ravel(), (rows, columns)), shape=(channels * places, shape[0] * size)).tocsr()


def _joined(numbers: Sequence[Array], sizes: Sequence[int]) -> Array:
    """Return all combinations of one number of each dimension, as places in an array of these sizes."""
    return np.ravel_multi_index(np.ix_(*numbers), tuple(sizes)).ravel()
