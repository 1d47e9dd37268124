# SPDX-License-Identifier: Apache-2.0
"""`SpikeLists`: which neurons spiked, for the steps up to the longest delay."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..pages import aligned, untouched
from .words import address, lines

__all__ = ["SpikeLists"]


class SpikeLists:
    """The lists of one population: each part has one for each step & mask, with room for all its neurons.

    `lines` has a line for each part, which tells native code where its lists are.
    """

    def __init__(self, bounds: Sequence[int], steps: int):
        slots = 1 << (max(steps, 2) - 1).bit_length()
        # Native code writes one element behind the last spike.
        self.spikes = [untouched((slots, high - low + 1), np.int32) for low, high in pairwise(bounds)]
        self.counts = [aligned((slots,), np.int64) for _ in self.spikes]
        self.lines = lines(len(self.spikes))
        for line, spikes, counts in zip(self.lines, self.spikes, self.counts, strict=True):
            line[:4] = address(spikes), spikes.strides[0], address(counts), slots - 1

    def clear(self) -> None:
        """Forget all spikes."""
        for counts in self.counts:
            counts[:] = 0
