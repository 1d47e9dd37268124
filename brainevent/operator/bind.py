# SPDX-License-Identifier: Apache-2.0
"""The parameters of a bind besides `outs` and the keyword arguments of the call, as one frozen value."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _jit_key
from .batch import Levels
from .keywords import kinds_of

__all__ = ["CARRIED", "RESERVED", "Carried", "completed", "split", "with_levels"]

CARRIED = "_carried"  # the parameter with this value, if it is not empty


class Carried(NamedTuple):
    """The part of a bind that authors do not see. A tuple, because JAX hashes it at each call."""

    levels: Levels = ()  # the levels of vmap
    block: tuple[tuple[str, str], ...] = ()  # the choices of the `with` blocks around the call
    tree: tuple[Any, ...] = ()  # the structure of outs, if it is not a sequence; None cannot be compared
    kinds: tuple[tuple[str, Any], ...] = ()  # distinguishes keyword arguments that are equal

    @property
    def structure(self) -> Any:
        """The structure of `outs`, None for a sequence."""
        return self.tree[0] if self.tree else None

    def __repr__(self) -> str:
        said = (f"{name}={value!r}" for name, value in self._asdict().items() if value != self._field_defaults[name])
        return f"Carried({', '.join(said)})"


_NOTHING = Carried()
RESERVED = frozenset({CARRIED, *(f"_{name}" for name in Carried._fields)})  # reserved keywords


def split(params: dict[str, Any]) -> tuple[dict[str, Any], Carried]:
    """Separate a bind's parameters into those that authors see, and `Carried`."""
    mine = dict(params)
    carried: Carried = mine.pop(CARRIED, _NOTHING)
    return mine, carried


def with_levels(params: dict[str, Any], levels: Levels) -> dict[str, Any]:
    """Return the parameters of the same bind with other levels of `vmap`."""
    return {**params, CARRIED: params.get(CARRIED, _NOTHING)._replace(levels=levels)}


def completed(params: dict[str, Any]) -> dict[str, Any]:
    """Add to a bind's parameters the choices at the place of the call, and the kinds of equal values."""
    block = _jit_key.block_choices()
    if CARRIED not in params:
        kinds = kinds_of(params)
        return {**params, CARRIED: Carried((), block, (), kinds)} if block or kinds else params
    mine, given = split(params)
    return {**mine, CARRIED: Carried(given.levels, given.block or block, given.tree, kinds_of(mine))}
