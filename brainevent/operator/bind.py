# SPDX-License-Identifier: Apache-2.0
"""What a bind carries besides `outs` and the keyword arguments of the call, as one frozen value."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _jit_key
from .batch import Levels
from .keywords import kinds_of

__all__ = ["CARRIED", "RESERVED", "Carried", "completed", "split", "with_levels"]

CARRIED = "_carried"  # the parameter that holds it, if there is anything to hold


class Carried(NamedTuple):
    """What authors do not see of a bind. A tuple, since JAX hashes it at each call."""

    levels: Levels = ()  # the levels of vmap
    block: tuple[tuple[str, str], ...] = ()  # what the `with` blocks around the call chose
    tree: tuple[Any, ...] = ()  # the structure of outs, where it is more than a sequence; None could not be compared
    kinds: tuple[tuple[str, Any], ...] = ()  # what tells keyword arguments from others that are equal

    @property
    def structure(self) -> Any:
        """The structure of `outs`, None for a sequence."""
        return self.tree[0] if self.tree else None

    def __repr__(self) -> str:
        said = (f"{name}={value!r}" for name, value in self._asdict().items() if value != self._field_defaults[name])
        return f"Carried({', '.join(said)})"


_NOTHING = Carried()
RESERVED = frozenset({CARRIED, *(f"_{name}" for name in Carried._fields)})  # keywords that no operator takes


def split(params: dict[str, Any]) -> tuple[dict[str, Any], Carried]:
    """Separate what an author sees of a bind's parameters from what it carries."""
    mine = dict(params)
    carried: Carried = mine.pop(CARRIED, _NOTHING)
    return mine, carried


def with_levels(params: dict[str, Any], levels: Levels) -> dict[str, Any]:
    """Return the parameters of the same bind with other levels of `vmap`."""
    return {**params, CARRIED: params.get(CARRIED, _NOTHING)._replace(levels=levels)}


def completed(params: dict[str, Any]) -> dict[str, Any]:
    """Add to the parameters of a bind what only the place of the call tells, and what tells equal values apart."""
    block = _jit_key.block_choices()
    if CARRIED not in params:
        kinds = kinds_of(params)
        return {**params, CARRIED: Carried((), block, (), kinds)} if block or kinds else params
    mine, given = split(params)
    return {**mine, CARRIED: Carried(given.levels, given.block or block, given.tree, kinds_of(mine))}
