# SPDX-License-Identifier: Apache-2.0
"""`Clocks`: where the time of a step goes, by clocks in the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np

from .device import Device

__all__ = ["MARKS", "PLASTIC_MARKS", "Clocks"]

MARKS = ("neurons updated", "spikes sent", "spikes of all blocks there", "delivered")  # of a step, in this order
_PHASES = ("to update neurons", "to send spikes", "to wait for those of all blocks", "to deliver them")
# Of warps that change synapses; they reach them while spikes are sent, or before or after it.
PLASTIC_MARKS = ("arrivals queued", "events of targets done", "arrivals delivered", "traces settled")
_PLASTIC_PHASES = ("to find arrivals", "for events of targets", "to deliver arrivals", "to settle traces")

Array = Any


class Clocks:
    """Cycles of each block from the beginning of a step to each mark, summed over steps on the device.

    Args:
        device: The device.
        blocks: How many blocks there are.
        plastic: Whether synapses are plastic: then there are marks of that.
    """

    def __init__(self, device: Device, blocks: int, *, plastic: bool = False):
        self.blocks = blocks
        self.marks = MARKS + PLASTIC_MARKS * plastic
        self.memory = device.memory(8 * len(self.marks) * blocks, "clocks")
        self.clear()

    def clear(self) -> None:
        """Begin anew."""
        self.steps = 0
        self.memory.clear()

    def read(self) -> Array:
        """Return the mean cycles of a step to each mark (blocks, marks)."""
        found = self.memory.download(np.uint64, (self.blocks, len(self.marks)))
        return found.astype(np.float64) / max(1, self.steps)

    def text(self) -> str:
        """Return where the time goes, in words: means over steps and blocks."""
        if not self.steps:
            return "no steps measured yet"
        means = self.read().mean(0)
        order = np.argsort(means, kind="stable")
        phases = [(_PHASES + _PLASTIC_PHASES)[k] for k in order]
        marks = ", ".join(f"{self.marks[k]} after {means[k]:.0f}" for k in order)
        spent = np.diff(means[order], prepend=0)
        share = f"{100 * spent.max() / means.max():.0f} % {phases[int(spent.argmax())]}"
        return f"cycles of a step, mean of {self.steps} steps: {marks}; the largest part, {share}"
