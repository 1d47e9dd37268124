# SPDX-License-Identifier: Apache-2.0
"""The words of the tables that native code reads: each layout gives the places of its words by name."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

__all__ = [
    "ALONE",
    "BUNDLE",
    "DELIVERY",
    "FINITE",
    "GO_ON",
    "LINE",
    "LIST",
    "NOT_FINITE",
    "NO_ROOM",
    "RECORD",
    "RUN",
    "SAMPLE",
    "STRETCHES",
    "UPDATE",
]


def _places(name: str, words: str) -> Any:
    """Return a named tuple of 0, 1, ...: Numba takes one as a constant."""
    names = words.split()
    return namedtuple(name, names)(*range(len(names)))


LINE = 8  # words of a line of cache: what different parts write is so far apart
GO_ON, NO_ROOM, NOT_FINITE = 0, 1, 2  # why all parts stop after a step: bits
# Of a run, the same for all parts but for their own lists of tables: lists hold addresses, one after another; those of
# functions hold an address and a table's address each.
RUN = _places(
    "RUN",
    "parts first begin end meeting abort stops populations updates records projections deliveries bundles "
    "bundled samples sampled states finite",
)
# Of a run in one thread: the tables of the runs of all parts, why it stopped, and a table of FINITE for each input.
ALONE = _places("ALONE", "parts runs clock why inputs given")
UPDATE = _places("UPDATE", "size low list scratch key0 key1")  # then those that the text of a rule needs
# Of the lists of spikes of a part, one for each step & mask: the distance in bytes, and their counts.
LIST = _places("LIST", "spikes stride counts mask")
DELIVERY = _places("DELIVERY", "parts part lists sources starts targets weights delays ring row mask")
STRETCHES = 64  # of entries, that are asked for before the first one is added
BUNDLE = _places("BUNDLE", "parts part lists sources delays many starts places weights ring row mask found")
RECORD = _places("RECORD", "list spikes room used counts rates low size")  # of a population
SAMPLE = _places("SAMPLE", "every before itemsize chosen neurons places state out row")
FINITE = _places("FINITE", "state size itemsize")
