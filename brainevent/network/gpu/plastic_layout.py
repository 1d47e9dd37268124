# SPDX-License-Identifier: Apache-2.0
"""`PlasticLayout`: the synapses of a plastic projection by the block of their target, and the second index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..plan.plastic import PlasticPlan
from .partition import Partition

__all__ = ["PlasticLayout", "laid_out"]

Array = Any
_WORD = 32


@dataclass(frozen=True, eq=False)
class PlasticLayout:
    """Synapses by the block of their target, and of a block by source, delay and target.

    `order` says of each which one it is in the order of a `NetworkState`. Block b has those from `bases[b]` on; those
    of a source begin at `starts[b, source]`, counted from there. `targets` are numbers among the targets of the block,
    and `which` the places of delays among the different ones, if there are several.

    The second index has, for each target of a block, or each target and delay where events of the target are delayed,
    the `incoming` synapses from `into[b, place]` on: words of `entry_bits` bits for the place of a synapse in its
    block, and then its source, if rules read something of that. Bits beyond 32 are in `more`. There is none if no rule
    is called by events of targets. `places` is how many targets a block has at most.
    """

    order: Array
    bases: Array
    starts: Array
    targets: Array
    which: Array | None
    into: Array | None
    incoming: Array | None
    more: Array | None
    entry_bits: int
    places: int

    @property
    def arrays(self) -> dict[str, Array]:
        """What lies on a device, by name."""
        names = ("bases", "starts", "targets", "which", "into", "incoming", "more")
        return {name: array for name in names if (array := getattr(self, name)) is not None}


def laid_out(plastic: PlasticPlan, partition: Partition) -> PlasticLayout:
    """Sort the synapses of a plastic projection by block."""
    blocks, (size, begin) = partition.blocks, (plastic.sizes[0], partition.begins[plastic.target])
    sources, targets = (x[plastic.order] for x in (plastic.sources, plastic.targets))
    numbers = targets.astype(np.int64) + begin
    owners = (numbers % blocks).astype(np.uint16)
    order = np.argsort(owners, kind="stable").astype(_small(plastic.entries, np.uint32, np.int64))
    owners = owners[order]
    first = (begin + blocks - 1 - np.arange(blocks)) // blocks  # place of the first target in each block
    local = numbers[order] // blocks - first[owners]
    places = -(-plastic.sizes[1] // blocks)
    counts = np.bincount(owners.astype(np.int64) * size + sources[order], minlength=blocks * size)
    starts = np.zeros((blocks, size + 1), np.uint32)
    np.cumsum(counts.reshape(blocks, size), axis=1, dtype=np.uint32, out=starts[:, 1:])
    bases = np.concatenate([[0], np.cumsum(starts[:, -1], dtype=np.uint64)]).astype(np.uint64)
    local = local.astype(_small(places, np.uint8, np.uint16, np.uint32))
    many = plastic.distinct.size
    which = plastic.which[plastic.order][order].astype(_small(many, np.uint8, np.uint16)) if many > 1 else None
    found = PlasticLayout(order, bases, starts, local, which, None, None, None, 0, places)
    return _with_incoming(found, plastic, sources, places) if plastic.rules.on_post else found


def _with_incoming(layout: PlasticLayout, plastic: PlasticPlan, sources: Array, places: int) -> PlasticLayout:
    """Return a layout with the second index, given the sources of synapses in the order of a state."""
    rows = plastic.post_rows if layout.which is not None else 1
    ends = layout.bases.astype(np.int64)
    blocks = ends.size - 1
    reads = any(name.text.startswith("pre_") for _, rule in plastic.rules.on_post for name in rule.form.inputs)
    entry_bits = max(1, int(np.diff(ends).max() - 1).bit_length())
    bits = entry_bits + (max(1, (plastic.sizes[0] - 1).bit_length()) if reads else 0)
    into = np.zeros((blocks, places * rows + 1), np.uint32)
    incoming = np.zeros(plastic.entries, np.uint32)
    more = (
        np.zeros(plastic.entries, _small(2 ** (bits - _WORD), np.uint8, np.uint16, np.uint32)) if bits > _WORD else None
    )
    for block in range(blocks):
        own = slice(ends[block], ends[block + 1])
        key = layout.targets[own].astype(np.uint32) * np.uint32(rows)
        if rows > 1 and layout.which is not None:
            key += layout.which[own]
        np.cumsum(np.bincount(key, minlength=places * rows), dtype=np.uint32, out=into[block, 1:])
        entries = np.argsort(key.astype(_small(places * rows, np.uint16, np.uint32)), kind="stable")
        words = entries.astype(np.uint64)
        if reads:
            words |= sources[layout.order[own]][entries].astype(np.uint64) << np.uint64(entry_bits)
        incoming[own] = words & np.uint64(2**_WORD - 1)
        if more is not None:
            more[own] = words >> np.uint64(_WORD)
    return PlasticLayout(
        *(layout.order, layout.bases, layout.starts, layout.targets, layout.which, into, incoming, more),
        *(entry_bits, places),
    )


def _small(count: int, *dtypes: Any) -> Any:
    """Return the first dtype that holds the numbers below a count."""
    return next(one for one in dtypes if count - 1 <= np.iinfo(one).max)
