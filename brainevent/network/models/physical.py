# SPDX-License-Identifier: Apache-2.0
"""Physical values as users give them, and the factors of one step that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import NetworkError
from ..description.units import plain
from ..description.values import Values

__all__ = ["Physical", "by_name", "decay", "gain", "rise"]

Value = Any  # a number, an array (neurons,), or either with a unit
Array = Any

_MOST_STEPS = 2**31 - 1  # of int32


class Physical:
    """Reads the values of one population for steps of `dt` milliseconds.

    It reads what becomes a factor of a step, as float64: numbers or arrays (neurons,). Values that a rule uses as they
    are, such as a threshold, need no reading: `Population` takes them with the units that it declares, and values that
    are drawn too.
    """

    def __init__(self, population: str, dt: Value):
        self.population = population
        (step,) = self.positive("ms", dt=dt)
        if step.ndim:
            raise NetworkError(f"population {population}: dt has shape {step.shape}; pass one number, in ms")
        self.dt = float(step)

    def positive(self, unit: str, **values: Value) -> list[Array]:
        """Return values that must be above 0."""
        return [self._checked(name, value, unit, positive=True) for name, value in values.items()]

    def not_negative(self, unit: str, **values: Value) -> list[Array]:
        """Return values that must not be below 0."""
        return [self._checked(name, value, unit, positive=False) for name, value in values.items()]

    def shares(self, **values: Value) -> None:
        """Raise unless values are from 0 to 1; those that are drawn have such bounds."""
        for name, value in values.items():
            where = f"population {self.population}: {name}"
            if isinstance(value, Values):
                low, high = value.law.bounds
            else:
                numbers = np.asarray(plain(where, value, "1"), np.float64)
                low, high = float(numbers.min(initial=1)), float(numbers.max(initial=0))
            if not (low >= 0 and high <= 1):
                raise NetworkError(f"{where} is {value!r}; it must be from 0 to 1")

    def steps(self, **times: Value) -> list[Array]:
        """Return times as numbers of steps, rounded: int32."""
        found = [np.rint(time / self.dt) for time in self.not_negative("ms", **times)]
        for name, steps in zip(times, found, strict=True):
            if (most := steps.max(initial=0)) > _MOST_STEPS:
                raise NetworkError(
                    f"population {self.population}: {name} is {most * self.dt:g} ms, {most:g} steps; pass at most "
                    f"{_MOST_STEPS * self.dt:g} ms, which are 2**31 - 1 steps"
                )
        return [steps.astype(np.int32) for steps in found]

    def _checked(self, name: str, value: Value, unit: str, positive: bool) -> Array:
        where = f"population {self.population}: {name}"
        if isinstance(value, Values):
            raise NetworkError(
                f"{where} is {value!r}, but factors of a step are computed from it before the network is built; pass a "
                f"number of {unit}, or an array of one a neuron, such as numpy.random.default_rng(1).uniform(...)"
            )
        found = plain(where, value, unit)
        try:
            numbers = np.asarray(found, np.float64)
        except (TypeError, ValueError) as error:
            raise NetworkError(f"{where} is {value!r}; pass a number of {unit}, or an array of one a neuron") from error
        wrong = ~np.isfinite(numbers) | ((numbers <= 0) if positive else (numbers < 0))
        if wrong.any():
            must = "above 0" if positive else "0 or more"
            raise NetworkError(f"{where} is {numbers[wrong].flat[0]}; it must be {must} and finite, in {unit}")
        return numbers


def by_name(names: Mapping[str, str]) -> dict[str, str]:
    """Return the unit of each name, of the names of each unit: "v rest" in mV."""
    return {name: unit for unit, words in names.items() for name in words.split()}


def decay(dt: Array, tau: Array) -> Array:
    """Return the factor by which what decays with a time constant becomes smaller in one step; 0 where tau is 0."""
    with np.errstate(divide="ignore"):
        return np.exp(-np.divide(dt, tau))


def gain(dt: Array, tau: Array, tau_in: Array) -> Array:
    """Return how much `dv/dt = (x - v) / tau` changes v in a step, where x begins at 1 and decays with `tau_in`.

    It is the exact solution, also where both time constants are equal.
    """
    x = np.asarray(dt / tau - dt / tau_in)
    near = np.abs(x) < 1e-8
    ratio = np.where(near, 1.0, np.expm1(x) / np.where(near, 1.0, x))
    return dt / tau * decay(dt, tau) * ratio


def rise(dt: Array, tau: Array) -> Array:
    """Return how much `dv/dt = (x - v) / tau` changes v in a step, where x stays 1."""
    return -np.expm1(-dt / tau)
