# SPDX-License-Identifier: Apache-2.0
"""How blocks of several GPUs exchange spikes: how many steps late, in which inboxes, in packets or in messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...plan.plan import Plan
from ..partition import Partition
from ..rows import DeviceRows
from ..structs import PARTED

__all__ = [
    "MOST_LAG",
    "bytes_among",
    "delivers_at_once",
    "exchange_structure",
    "inboxes_for",
    "lag_for",
    "least_delay",
    "message_units",
    "queue_among",
]

MOST_LAG = 3  # steps: with more, blocks wait no less, and packets and lists take more memory
_MOST_HOLD, _KEPT = 14, 32  # steps for which spikes are held before they are pushed; of which packets are kept then
_AT_ONCE = 3  # if spikes are held for more steps, threads of a block meet once in a step: MEETS_ONCE in deliver.cu
_QUEUED = 64, 24  # rows that are looked up before they are pushed, of a block and of each of its namesakes elsewhere
_FAR = 2  # inboxes of another GPU: with one its blocks wait for the same lines, and more stores to it take longer
_MESSAGE = 32  # units of 16 bytes that one GPU sends another one in a step, if fewer listen to them than to blocks
_MESSAGE_OF_PARTS = 128  # the same, if that GPU has parts: of many neurons, as many spikes as there is room for
_MESSAGES = False  # also where rows lie at one place on all GPUs: packets, which say it, took 3.02 us, messages 3.20
_WARP = 32


def exchange_structure(partition: Partition, plan: Plan, multiprocessors: int) -> dict[str, int]:
    """Return what of the structure several GPUs of so many multiprocessors decide.

    Spikes are delivered at once if states are checked, since the step in which one is not finite is the last one, and
    if blocks read states of the step before. Blocks that push hold them. If they are delivered later, a spare block of
    each GPU may tell the others of them: it does so if rows lie elsewhere on each of these, where neurons are placed.
    """
    at_once = partition.pushed or delivers_at_once(plan)
    hold, waited = _hold_for(plan) if partition.pushed else (0, 0)
    lag = waited if at_once else lag_for(least_delay(plan))
    placed = partition.placement
    if placed:
        lag = placed.lag
    message = min(_MESSAGE_OF_PARTS, partition.here - 1) if partition.parts else _MESSAGE
    told = (
        not partition.pushed
        and lag + partition.extra > 0
        and 0 < message < partition.here < multiprocessors
        and not plan.plastic
    )
    told = told and (_MESSAGES or placed is not None)
    far = _far_inboxes(partition.here, partition.gpus)
    found = {"gpus": partition.gpus, "far": far, "lag": lag, "message": message if told else 0}
    return {
        **found,
        "extra": partition.extra,
        "placed": placed is not None,
        "groups": len(partition.parts),
        "groups_apart": placed is not None and placed.apart,
        "hold": hold,
        "piece": _piece(partition, plan),
    }


def _piece(partition: Partition, plan: Plan) -> int:
    """Return how many lanes push a row: those that read a row of mean length at once, four synapses each."""
    synapses = sum(one.entries for one in plan.projections)
    quads = synapses // (4 * max(1, partition.sources * partition.gpus)) + 1  # rows begin and end within fours
    return min(32, max(4, 1 << (quads - 1).bit_length()))


def _hold_for(plan: Plan) -> tuple[int, int]:
    """Return for how many steps spikes are held, and how many steps later blocks of one GPU wait for each other.

    They are held for no step rather than one, since own ones are not at hand yet. If there is time, they are pushed one
    step before the last possible one: then no block awaits those that are slower in a step.
    """
    hold = 0 if delivers_at_once(plan) else min(_MOST_HOLD, least_delay(plan) - 1)
    return (hold - 1, 1) if hold > 2 else (hold, 0) if hold > 1 else (0, 0)


def delivers_at_once(plan: Plan) -> bool:
    """Say whether the spikes of a step must be delivered in that step."""
    return bool(plan.check_finite or plan.couplings or any(p.rule.value for p in plan.populations))


def least_delay(plan: Plan) -> int:
    """Return the least delay of any synapse; 1 if there are none."""
    return min((p.delays[0] for p in plan.projections if p.entries), default=1)


def lag_for(delay: int) -> int:
    """Return by how many steps spikes may be delivered later, given the least delay."""
    return min(MOST_LAG, delay - 1)


def _far_inboxes(blocks: int, gpus: int) -> int:
    """Return how many inboxes of each other GPU a block writes to, if a GPU has so many: a lane of the sender each."""
    copies = inboxes_for(blocks)
    return min(_FAR, copies, (_WARP - copies) // (gpus - 1)) if gpus > 1 else 0


def message_units(rows: DeviceRows, late: Mapping[str, Any]) -> int:
    """Return how many units a message has, 0 if packets take its place."""
    tells = _MESSAGES or rows.number_of is not None or rows.layout == PARTED
    return late.get("message", 0) if tells else 0


def inboxes_for(blocks: int) -> int:
    """Return how many inboxes for packets a GPU with so many blocks has: blocks that read one wait for each other."""
    return 12 if blocks > 2 * _WARP else 8 if blocks >= 8 else 1


def queue_among(gpus: int, hold: int, *, large: bool) -> int:
    """Return how many rows blocks that push look up before they do, on several GPUs; there is more room in `large`."""
    return (2 if hold else 1) * _QUEUED[not large] * gpus


def bytes_among(partition: Partition, queue: int, mine: int, hold: int) -> int:
    """Return how many bytes more blocks need that push on several GPUs, and hold spikes for so many steps."""
    if not partition.pushed or partition.gpus == 1:
        return 0
    twice = 4 * (mine + queue) + 128 if hold > _AT_ONCE else 0  # spikes of two steps are recorded, and rows numbered
    return 4 * (queue + 2 * partition.gpus + 2 * _KEPT) + twice
