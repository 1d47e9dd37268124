# SPDX-License-Identifier: Apache-2.0
"""Units of measurement: split off before a kernel runs, and put back on its result.

Quantities are those of the package `brainunit`. It is looked for among the modules that are loaded, and never imported:
where it is not loaded, there is no quantity. Numbers without a unit have the unit None.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["is_quantity", "join", "loaded", "numbers_in", "product", "split", "when_loaded"]

_PACKAGES = ("brainunit", "saiunit")  # the second is what the first is made of, and loaded alone by some


def loaded() -> Any:
    """Return the package of units, or None."""
    for name in _PACKAGES:
        package = sys.modules.get(name)
        if hasattr(package, "Quantity") and hasattr(package, "maybe_decimal"):  # it may be half imported
            return package
    return None


def when_loaded(call: Callable[[], None]) -> None:
    """Call a function once, right after the package of units is imported."""
    sys.meta_path.insert(0, _Watch(call))


class _Watch:
    """A finder of modules that finds what the others find, and calls a function when the package has been run."""

    def __init__(self, call: Callable[[], None]):
        self._call = call

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in _PACKAGES:
            return None
        for finder in sys.meta_path:
            spec = None if isinstance(finder, _Watch) else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                loader: Any = spec.loader
                loader.exec_module = functools.partial(self._run, loader.exec_module)
                return spec
        return None

    def _run(self, run: Callable[[ModuleType], None], module: ModuleType) -> None:
        run(module)
        if loaded() is not None and self in sys.meta_path:
            sys.meta_path.remove(self)
            self._call()


def is_quantity(x: Any) -> bool:
    """Say whether x is numbers with a unit."""
    package = loaded()
    return package is not None and isinstance(x, package.Quantity)


def split(x: Any) -> tuple[Any, Any]:
    """Return the numbers of x and their unit: of anything but a quantity, x itself and None."""
    return (x.mantissa, x.unit) if is_quantity(x) else (x, None)


def join(numbers: Any, unit: Any) -> Any:
    """Return numbers with a unit; without one, or where it is a mere factor, an array."""
    if unit is None:
        return numbers
    package = loaded()
    return package.maybe_decimal(package.Quantity(numbers, unit=unit))


def numbers_in(x: Any, unit: Any) -> Any:
    """Return the numbers of x in a unit; None is no unit. The package of units raises where x has another dimension."""
    package = loaded()
    if package is None or (unit is None and not isinstance(x, package.Quantity)):
        return x
    quantity = x if isinstance(x, package.Quantity) else package.Quantity(x)
    return quantity.to_decimal(package.UNITLESS if unit is None else unit)


def product(*units: Any) -> Any:
    """Return the unit of a product of numbers with these units."""
    found = None
    for unit in units:
        if unit is not None:
            found = unit if found is None else found * unit
    return found
