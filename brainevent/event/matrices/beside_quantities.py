# SPDX-License-Identifier: Apache-2.0
"""Makes `*` and `@` of matrices take precedence over those of quantities, whenever the package of units is loaded."""

from __future__ import annotations

import functools
from typing import Any

from ... import _units as units
from ..beside_units import check_no_operand_of_a_unit

__all__ = ["BesideQuantities"]


class BesideQuantities:
    """A matrix that is also an instance of the sparse matrices of the package of units.

    Quantities ask `isinstance`, which looks at an object's type, and then at its `__class__`. The type itself cannot
    extend a class of a package that is loaded later, or never.
    """

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        cls: Any = type(self)
        check_no_operand_of_a_unit(cls, "write matrix * unit, or 1 * unit / matrix, which are matrices with the unit")
        sparse = units.sparse_matrix()
        return cls if sparse is None else _both(cls, sparse)

    def __reduce__(self) -> Any:
        """Make pickle use the type; by default it refuses a `__class__` that is not the type."""
        return object.__new__, (type(self),), vars(self)

    def _undefined(self, _: Any) -> Any:
        return NotImplemented

    __rtruediv__ = __rfloordiv__ = __rmod__ = _undefined  # quantities call these without asking whether they exist


@functools.cache
def _both(matrix: Any, sparse: type) -> type:
    """Return a class for `isinstance` that extends both; its constructors make matrices of the original type."""
    makers = {"__new__": lambda _, *args, **kwargs: matrix(*args, **kwargs), "_of": matrix._of}
    return type(matrix.__name__, (matrix, sparse), {**makers, "__module__": matrix.__module__})
