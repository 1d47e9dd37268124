# SPDX-License-Identifier: Apache-2.0
"""`Shape`: how many blocks and threads run a network, and what lies in the shared memory of a block."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...errors import NetworkError
from ..description.checks import is_integer
from ..plan.plan import Plan
from ..run.report import in_bytes
from .kinds import Kind, fractions_of, words_of
from .partition import MOST_THREADS, Partition, kept_fours, partition_of, threads_for, threads_in_fours
from .rows import LONG_ROW, MANY_ROWS, DeviceRows, bytes_in_block, place_bits
from .several.exchange import bytes_among, inboxes_for, message_units, queue_among
from .structs import COMPACT, NOBODY, PADDED, PARTED, SHORT, SLOTS
from .structure import Structure
from .sums import Sums, Wishes, sums_of, wishes_of

__all__ = [
    "CLUSTER",
    "MOST_BLOCKS",
    "Room",
    "Shape",
    "blocks_beside",
    "blocks_for",
    "has_room",
    "in_cluster",
    "in_fours",
    "in_program",
    "in_threads",
    "list_words",
    "pushed",
    "room_of",
    "shape_of",
    "suits_cluster",
]

_MORE_TURNS = 2.5  # that threads with several neurons in registers may take, for one of those without gaps
_APART = 9  # one of so many multiprocessors is in no large cluster: GPUs have groups of 16 and of 18
_NEURONS = 64  # of a block, where there are enough blocks
CLUSTER, _IN_CLUSTER = 16, 512  # blocks of the largest cluster; neurons of each, at most
_LINE = 8  # packets
_MOST_TOGETHER = 8  # times four words of a row, of which a warp delivers several
_TWO_EACH = 16  # the same, of which lanes read two words each
_UNITS = 4  # of a packet, if blocks have many neurons: waiting for a list in memory takes as long as a step
_UNITS_TOLD = 10  # of a packet to namesakes: if one of all blocks needs a list in a step, all wait for that
_PART = 4  # words of a short row that a lane adds at once
_WARP, _WORD = 32, 32  # threads, bits
_LEAST_CARRIERS = 4  # warps that deliver
_FEW_LISTENERS = 4  # warps, beside which half of the threads of a block suit few neurons
_PLASTIC_WORDS = 2.5  # of a plastic synapse: its weight, its target, and its place in the second index
_PLASTIC_THREADS, _THREADS_IN_CLUSTER = 768, 512  # of a block with plastic synapses, at least; of one of a cluster
MOST_BLOCKS = 26 * _WARP  # each has a thread that listens to it
_LARGE, _SMALL = (2048, 1024), (256, 128)  # rows in the queue, own spikes in a list: beyond, lists in global memory
_LARGE_PLASTIC, _REACHED = (1024, 1024), 512  # the same beside lists of plastic synapses; spikes that reach those
_OF_ROOM = ("queue", "mine", "in_registers", "ring_in_block", "words_in_block", "reached", "lists", "table")
_OF_FOURS = ("fours", "kept_fours", "shared_fours")
_TABLE = 512  # words of the table of plastic synapses, if that is in shared memory
_OWN = 64  # bytes of a list in shared memory: the first neurons of two steps
MOST_SHARED_FOURS = 2**10
_DESK = 16 * 1024  # bytes of a block that pushes, about, besides states
_MANY = 2**19  # neurons, whose spikes take long to look up
_MANY_NEAR = 2**18  # neurons, of which many spike in a step, where sums are in 16 bits


@dataclass(frozen=True)
class Shape:
    """The structure of a kernel, and its launch: `shared` is dynamic shared memory.

    `copies` is how many inboxes there are: blocks that read the same lines wait for each other. `packets` is how many
    bytes all inboxes take. `row_words` is how many words of short rows a block has at most, and
    `values` how many words the values of spikes take, for even and for odd steps; `later` is how many words lists of
    synapses take that are added later.
    """

    structure: Structure
    shared: int
    copies: int
    packets: int
    row_words: int
    values: int = 0
    later: int = 0


def blocks_for(neurons: int, multiprocessors: int, asked: Any = None, *, clustered: bool = False) -> int:
    """Return how many blocks run a network: those that are asked for, or what suits its size, in one cluster or not."""
    if asked is None:
        if clustered:
            return min(CLUSTER, 1 << (-(-neurons // _NEURONS) - 1).bit_length())
        most = multiprocessors - multiprocessors % _WARP if multiprocessors % _WARP < multiprocessors // 16 else 0
        return max(1, min(most or multiprocessors, -(-neurons // _NEURONS), MOST_BLOCKS))
    if not is_integer(asked) or not 1 <= asked <= min(multiprocessors, MOST_BLOCKS):
        most = min(multiprocessors, MOST_BLOCKS)
        raise NetworkError(
            f"build: blocks is {asked!r}; pass an integer from 1 to {most}, the number of multiprocessors of the GPU"
        )
    return int(asked)


def blocks_beside(plan: Plan, kinds: Sequence[Kind], numbers: Any, alone: int, elements: int, most: int) -> int:
    """Return how many blocks run each of some networks side by side, of which one alone has `alone` blocks.

    They are fewer, as long as not all networks have multiprocessors of their own, of which there are `most`, and states
    have room in registers: then a step takes longer, but by less than there are more networks at once. Clusters leave
    some multiprocessors free.
    """
    blocks = alone
    while blocks > 1 and elements * blocks > (most - most // _APART if blocks <= CLUSTER else most):
        fewer = 1 << (blocks - 1).bit_length() - 1
        partition = partition_of(plan, kinds, numbers, fewer, threads_for(plan, kinds, fewer))
        if partition.per > MOST_THREADS and not partition.threads:
            break
        blocks = fewer
    return blocks


def in_cluster(blocks: int) -> bool:
    """Say whether a cluster can have this number of blocks."""
    return blocks <= CLUSTER and blocks.bit_count() == 1


def suits_cluster(plan: Plan, shared_bytes: int) -> bool:
    """Say whether a cluster of blocks has room for a network, with its synapses in shared memory."""
    neurons = sum(population.size for population in plan.populations)
    entries = sum(projection.entries for projection in plan.projections)
    receptors = max(len(population.quanta) for population in plan.populations)
    delay = max((projection.largest_delay for projection in plan.projections), default=1)
    own = neurons / CLUSTER
    fixed = entries - sum(one.entries for one in plan.plastic)
    needed = 4.5 * fixed / CLUSTER + 4 * neurons + 4 * own * receptors * (delay + 1) + 32 * 1024
    if plan.plastic:
        words = sum(one.entries * (_PLASTIC_WORDS + len(one.rules.states)) for one in plan.plastic)
        traces = sum(4 * one.sizes[0] * one.distinct.size * (len(one.rules.pre) + 2) for one in plan.plastic)
        needed += 4 * words / CLUSTER + traces + 32 * 1024
    return own <= _IN_CLUSTER and needed <= shared_bytes


def pushed(plan: Plan, partition: Partition) -> Partition:
    """Let blocks push, if there are many neurons and blocks have few of the synapses of each.

    On several GPUs, packets then are not a barrier for what blocks of other GPUs write beside spikes.
    """
    spikes_alone = not plan.couplings and not any(population.rule.value for population in plan.populations)
    entries = sum(projection.entries for projection in plan.projections)
    neurons = sum(population.size for population in plan.populations)  # not places, of which many may have none
    on_chip = partition.per <= MOST_THREADS or partition.threads > 0 or partition.on_chip
    many = partition.sources > _MANY or not on_chip
    pushing = replace(partition, pushed=True)
    suits = (
        many
        and not plan.plastic
        and (partition.gpus == 1 or spikes_alone)
        and entries < LONG_ROW * neurons * partition.blocks
    )
    return pushing if suits and sum(place_bits(plan, pushing)) <= _WORD else partition


def in_threads(
    plan: Plan,
    kinds: Sequence[Kind],
    threads: int,
    deal: Callable[[int], Partition],
    slots: int,
    shared_bytes: int,
    *,
    beside: bool,
) -> Partition:
    """Deal neurons to registers of so many threads; or of none, to shared memory, if threads then take few turns.

    In registers, all threads have neurons of one population at a time: with many small populations, each thread takes
    many turns, for few neurons, and empty places have sums, too, which take the room of those of later steps.
    """
    found = deal(threads)
    neurons = sum(population.size for population in plan.populations)
    turns = -(-neurons // (found.blocks * MOST_THREADS))
    if plan.plastic or beside or len(found.cells_of) <= _MORE_TURNS * turns:
        return found
    other = replace(deal(0), on_chip=True)
    room = room_of(other, kinds, slots, shared_bytes, wishes=wishes_of(plan, other, 0, beside=beside))
    on_chip = room.words_in_block == words_of(kinds) and (room.ring_in_block or room.sums.near > 0)
    return other if on_chip and room.sums.mixed else found


def in_fours(
    plan: Plan, kinds: Sequence[Kind], numbers: Mapping[str, int], partition: Partition, blocks: int, shared_bytes: int
) -> Partition:
    """Share neurons of blocks that push out in fours over threads, if registers have no room for all states."""
    coupled = plan.couplings or any(population.rule.value for population in plan.populations)
    if not partition.pushed or coupled or partition.per <= MOST_THREADS:
        return partition
    threads = threads_in_fours(plan, kinds, blocks, shared_bytes - _DESK)
    if not threads:
        return partition
    own = blocks // partition.gpus
    found = partition_of(plan, kinds, numbers, blocks, threads, fours=True)
    found = replace(found, pushed=True, first=own * (partition.first // partition.here), own=own)
    return found if found.common and sum(place_bits(plan, found)) <= _WORD else partition


@dataclass(frozen=True)
class Room:
    """Shared memory of a block: what lies there, and how many bytes are left for rows."""

    queue: int
    mine: int
    in_registers: bool
    ring_in_block: bool
    words_in_block: int  # of the states of each neuron
    more: int  # neurons that have one word more there
    taken: int
    left: int
    reached: int  # spikes that plastic synapses queue
    lists: int  # of events that they need
    table: int  # words of theirs
    of_warp: int = 0  # bytes that each warp needs
    sums: Sums = field(default=Sums())
    fours: tuple[int, ...] = ()  # as in `Structure`
    kept_fours: int = 0  # words of four neurons that a thread keeps in registers, if those are in fours
    shared_fours: int = 0  # the same in shared memory


def has_room(shared_bytes: int) -> bool:
    """Say whether there is room in the shared memory of a block for all that may lie there, besides the largest."""
    return shared_bytes >= 96 * 1024


def room_of(
    partition: Partition,
    kinds: Sequence[Kind],
    slots: int,
    shared_bytes: int,
    lists: int = 0,
    table: int = 0,
    of_warp: int = 0,
    handed: int = 0,
    wishes: Wishes | None = None,
    hold: int = 0,
) -> Room:
    """Share the shared memory of a block out over lists, the sums of the given number of slots, and states.

    `lists` is how many lists of events plastic synapses need, `table` how many words their table has, `of_warp` how
    many bytes each warp needs, and `handed` how many what blocks of a cluster hand each other. `wishes` are what else
    may lie there. Spikes are held for `hold` steps.
    """
    large = has_room(shared_bytes)
    queue, mine = (_LARGE_PLASTIC if lists else _LARGE) if large else _SMALL
    reached = (_REACHED if large and not handed else _WARP) if lists else 0  # those of a cluster are at hand
    if partition.pushed:  # no thread delivers spikes of other blocks, but for those of its namesakes
        queue = _WARP if partition.gpus == 1 else queue_among(partition.gpus, hold, large=large)
    desk = 8 * (mine + 8) + 4 * mine + 8 * queue + 240 + 2 * (16 * CLUSTER + 32)
    desk += bytes_among(partition, queue, mine, hold)
    desk += 32 * reached + (8 + _OWN) * lists + 64 + of_warp * MOST_THREADS // _WARP + handed if lists else 0
    table = table if large and table <= _TABLE else 0
    desk += 8 * table
    if desk > shared_bytes:
        raise NetworkError(
            f"build: a block needs {in_bytes(desk)} of shared memory for lists of spikes, and {in_bytes(shared_bytes)} "
            "are allowed; pass a larger shared_bytes="
        )
    left = shared_bytes - desk
    words = words_of(kinds)
    ring, word = 4 * slots * partition.cells, 4 * partition.per
    in_registers = partition.per <= MOST_THREADS
    ring_in_block = ring <= left and not partition.pushed
    taken = ring if ring_in_block else 0
    sums = sums_of(partition, kinds, slots, left - taken, wishes or Wishes(), ring_in_block=ring_in_block)
    taken += sums.taken
    kept = in_registers or len(partition.cells_of) > 0
    inside = 0 if kept else min(words, (left - taken) // max(1, word))
    taken += inside * word
    more = 0 if kept or inside == words else (left - taken) // 4
    taken += 4 * more
    of_fours = fractions_of(kinds) * len(partition.fours)
    kept_there = min(of_fours, kept_fours(partition.threads)) if of_fours else 0
    room = min(MOST_SHARED_FOURS, left // (16 * partition.threads)) if of_fours else 0
    shared_there = min(of_fours - kept_there, room)
    taken = max(taken, 16 * partition.threads * shared_there)
    places = queue, mine, in_registers, ring_in_block, inside, more, taken, left - taken
    return Room(*places, reached, lists, table, of_warp, sums, partition.fours, kept_there, shared_there)


def shape_of(
    partition: Partition,
    rows: DeviceRows,
    room: Room,
    kinds: tuple[int, ...],
    *,
    clustered: bool,
    beside: bool,
    checked: bool,
    only_nan: bool,
    clocked: bool,
    coupled: Mapping[str, Any],
    graded: bool,
    late: Mapping[str, Any],
) -> Shape:
    """Return the shape for rows in blocks that have so much room; `kinds` are those of populations.

    `coupled` is what of the structure couplings and sums decide. `late` is how late packets are read and lists of
    events released, and what of the structure several GPUs decide.
    """
    own_rows = bytes_in_block(partition.sources, rows.block_words, rows.start_bytes)
    rows_in_block = rows.layout == SHORT and own_rows <= room.left and not room.reached and not room.sums.near
    direct = rows_in_block or partition.pushed
    message = 0 if direct else message_units(rows, late)  # such rows are too short, and blocks too few, to wait for one
    listeners = _listeners(partition, message)
    threads = _threads(partition, listeners, rows.layout, direct=direct)
    structure = Structure(
        threads=partition.threads or max(threads, _least_threads(room, clustered=clustered)),
        listeners=listeners,
        layout=rows.layout,
        wide=rows.entry.wide,
        cluster=partition.blocks if clustered else 0,
        units=1 if clustered or partition.per <= MOST_THREADS else _units(partition, room),
        parts=_parts(rows.block_words / max(1, partition.sources)) if rows_in_block else 1,
        checked=checked,
        only_nan=only_nan,
        clocked=clocked,
        beside=beside,
        rows_in_block=rows_in_block,
        direct=direct,
        start_bytes=rows.start_bytes,
        narrow=rows.layout != PADDED and partition.per <= 2**16,
        **{name: getattr(room, name) for name in (*_OF_ROOM, *_OF_FOURS)} | dict(room.sums.structure),
        **_delivery(partition, rows, room, alone=direct or graded or room.reached > 0, direct=direct),
        cells=partition.cells_of,
        **_of_populations(partition, room, kinds),
        **{**coupled, **late, "message": message, "apart": rows.number_of is not None},
    )
    shared = room.taken + (own_rows if rows_in_block else 0) + room.of_warp * structure.threads // _WARP
    copies = 1 if clustered else inboxes_for(partition.here)
    packets = 16 * structure.kept * copies * (partition.blocks + -partition.blocks % _LINE) * structure.units
    values = 2 * _row_numbers(partition, rows) if graded else 0
    sizes = copies, packets, rows.block_words + rows.block_words % 2, values, room.sums.words
    return Shape(structure, shared, *sizes)


def _of_populations(partition: Partition, room: Room, kinds: tuple[int, ...]) -> Mapping[str, Any]:
    """Return the kinds of populations, if what those share is passed with a launch, or how many are mixed without."""
    return {"populations": kinds} if partition.common else {"many": len(kinds) if room.sums.mixed else 0}


def _units(partition: Partition, room: Room) -> int:
    """Return how many units a packet has, if blocks have many neurons."""
    told = partition.pushed and partition.gpus > 1 and room.mine == _LARGE[1]
    return _UNITS_TOLD if told else _UNITS


def _least_threads(room: Room, *, clustered: bool) -> int:
    """Return how many threads a block has at least, for plastic synapses."""
    return (_THREADS_IN_CLUSTER if clustered else _PLASTIC_THREADS) if room.reached else 0


def _delivery(partition: Partition, rows: DeviceRows, room: Room, *, alone: bool, direct: bool) -> Mapping[str, Any]:
    """Return how many rows a warp delivers at once, with a lane for four words, on average; or for two words of one.

    The former pays where sums are not in shared memory in 32 bits, the latter where some are there in 16 bits: then an
    addition takes long. If there are many rows, of which each takes its time, one has lanes for twice as many words.
    And say whether all warps deliver.
    """
    assert room.sums.mixed or not partition.parts  # else blocks do not know which neurons they have
    sources = int((rows.rows != NOBODY).sum())  # that have synapses on this GPU
    quads = rows.synapses.nbytes / 16 / max(1, sources * partition.here)
    few = _MOST_TOGETHER / (4 if partition.sources > MANY_ROWS else 2)
    one = alone or room.ring_in_block or rows.layout not in (PADDED, COMPACT) or quads > _MOST_TOGETHER
    helping = _all_deliver(sources, rows, room, direct=direct)
    two_words = room.sums.near > 0 and quads <= _TWO_EACH
    return {"together": 1 if one else 4 if quads > few else 8, "two_words": two_words, "helping": helping}


def _all_deliver(sources: int, rows: DeviceRows, room: Room, *, direct: bool) -> bool:
    """Say whether so many rows are delivered in a step that warps which send and listen help when that is done."""
    many = sources > (_MANY_NEAR if room.sums.near else MANY_ROWS)
    return many and rows.layout in (PADDED, COMPACT, PARTED) and not direct and not room.reached


def in_program(shape: Shape) -> Shape:
    """Return the shape of a kernel of JAX's programs, whose parameters are in memory: it has no neurons in fours."""
    if not shape.structure.fours:
        return shape
    return replace(shape, structure=replace(shape.structure, threads=MOST_THREADS, fours=(), falling=()))


