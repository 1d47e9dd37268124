# SPDX-License-Identifier: Apache-2.0
"""When each node runs, and where arrays are stored: new values replace old ones where nothing reads these any more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .schedule import Ranks, scheduled
from .values import Array, Node, View, is_whole, reads_own

__all__ = ["Layout"]

_BEFORE, _HEAD, _STEP = range(3)


class Layout:
    """The phase and the stage of each node that results need, and the places of arrays.

    The first nodes, `head`, decide whether there is a further step. `carries` are results by the number of an input.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        head: int,
        inputs: Sequence[Array],
        outs: Mapping[int, Array],
        carries: Mapping[int, int],
        more: Iterable[Array] = (),
        barred: Iterable[Array] = (),
        *,
        hoists_kernels: bool = True,
    ):
        self.inputs, self.outs, self.carries, self._barred = inputs, outs, carries, frozenset(barred)
        self._results = set(outs.values())
        kept = _needed(nodes, (*outs.values(), *more))
        self.phases = self._phases(kept, set(nodes[:head]), hoists_kernels)
        self.before, self.head, self.step = ([n for n in kept if self.phases[n] == phase] for phase in range(3))
        self.maker = {array: node for node in kept for array in node.outs}
        self.ranks: Ranks = scheduled(self.before) | scheduled(self.head) | scheduled(self.step)
        self._order = {node: place for place, node in enumerate(kept)}
        self._readers: dict[Array, list[tuple[Node, int, View]]] = {}
        for node in kept:
            for place, view in enumerate(node.ins):
                if isinstance(view.base, Array):
                    self._readers.setdefault(view.base, []).append((node, place, view))
        self._replacing: dict[Array, tuple[int, ...]] = {}  # arrays that are stored in results of carries
        for number, i in carries.items():
            for array in self._chain(number, i):
                self._replacing[array] = (*self._replacing.get(array, ()), i)
        self.places: dict[Array, tuple[str, ...]] = {}
        for array in self.maker:
            self.places[array] = tuple(self._places(array))
        self.late = self._late()

    def _phases(self, kept: Sequence[Node], head: set[Node], hoists_kernels: bool) -> dict[Node, int]:
        phases, fixed = dict[Node, int](), set[Array]()
        for node in kept:
            bases = [view.base for view in node.ins if isinstance(view.base, Array)]
            constant = all(base.home == "const" or base in fixed for base in bases)
            constant = constant and self._barred.isdisjoint(bases)
            constant = constant and self._results.isdisjoint(node.outs)
            constant = constant and (hoists_kernels or node.call is None or not node.call.may_fail)
            fixed |= set(node.outs) if constant else set()
            phases[node] = _BEFORE if constant else _HEAD if node in head else _STEP
        return phases

    # ---- in place

    def _chain(self, number: int, i: int) -> list[Array]:
        """Return the arrays that may be stored in the memory of a carry, one after the other, the last one first."""
        old, new = self.inputs[number], self.outs[i]
        if not old.shape or not self._dies(old, new):
            return []
        if new in self._replacing:
            return [] if self.maker[new].call is not None else [new]
        chain = [new]
        while (base := self._replaced_by(chain[-1])) is not None and self._dies(old, base):
            chain.append(base)
        return chain

    def _replaced_by(self, array: Array) -> Array | None:
        """Return an array, read for the last time by what makes another one, in whose memory this can be made."""
        node = self.maker[array]
        for reader in self._together(node):
            for place, view in enumerate(reader.ins):
                base = view.base
                if not isinstance(base, Array) or base not in self.maker or base in self._results | {array}:
                    continue
                maker = self.maker[base]
                if self.phases[maker] != _STEP or maker in self._together(node) or base in self._replacing:
                    continue
                alike = base.shape != () and (base.size, base.dtype) == (array.size, array.dtype)
                reused = node.call is None or (place, node.outs.index(array)) in node.call.reuses
                if alike and reused and self._dies(base, array):
                    return base
        return None

    def _together(self, node: Node) -> list[Node]:
        """Return the nodes that share a loop over elements with a node."""
        if node.call is not None or node.is_scalar:
            return [node]
        alike = (self.ranks[node], self.phases[node], node.shape)
        lanes = (n for n in self._order if n.call is None)
        return [n for n in lanes if (self.ranks[n], self.phases[n], n.shape) == alike]

    def _dies(self, old: Array, new: Array) -> bool:
        """Say whether nothing reads an array once another one is written: what writes it may read it."""
        writer = self.maker[new]
        if self.phases[writer] != _STEP:
            return False
        readers = self._readers.get(old, ())
        return all(self._reads_before(reader, view, place, writer, new) for reader, place, view in readers)

    def _reads_before(self, reader: Node, view: View, place: int, writer: Node, new: Array) -> bool:
        if self.phases[reader] != _STEP:
            return True
        if self.ranks[reader] != self.ranks[writer]:
            return self.ranks[reader] < self.ranks[writer]
        if reader is writer and writer.call is not None:
            reused = (place, writer.outs.index(new)) in writer.call.reuses
            return reused and is_whole(view) and sum(each.base is view.base for each in writer.ins) == 1
        kinds = [0 if n.is_scalar else 2 if n.call is not None else 1 for n in (reader, writer)]
        if kinds[0] != kinds[1]:
            return kinds[0] < kinds[1]
        if kinds[0] == 2:
            return self._order[reader] < self._order[writer]
        return kinds[0] == 1 and reader.shape == writer.shape and reads_own(view, reader.shape)

    # ---- places

    def _places(self, array: Array) -> list[str]:
        """Return where an array is stored: in results, or in memory of its own; nowhere if only its loop reads it."""
        node = self.maker[array]
        if node.is_scalar:
            return []
        own = [i for i, each in self.outs.items() if each is array and array.shape]
        results = [f"o{i}" for i in self._replacing.get(array, ())]
        results += [f"o{i}" for i in own if i not in self.carries.values()]
        if node.call is not None:
            return [*results[:1]] or [self._taken_over(array) or f"b{array.number}"]
        waiting = any(i in self.carries.values() and f"o{i}" not in results for i in own)
        read = waiting or self._is_read(array)
        if array in self._replacing and not own:
            return results if read else []
        return results or ([f"b{array.number}"] if read else [])

    def _taken_over(self, array: Array) -> str | None:
        """Return the memory of an operand of a call that its result takes over."""
        base = self._replaced_by(array) if array.shape and self.phases[self.maker[array]] == _STEP else None
        place = self.places[base][0] if base is not None and self.places[base] else ""
        return place if place.startswith("b") else None

    def _is_read(self, array: Array) -> bool:
        """Say whether anything but its own loop reads an array."""
        maker = self.maker[array]
        return any(
            node.call is not None
            or (self.phases[node], self.ranks[node]) != (self.phases[maker], self.ranks[maker])
            or not reads_own(view, node.shape)
            for node, _, view in self._readers.get(array, ())
        )

    def _late(self) -> list[tuple[int, Array]]:
        """Return the results that are copied at the end of a step."""
        arrays = [(i, array) for i, array in sorted(self.outs.items()) if array.shape]
        return [(i, array) for i, array in arrays if f"o{i}" not in self.places[array]]


def _needed(nodes: Sequence[Node], results: Iterable[Array]) -> list[Node]:
    """Return the nodes that results need, in their order."""
    wanted, kept = set(results), list[Node]()
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outs):
            kept.append(node)
            wanted |= {view.base for view in node.ins if isinstance(view.base, Array)}
    return kept[::-1]
