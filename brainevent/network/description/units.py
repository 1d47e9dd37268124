# SPDX-License-Identifier: Apache-2.0
"""Strip units from what describes a network: numbers are in ms, mV, pA, nS and pF, or in units that are declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import _units as units
from ..._compat import Tracer
from ...errors import NetworkError, did_you_mean

__all__ = ["DECLARED", "UNITS", "Undeclared", "array_in", "check_declared", "factor", "in_float64", "plain", "split"]
__all__ += ["unit_of", "weights_unit"]

UNITS = ("ms", "mV", "pA", "nS", "pF")
DECLARED = (*UNITS, "Hz", "kHz", "mm", "um", "1")  # "1" is for numbers without a unit

Unit = Any  # a name of DECLARED, a unit of brainunit, or Undeclared


@dataclass(frozen=True)
class Undeclared:
    """The unit of a name that the units of a population leave out: only numbers fit."""

    population: str
    name: str

    def refusal(self, where: str, found: Any, dim: Any) -> NetworkError:
        """Return the error of a quantity."""
        package = units.loaded()
        known = [name for name in DECLARED[:-1] if getattr(package, name).dim == dim]
        add = f"add {self.name!r}: {known[0]!r} to it" if known else "add it with a unit of brainunit"
        return NetworkError(
            f"{where}: has the unit {found}, but units= of population {self.population} has no {self.name!r}; {add}, "
            "or pass a number"
        )


def unit_of(population: str, declared: Mapping[str, Unit], name: str) -> Unit | None:
    """Return the unit of a name: the declared one, or None if the population declares no units at all."""
    if name in declared or not declared:
        return declared.get(name)
    return "ms" if name == "dt" else Undeclared(population, name)


def weights_unit(state: Unit | None, receptor: Unit | None) -> Unit | None:
    """Return the unit of weights that carry a state into a receptor: that of the receptor divided by that of the state.

    Only numbers fit if one is `Undeclared`. None if one is None, or without brainunit: then no value has a unit.
    """
    for one in (state, receptor):
        if isinstance(one, Undeclared):
            return one
    return None if state is None or receptor is None or not units.loaded() else _unit(receptor) / _unit(state)


def split(where: str, value: Any, hint: str = "", names: Sequence[str] = UNITS) -> tuple[Any, str | None]:
    """Return the numbers of a value, and the name of their unit, one of `names`; None of what has none."""
    if not units.is_quantity(value):
        return value, None
    package = units.loaded()
    for name in names:
        if value.dim == getattr(package, name).dim:
            return _real(units.numbers_in(value, getattr(package, name))), name
    if value.dim == package.UNITLESS.dim:
        return units.numbers_in(value, None), None
    raise NetworkError(f"{where}: has the unit {value.unit}; pass one that is {', '.join(names)} or a number{hint}")


def plain(where: str, value: Any, unit: Unit | None = None, hint: str = "") -> Any:
    """Return the numbers of a value; `unit` is what they must be in, if they have a unit."""
    if unit is None or not units.is_quantity(value):
        return split(where, value, hint)[0]
    if isinstance(unit, Undeclared):
        if value.dim == units.loaded().UNITLESS.dim:
            return units.numbers_in(value, None)
        raise unit.refusal(where, value.unit, value.dim)
    wanted = _unit(unit)
    if value.dim != wanted.dim:
        raise NetworkError(_wrong(where, value.unit, unit, value.dim))
    return _real(units.numbers_in(value, wanted))


def factor(where: str, found: str, unit: Unit) -> float:
    """Return what turns numbers in one of DECLARED into numbers in another unit."""
    package = units.loaded()
    if isinstance(unit, Undeclared):
        raise unit.refusal(where, found, getattr(package, found).dim)
    wanted = _unit(unit)
    if (dim := getattr(package, found).dim) != wanted.dim:
        raise NetworkError(_wrong(where, found, unit, dim))
    return float(units.numbers_in(package.Quantity(1.0, unit=getattr(package, found)), wanted))


def array_in(where: str, value: Any, unit: Unit | None = None) -> Any:
    """Return the numbers of a value as an array of NumPy; `unit` as in `plain`."""
    numbers = plain(where, value, unit)
    try:
        return np.asarray(numbers)
    except ValueError:  # parts of different shapes
        kind = type(numbers).__name__
        raise NetworkError(f"{where}: parts of this {kind} have different shapes; pass one array of numbers") from None


def in_float64(value: Any) -> Any:
    """Return a quantity whose numbers are float64 of NumPy, so that converting it rounds no float32; else the value."""
    numbers, unit = units.split(value)
    if unit is None or isinstance(numbers, Tracer):
        return value
    return units.loaded().Quantity(np.asarray(numbers, np.float64), unit=unit)


def check_declared(where: str, unit: Any) -> None:
    """Raise if a unit is neither a name that is known without brainunit, nor a unit of it."""
    if isinstance(unit, str):
        if unit not in DECLARED:
            guess = did_you_mean(unit, DECLARED)
            raise NetworkError(f"{where} is {unit!r}{guess}; pass one of {', '.join(DECLARED)}, or a unit of brainunit")
    elif not hasattr(unit, "dim") or units.is_quantity(unit):
        raise NetworkError(f"{where} is {unit!r}; pass one of {', '.join(DECLARED)}, or a unit of brainunit")


def _real(numbers: Any) -> Any:
    """Return numbers as floats: what has a unit is no count."""
    if isinstance(numbers, int):
        return float(numbers)
    return numbers.astype(float) if getattr(numbers, "dtype", np.dtype(float)).kind in "iu" else numbers


def _unit(unit: Unit) -> Any:
    if not isinstance(unit, str):
        return unit
    package = units.loaded()
    return package.UNITLESS if unit == "1" else getattr(package, unit)


def _wrong(where: str, found: Any, unit: Unit, dim: Any) -> str:
    wanted = "a number without a unit" if str(unit) == "1" else f"{unit}, or a number, which means {unit}"
    if str(unit) == "1" and dim == units.loaded().nS.dim:
        wanted += ": in leak conductances, divide by the leak, as in 6 * u.nS / (10 * u.nS)"
    return f"{where}: has the unit {found}; pass {wanted}"
