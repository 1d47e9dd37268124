# SPDX-License-Identifier: Apache-2.0
"""What all threads run one after the other, and where they have to meet in between."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..values import Texts

__all__ = ["MEET", "Access", "Branches", "Item", "Loop", "Phase", "owned", "place_of", "renamed", "shared"]
__all__ += ["with_meetings"]

MEET = "meet(met, turn);"
_PLACE = re.compile(r"\b((?:w\d+)?[opryzb]\d+[nl]?)\b")

# A thread has the elements k, k + threads, k + 2 * threads ... of an array as its own.
_OWN, _ANY = 0, 1


class Access(NamedTuple):
    """A place, whose elements of it, and whether they are written; `rows` are loops of whose step it is a row."""

    place: str
    whose: int
    writes: bool
    rows: tuple[str, ...] = ()

    def of_any(self) -> Access:
        """Return it as an access to any elements."""
        return self._replace(whose=_ANY)


_Accesses = frozenset[Access]


@dataclass(frozen=True)
class Phase:
    """Lines that need no barrier among them, and what they read and write."""

    lines: Texts
    accesses: _Accesses = frozenset()


def _another_row(loop: str, access: Access) -> Access | None:
    """Return an access as the next step of a loop knows it: this has another row."""
    return None if access.rows[-1:] == (loop,) else access


@dataclass(frozen=True)
class Loop:
    """What is repeated about so many `times`: phases of the `head`, then, unless `leaves` ends the loop, of the `step`.

    All threads leave it in the same step. `later` is what an access is called in the next step; None if that has
    another place.
    """

    name: str
    opening: str
    step: Sequence[Item]
    times: int
    head: Sequence[Item] = ()
    leaves: str = ""
    later: Callable[[Access], Access | None] | None = None


@dataclass(frozen=True)
class Branches:
    """Phases after the condition of each; all threads take the same one."""

    cases: tuple[tuple[str, Sequence[Item]], ...]


Item = Phase | Loop | Branches


def place_of(text: str) -> str | None:
    """Return the place that an expression of an array names."""
    found = _PLACE.search(text)
    return found[1] if found else None


def owned(reads: Iterable[str] = (), writes: Iterable[str] = ()) -> _Accesses:
    """Return accesses of threads to their own elements."""
    return _accesses(_OWN, reads, writes)


def shared(reads: Iterable[str] = (), writes: Iterable[str] = ()) -> _Accesses:
    """Return accesses of threads to any elements."""
    return _accesses(_ANY, reads, writes)


def _accesses(whose: int, reads: Iterable[str], writes: Iterable[str]) -> _Accesses:
    pairs = [(place_of(text), writing) for texts, writing in ((reads, False), (writes, True)) for text in texts]
    return frozenset(Access(place, whose, writing) for place, writing in pairs if place is not None)


def renamed(items: Sequence[Item], name: Callable[[Access], Access]) -> list[Item]:
    """Return items whose accesses are called otherwise."""
    found: list[Item] = []
    for item in items:
        if isinstance(item, Phase):
            found.append(Phase(item.lines, frozenset(map(name, item.accesses))))
        elif isinstance(item, Loop):
            found.append(replace(item, head=renamed(item.head, name), step=renamed(item.step, name)))
        else:
            found.append(Branches(tuple((case, renamed(inner, name)) for case, inner in item.cases)))
    return found


def _conflict(accesses: _Accesses, pending: _Accesses) -> bool:
    """Say whether one thread may read or write what another one writes, or the other way round."""
    for one in accesses:
        for other in pending:
            apart = one.place != other.place or not (one.writes or other.writes)
            if not apart and (_ANY in (one.whose, other.whose) or one.rows != other.rows):
                return True
    return False


@dataclass(frozen=True)
class _Met:
    """Lines with barriers, about how often threads meet there, and accesses since they met for the last time."""

    lines: Texts
    meetings: int
    pending: _Accesses


def with_meetings(items: Sequence[Item]) -> tuple[Texts, int]:
    """Return lines, with barriers where threads have to meet, and about how often they meet."""
    met = _through(items, frozenset())
    return met.lines, met.meetings


def _through(items: Sequence[Item], pending: _Accesses) -> _Met:
    lines: Texts = []
    meetings = 0
    for item in items:
        if isinstance(item, Phase):
            meets = _conflict(item.accesses, pending)
            pending = item.accesses | (frozenset() if meets else pending)
            lines += [MEET, *item.lines] if meets else item.lines
            meetings += meets
        else:
            met = _repeated(item, pending) if isinstance(item, Loop) else _chosen(item, pending)
            lines += met.lines
            meetings, pending = meetings + met.meetings, met.pending
    return _Met(lines, meetings, pending)


def _repeated(loop: Loop, pending: _Accesses) -> _Met:
    """Go through a loop; threads meet once before it if they would else meet in each step for what came before."""
    met, alone = _in_steps(loop, pending), _in_steps(loop, frozenset())
    return met if met.meetings <= alone.meetings else replace(alone, lines=[MEET, *alone.lines])


def _in_steps(loop: Loop, pending: _Accesses) -> _Met:
    """Go through a loop until nothing more is pending when a step begins."""
    while True:
        head = _through(loop.head, pending)
        step = _through(loop.step, head.pending)
        ended = (
            loop.later(access) if loop.later is not None else _another_row(loop.name, access) for access in step.pending
        )
        again = pending | {access for access in ended if access is not None}
        if again == pending:
            break
        pending = again
    left = head if loop.leaves else step
    lines = [*head.lines, *([loop.leaves] if loop.leaves else []), *step.lines]
    rows = ((access, access.rows[-1:] == (loop.name,)) for access in left.pending)
    after = frozenset(access.of_any()._replace(rows=access.rows[:-1]) if row else access for access, row in rows)
    return _Met([loop.opening, *_indented(lines), "}"], loop.times * (head.meetings + step.meetings), after)


def _chosen(branches: Branches, pending: _Accesses) -> _Met:
    met = [(case, _through(items, pending)) for case, items in branches.cases]
    lines = [line for case, each in met for line in (f"{case} {{", *_indented(each.lines), "}")]
    return _Met(
        lines, max(each.meetings for _, each in met), frozenset(access for _, each in met for access in each.pending)
    )


def _indented(lines: Sequence[str]) -> Texts:
    return [f"    {line}" for line in lines]
