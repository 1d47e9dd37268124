# SPDX-License-Identifier: Apache-2.0
"""The constants that the text of a network's kernel is made for, and their text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .kinds import Kind, are_graded, extents_of, fractions_of, is_whole, words_of
from .structs import LOST

__all__ = ["Structure", "constant_table"]

_STARTS = {2: "short", 4: "int", 8: "long long"}


@dataclass(frozen=True)
class Structure:
    """The constants that the text of a kernel is made for.

    Where a thread has several neurons in registers, `cells` are the populations of its first neuron, its second one and
    so on; or `fours` are those of four neurons each. `populations` are the kinds of populations, if what their neurons
    share is passed with a launch; if it is not, it is in shared memory if those are `mixed`, of so `many` populations.
    """

    threads: int
    listeners: int
    layout: int
    wide: bool
    in_registers: bool
    ring_in_block: bool
    words_in_block: int
    checked: bool
    only_nan: bool  # is found where that is checked, and only in populations whose spikes have values
    rows_in_block: bool
    direct: bool  # no warps wait for rows to deliver
    start_bytes: int
    narrow: bool
    queue: int
    mine: int
    cluster: int = 0  # how many blocks there are, if all are in one cluster
    parts: int = 1  # of a short row, which lanes deliver
    units: int = 1  # of a packet
    clocked: bool = False
    traced: bool = False  # the first step and the parameters lie in memory, as in programs of JAX
    beside: bool = False  # several networks run side by side
    gpus: int = 1
    far: int = 0  # inboxes of another GPU to which a block sends, if there are several
    message: int = 0  # units of what a spare block of each GPU tells the others, if blocks do not
    reached: int = 0  # spikes that plastic synapses queue
    lists: int = 0  # of events that plastic synapses need
    table: int = 0  # words of the table of plastic synapses, if that is in shared memory
    lag: int = 0  # steps after theirs in which packets are read
    extra: int = 0  # steps by which those of other GPUs are read later
    hold: int = 0  # steps for which spikes are held before they are pushed, on several GPUs
    piece: int = 8  # lanes that push a row there
    apart: bool = False  # padded rows lie elsewhere on each GPU
    placed: bool = False  # neurons are dealt to the blocks of the GPU that they are placed on
    groups: int = 0  # of neurons of a GPU, with blocks of their own; 0 if these are dealt to all its blocks
    groups_apart: bool = False  # spikes of other groups are read as late as those of other GPUs
    fenced: int = 1  # steps of which lists of events are released at once
    told: int = 0  # lists of events that other blocks read
    handed: int = 0  # steps of those that blocks of a cluster hand each other
    mixed: bool = False  # states in memory are those of many small populations
    many: int = 0  # populations of which what their neurons share is not passed with a launch, if they are mixed
    drawn: int = 0  # bytes of each neuron, for what is drawn for the next step
    known: int = 0  # bytes of shared memory for what neurons share, and for tables of Poisson numbers
    table_words: int = 0  # of those, if they have room there
    together: int = 1  # rows that a warp delivers at once
    two_words: bool = False  # of a row, not four, are read by a lane at once
    helping: bool = False  # all warps deliver rows, when they have sent and heard
    near: int = 0  # steps whose sums are in shared memory, in 16 bits
    pile_room: int = 0  # synapses of each pile of those that are listed for a later span of 2^span steps
    span: int = 0
    piles: int = 1  # of each list
    certain: bool = False  # 16 bits hold all sums
    cells: tuple[int, ...] = ()
    fours: tuple[int, ...] = ()  # the populations of a thread's first four neurons, its second ones and so on
    kept_fours: int = 0  # words of four neurons that stay in a thread's registers
    shared_fours: int = 0  # the same in shared memory
    falling: tuple[int, ...] = ()  # sums are bytes: which receptors of each population have weights below 0, as bits
    populations: tuple[int, ...] = ()
    couplings: int = 0  # from one population into one receptor each
    shown: tuple[int, ...] = ()  # the words of states that they read
    tells: bool = False  # other processes are told of the values of spikes

    @property
    def kept(self) -> int:
        """For how many steps packets are kept: a power of two."""
        return 1 << (2 * (self.lag + self.extra + self.hold) + 1).bit_length()

    @property
    def _late(self) -> list[str]:
        """The constants of several GPUs, or of plastic synapses, as lines of C++."""
        lines = []
        if self.gpus > 1:
            among = f"GPUS = {self.gpus}, FAR = {self.far}, MESSAGE = {max(1, self.message)}, LOST = {LOST}"
            lines += [f"constexpr unsigned {among};", f"constexpr bool COURIER = {str(self.message > 0).lower()};"]
            lines.append(f"constexpr bool PLACED = {str(self.placed).lower()}, OWN_ROWS = {str(self.apart).lower()};")
            if self.groups:
                lines += [f"constexpr unsigned GROUPS = {self.groups};"]
                lines += [f"constexpr bool GROUPS_APART = {str(self.groups_apart).lower()};"]
        if self.reached:
            plastic = f"REACHED = {self.reached}, LISTS = {self.lists}, TABLE = {self.table}, FENCED = {self.fenced}"
            lines.append(f"constexpr unsigned {plastic}, TOLD = {self.told}, HANDED = {max(1, self.handed)};")
        late = f"LAG = {self.lag}, FAR_LAG = {self.lag + self.extra}, HOLD = {self.hold}, KEPT = {self.kept}"
        return [*lines, f"constexpr unsigned {late}, PIECE = {self.piece};"] if lines else []

    def _of_fours(self, kinds: Sequence[Kind]) -> dict[str, int]:
        """The constants of neurons in fours."""
        if not self.fours:
            return {}
        kept = {"KEPT_FOURS": self.kept_fours, "SHARED_FOURS": self.shared_fours}
        return {"FOURS": len(self.fours), "FRACTIONS": fractions_of(kinds), **kept}

    @property
    def tables(self) -> str:
        """What is known of populations, as functions of C++."""
        of_cells = constant_table("population_of", self.fours or self.cells)
        return of_cells + constant_table("kind_of", self.populations) + constant_table("falling_of", self.falling)

    def text(self, kinds: Sequence[Kind]) -> str:
        """Return the constants as C++."""
        extents = extents_of(kinds)
        most = {
            "RECEPTORS": extents.receptors,
            "WORDS": words_of(kinds),
            "PARAMS": extents.params,
            "DRAWS": extents.draws,
            "THREADS": self.threads,
            "LISTENERS": self.listeners,
            "CARRIERS": self.threads // 32 - self.listeners - 1,
            "LAYOUT": self.layout,
            "QUEUE": self.queue,
            "MINE": self.mine,
            "CELLS": len(self.cells),
            "COMMON": max(1, len(self.populations), self.many),
            "CLUSTER": self.cluster,
            "PARTS": self.parts,
            "UNITS": self.units,
            "TOGETHER": self.together,
            "WORDS_IN_BLOCK": self.words_in_block,
            "WHOLE_WORDS": sum(1 << word for word in range(32) if is_whole(kinds, word)),
        }
        flags = {
            "WIDE": self.wide,
            "IN_REGISTERS": self.in_registers,
            "RING_IN_BLOCK": self.ring_in_block,
            "CHECKED": self.checked,
            "ROWS_IN_BLOCK": self.rows_in_block,
            "DIRECT": self.direct,
            "NARROW": self.narrow,
            "CLOCKED": self.clocked,
            "SHARED_ARE_PASSED": bool(self.populations),
            "TRACED": self.traced,
            "BYTES": bool(self.falling),
        }
        most |= self._of_fours(kinds)
        lines = [f"constexpr unsigned {name} = {value};" for name, value in most.items()]
        lines += [f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]
        lines.append(f"typedef unsigned {_STARTS[self.start_bytes]} Start;")
        clustered = f" __cluster_dims__({self.cluster}, 1, 1)" if self.cluster else ""
        lines.append(f"#define IN_CLUSTER{clustered}")
        lines += ["#define BESIDE"] * self.beside + ["#define GRADED"] * are_graded(kinds)
        lines += ["#define TELLS"] * self.tells
        if self.couplings:
            lines += [
                "#define COUPLED",
                f"constexpr unsigned COUPLINGS = {self.couplings}, SHOWN_STATES = {len(self.shown)};",
            ]
        return "\n".join([*lines, *self._sums(extents.draws), *self._late]) + "\n"

    def _sums(self, draws: int) -> list[str]:
        """The constants of sums in shared memory, of rows added to them, and of small populations, as lines of C++."""
        flags = {"CERTAIN": self.certain, "MIXED": self.mixed, "DRAWN_AHEAD": 0 < draws <= self.drawn}
        flags |= {"TWO_WORDS": self.two_words, "HELPING": self.helping}
        flags |= {"SHARED_ARE_KNOWN": bool(self.populations) or self.many > 0}
        numbers = {"NEAR": self.near, "PILE_ROOM": self.pile_room, "SPAN": self.span, "PILES": self.piles}
        known = {"DRAWN_BYTES": self.drawn, "KNOWN_BYTES": self.known, "TABLE_WORDS": self.table_words}
        return [
            *(f"constexpr unsigned {name} = {value};" for name, value in (numbers | known).items()),
            *(f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()),
        ]


def constant_table(name: str, values: Sequence[int]) -> str:
    """Return a function that returns the values by their number, as a constant where that is one."""
    found = "".join(f"k == {k} ? {int(value)} : " for k, value in enumerate(values))
    return f"BE constexpr u32 {name}(u32 k) {{ return {found}0; }}\n"
