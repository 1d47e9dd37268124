# SPDX-License-Identifier: Apache-2.0
"""Pytrees as operands and results of programs that `jax.export` saves."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from jax import export

from .._compat import read_saved_trees_as_programs, register_two_views

__all__ = ["register_pair", "savable"]

T = TypeVar("T")


def savable(cls: type[T], made_of: Callable[..., Any] | None = None) -> type[T]:
    """Let programs that take or return such objects be saved, and read where the class is known.

    What is static in them is None, numbers, names, objects with a method `saved`, and tuples of those. JAX takes what
    `made_of(static, leaves)` returns apart again, to find how operands are nested; the default is what `cls` registers.
    """
    return export.register_pytree_node_serialization(
        cls,
        serialized_name=f"brainevent.{cls.__name__}",
        serialize_auxdata=lambda static: json.dumps(static, default=lambda mark: mark.saved()).encode(),
        deserialize_auxdata=lambda saved: _tuples(json.loads(saved)),
        from_children=made_of,
    )


def _tuples(x: Any) -> Any:
    """Return lists, which JSON makes of tuples, as tuples."""
    return tuple(_tuples(item) for item in x) if isinstance(x, list) else x


def register_pair(cls: Any) -> Any:
    """Register a class of matrices as a pytree with a view for functions over leaves, and one for programs."""
    read_saved_trees_as_programs()
    of_users = (lambda matrix: matrix.tree_flatten(), cls.tree_unflatten)
    register_two_views(cls, of_users, (lambda matrix: matrix._given(), cls._of_operands))
    return savable(cls, cls._placeholder)
