# SPDX-License-Identifier: Apache-2.0
"""`Clocks`: where the time of a step goes, by clocks in the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .device import Device

__all__ = ["MARKS", "Clocks"]

MARKS = ("neurons updated", "spikes sent", "spikes of all blocks there", "delivered")  # of a step, in this order
_PHASES = ("to update neurons", "to send spikes", "to wait for those of all blocks", "to deliver them")

Array = Any


class Clocks:
    """Cycles of each block from the beginning of a step to each mark, summed over steps on the device."""

    def __init__(self, device: Device, blocks: int):
        self.blocks = blocks
        self.memory = device.memory(8 * len(MARKS) * blocks, "clocks")
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.steps = 0
        self.memory.clear()

    def read(self) -> Array:
        """Return the mean cycles of a step to each mark (blocks, marks)."""
        found = self.memory.download(np.uint64, (self.blocks, len(MARKS)))
        return found.astype(np.float64) / max(1, self.steps)

    def text(self) -> str:
        """Return where the time goes, in words: means over steps and blocks."""
        if not self.steps:
            return "no steps measured yet"
        means = self.read().mean(0)
        marks = ", ".join(f"{name} after {mean:.0f}" for name, mean in zip(MARKS, means, strict=True))
        spent = np.diff(means, prepend=0)
        share = f"{100 * spent.max() / means[-1]:.0f} % {_PHASES[int(spent.argmax())]}"
        return f"cycles of a step, mean of {self.steps} steps: {marks}; the largest part, {share}"
