# SPDX-License-Identifier: Apache-2.0
"""Whether operands have the sizes that a sharding rule gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .batch import Levels, without_levels
from .sharding import ShardingRule, ShardingRuleOfCall

__all__ = ["clash", "clash_of_call"]


def clash(rule: ShardingRule, operands: Sequence[Any], levels: Levels = ()) -> str:
    """Return a note on a factor with two sizes in operands of these types; a size of 1 matches any other."""
    types = [without_levels(x, i, levels) for i, x in enumerate(operands)]
    seen: dict[str, tuple[int, int]] = {}  # of each factor: its size, and the first operand that has it
    sides = rule.of_ranks("operand", rule.operands, [len(x.shape) for x in types])
    for i, (dims, x) in enumerate(zip(sides, types, strict=True)):
        for factor, size in zip(dims, x.shape, strict=True):
            if not isinstance(factor, str) or size == 1:
                continue
            before, first = seen.setdefault(factor, (size, i))
            if before != size:
                return f"{rule.where}: {factor} is {before} in operand {first}, but {size} in operand {i}"
    return ""


def clash_of_call(
    rule: ShardingRule | ShardingRuleOfCall | None, operands: Sequence[Any], params: Mapping[str, Any]
) -> str:
    """Return this note for a call; nothing if there is no rule, or another number of operands."""
    if rule is None:
        return ""
    try:
        written = rule.of_call(operands, (), params)
        return clash(written, operands) if len(operands) == len(written.operands) else ""
    except ValueError as error:  # the ranks are wrong, too
        return str(error)
