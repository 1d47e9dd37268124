# SPDX-License-Identifier: Apache-2.0
"""A receptor for currents that are given step by step."""

from __future__ import annotations

from typing import Any

from ..description.populations import Population
from .drive import driven

__all__ = ["current_input"]


def current_input(population: Population, *, receptor: str = "input", into: str = "current") -> Population:
    """Return a population with one more receptor, whose amounts last for one step: for `inputs=` of a run.

    A constant current needs none: each model has a parameter `current`.

    Args:
        population: Neurons of any rule.
        receptor: Name of the receptor.
        into: Name of the parameter to which its amounts are added.

    Returns:
        A population of the same name and size.

    Raises:
        UnknownNameError: At build: the rule does not read `into`.

    Examples:
        >>> import brainevent as be
        >>> exc = be.models.current_input(be.models.lif_current("exc", 10))
        >>> exc.rule.__name__
        'lif_current_rule'
    """

    def amount(s: Any, arriving: Any, p: Any) -> Any:
        return {}, getattr(arriving, receptor)

    return driven(population, amount, into=into, state={}, params={}, like_into=[receptor], kind="current_input")
