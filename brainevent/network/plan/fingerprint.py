# SPDX-License-Identifier: Apache-2.0
"""Hash descriptions: all that decides a network, for checkpoints, and projections that are described twice."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..._pieces import pieces
from ...scalar.trace import Told, TracedRule
from ..description.coupling import Coupling
from .plan import PopulationPlan
from .wiring import Wiring

__all__ = ["content_of", "fingerprint", "repeats_of"]

_PLAIN = (str, bool, int, type(None))
_NAMED = {"Distribution": "Law"}  # in checkpoints


def fingerprint(populations: Sequence[PopulationPlan], wirings: Sequence[Wiring], *others: Any) -> str:
    """Return a hash of populations, of descriptions of projections and couplings, and of numbers such as the seed.

    It does not depend on lines of the user's files, nor on the number of parts. Descriptions of plastic synapses are
    among the others.
    """
    digest = hashlib.sha256()
    known: dict[int, bytes] = {}
    for wiring in wirings:
        link = wiring.projection
        ends = _ends(wiring)
        if isinstance(link, Coupling):
            ends += (link.of, link.difference)
        _add(digest.update, (ends, _described(wiring, "projection")), known)
    _add(digest.update, (tuple(populations), others), known)
    return digest.hexdigest()


def _ends(wiring: Wiring) -> tuple[Any, ...]:
    """Return the names of both populations and of the receptor; with the neurons of parts, if synapses are drawn."""
    source, target = wiring.projection.populations
    parts = () if wiring.ends is None else (wiring.ends.sources, wiring.ends.targets)
    return (source.name, target.name, wiring.projection.into, *parts)


def content_of(wiring: Wiring) -> bytes:
    """Return a hash of the description of synapses, without names."""
    digest = hashlib.sha256()
    _add(digest.update, (_ends(wiring), _described(wiring, "projection", "name")), {})
    return digest.digest()


def _described(wiring: Wiring, *left_out: str) -> dict[str, Any]:
    """Return what decides the synapses of a wiring, by name."""
    found = {key: getattr(wiring, key) for key in _fields(Wiring) if key not in left_out}
    if wiring.grouped is not None:
        found |= {"table": wiring.grouped.table, "by": wiring.grouped.by}
    return found if wiring.chance is None else {**found, "chance": wiring.chance}


@functools.cache
def _fields(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind) if field.compare]


def _add(add: Callable[[Any], None], value: Any, known: dict[int, bytes]) -> None:
    """Add a value and all that it consists of; `known` are rules that were added before."""
    if isinstance(value, _PLAIN):
        add(f"{value!r};".encode())
    elif isinstance(value, (np.ndarray, np.generic)):
        add(f"{value.dtype}{value.shape}".encode())
        flat = np.ascontiguousarray(value).reshape(-1)
        for piece in pieces(flat.size):
            add(flat[piece].data)
    elif isinstance(value, TracedRule):
        if id(value) not in known:
            text = bytearray()
            _add(text.extend, value.form, known)
            if value.told != Told():
                _add(text.extend, value.told, known)
            known[id(value)] = bytes(text)
        add(known[id(value)])
    elif dataclasses.is_dataclass(value):
        kind: Any = type(value)
        _add(add, (_NAMED.get(kind.__name__, kind.__name__), [getattr(value, name) for name in _fields(kind)]), known)
    elif isinstance(value, Mapping):
        _add(add, list(value.items()), known)
    elif isinstance(value, (tuple, list)):
        add(f"({len(value)}".encode())
        for part in value:
            _add(add, part, known)
    else:
        add(f"{value!r};".encode())


def repeats_of(wirings: Sequence[Wiring]) -> tuple[tuple[str, ...], ...]:
    """Return the names of projections that differ in nothing but their names, a group for each description."""
    alike = defaultdict(list)
    for wiring in wirings:
        ends = *(population.name for population in wiring.projection.populations), wiring.projection.into
        shapes = np.shape(wiring.weights), np.shape(wiring.steps)  # () of what is drawn
        alike[*ends, wiring.kind, wiring.number, *shapes].append(wiring)
    groups: list[tuple[str, ...]] = []
    for some in alike.values():
        same = defaultdict(list)
        for wiring in some if len(some) > 1 else ():
            same[content_of(wiring)].append(wiring.name)
        groups += [tuple(names) for names in same.values() if len(names) > 1]
    return tuple(groups)
