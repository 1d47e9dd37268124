# SPDX-License-Identifier: Apache-2.0
"""`merged`: one recording of what several GPUs or processes recorded, each of its own neurons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .recorded import Recorded

__all__ = ["merged"]

Array = Any


def merged(parts: Sequence[Recorded]) -> Recorded:
    """Return one recording; of what is of neurons elsewhere, a part has zeros, or the first one has all counts."""
    first = parts[0]
    return Recorded(
        first.first,
        first.steps,
        {name: _in_order([part.spikes[name] for part in parts]) for name in first.spikes},
        {name: _sum([part.counts[name] for part in parts if name in part.counts]) for name in first.counts},
        {name: _sum([part.rates[name] for part in parts]) for name in first.rates},
        {label: _either([part.samples[label] for part in parts]) for label in first.samples},
        next((part.full for part in parts if part.full), ""),
    )


def _in_order(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Return steps and neurons of all spikes, by step and then by neuron, as each part has them."""
    if not any(steps.size for steps, _ in parts):
        return parts[0]
    keys = np.concatenate([steps.astype(np.uint64) << 32 | neurons.astype(np.uint64) for steps, neurons in parts])
    keys.sort(kind="stable")  # which merges what is in order
    return (keys >> 32).astype(np.uint32), (keys & (2**32 - 1)).astype(np.int32)


def _sum(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else np.add.reduce(parts, dtype=np.int32)


def _either(parts: Sequence[Array]) -> Array:
    """Return the words that are not zero in any part."""
    if parts[0].dtype == bool:
        return np.logical_or.reduce(parts)
    return np.bitwise_or.reduce([part.view(np.uint32) for part in parts]).view(parts[0].dtype)
