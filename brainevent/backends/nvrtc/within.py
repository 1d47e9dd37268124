# SPDX-License-Identifier: Apache-2.0
"""Whether a kernel that is chosen becomes part of a loop, whose threads stay for all steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["is_within_loop", "kernels_within_loop"]

_WITHIN = ContextVar("_WITHIN", default=False)


@contextmanager
def kernels_within_loop() -> Iterator[None]:
    """Let kernels that are chosen here be those of a loop."""
    token = _WITHIN.set(True)
    try:
        yield
    finally:
        _WITHIN.reset(token)


def is_within_loop() -> bool:
    """Say whether a kernel becomes part of a loop."""
    return _WITHIN.get()
