# SPDX-License-Identifier: Apache-2.0
"""The rows into which a pretend GPU sorts the synapses of a plan."""

import numpy as np
from gpu_on_cpu import PretendDevice

from brainevent.network.gpu.kinds import kinds_of
from brainevent.network.gpu.partition import partition_of
from brainevent.network.gpu.sorter import place_synapses
from brainevent.network.gpu.structs import COMPACT, PADDED, SHORT

__all__ = ["rows_of"]


def rows_of(plan, blocks, device=None):
    """Return the rows of a plan on a device, which is a pretended one if none is given, with the synapses in order."""
    device = PretendDevice() if device is None else device
    kinds, numbers, _ = kinds_of(plan, {p.name: dict(p.params) for p in plan.populations})
    partition = partition_of(plan, kinds, numbers, blocks)
    rows = place_synapses(device, plan, partition, room=2**20)
    words = rows.synapses.download(np.uint32, rows.synapses.nbytes // 4)
    synapses = words.reshape(-1, rows.entry.words)
    if rows.layout == PADDED:
        widths, bases = rows.rows >> 24, rows.rows & 0xFFFFFF
        begins = [
            8 * (int(base) * blocks + block * int(width))
            for base, width, row in zip(bases, widths, rows.rows, strict=True)
            for block in range(blocks if row != 2**32 - 1 else 0)
        ]
    else:
        assert rows.layout in (COMPACT, SHORT)
        step, kind = 4 if rows.layout == COMPACT else 1, {2: np.uint16, 4: np.uint32}[rows.start_bytes]
        starts = rows.starts.download(kind, (blocks, partition.sources + 1)).astype(np.int64)
        begins = step * (starts + rows.bases.download(np.uint64, (blocks, 1)).astype(np.int64))
    row = np.zeros(len(words), np.int64)
    np.add.at(row, np.ravel(begins)[np.ravel(begins) < row.size].astype(np.int64), 1)
    row = row.cumsum()[:: rows.entry.words]
    order = np.lexsort((*synapses.T, row))
    return (rows.layout, rows.entry, rows.rows.tolist(), np.ravel(begins).tolist()), synapses[order]
