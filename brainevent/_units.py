# SPDX-License-Identifier: Apache-2.0
"""Units of measurement: split off before a kernel runs, and put back on its result.

Quantities are those of the package `brainunit`. It is never imported here: if it is not loaded, nothing is a quantity.
Numbers without a unit have the unit None.
"""

from __future__ import annotations

import os
import sys
from typing import Any

__all__ = [
    "folders",
    "is_about_units",
    "is_quantity",
    "join",
    "loaded",
    "numbers_in",
    "numbers_like",
    "product",
    "sparse_matrix",
    "split",
]

_PACKAGES = ("brainunit", "saiunit")  # the first is based on the second, which some programs load alone


def loaded() -> Any:
    """Return the package of units, or None."""
    for name in _PACKAGES:
        package = sys.modules.get(name)
        if hasattr(package, "Quantity") and hasattr(package, "maybe_decimal"):  # it may be half imported
            return package
    return None


def sparse_matrix() -> type | None:
    """Return the class of sparse matrices, whose `*` and `@` take precedence over those of quantities, or None."""
    package = loaded()
    found = getattr(getattr(package, "sparse", None), "SparseMatrix", None)
    return found if isinstance(found, type) else None


def is_quantity(x: Any) -> bool:
    """Say whether x is numbers with a unit."""
    package = loaded()
    return package is not None and isinstance(x, package.Quantity)


def is_about_units(error: Exception) -> bool:
    """Say whether an error is of the package of units, or of a function that does not take its quantities."""
    kind = getattr(loaded(), "UnitMismatchError", None)
    return kind is not None and (isinstance(error, kind) or (isinstance(error, TypeError) and "uantit" in str(error)))


def folders() -> list[str]:
    """Return the folders of the packages of units that are loaded."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in _PACKAGES)
    return [os.path.dirname(file) for file in files if file]


def split(x: Any) -> tuple[Any, Any]:
    """Return the numbers of x and their unit; x itself and None if x is not a quantity."""
    return (x.mantissa, x.unit) if is_quantity(x) else (x, None)


def join(numbers: Any, unit: Any) -> Any:
    """Return numbers with a unit; an array without one, or if the unit has no dimension."""
    if unit is None:
        return numbers
    package = loaded()
    return package.maybe_decimal(package.Quantity(numbers, unit=unit))


def numbers_in(x: Any, unit: Any) -> Any:
    """Return the numbers of x in a unit, or without one if that is None; `brainunit` raises for another dimension."""
    package = loaded()
    if package is None or (unit is None and not isinstance(x, package.Quantity)):
        return x
    quantity = x if isinstance(x, package.Quantity) else package.Quantity(x)
    return quantity.to_decimal(package.UNITLESS if unit is None else unit)


def numbers_like(where: str, name: str, x: Any, weight: Any) -> Any:
    """Return the numbers of x in the unit of weights, or raise an error that names both units."""
    package = loaded()
    if package is None:
        return x
    try:
        return numbers_in(x, weight)
    except package.UnitMismatchError:
        own = split(x)[1]
        has = "no unit" if own is None else f"the unit {own}"
        have, wanted = ("none", "without a unit") if weight is None else (weight, f"in {weight}")
        words = f"{where}: {name} has {has}, and the weights have {have}; pass {name} {wanted}"
        raise package.UnitMismatchError(words) from None


def product(*units: Any) -> Any:
    """Return the unit of a product of numbers with these units."""
    found = None
    for unit in units:
        if unit is not None:
            found = unit if found is None else found * unit
    return found
