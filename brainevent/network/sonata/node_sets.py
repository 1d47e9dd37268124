# SPDX-License-Identifier: Apache-2.0
"""Choose nodes by a node set: by name, by values of their attributes, or as a list of sets."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from .nodes import Nodes

__all__ = ["chosen_nodes"]

Array = Any

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "$gt": np.greater,
    "$gte": np.greater_equal,
    "$lt": np.less,
    "$lte": np.less_equal,
    "$eq": np.equal,
    "$neq": np.not_equal,
}
_ALL = ("all",)
_IDS = ("node_id", "node_ids", "gid")


def chosen_nodes(where: str, given: Any, sets: Mapping[str, Any], nodes: Mapping[str, Nodes]) -> dict[str, Array]:
    """Return which nodes of each population are in a set, bool (nodes,), without populations that have none."""
    found = _chosen(where, given, sets, nodes, ())
    return {name: mask for name, mask in found.items() if mask.any()}


def _chosen(
    where: str, given: Any, sets: Mapping[str, Any], nodes: Mapping[str, Nodes], within: tuple[str, ...]
) -> Any:
    if isinstance(given, str):
        if given in within:
            raise NetworkError(f"{where}: node set {' -> '.join((*within, given))} refers to itself")
        if given in sets:
            return _chosen(where, sets[given], sets, nodes, (*within, given))
        if given in nodes:
            return {given: np.ones(nodes[given].ids.size, bool)}
        if given in _ALL:
            return {name: np.ones(one.ids.size, bool) for name, one in nodes.items()}
        known = [*sets, *nodes]
        raise NetworkError(
            f"{where}: there is no node set {given!r}{did_you_mean(given, known)}; sets: {', '.join(known)}"
        )
    if isinstance(given, list):
        if all(isinstance(one, int) for one in given):
            return _by_values(where, {"node_id": given}, nodes)
        masks: dict[str, Array] = {}
        for one in given:
            for name, mask in _chosen(where, one, sets, nodes, within).items():
                masks[name] = masks.get(name, False) | mask
        return masks
    if isinstance(given, dict):
        return _by_values(where, given, nodes)
    raise NetworkError(f"{where}: node set is {given!r}; it must be a name, a list, or an object of attributes")


def _by_values(where: str, rules: Mapping[str, Any], nodes: Mapping[str, Nodes]) -> dict[str, Array]:
    rules = dict(rules)
    populations = rules.pop("population", None)
    names = list(nodes) if populations is None else populations if isinstance(populations, list) else [populations]
    for name in names:
        if name not in nodes:
            raise NetworkError(f"{where}: there is no population {name!r}{did_you_mean(name, nodes)}")
    masks, known = {}, dict.fromkeys(rules, False)
    for name in names:
        one = nodes[name]
        masks[name] = np.ones(one.ids.size, bool)
        for key, value in rules.items():
            fits, has = _fits(where, one, key, value)
            masks[name] &= fits
            known[key] |= has
    for key, has in known.items():
        if not has:
            raise NetworkError(f"{where}: no node has the attribute {key!r}, by which a node set chooses")
    return masks


def _fits(where: str, nodes: Nodes, key: str, value: Any) -> tuple[Array, bool]:
    """Return which nodes have a value, and whether any node has the attribute."""
    wanted = value if isinstance(value, list) else [value]
    is_id = key in _IDS
    if is_id and not isinstance(value, dict):
        if not all(isinstance(one, int) for one in wanted):
            raise NetworkError(f"{where}: a node set has the {key} {value!r}; it must be an integer, or a list of them")
        return np.isin(nodes.ids, wanted), True
    if isinstance(value, dict) and "$regex" not in value:
        unknown = [name for name in value if name not in _OPERATORS]
        if unknown:
            raise NetworkError(
                f"{where}: a node set has the operator {unknown[0]!r}; known: $regex, {list(_OPERATORS)}"
            )
        numbers = nodes.ids.astype(np.float64) if is_id else nodes.attributes.numbers(key)
        fits = [_OPERATORS[name](numbers, one) & ~np.isnan(numbers) for name, one in value.items()]
        return np.logical_and.reduce(fits), not np.isnan(numbers).all()
    if key == "node_type_id":
        types = nodes.attributes.types.ids
        return np.isin(types[nodes.attributes.rows], wanted) if types.size else np.zeros(nodes.ids.size, bool), True
    codes, words = nodes.attributes.words(key)
    if isinstance(value, dict):
        good = [word is not None and re.search(value["$regex"], str(word)) is not None for word in words]
    else:
        good = [word is not None and any(_same(word, one) for one in wanted) for word in words]
    present = np.array([word is not None for word in words])
    codes = np.broadcast_to(codes, nodes.ids.shape)
    return np.array(good, bool)[codes], bool(present[codes].any())


def _same(word: Any, wanted: Any) -> bool:
    """Compare a value of a file, which may be text, with one of JSON."""
    if isinstance(wanted, (str, bool)):
        return str(word) == str(wanted)
    try:
        return float(word) == float(wanted)
    except (TypeError, ValueError):
        return False
