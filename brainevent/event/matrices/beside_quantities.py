# SPDX-License-Identifier: Apache-2.0
"""Quantities leave `*` and `@` to matrices, whichever of both packages was loaded first."""

from __future__ import annotations

import functools
from typing import Any

from .. import units

__all__ = ["BesideQuantities"]


class BesideQuantities:
    """What quantities take for a sparse matrix of their own package.

    They ask `isinstance`, which looks at an object's type and, if that is another, at its `__class__`. The type cannot
    extend a class of a package that is loaded later, or never.
    """

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        cls: Any = type(self)
        sparse = units.sparse_matrix()
        return cls if sparse is None else _both(cls, sparse)

    def __reduce__(self) -> Any:
        """Take apart for pickle, which by default asks for a `__class__` that is the type."""
        return object.__new__, (type(self),), vars(self)

    def _undefined(self, _: Any) -> Any:
        return NotImplemented

    __rtruediv__ = __rfloordiv__ = __rmod__ = _undefined  # quantities call these without looking


@functools.cache
def _both(matrix: Any, sparse: type) -> type:
    """Return a class for `isinstance` alone; what is asked for a matrix makes one of the matrix's own type."""
    makers = {"__new__": lambda _, *args, **kwargs: matrix(*args, **kwargs), "_of": matrix._of}
    return type(matrix.__name__, (matrix, sparse), {**makers, "__module__": matrix.__module__})
