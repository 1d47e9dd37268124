# SPDX-License-Identifier: Apache-2.0
"""Whether `numba.cuda` is Numba's simulator in this process."""

from __future__ import annotations

import os
import sys

__all__ = ["SIMULATE", "is_simulated", "simulate"]

SIMULATE = "NUMBA_ENABLE_CUDASIM"  # Numba reads it once, when numba.cuda is imported
_asked_for: list[int] = []  # not empty if we have set that variable


def is_simulated() -> bool | None:
    """Return whether `numba.cuda` is Numba's simulator in this process; None: it is yet to be imported."""
    module = sys.modules.get("numba.cuda")
    decorator = getattr(module, "jit", None)  # missing during the import
    return None if decorator is None else decorator.__module__.startswith("numba.cuda.simulator")


def simulate(on: bool) -> None:
    """Make `numba.cuda` Numba's simulator, or not, if it is not imported yet and the user has not chosen."""
    asked_for = bool(_asked_for)
    if "numba.cuda" in sys.modules or (SIMULATE in os.environ) != asked_for or on == asked_for:
        return
    if on:
        os.environ[SIMULATE] = "1"
        _asked_for.append(1)
    else:
        del os.environ[SIMULATE]
        _asked_for.clear()
    if (numba_config := sys.modules.get("numba.core.config")) is not None:  # it has already read the environment
        numba_config.ENABLE_CUDASIM = int(on)  # type: ignore[attr-defined]
