# SPDX-License-Identifier: Apache-2.0
"""What depends on the operating system: whether compiled kernels run, and how many cores there are."""

from __future__ import annotations

import os
import platform

__all__ = ["cores", "why_not_compiled"]

_TITLES = {"Darwin": "macOS"}
_ELSEWHERE = {"Windows": "WSL 2"}
_INSTEAD = "use the reference (backend='reference')"


def why_not_compiled(what: str = "a compiled kernel", instead: str = _INSTEAD) -> str | None:
    """Return why `what` cannot run on this operating system, and what to do `instead`; None if it can."""
    system = platform.system()
    if system == "Linux":
        return None
    title, elsewhere = _TITLES.get(system, system), _ELSEWHERE.get(system, "a Linux container")
    return f"{what} needs Linux, and this is {title}: {instead}, or run Python in {elsewhere}"


def cores() -> int:
    """Return how many cores the process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
