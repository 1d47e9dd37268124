# SPDX-License-Identifier: Apache-2.0
"""Compile without full garbage collections, which would take a tenth of the time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["without_full_collections"]

_NEVER = 1_000_000_000


@contextmanager
def without_full_collections() -> Iterator[None]:
    """Postpone full collections to the end of the block; no two blocks may run at the same time.

    Numba makes many objects for a kernel; each time their number has grown enough, a full collection looks at all
    objects of the process, those of JAX included. Young objects are collected as before.
    """
    young, middle, old = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, old)
