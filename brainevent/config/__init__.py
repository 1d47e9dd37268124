# SPDX-License-Identifier: Apache-2.0
"""Settings: which backend each platform uses, how kernels use threads, and what helps to find mistakes."""

from __future__ import annotations

import os
from typing import Any

from . import choices, compiling
from .choices import (
    PLATFORMS as PLATFORMS,
)
from .choices import (
    autotune,
    clear_backends,
    get_autotune,
    get_backend,
    set_backend,
    use_backend,
)
from .choices import (
    check_backend_name as check_backend_name,
)
from .choices import (
    check_platform as check_platform,
)
from .choices import (
    is_autotuning as is_autotuning,
)
from .compiling import (
    get_compute_capability,
    get_lfsr_algorithm,
    get_numba_cache,
    get_numba_num_threads,
    get_numba_parallel,
    prefer_system_nvcc,
    set_compute_capability,
    set_lfsr_algorithm,
    set_numba_cache,
    set_numba_parallel,
)
from .compiling import (
    numba_thread_limit as numba_thread_limit,
)
from .compiling import (
    prefers_system_nvcc as prefers_system_nvcc,
)
from .emulation import EMULATE as EMULATE
from .emulation import call_when_emulating as call_when_emulating
from .emulation import emulate, is_emulating
from .emulation import emulates as emulates
from .indices import DEBUG_INDICES as DEBUG_INDICES
from .indices import debug_indices, is_debugging_indices
from .loops import FUSE_LOOPS as FUSE_LOOPS
from .loops import LOOP_PROGRESS as LOOP_PROGRESS
from .loops import fuse_loops, is_fusing_loops, show_loop_progress
from .loops import loop_progress_cell as loop_progress_cell

__all__ = [
    "autotune",
    "clear_backends",
    "debug_indices",
    "emulate",
    "fuse_loops",
    "get_autotune",
    "get_backend",
    "get_compute_capability",
    "get_lfsr_algorithm",
    "get_numba_cache",
    "get_numba_num_threads",
    "get_numba_parallel",
    "is_debugging_indices",
    "is_emulating",
    "is_fusing_loops",
    "prefer_system_nvcc",
    "set_backend",
    "set_compute_capability",
    "set_lfsr_algorithm",
    "set_numba_cache",
    "set_numba_parallel",
    "show_loop_progress",
    "use_backend",
]

_NUMBA_CACHE = "BRAINEVENT_NUMBA_CACHE"
_SWITCH = {"": False, "0": False, "false": False, "off": False, "no": False, "1": True, "true": True, "on": True,
           "yes": True}  # fmt: skip


def _switch(name: str) -> bool:
    """Return the value of an environment variable: on or off."""
    value = os.environ.get(name, "")
    if value.strip().lower() not in _SWITCH:
        raise ValueError(f"{name} is {value!r} in the environment; set it to 1 or 0")
    return _SWITCH[value.strip().lower()]


if _switch(EMULATE):
    emulate()
if os.environ.get(_NUMBA_CACHE):
    set_numba_cache(_switch(_NUMBA_CACHE))
if _switch(DEBUG_INDICES):
    debug_indices()
if _switch(FUSE_LOOPS):
    fuse_loops()
if _switch(LOOP_PROGRESS):
    show_loop_progress()


# Names of settings for existing programs.
_KEPT = {
    "_global_backends": choices,
    "_lfsr_algorithm": compiling,
    "_numba_num_threads": compiling,
    "_numba_parallel": compiling,
}


def __getattr__(name: str) -> Any:
    if name in _KEPT:
        return getattr(_KEPT[name], name)
    raise AttributeError(f"module 'brainevent.config' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
