# SPDX-License-Identifier: Apache-2.0
"""Pytrees as operands and results of programs that `jax.export` saves."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from jax import export

__all__ = ["savable"]

T = TypeVar("T")


def savable(cls: type[T]) -> type[T]:
    """Let programs that take or return such objects be saved, and read where the class is known.

    What is static in them is None, numbers, names, and tuples of those.
    """
    return export.register_pytree_node_serialization(
        cls,
        serialized_name=f"brainevent.{cls.__name__}",
        serialize_auxdata=lambda static: json.dumps(static).encode(),
        deserialize_auxdata=lambda saved: _tuples(json.loads(saved)),
    )


def _tuples(x: Any) -> Any:
    """Return lists, which JSON makes of tuples, as tuples."""
    return tuple(_tuples(item) for item in x) if isinstance(x, list) else x
