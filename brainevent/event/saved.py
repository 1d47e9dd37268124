# SPDX-License-Identifier: Apache-2.0
"""Pytrees as operands and results of programs that `jax.export` saves."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any, TypeVar

import jax
from jax import export

from .._compat import program_leaves, read_saved_trees_as_programs, register_two_views

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
    check_views()
    of_users = (lambda matrix: matrix.tree_flatten(), cls.tree_unflatten)
    register_two_views(cls, of_users, (lambda matrix: matrix._given(), cls._of_operands))
    return savable(cls, cls._placeholder)


@functools.cache
def check_views() -> None:
    """Raise unless functions over leaves of this JAX see the first of two views: else they would change indices."""

    class Probe:
        """A matrix with one weight."""

    both = [
        (lambda _, seen=seen: (seen, None), lambda _, leaves: leaves) for seen in (("weight",), ("weight", "index"))
    ]
    register_two_views(Probe, *both)
    seen = jax.tree.leaves(Probe()), jax.tree.flatten(Probe())[0], list(jax.tree.map(str, Probe()))
    if seen != (["weight"],) * 3 or program_leaves(Probe())[0] != ["weight", "index"]:
        raise ImportError(
            f"brainevent: jax.tree of JAX {jax.__version__} sees all arrays of a matrix, so that jax.tree.map would "
            "change its indices; use JAX 0.10 to 0.12"
        )
