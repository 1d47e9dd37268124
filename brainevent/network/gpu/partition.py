# SPDX-License-Identifier: Apache-2.0
"""`Partition`: which block of a kernel owns which neurons, and where their sums lie."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..plan.plan import Plan
from .kinds import Kind, fractions_of

__all__ = [
    "MOST_THREADS",
    "Group",
    "Partition",
    "Placement",
    "kept_fours",
    "partition_of",
    "placed_partition",
    "threads_for",
    "threads_in_fours",
]

MOST_THREADS = 1024  # of a block
_WARP = 32
_LEAST_THREADS, _STEP = 512, 64  # of a block whose threads have several neurons in registers
_LEAST_PLASTIC = 768  # the same, if they change synapses
_BESIDE = 5  # warps that send and deliver, at least, beside those that listen to all blocks
_REGISTERS, _OWN_REGISTERS = 65_536, 44  # of a multiprocessor; of a thread, for anything but states
_MOST_CELLS = 16  # neurons of a thread: each is text of its own
_FOURS, _MOST_FOURS = (1024, 768, 512), 24  # threads that have neurons in fours; how many fours each has at most
_BESIDE_FOURS = 52  # registers of such a thread for anything but states
_MOST_CONSTANTS = 800  # words that are passed with a launch

Array = Any


@dataclass(frozen=True)
class Group:
    """Neurons that are dealt to the same blocks of a GPU: `ranges` of each population, to `blocks` from `first` on.

    Their numbers, among those that are dealt to these blocks, begin at `begins`. `name` is for reports.
    """

    name: str
    first: int
    blocks: int
    ranges: Mapping[str, tuple[int, int]]
    begins: Mapping[str, int] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        """How many neurons of each population there are."""
        return {name: high - low for name, (low, high) in self.ranges.items()}


@dataclass(frozen=True)
class Placement:
    """Which neurons of each population a GPU has: `ranges[gpu][population]`, from the first one to before the second.

    Spikes are delivered `lag` steps late on their own GPU, and on other ones by `extra` steps more: so no synapse
    between neurons on different GPUs has a delay of less than `lag + extra + 1` steps. `between` is their share of all.

    What a GPU has may be in several `groups`, each on blocks of its own, since most synapses are within them. If these
    are `apart`, what is said of spikes and delays of other GPUs is so for those of other groups, too.
    """

    ranges: tuple[Mapping[str, tuple[int, int]], ...]
    lag: int
    extra: int
    between: float
    groups: tuple[tuple[Group, ...], ...] = ()
    apart: bool = False

    @property
    def sizes(self) -> list[dict[str, int]]:
        """How many neurons of each population a GPU has."""
        return [{name: high - low for name, (low, high) in own.items()} for own in self.ranges]


@dataclass(frozen=True)
class Partition:
    """Neurons are numbered through all populations; number n is place n // blocks of block n % blocks.

    `begins` says where the numbers of a population begin: those of one kind follow each other, so that all blocks
    have the same share of it, and each kind begins with a warp. `per` is how many places a block has. Receptor r has
    a cell for each of the first `reach[r + 1] - reach[r]` places: it begins at `reach[r]`; `cells` is how many there
    are. Where threads have several neurons in registers, each population begins with the first thread, and `cells_of`
    are the populations of a thread's first neuron, its second one and so on; `fours` those of its first four neurons,
    which have places side by side, and so on. Of `common` populations, all or none, what
    their neurons share is passed with a launch.

    A block adds to the sums of its own neurons alone; if `pushed`, to those of all blocks of its GPU, which then lie
    side by side in the memory of the device, one step after another. It need not do so if states lie in shared memory,
    `on_chip`.

    Blocks are numbered through all GPUs of a network: a GPU has `own` of them, from `first` on; 0 means all. With a
    `placement`, the neurons of a population that are on a GPU are dealt to its blocks alone: they have numbers of their
    own there, and number n is place n // own of block first + n % own. If they are in `groups` of a GPU, that is so of
    the blocks of each group; then `begins` number the neurons of this GPU, whatever their blocks.

    If others than this process have neurons of a population, too, it has those from `firsts[population]` on.
    """

    blocks: int
    per: int
    begins: Mapping[str, int]
    sources: int
    reach: tuple[int, ...]
    cells: int
    threads: int = 0  # 0: at most one neuron of a thread is in registers
    cells_of: tuple[int, ...] = ()
    fours: tuple[int, ...] = ()
    common: int = 0
    pushed: bool = False
    on_chip: bool = False
    first: int = 0
    own: int = 0
    placement: Placement | None = None
    groups: tuple[tuple[Group, ...], ...] = ()
    firsts: Mapping[str, int] = field(default_factory=dict)

    @functools.cached_property
    def kept_slots(self) -> dict[str, Array]:
        """Slots of populations that were needed before."""
        return {}

    @property
    def here(self) -> int:
        """How many blocks this GPU has."""
        return self.own or self.blocks

    @property
    def whole(self) -> Partition:
        """The blocks of all GPUs."""
        return replace(self, first=0, own=0)

    @property
    def gpus(self) -> int:
        """How many GPUs the blocks are on."""
        return self.blocks // self.here

    @property
    def extra(self) -> int:
        """How many steps later spikes of other GPUs are delivered than those of this one."""
        return self.placement.extra if self.placement else 0

    def share(self, population: str, size: int) -> tuple[int, int, int]:
        """Return where numbers of a population begin on this GPU, its first neuron here, and how many are here."""
        if self.placement is None:
            return self.begins[population], self.firsts.get(population, 0), size
        low, high = self.placement.ranges[self.first // self.here][population]
        return self.begins[population], low, high - low

    @property
    def parts(self) -> tuple[Group, ...]:
        """The groups of neurons of this GPU, if there are several with blocks of their own."""
        if self.placement is None or not self.placement.groups:
            return ()
        return self.groups[self.first // self.here]

    @property
    def part_words(self) -> Array:
        """What kernels know of `parts`: of each block its part, the first block and the number of blocks of that.

        Then of each part and population where their numbers begin, the first neuron, and how many there are.
        """
        blocks = [(k, part.first, part.blocks) for k, part in enumerate(self.parts) for _ in range(part.blocks)]
        shares = [(part.begins[p], low, high - low) for part in self.parts for p, (low, high) in part.ranges.items()]
        return np.array(blocks + shares, np.uint32).reshape(-1)

    @property
    def row_blocks(self) -> int:
        """For how many blocks of this GPU each source neuron has a row of synapses."""
        return 1 if self.pushed else self.here

    @property
    def cells_of_row(self) -> int:
        """How many cells a row may add to, in each step."""
        return self.cells * (self.here if self.pushed else 1)

    def ring_shape(self, slots: int) -> tuple[int, int, int]:
        """Return the shape of all sums of a number of steps on this GPU."""
        return (slots, self.here, self.cells) if self.pushed else (self.here, slots, self.cells)

    def ring_here(self, sums: Array) -> Array:
        """Return the sums of this GPU, of those of all of them."""
        own = slice(self.first, self.first + self.here)
        return sums[:, own] if self.pushed else sums[own]

    def ring_by_block(self, sums: Array) -> Array:
        """Return sums as an array (blocks, slots, cells), or such an array as those sums."""
        return sums.swapaxes(0, 1) if self.pushed else sums

    def slots(self, population: str, size: int) -> Array:
        """Return where each neuron of a population is in arrays (blocks x places)."""
        whole = self.numbers(population, size)
        numbers = np.arange(whole.start, whole.stop, dtype=np.int64) if isinstance(whole, slice) else whole
        return numbers % self.blocks * self.per + numbers // self.blocks

    def columns(self, population: str, size: int, neurons: Array) -> tuple[Array, Array, int]:
        """Return the column of a sample by place, -1 for none, the column of each neuron, and how many there are."""
        chosen, columns = np.unique(neurons, return_inverse=True)
        table = np.full(self.blocks * self.per, -1, np.int32)
        table[self.slots(population, size)[chosen]] = np.arange(chosen.size)
        return table, columns.reshape(-1), chosen.size

    def by_block(self, values: Array) -> Array:
        """Return values by number as an array (blocks x places)."""
        padded = np.zeros(self.per * self.blocks, values.dtype)
        padded[: values.size] = values
        return np.ascontiguousarray(padded.reshape(self.per, self.blocks).T).reshape(-1)

    def numbers(self, population: str, size: int) -> slice | Array:
        """Return the numbers of the neurons of a population: place * blocks + block."""
        if self.placement is not None:
            found, own = np.empty(size, np.int64), self.blocks // len(self.placement.ranges)
            for gpu, group in ((gpu, group) for gpu, groups in enumerate(self.groups) for group in groups):
                low, high = group.ranges[population]
                here = np.arange(group.begins[population], group.begins[population] + high - low)
                found[low:high] = here // group.blocks * self.blocks + gpu * own + group.first + here % group.blocks
            return found
        begin = self.begins[population]
        return slice(begin, begin + size)


def partition_of(
    plan: Plan,
    kinds: Sequence[Kind],
    numbers: Mapping[str, int],
    blocks: int,
    threads: int = 0,
    sizes: Mapping[str, int] | None = None,
    *,
    fours: bool = False,
) -> Partition:
    """Share the neurons of a plan out over blocks.

    With `threads`, those have several neurons in registers; with `fours`, those have neurons in fours. `sizes` says how
    many neurons of each population these blocks have; None for all.
    """
    apiece = threads * (4 if fours else 1)
    sizes = {population.name: population.size for population in plan.populations} if sizes is None else sizes
    begins: dict[str, int] = {}
    ends = []  # of kinds
    end = 0
    cells: list[int] = []
    for number in range(len(kinds)):
        end += -end % (_WARP * blocks)
        for place, population in enumerate(plan.populations):
            if numbers[population.name] == number:
                end += -end % (max(1, apiece) * blocks)
                begins[population.name] = end
                end += sizes[population.name]
                cells += [place] * cells_for(sizes[population.name], blocks, apiece)
        ends.append(end)
    end = max(end, 1)  # a process may own no neurons
    apart = _WARP if -(-end // blocks) > MOST_THREADS else 1  # lines of memory are not shared by warps
    reach = [0]
    for receptor in range(max(kind.receptors for kind in kinds)):
        last = max(stop for stop, kind in zip(ends, kinds, strict=True) if kind.receptors > receptor)
        reach.append(reach[-1] + -(-last // (blocks * apart)) * apart)
    per = -(-end // (blocks * apart)) * apart
    common = len(plan.populations) if per > MOST_THREADS and _is_constant(plan, kinds) else 0
    cells_of, of_fours = ((), tuple(cells)) if fours else (tuple(cells), ())
    return Partition(blocks, per, begins, end, tuple(reach[:-1]), reach[-1], threads, cells_of, of_fours, common)


def placed_partition(
    plan: Plan,
    kinds: Sequence[Kind],
    numbers: Mapping[str, int],
    placement: Placement,
    own: int,
    gpu: int,
    threads: int = 0,
) -> Partition:
    """Share the neurons that each GPU has out over its `own` blocks; return what one of the GPUs has.

    With `threads`, those have several neurons in registers.
    """
    blocks, apart = own * len(placement.ranges), bool(placement.groups)
    groups = placement.groups or tuple((Group("", 0, own, ranges),) for ranges in placement.ranges)
    found = [
        [partition_of(plan, kinds, numbers, group.blocks, threads, group.sizes) for group in of_gpu]
        for of_gpu in groups
    ]
    all_of = [one for of_gpu in found for one in of_gpu]
    per = max(one.per for one in all_of)
    places = np.max([np.diff([*one.reach, one.cells]) for one in all_of], axis=0)
    reach: list[int] = [0, *np.cumsum(places).tolist()]
    common = len(plan.populations) if per > MOST_THREADS and _is_constant(plan, kinds) else 0
    sizes = placement.sizes[gpu]
    ends = np.cumsum([0, *sizes.values()]).tolist()
    return replace(
        found[gpu][0],
        begins=dict(zip(sizes, ends[:-1], strict=True)) if apart else found[gpu][0].begins,
        blocks=blocks,
        per=per,
        sources=per * blocks,
        reach=tuple(reach[:-1]),
        cells=reach[-1],
        common=common,
        first=own * gpu,
        own=own,
        placement=placement,
        groups=tuple(
            tuple(replace(group, begins=one.begins) for group, one in zip(*of_gpu, strict=True))
            for of_gpu in zip(groups, found, strict=True)
        ),
    )


def cells_for(size: int, blocks: int, threads: int) -> int:
    """Return how many neurons of a population each thread has, if all are in registers."""
    return -(-size // (blocks * threads)) if threads else 0


def _is_constant(plan: Plan, kinds: Sequence[Kind]) -> bool:
    """Say whether what the neurons of each population share can be passed with a launch."""
    words = 8 + max(len(kind.scalars) + kind.receptors for kind in kinds)
    return len(plan.populations) * words <= _MOST_CONSTANTS


def threads_for(plan: Plan, kinds: Sequence[Kind], blocks: int, placement: Placement | None = None) -> int:
    """Return how many threads have room for all neurons in their registers, several each; 0 if none."""
    all_sizes = [[population.size for population in plan.populations]]
    own = blocks
    if placement is not None:
        all_sizes = [list(sizes.values()) for sizes in placement.sizes]
        own = blocks // len(all_sizes)
    if max(-(-sum(sizes) // own) for sizes in all_sizes) <= MOST_THREADS:
        return 0
    words = max(len(kind.population.rule.states) + len(kind.drawn) for kind in kinds)
    if not _is_constant(plan, kinds):
        return 0
    fitting = []
    least = _WARP * (-(-blocks // _WARP) + _BESIDE)
    fewest = _LEAST_PLASTIC if plan.plastic else _LEAST_THREADS
    for threads in range(max(fewest, least + -least % _STEP), MOST_THREADS + 1, _STEP):
        cells = max(sum(cells_for(size, own, threads) for size in sizes) for sizes in all_sizes)
        if cells <= _MOST_CELLS and cells * words <= _REGISTERS // threads - _OWN_REGISTERS:
            fitting.append((cells * threads, threads))
    return min(fitting)[1] if fitting else 0


def threads_in_fours(plan: Plan, kinds: Sequence[Kind], blocks: int, shared_bytes: int) -> int:
    """Return how many threads of a block have its neurons in fours; 0 if each would have too many.

    They leave room for all numbers with a fraction in registers and shared memory, and few of them have nothing to do;
    or they are as few as there may be.
    """
    if not _is_constant(plan, kinds):
        return 0
    words, fitting = fractions_of(kinds), []
    for threads in _FOURS:
        fours = sum(cells_for(population.size, blocks, 4 * threads) for population in plan.populations)
        fits = fours * words <= kept_fours(threads) + shared_bytes // (16 * threads)
        if fours <= _MOST_FOURS and (fits or threads == _FOURS[-1]):
            fitting.append((not fits, fours * threads, -threads))
    return -min(fitting)[2] if fitting else 0


def kept_fours(threads: int) -> int:
    """Return how many words of four neurons each of so many threads keeps in registers."""
    return max(0, (_REGISTERS // threads - _BESIDE_FOURS) // 4)
