# SPDX-License-Identifier: Apache-2.0
"""Find projections that are described twice: both are built, and what they send adds up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from .fingerprint import content_of
from .wiring import Wiring

__all__ = ["repeats_of"]


def repeats_of(wirings: Sequence[Wiring]) -> tuple[tuple[str, ...], ...]:
    """Return the names of projections that differ in nothing but their names, a group for each description."""
    alike = defaultdict(list)
    for wiring in wirings:
        projection = wiring.projection
        ends = projection.source.name, projection.target.name, projection.into
        shapes = np.shape(wiring.weights), np.shape(wiring.steps)  # () of what is drawn
        alike[*ends, wiring.kind, wiring.number, *shapes].append(wiring)
    groups: list[tuple[str, ...]] = []
    for some in alike.values():
        same = defaultdict(list)
        for wiring in some if len(some) > 1 else ():
            same[content_of(wiring)].append(wiring.name)
        groups += [tuple(names) for names in same.values() if len(names) > 1]
    return tuple(groups)
