# SPDX-License-Identifier: Apache-2.0
"""Matrices and events beside units: quantities leave `*` and `@` to them, and operators of a bare unit raise.

Both need a property `__class__`, and the second a look at the calling frame, as the package of units (brainunit 0.5)
has no other hook. `Quantity.__mul__` leaves a product to its operand if this is an instance of `SparseMatrix`, a plain
class of a package that may be loaded later or never: nothing can be registered with it. `Unit.__mul__` never returns
`NotImplemented`, and only asks whether its operand is of its own classes. Without the property, `2 * mV * matrix`
is a quantity that holds a matrix, and so is `mV * matrix` without the look at the frame: its products are right, but it
is no matrix, with rows, formats and updates; and a quantity that holds events fails in products with matrices.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType
from typing import Any

from .. import _units as units

__all__ = ["BesideUnits", "check_no_operand_of_a_unit", "with_sparse_class"]


class BesideUnits:
    """Events, which no unit multiplies or divides."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        check_no_operand_of_a_unit(type(self), f"give the unit to the values: {type(self).__name__}(x * unit)")
        return type(self)


def check_no_operand_of_a_unit(kind: type, do: str) -> None:
    """Raise if this is called, through a property `__class__`, by an operator of a unit that looks at its operand.

    `unit * operand` is a method of the unit, which returns `Quantity(operand)` for all that it does not know. It asks
    `isinstance` first, and so for the operand's `__class__`.
    """
    package = units.loaded()
    caller = sys._getframe(2)
    if package is None or (sign := _operators(getattr(package, "Unit", None)).get(caller.f_code)) is None:
        return
    words = sign.format(unit=caller.f_locals.get("self"), operand=kind.__name__)
    raise TypeError(f"{words}: a unit takes this as the numbers of a quantity, which has no product; {do}")


@functools.cache
def _operators(unit: Any) -> dict[CodeType, str]:
    """Return the operators of the class of units, as they are written."""
    names = {"mul": "*", "div": "/", "truediv": "/"}
    signs = {f"__{name}__": f"{{unit}} {sign} {{operand}}" for name, sign in names.items()}
    signs |= {f"__r{name}__": f"{{operand}} {sign} {{unit}}" for name, sign in names.items()}
    found = {name: getattr(getattr(unit, name, None), "__code__", None) for name in signs}
    return {code: signs[name] for name, code in found.items() if code is not None}


def with_sparse_class(cls: Any) -> type:
    """Return a class of matrices, which also extends the sparse matrices of the package of units if that is loaded.

    The class itself cannot extend one of a package that is loaded later, or never.
    """
    sparse = units.sparse_matrix()
    return cls if sparse is None else _both(cls, sparse)


@functools.cache
def _both(matrix: Any, sparse: type) -> type:
    """Return a class for `isinstance` that extends both; its constructors make matrices of the original type."""
    makers = {"__new__": lambda _, *args, **kwargs: matrix(*args, **kwargs), "_of": matrix._of}
    return type(matrix.__name__, (matrix, sparse), {**makers, "__module__": matrix.__module__})
