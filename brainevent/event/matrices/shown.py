# SPDX-License-Identifier: Apache-2.0
"""How notebooks show a matrix: all that is known without reading its arrays."""

from __future__ import annotations

from typing import Any

import jax

from ... import _units as units
from ..._html import document, facts
from ..room import in_bytes

__all__ = ["shown"]


def shown(matrix: Any) -> str:
    """Return a table in HTML; what is unknown, as under tracing, is left out."""
    leaves = _leaves(matrix)
    indices = {name: getattr(matrix, name, None) for name in matrix._structure}
    types = ", ".join(f"{name} {_type(x)}" for name, x in indices.items() if hasattr(x, "dtype"))
    nse, count = getattr(matrix, "nse", None), matrix.shape[0] * matrix.shape[1]
    known = {
        "shape": f"{matrix.shape[0]} x {matrix.shape[1]}",
        "data": _type(units.split(matrix.data)[0]) if hasattr(matrix, "data") else getattr(matrix, "dtype", None),
        "unit": _unit(matrix),
        "stored elements": nse,
        "density": f"{nse / count:.3g}" if nse is not None and count else None,
        "indices": types or None,
        "indices sorted": _yes(matrix.indices_sorted) if types else None,
        "memory": in_bytes(sum(x.nbytes for x in leaves)) if leaves else None,
        "backend": matrix.backend,
    }
    return document(type(matrix).__name__, facts(known))


def _leaves(matrix: Any) -> list[Any]:
    arrays = [getattr(matrix, name, None) for name in ("data", *matrix._structure)]
    leaves = jax.tree.leaves((arrays, matrix.buffers))
    return leaves if all(isinstance(x, jax.Array) and hasattr(x, "nbytes") for x in leaves) else []


def _type(x: Any) -> str:
    return f"{x.dtype}{list(x.shape)}" if hasattr(x, "dtype") and hasattr(x, "shape") else type(x).__name__


def _yes(flag: bool) -> str:
    return "yes" if flag else "not known"


def _unit(matrix: Any) -> str | None:
    unit = units.split(matrix.data)[1] if hasattr(matrix, "data") else None
    return None if unit is None else str(unit)
