# SPDX-License-Identifier: Apache-2.0
"""`Ends`: which neurons of two populations synapses are drawn between, where those are parts of the populations.

Synapses are drawn between the neurons of the parts, which count from 0 in rising order. Then their numbers become those
of the populations.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..._pieces import pieces
from ...errors import NetworkError
from ..description.connect import Connect
from ..description.coupling import Coupling
from ..description.parts import Part
from ..description.populations import Projection
from ..pages import aligned
from .plan import SynapsePlan, part_bounds

__all__ = ["Ends", "check_neurons", "ends_of", "parts_of", "whole_of"]

Array = Any


@dataclass(frozen=True, eq=False)
class Ends:
    """The neurons at both ends of synapses that are drawn, by their numbers in the populations.

    `sources` and `targets` are int64, in the order in which synapses are drawn; None for all neurons. `sources` rise,
    and so do `targets`, but of `one_to_one`. `own` says of each row that is drawn which neuron at the other end is the
    row's own one, which it leaves out, int64; `own_size`, the number of those neurons, if none is. It is None if all
    rows leave out the neuron of their number, or none does. `shape` is that of the populations.
    """

    sources: Array | None
    targets: Array | None
    shape: tuple[int, int]
    own: Array | None = None
    own_size: int = 0

    @property
    def drawn_shape(self) -> tuple[int, int]:
        """How many sources and targets there are."""
        sources, targets = (
            size if numbers is None else numbers.size
            for size, numbers in zip(self.shape, (self.sources, self.targets), strict=True)
        )
        return sources, targets

    @property
    def shared(self) -> int:
        """How many synapses of neurons with themselves are left out, if there is one between any two neurons."""
        return 0 if self.own is None else int((self.own < self.own_size).sum())

    @cached_property
    def rising(self) -> bool:
        """Whether targets rise."""
        return self.targets is None or not (np.diff(self.targets) < 0).any()

    def bounds(self, parts: int) -> Array:
        """Return where the parts of the target population end, among the targets."""
        bounds = part_bounds(self.shape[1], parts)[1:]
        return bounds if self.targets is None else np.searchsorted(self.targets, bounds)

    def loads(self, drawn: Array) -> Array:
        """Return sums into all neurons of the target population, of those into the targets."""
        if self.targets is None:
            return drawn
        whole = np.zeros(self.shape[1], drawn.dtype)
        whole[self.targets] = drawn
        return whole


def parts_of(link: Projection | Coupling) -> tuple[Array | None, Array | None] | None:
    """Return the numbers of sources and targets, in the order of parts; None if both ends are whole populations."""
    ends = (link.source, link.target)
    if not any(isinstance(end, Part) for end in ends):
        return None
    sources, targets = (end.numbers if isinstance(end, Part) else None for end in ends)
    return sources, targets


def ends_of(where: str, link: Projection | Coupling, connect: Connect) -> tuple[Ends | None, bool]:
    """Return the ends between which synapses of a description are drawn, None for whole populations, and `skip`.

    `skip` says that neurons do not connect to themselves, though they are at both ends.
    """
    source, target = link.populations
    apart = connect.self_connections or source is not target
    found = parts_of(link)
    if found is None:
        return None, not apart
    shape = source.size, target.size
    sources, targets = found
    if connect.kind == "one_to_one":
        sources, targets = (np.arange(n) if one is None else one for n, one in zip(shape, found, strict=True))
        if sources.size == targets.size:
            order = sources.argsort()
            sources, targets = sources[order], targets[order]
        return Ends(sources, targets, shape), False
    sources, targets = (None if one is None else np.sort(one) for one in found)
    if apart:
        return Ends(sources, targets, shape), False
    rows, others = (np.arange(n) if one is None else one for n, one in zip(shape, (sources, targets), strict=True))
    if np.array_equal(rows, others):
        return Ends(sources, targets, shape), True
    if not np.intersect1d(rows, others, assume_unique=True).size:
        return Ends(sources, targets, shape), False
    if connect.kind == "total" or (connect.kind == "prob" and (connect.replace or callable(connect.number))):
        raise NetworkError(
            f"{where}: {connect.kind}(..., self_connections=False) between parts of {source.name} that share some "
            "neurons, but are not the same; pass self_connections=True, a description such as in_degree or out_degree, "
            "or parts that are the same or share no neuron"
        )
    if connect.kind == "in_degree":
        rows, others = others, rows
    places = np.searchsorted(others, rows)
    is_there = np.append(others, -1)[places] == rows
    return Ends(sources, targets, shape, np.where(is_there, places, others.size), others.size), True


def check_neurons(where: str, link: Projection | Coupling, connect: Connect) -> bool:
    """Return whether there are neurons at both ends; raise if there are none, but a number of synapses is asked for."""
    for what, end in (("source", link.source), ("target", link.target)):
        if end.size:
            continue
        other = link.target if what == "source" else link.source
        fixed = {
            "total": True,
            "in_degree": what == "source" and other.size,
            "out_degree": what == "target" and other.size,
        }
        if fixed.get(connect.kind) and np.any(connect.number):
            number = connect.number if connect.by is None else "a table"
            raise NetworkError(
                f"{where}: {connect.kind}({number}), but the {what} {end.name} has no neurons; pass one with some"
            )
        return False
    return True


def whole_of(ends: Ends, drawn: SynapsePlan, parts: int) -> SynapsePlan:
    """Return drawn synapses with the numbers of the populations; their targets change in place."""
    targets, numbers = drawn.targets, ends.targets
    if numbers is not None:
        for piece in pieces(targets.size):
            targets[piece] = numbers[targets[piece]]
    if ends.sources is None and ends.rising:
        return drawn
    sources = np.arange(ends.shape[0]) if ends.sources is None else ends.sources
    counts = np.zeros((ends.shape[0], parts), np.int64)
    if ends.rising:
        counts[sources] = np.diff(drawn.starts).reshape(-1, parts)
    else:  # of `one_to_one`, of which each row has one synapse
        counts[sources, np.searchsorted(part_bounds(ends.shape[1], parts)[1:-1], targets, "right")] = 1
    starts = aligned((counts.size + 1,), np.int64)
    starts[0] = 0
    np.cumsum(counts, out=starts[1:])
    return SynapsePlan(
        *(drawn.name, drawn.source, drawn.target, drawn.receptor),
        *(starts, targets, drawn.weights, drawn.delays, drawn.rounding),
    )
