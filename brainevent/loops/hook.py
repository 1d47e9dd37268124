# SPDX-License-Identifier: Apache-2.0
"""Register the lowering of JAX's scan; what compiles loops is loaded when the first one is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._compat import lowering_platforms, register_scan_lowering
from ..config import is_fusing_loops

__all__ = ["install"]


def _lower(default: Callable[..., Any], ctx: Any, /, *operands: Any, **params: Any) -> Any:
    if not is_fusing_loops() or lowering_platforms(ctx) not in (("cpu",), ("cuda",)):
        return default(ctx, *operands, **params)
    from .lowering import lower

    return lower(default, ctx, *operands, **params)


def install() -> None:
    """Register it with JAX."""
    register_scan_lowering(_lower)
