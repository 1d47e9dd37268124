# SPDX-License-Identifier: Apache-2.0
"""Descriptions of drawn values, for states, parameters, weights and delays: `uniform`, `normal` and others."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from typing import Any

from ...errors import NetworkError
from ..plan.distribution import EXPONENTIAL, INTEGERS, LOGNORMAL, NORMAL, UNIFORM, Distribution
from .checks import is_integer, is_number
from .units import DECLARED, UNITS, factor, plain, split

__all__ = ["Values", "exponential", "in_unit", "integers", "lognormal", "normal", "uniform"]

Number = Any  # a number, or a quantity of one


@dataclass(frozen=True)
class Values:
    """Values that are drawn when a network is built, each independently.

    Made by `uniform`, `normal`, `lognormal`, `exponential` and `integers`.

    Attributes:
        law: Their distribution, in the numbers of the unit.
        unit: The unit's name, or None.
        text: The call that made them, in their unit.
    """

    law: Distribution
    unit: str | None = None
    text: str = field(default="", compare=False)

    def __repr__(self) -> str:
        return f"{self.text} {self.unit}" if self.unit else self.text


def uniform(low: Number, high: Number) -> Values:
    """Describe values from low to high, without high.

    Args:
        low: Smallest value.
        high: Bound, above low.

    Returns:
        The description.

    Raises:
        NetworkError: They are not finite, or not in order.

    Examples:
        >>> import brainevent as be
        >>> be.uniform(-60, -50).law.bounds
        (-60.0, -50.0)
    """
    (low, high), unit = _numbers("uniform", low=low, high=high)
    if not low < high:
        raise NetworkError(f"uniform: low is {low:g} and high is {high:g}; pass low < high")
    return Values(Distribution(UNIFORM, low, high - low), unit, f"uniform({low:g}, {high:g})")


def normal(mean: Number, sd: Number, *, low: Number | None = None, high: Number | None = None) -> Values:
    """Describe values of the normal distribution; those beyond `low` and `high` are clipped, not drawn again.

    Args:
        mean: Mean, before clipping.
        sd: Standard deviation, before clipping; not negative.
        low: Smallest value: lower ones become this one.
        high: Largest value.

    Returns:
        The description; values are at most 5.5 standard deviations from the mean.

    Raises:
        NetworkError: A number is not finite, or out of range.

    Examples:
        >>> import brainevent as be
        >>> be.normal(87.8, 8.78, low=0)
        normal(87.8, 8.78, low=0)
    """
    (mean, sd, low, high), unit = _numbers("normal", mean=mean, sd=sd, low=low, high=high)
    _check_sd("normal", sd)
    return Values(_clipped("normal", NORMAL, mean, sd, low, high), unit, _call("normal", mean, sd, low, high))


def lognormal(mean: Number, sd: Number, *, low: Number | None = None, high: Number | None = None) -> Values:
    """Describe values whose logarithm is normal; those beyond `low` and `high` are clipped, not drawn again.

    Args:
        mean: Mean of the values themselves, before clipping; positive.
        sd: Standard deviation of the values themselves.
        low: Smallest value: lower ones become this one.
        high: Largest value.

    Returns:
        The description.

    Raises:
        NetworkError: A number is not finite, or out of range.

    Examples:
        >>> import brainevent as be
        >>> round(be.lognormal(1.0, 0.5).law.b, 3)
        0.472
    """
    (mean, sd, low, high), unit = _numbers("lognormal", mean=mean, sd=sd, low=low, high=high)
    _check_sd("lognormal", sd)
    if mean <= 0:
        raise NetworkError(f"lognormal: mean is {mean:g}; pass a positive number")
    spread = math.log1p((sd / mean) ** 2)
    law = _clipped("lognormal", LOGNORMAL, math.log(mean) - spread / 2, math.sqrt(spread), low, high)
    return Values(law, unit, _call("lognormal", mean, sd, low, high))


def exponential(mean: Number) -> Values:
    """Describe values of the exponential distribution.

    Args:
        mean: Mean; values have its sign.

    Returns:
        The description; values are at most 16.7 means.

    Raises:
        NetworkError: The mean is not finite, or 0.

    Examples:
        >>> import brainevent as be
        >>> be.exponential(2.0).law.a
        2.0
    """
    (mean,), unit = _numbers("exponential", mean=mean)
    if mean == 0:
        raise NetworkError("exponential: mean is 0; pass another number")
    return Values(Distribution(EXPONENTIAL, mean, 0.0), unit, f"exponential({mean:g})")


def integers(low: int, high: int) -> Values:
    """Describe integers from low to high, without high.

    Args:
        low: Smallest integer.
        high: Bound, above low, at most 2**24 above.

    Returns:
        The description. A state with such initial values is int32, if the rule returns int32.

    Raises:
        NetworkError: They are not integers, or not in order.

    Examples:
        >>> import brainevent as be
        >>> be.integers(0, 20).law.bounds
        (0.0, 19.0)
    """
    for name, value in (("low", low), ("high", high)):
        if not is_integer(value) or abs(value) > 2**24:
            raise NetworkError(f"integers: {name} is {value!r}; pass an integer from -2**24 to 2**24")
    if not 0 < high - low <= 2**24:
        raise NetworkError(f"integers: low is {low} and high is {high}; pass low < high, at most 2**24 apart")
    law = Distribution(INTEGERS, float(low), 1.0, span=int(high) - int(low))
    return Values(law, text=f"integers({int(low)}, {int(high)})")


def in_unit(where: str, value: Any, unit: Any, hint: str = "") -> Any:
    """Return a value in the numbers of a unit, whether it is drawn or not; raise if it has another dimension.

    Without a unit, it must be a number, or have one of those in which numbers are; `hint` is what else could be passed.
    """
    if not isinstance(value, Values):
        return plain(where, value, unit, hint)
    if unit is None and value.unit not in (None, *UNITS):
        raise NetworkError(f"{where}: has the unit {value.unit}; pass one that is {', '.join(UNITS)} or a number{hint}")
    if unit is None or value.unit is None:
        return value
    times = factor(where, value.unit, unit)
    return value if times == 1 else dataclasses.replace(value, law=value.law.scaled(times))


def _numbers(where: str, **given: Any) -> tuple[list[Any], str | None]:
    """Return finite numbers, and the one unit that they have."""
    numbers: list[float | None] = []
    names: list[str | None] = []
    for name, value in given.items():
        if value is None:
            numbers.append(None)
            continue
        number, unit = split(f"{where}: {name}", value, names=DECLARED[:-1])
        if not is_number(number):
            raise NetworkError(f"{where}: {name} is {value!r}; pass a number")
        if not math.isfinite(number):
            raise NetworkError(f"{where}: {name} is {number}; pass a finite number")
        numbers.append(float(number))
        names.append(unit)
    if len(set(names)) > 1:
        raise NetworkError(f"{where}: units are {', '.join(name or 'none' for name in names)}; pass one unit for all")
    return numbers, names[0]


def _call(name: str, mean: float, sd: float, low: float | None, high: float | None) -> str:
    """Return the call that describes values."""
    bounds = [f", {word}={bound:g}" for word, bound in (("low", low), ("high", high)) if bound is not None]
    return f"{name}({mean:g}, {sd:g}{''.join(bounds)})"


def _check_sd(where: str, sd: float) -> None:
    if sd < 0:
        raise NetworkError(f"{where}: sd is {sd:g}; pass 0 or a positive number")


def _clipped(where: str, kind: int, a: float, b: float, low: float | None, high: float | None) -> Distribution:
    if low is not None and high is not None and not low <= high:
        raise NetworkError(f"{where}: low is {low:g} and high is {high:g}; pass low <= high")
    return Distribution(kind, a, b, -math.inf if low is None else low, math.inf if high is None else high)
