# SPDX-License-Identifier: Apache-2.0
"""Surrogates: what replaces the derivative of a spike with respect to its margin."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import NetworkError
from ..typing import ArrayLike

__all__ = ["SpikeTimes", "Surrogate", "arctan", "fast_sigmoid", "spike_times", "triangle"]

Array = Any

_SHAPES: dict[str, Callable[[float, Array], Array]] = {
    "fast_sigmoid": lambda slope, margin: 1 / (1 + slope * jnp.abs(margin)) ** 2,
    "arctan": lambda slope, margin: slope / 2 / (1 + (math.pi / 2 * slope * margin) ** 2),
    "triangle": lambda slope, margin: jnp.maximum(1 - slope * jnp.abs(margin), 0),
}


@dataclass(frozen=True)
class Surrogate:
    """A named function of the margin, the distance to the threshold in the units of the rule.

    Two surrogates of the same name and slope are equal, so `jax.jit` takes them as static arguments. `simulate` accepts
    any other function of the margin as well.

    Attributes:
        name: "fast_sigmoid", "arctan" or "triangle".
        slope: How fast the derivative falls, per unit of the margin, above 0.

    Raises:
        NetworkError: If the slope is not a finite number above 0.

    Examples:
        >>> import brainevent
        >>> surrogate = brainevent.surrogate.Surrogate("triangle", 0.5)
        >>> surrogate == brainevent.surrogate.triangle(0.5), float(surrogate.__call__(1.0))
        (True, 0.5)
    """

    name: str
    slope: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.slope) and self.slope > 0):
            raise NetworkError(f"surrogate {self.name}: slope is {self.slope}; pass a finite number above 0")

    def __call__(self, margin: ArrayLike) -> jax.Array:
        """Return the derivative at a margin.

        Args:
            margin: A real number or an array of them.

        Returns:
            The derivative, in the shape of the margin.
        """
        return _SHAPES[self.name](self.slope, margin)


def fast_sigmoid(slope: float = 25.0) -> Surrogate:
    """Return the derivative `1 / (1 + slope * abs(margin))**2`, which is 1 at the threshold and has long tails.

    Args:
        slope: How fast the derivative falls, per unit of the margin: with voltages in mV, smaller numbers such as 1
            reach more neurons.

    Returns:
        A surrogate for `simulate`.

    Raises:
        NetworkError: `slope` is not a finite number above 0.

    Examples:
        >>> import brainevent as be
        >>> float(be.surrogate.fast_sigmoid(slope=1.0)(1.0))
        0.25
    """
    return Surrogate("fast_sigmoid", slope)


def arctan(slope: float = 2.0) -> Surrogate:
    """Return the derivative (slope / 2) / (1 + (pi / 2 slope margin)^2), that of an arctangent.

    Args:
        slope: Twice the derivative at the threshold, per unit of the margin.

    Returns:
        A surrogate for `simulate`.

    Raises:
        NetworkError: `slope` is not a finite number above 0.

    Examples:
        >>> import brainevent as be
        >>> float(be.surrogate.arctan(slope=4.0)(0.0))
        2.0
    """
    return Surrogate("arctan", slope)


def triangle(slope: float = 1.0) -> Surrogate:
    """Return the derivative `max(0, 1 - slope * abs(margin))`, which is 0 at a distance of 1 / slope and beyond.

    Args:
        slope: How fast the derivative falls, per unit of the margin.

    Returns:
        A surrogate for `simulate`.

    Raises:
        NetworkError: `slope` is not a finite number above 0.

    Examples:
        >>> import brainevent as be
        >>> float(be.surrogate.triangle(slope=0.5)(-1.0))
        0.5
    """
    return Surrogate("triangle", slope)


@dataclass(frozen=True)
class SpikeTimes:
    """No surrogate: derivatives are those of the times of spikes, as in EventProp. `spike_times` makes one.

    Examples:
        >>> import brainevent as be
        >>> be.surrogate.spike_times() == be.surrogate.SpikeTimes()
        True
    """

    def __call__(self, margin: ArrayLike) -> jax.Array:
        """Raise: the derivative is no function of the margin.

        Args:
            margin: A real number or an array of them.

        Returns:
            Nothing.

        Raises:
            NetworkError: Always.

        Examples:
            >>> import brainevent as be
            >>> be.surrogate.spike_times()(1.0)
            Traceback (most recent call last):
                ...
            brainevent.errors.NetworkError: surrogate spike_times: has no derivative by the margin alone; pass it to ...
        """
        raise NetworkError("surrogate spike_times: has no derivative by the margin alone; pass it to simulate")


def spike_times() -> SpikeTimes:
    """Return what makes gradients exact in the times of spikes, as in EventProp, instead of a surrogate.

    A spike that comes later is not less of a spike: its effect on other neurons, and the reset of its own, move in
    time (Wunderlich and Pehle, 2021). The derivative of a spike's time is one over the rate at which the margin rises
    when it crosses zero, and silent neurons have no gradient. The gradients are those of the network in continuous
    time, of which the steps are an approximation: their error is of the order of a step, relative to time constants.

    The rule must be one in which what arrives changes a current, or another state that moves the margin in the steps
    after it, as in `i = p.fall * s.i + arriving.syn`. Where what arrives is added to the potential itself, spikes have
    no time of their own, and the gradient has no meaning.

    Returns:
        What `simulate` takes as its surrogate, with `backend="jax"`.

    Examples:
        >>> import brainevent as be
        >>> be.surrogate.spike_times()
        SpikeTimes()
    """
    return SpikeTimes()
