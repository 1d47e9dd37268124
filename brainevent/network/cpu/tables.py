# SPDX-License-Identifier: Apache-2.0
"""Tables of words: arrays of int64 with the addresses and sizes that native code needs, by the names of a layout."""

from __future__ import annotations

import ctypes
from collections import namedtuple
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..pages import aligned

__all__ = ["ALONE", "BUNDLE", "COUPLING", "DELIVERY", "FAULTY", "FINITE", "GO_ON", "LINE", "LIST", "NOT_FINITE"]
__all__ += ["EVENTS", "EXCHANGE", "NO_ROOM", "RECORD", "STRETCH"]
__all__ += ["COPY", "FLOATS", "GROUP", "JOB", "POINTER", "SHOW", "SUMS", "ZEROS"]
__all__ += ["KEPT", "PLASTIC", "RUN", "SAMPLE", "STRETCHES", "UPDATE", "Table", "address", "lines", "words_of"]

Array = Any


def _places(name: str, words: str) -> Any:
    """Return a named tuple of 0, 1, ...: Numba takes one as a constant."""
    names = words.split()
    return namedtuple(name, names)(*range(len(names)))


LINE = 8  # words of a line of cache: what different parts write is so far apart
GO_ON, NO_ROOM, NOT_FINITE = 0, 1, 2  # why all parts stop after a step: bits
FAULTY = 2  # in the line of a part, where reasons that come from plastic synapses are, for even and for odd steps

# Of a run, the same for all parts but for their own lists of tables: lists hold addresses, one after another; those of
# functions hold an address and a table's address each. Samples of synapses are the last ones, and are taken after
# deliveries. `faulty` are words, one of each plastic projection, in which its rules note what is not finite.
RUN = _places(
    "RUN",
    "parts first begin end meeting abort stops populations updates records projections deliveries bundles "
    "bundled samples sampled of_synapses states finite faults faulty",
)

# Of a run in one thread: the tables of the runs of all parts, why it stopped, and a table of FINITE for each input.
ALONE = _places("ALONE", "parts runs clock why inputs given")
UPDATE = _places("UPDATE", "size low list scratch key0 key1")  # then those that the text of a rule needs

# Of the lists of spikes of a part, one for each step & mask: the distance in bytes, and their counts. Spikes that have
# values have lists of these, with as many elements. `listed` lines are delivered: those of all parts, or of others.
LIST = _places("LIST", "spikes stride counts mask values")
DELIVERY = _places("DELIVERY", "parts part listed lists sources starts targets weights delays ring row mask shift")
STRETCHES = 64  # of entries, that are asked for before the first one is added
BUNDLE = _places("BUNDLE", "parts part listed lists sources delays many starts places weights ring row mask found")
# Of a plastic projection and part, then those that its text needs: `into` says where the synapses of a target are in
# `entries`, and `origins` are their sources. Where events of targets wait: `seen` are the steps before which sources
# have let all that waited for their synapses act; each target has the steps of up to `EVENTS` events, `times`, of which
# it holds some, and at most some; `some` is scratch for `STRETCH` synapses: the place of the next event of one of them,
# the synapse, and how many events are left, in 32, 16 and 16 bits.
PLASTIC = _places(
    "PLASTIC",
    "parts part sources size rows spikes starts targets which distinct weights into entries origins ring row mask "
    "shift per_unit units faulty seen held most times some",
)
EVENTS, STRETCH = 16, 64  # events of a target that wait; synapses of a source that are brought up to date at once
# Between processes, of populations whose spikes others deliver: for each, the address of its lines and the bytes of a
# value. `buffer` has messages of `row` words of 32 bits: the own one when they are packed, those of `hosts` processes
# when they are unpacked. `afar` are functions and tables that deliver spikes of others at once.
EXCHANGE = _places("EXCHANGE", "parts populations lines itemsizes begin end buffer row hosts own at afar deliveries")
KEPT = _places("KEPT", "state values size itemsize")  # of a state that is kept with the spikes of its neurons
# Of a coupling into a part: `begins` says that sums begin with it; values have a row for even steps and one for odd
# ones, a number of bytes apart.
COUPLING = _places("COUPLING", "size begins starts sources weights values row own own_row out")
RECORD = _places("RECORD", "list spikes room used counts rates low size")  # of a population
SAMPLE = _places("SAMPLE", "every before itemsize chosen neurons places state out row")
FINITE = _places("FINITE", "state size itemsize nan")  # nan: infinite numbers are fine

# Of a run that a program of JAX calls: the words of its memory as they are before it (`image`), of which some, at the
# places in `moved`, are addresses relative to the beginning of that memory. Then lists of what native code copies.
JOB = _places(
    "JOB",
    "image words moved moves cleared bytes clock alone drive worker threads steps ahead bundled bundles "
    "keys populations pointers given copies copied rings ringed shown shows floats floated zeros zeroed caught catches",
)
POINTER = _places("POINTER", "place buffer shift")  # a word that is the address of an operand or result
COPY = _places("COPY", "buffer at nbytes flushed out")  # between an operand or result and the memory of the run
SUMS = _places("SUMS", "buffer rows neurons low high ring row mask out")  # of one receptor and part
SHOW = _places("SHOW", "buffer neurons record rates itemsize")  # spikes of a population and part: 1 for each
FLOATS = _places("FLOATS", "buffer at parts size itemsize")  # integers that become floats, summed over parts
ZEROS = _places("ZEROS", "buffer nbytes")  # a result that begins as zeros
# Of a call: how many elements there are, the next one, and how many are done.
GROUP = _places("GROUP", "frame total next done levels batch buffers operands")


def address(array: Array) -> int:
    """Return where an array begins; it must be contiguous, and live as long as the address is used."""
    assert array.flags.c_contiguous
    try:
        return ctypes.addressof(ctypes.c_char.from_buffer(array))  # in a third of the time
    except (TypeError, ValueError):  # read-only, or empty
        return int(array.ctypes.data)


def words_of(values: Sequence[int]) -> Array:
    """Return words without names."""
    return np.array(values, np.int64)


def lines(count: int) -> Array:
    """Return the given number of cache lines, of words that are 0."""
    return aligned((count, LINE), np.int64)


class Table:
    """Words by name."""

    def __init__(self, names: Sequence[str], values: Mapping[str, int]):
        assert set(names) == set(values), set(names) ^ set(values)
        self._places = {name: place for place, name in enumerate(names)}
        self._words = words_of([values[name] for name in names])
        self.address = address(self._words)

    def update(self, values: Mapping[str, int]) -> None:
        """Write words."""
        for name, value in values.items():
            self[name] = value

    def changed(self, values: Mapping[str, int]) -> Table:
        """Return a copy with other words."""
        words = {name: self[name] for name in self._places}
        return Table(list(words), words | dict(values))

    def view(self, name: str) -> Array:
        """Return the array (1,) that is a word."""
        place = self._places[name]
        return self._words[place : place + 1]

    def __getitem__(self, name: str) -> int:
        """Return a word."""
        return int(self._words[self._places[name]])

    def __setitem__(self, name: str, value: int) -> None:
        """Write a word."""
        self._words[self._places[name]] = value
