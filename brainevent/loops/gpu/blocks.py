# SPDX-License-Identifier: Apache-2.0
"""The blocks that a kernel within a loop was written for: warps of the loop run its warps, or blocks its blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["WARP", "Blocks"]

WARP = 32


@dataclass(frozen=True)
class Blocks:
    """Blocks of a kernel; their threads may meet, and share some bytes."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    meets: bool = False
    shared: int = 0

    @property
    def warps_of_block(self) -> int:
        """The number of warps of a block."""
        return -(-math.prod(self.block) // WARP)

    @property
    def warps(self) -> int:
        """The number of warps that run it."""
        return math.prod(self.grid) * self.warps_of_block

    @property
    def thread(self) -> str:
        """The thread's place in its block, in the text of a loop."""
        return f"::thread_within<{', '.join(map(str, self.block))}>()"

    @property
    def place(self) -> str:
        """The place of its block."""
        return f"::block_within<{math.prod(self.block)}, {self.grid[0]}, {self.grid[1]}>()"
