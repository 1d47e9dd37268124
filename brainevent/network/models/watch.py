# SPDX-License-Identifier: Apache-2.0
"""Give neurons of any rule more states, computed from what the rule did in the step, and more events."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import NetworkError
from ..description.conductances import marked_like
from ..description.populations import Population

__all__ = ["Watch", "watched"]

Watch = Callable[[Any, Any, Any, Any], tuple[Mapping[str, Any], Mapping[str, Any]]]


def watched(
    population: Population,
    watch: Watch,
    *,
    state: Mapping[str, Any],
    params: Mapping[str, Any],
    units: Mapping[str, str] | None = None,
) -> Population:
    """Return a population whose rule runs as before, and then `watch`.

    Args:
        population: Neurons of any rule.
        watch: `watch(new, spike, arriving, p)` is given the state after the rule, with the states of its own as they
            were before; it returns new values of its own, and events besides the spike.
        state: States of its own.
        params: Parameters of its own.
        units: Units of both.

    Returns:
        A population of the same name and size.

    Raises:
        NetworkError: The population has a state or a parameter of such a name.

    Examples:
        >>> import brainevent as be
        >>> counted = watched(
        ...     be.models.lif_delta("exc", 10),
        ...     lambda new, spike, arriving, p: ({"count": new.count + spike}, {}),
        ...     state={"count": 0},
        ...     params={},
        ... )
        >>> counted.state["count"]
        0
    """
    for kind, old, new in (("state", population.state, state), ("parameter", population.params, params)):
        for name in set(old) & set(new):
            raise NetworkError(f"population {population.name} has a {kind} {name} already; rename it")
    rule = population.rule

    def run(s: Any, arriving: Any, p: Any, *random: Any) -> Any:
        after, told = rule(s, arriving, p, *random)
        told = dict(told) if isinstance(told, Mapping) else {"spike": told}
        changed, events = watch(after, told.get("spike"), arriving, p)
        return after.replace(**changed), {**told, **events} if len(told) + len(events) > 1 else told["spike"]

    def with_random(s: Any, arriving: Any, p: Any, random: Any) -> Any:
        return run(s, arriving, p, random)

    def without(s: Any, arriving: Any, p: Any) -> Any:
        return run(s, arriving, p)

    chosen = with_random if len(inspect.signature(rule).parameters) > 3 else without
    chosen.__name__ = rule.__name__
    return dataclasses.replace(
        population,
        rule=marked_like(chosen, rule),
        state={**population.state, **state},
        params={**population.params, **params},
        units={**population.units, **(units or {})} if population.units else {},
    )
