# SPDX-License-Identifier: Apache-2.0
"""The blocks and threads of the kernel of a loop, and how many steps one launch runs."""

from __future__ import annotations

from dataclasses import dataclass

from .device import Device
from .text import LoopText

__all__ = ["Shape", "shape_of", "steps_of_launch"]

_WARP = 32
_MOST = 1024  # threads of a block
_THREADS = 768  # of a block, if there are many
_CLUSTER = 8  # blocks: the most that every GPU with clusters has
_LAUNCH = 500_000  # microseconds, about
_STEPS = 2**20  # of a launch, at most


@dataclass(frozen=True)
class Shape:
    """Blocks of some threads each, and whether they are one cluster, which meets faster."""

    blocks: int
    threads: int
    is_cluster: bool = False


def shape_of(widest: int, device: Device, of_block: int = 0) -> Shape:
    """Return the shape for a step in which so many threads have something to do; a block has some at least."""
    if widest <= _MOST:
        return Shape(1, max(of_block, _whole(widest)))
    if widest <= _CLUSTER * _MOST and device.has_clusters:
        return Shape(_CLUSTER, max(of_block, _whole(-(-widest // _CLUSTER))), is_cluster=True)
    return Shape(min(device.blocks, -(-widest // _THREADS)), max(of_block, _THREADS))


def _whole(threads: int) -> int:
    """Return a number of threads as that of whole warps."""
    return max(1, -(-threads // _WARP)) * _WARP


def steps_of_launch(written: LoopText, shape: Shape) -> int:
    """Return how many steps one launch runs: half a second or less.

    A step takes 2 microseconds, 2 at each barrier, and at most 20 ns for each element of a thread, also of matrices all
    of whose rows are active.
    """
    each = written.elements / (shape.blocks * shape.threads)
    return max(1, min(_STEPS, int(_LAUNCH / (2 + 2 * written.meetings + 0.02 * each))))