def _listeners(partition: Partition, message: int) -> int:
    """Return how many warps listen to blocks, and to messages of some units."""
    heard = partition.blocks
    if partition.pushed or message:
        heard = partition.here + (partition.gpus - 1) * message
    return -(-heard // _WARP)


def list_words(shape: Shape, blocks: int, list_size: int) -> int:
    """Return how many words lists take: of the steps that are kept and one more, by block; then what comes behind."""
    return (shape.structure.kept + 1) * blocks * list_size + shape.values + shape.later


def _row_numbers(partition: Partition, rows: DeviceRows) -> int:
    """Return below which all numbers of rows are; those of padded rows are their places."""
    if rows.layout != PADDED:
        return partition.blocks * partition.per
    return 1 + int((rows.rows[rows.rows != NOBODY] & 0xFFFFFF).max(initial=0))


def _threads(partition: Partition, listeners: int, layout: int, *, direct: bool) -> int:
    per, many = partition.per, partition.gpus > 1 and listeners > _FEW_LISTENERS
    least = _WARP * (listeners + 1 + (0 if direct else _LEAST_CARRIERS))
    if layout in (SHORT, SLOTS) and per <= MOST_THREADS:
        suits = per + -per % _WARP + (0 if direct else _WARP * (listeners + 1))
    else:
        suits = MOST_THREADS if many or per > MOST_THREADS // 4 else MOST_THREADS // 2
    return min(MOST_THREADS, max(least, suits))


def _parts(words: float) -> int:
    return 4 if words > _PART * 2 else 2 if words > _PART else 1
