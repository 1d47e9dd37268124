# SPDX-License-Identifier: Apache-2.0
"""Mark the receptors of a rule that are conductances: weights that are all negative are then a mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...errors import NetworkError

__all__ = ["check_sign", "conductances", "marked_like"]

_MARK = "_conductances"

Rule = TypeVar("Rule", bound=Callable[..., Any])


def conductances(*receptors: str) -> Callable[[Rule], Rule]:
    """Mark receptors of a rule, of which the last one inhibits."""

    def mark(rule: Rule) -> Rule:
        setattr(rule, _MARK, receptors)
        return rule

    return mark


def marked_like(rule: Rule, other: Callable[..., Any]) -> Rule:
    """Return a rule that calls another one, with its marks."""
    return conductances(*getattr(other, _MARK, ()))(rule)


def check_sign(where: str, rule: Callable[..., Any], population: str, receptor: str, low: float, high: float) -> None:
    """Raise if weights into a conductance, from `low` to `high`, are all negative."""
    marked: tuple[str, ...] = getattr(rule, _MARK, ())
    if receptor in marked and low < 0 and high <= 0:
        raise NetworkError(
            f"{where}: all are negative, but {receptor} of {population} is a conductance, and has positive weights; "
            f"pass positive ones; those into {marked[-1]} inhibit, since they pull v towards rest_{marked[-1]}"
        )
