# SPDX-License-Identifier: Apache-2.0
"""Add an amount, computed anew in each step, to a parameter or to a receptor of the neurons of a population."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from ...errors import NetworkError, UnknownNameError, did_you_mean
from ..description.conductances import marked_like
from ..description.populations import Population
from ..description.units import unit_of
from ..description.values import in_unit

__all__ = ["Drive", "driven", "drives_of", "step_of"]

Amount = Callable[..., tuple[Mapping[str, Any], Any]]

_MARK = "_drive"  # of a rule with an amount


@dataclass(frozen=True)
class Drive:
    """What `driven` added to a rule.

    Attributes:
        rule: The rule without it.
        kind: Name of the function that added it, such as "step_current"; nothing if that is not known.
        into: The parameter or the receptor to which the amount is added.
        state: Names of the states of the amount.
        params: Names of its parameters.
    """

    rule: Callable[..., Any]
    kind: str
    into: str
    state: tuple[str, ...]
    params: tuple[str, ...]


class _Raised:
    """A record of which one value is raised by an amount; it notes whether that was read."""

    def __init__(self, record: Any, name: str, amount: Any):
        self._record, self._name, self._amount, self.read = record, name, amount, False

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._record, name)
        if name != self._name:
            return value
        self.read = True
        return value + self._amount

    def __iter__(self) -> Iterator[str]:
        return iter(self._record)


def step_of(population: Population, dt: Any) -> Any:
    """Return the time step for which the parameters of a population were computed."""
    if dt is None and "dt" not in population.params:
        raise NetworkError(f"population {population.name} has no parameter dt; pass dt=, the time step of the network")
    return population.params["dt"] if dt is None else dt


def driven(
    population: Population,
    amount: Amount,
    *,
    into: str,
    state: Mapping[str, Any],
    params: Mapping[str, Any],
    draws: bool = False,
    like_into: Sequence[str] = (),
    kind: str = "",
) -> Population:
    """Return a population whose rule runs with an amount added to the parameter or the receptor `into`.

    Args:
        population: Neurons of any rule.
        amount: `amount(s, arriving, p)`, with a fourth argument `random` if it draws, returns new values of its
            states, and what is added.
        into: Name of a parameter, else of a receptor.
        state: States of the amount.
        params: Parameters of the amount.
        draws: Whether the amount draws random numbers.
        like_into: States, parameters and receptors of the amount that have the unit of `into`.
        kind: Name of the function that adds it, for `drives_of`.

    Returns:
        A population of the same name and size with these states and parameters as well.

    Raises:
        NetworkError: The population has a state or a parameter of such a name, or a quantity has another unit.

    Examples:
        >>> import brainevent as be
        >>> exc = driven(
        ...     be.models.lif_delta("exc", 10),
        ...     lambda s, arriving, p: ({}, p.more),
        ...     into="current",
        ...     state={},
        ...     params={"more": 5.0},
        ... )
        >>> exc.params["more"]
        5.0
    """
    for what, old, new in (("state", population.state, state), ("parameter", population.params, params)):
        for name in set(old) & set(new):
            raise NetworkError(f"population {population.name} has a {what} {name} already; pass another name=")
    rule, is_param = population.rule, into in population.params
    inner_draws = len(inspect.signature(rule).parameters) > 3

    def run(s: Any, arriving: Any, p: Any, *random: Any) -> Any:
        changed, added = amount(s, arriving, p, *(random if draws else ()))
        raised = _Raised(p if is_param else arriving, into, added)
        result = rule(s, *((arriving, raised) if is_param else (raised, p)), *(random if inner_draws else ()))
        if not raised.read:
            _not_read(population, into, arriving)
        new, spike = result
        return new.replace(**changed), spike

    def with_random(s: Any, arriving: Any, p: Any, random: Any) -> Any:
        return run(s, arriving, p, random)

    def without(s: Any, arriving: Any, p: Any) -> Any:
        return run(s, arriving, p)

    chosen = with_random if draws or inner_draws else without
    chosen.__name__ = rule.__name__
    marked_like(chosen, rule)
    setattr(chosen, _MARK, Drive(rule, kind, into, tuple(state), tuple(params)))
    unit = unit_of(population.name, population.units, into)
    for key in like_into:
        in_unit(f"population {population.name}: {key}", {**state, **params}.get(key), unit)  # an error names `into`
    units = dict.fromkeys(like_into, population.units[into]) if into in population.units else {}
    return dataclasses.replace(
        population,
        rule=chosen,
        state={**population.state, **state},
        params={**population.params, **params},
        units={**population.units, **units},
    )


def drives_of(rule: Callable[..., Any]) -> tuple[Callable[..., Any], list[Drive]]:
    """Return a rule without what was added to it, and the drives, in the order in which they were added."""
    drives: list[Drive] = []
    while (drive := getattr(rule, _MARK, None)) is not None:
        drives.insert(0, drive)
        rule = drive.rule
    return rule, drives


def _not_read(population: Population, into: str, arriving: Any) -> NoReturn:
    receptors = list(arriving)
    raise UnknownNameError(
        f"its rule {population.rule.__name__} reads no parameter or receptor {into!r}"
        f"{did_you_mean(into, [*receptors, *population.params])}; pass into= one of its receptors, which are "
        f"{', '.join(receptors) or 'none'}, or of its parameters"
    )
