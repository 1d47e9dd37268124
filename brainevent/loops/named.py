# SPDX-License-Identifier: Apache-2.0
"""What values are called in the text of a plan, and the order of its parts, whatever language it is in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

from .values import Array, Node, Plan, Stage

__all__ = ["Named"]

_Piece = TypeVar("_Piece")  # of the text: a line, or what a line belongs to


class Named(Generic[_Piece]):
    """The base of what writes a plan: names of its results, arrays and scalars, each with a prefix; and its stages."""

    def __init__(self, plan: Plan, prefix: str = ""):
        self.plan, self.prefix = plan, prefix

    def _result(self, i: int) -> str:
        """Return the array of a result: for one that has a row for each step, that of this step."""
        return f"{self.prefix}{'y' if i in self.plan.rows else 'o'}{i}"

    def _place(self, place: str) -> str:
        return self._result(int(place[1:])) if place.startswith("o") else f"{self.prefix}{place}"

    def _flat(self, array: Array) -> str:
        """Return where an array is read, as one with a single axis."""
        if array.home == "made":
            return self._place(self.plan.places[array][0])
        if array.home == "carry":
            return f"{self.prefix}o{self.plan.carries[array.number]}"
        return f"{self.prefix}{'r' if array.home == 'row' else 'p'}{array.number}"

    def _scalar_text(self, array: Array) -> str:
        return f"{self.prefix}{'s' if array.home == 'made' else 'c'}{array.number}"

    def _is_read_outside(self, array: Array, nodes: Sequence[Node]) -> bool:
        """Say whether anything but these nodes reads an array."""
        go = self.plan.go
        if array in self.plan.outs.values() or (go is not None and go.base is array):
            return True
        readers = (node for node in self.plan.nodes() if any(view.base is array for view in node.ins))
        return any(reader not in nodes for reader in readers)

    def _stages(self, stages: Sequence[Stage]) -> list[_Piece]:
        """Write stages one after the other."""
        pieces: list[_Piece] = []
        for stage in stages:
            pieces += self._scalars(stage.scalars) if stage.scalars else []
            for loop in stage.loops:
                pieces += self._loop(loop)
            for node in stage.calls:
                pieces += self._call(node)
        return pieces

    def _scalars(self, nodes: Sequence[Node]) -> Sequence[_Piece]:
        """Write nodes that compute scalars."""
        raise NotImplementedError

    def _loop(self, nodes: Sequence[Node]) -> Sequence[_Piece]:
        """Write a loop over elements."""
        raise NotImplementedError

    def _call(self, node: Node) -> Sequence[_Piece]:
        """Write a call."""
        raise NotImplementedError
