# SPDX-License-Identifier: Apache-2.0
"""Settings: which backend each platform uses, and how kernels use threads."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType

from . import _jit_key
from ._capabilities import capabilities
from .errors import UnknownPlatformError, did_you_mean

__all__ = [
    "autotune",
    "clear_backends",
    "debug_indices",
    "emulate",
    "get_autotune",
    "get_backend",
    "get_compute_capability",
    "get_lfsr_algorithm",
    "get_numba_cache",
    "get_numba_num_threads",
    "get_numba_parallel",
    "is_debugging_indices",
    "is_emulating",
    "prefer_system_nvcc",
    "set_backend",
    "set_compute_capability",
    "set_lfsr_algorithm",
    "set_numba_cache",
    "set_numba_parallel",
    "use_backend",
]

PLATFORMS = ("cpu", "gpu", "tpu", "cuda", "rocm", "oneapi")  # those for which JAX takes lowering rules

_LFSR_ALGORITHMS = ("lfsr88", "lfsr113", "lfsr128")
_EMULATE = "BRAINEVENT_EMULATE"
_DEBUG_INDICES = "BRAINEVENT_DEBUG_INDICES"
# What calls have said for the process, each with a token by which it is taken back; the latest counts.
_debug_indices: list[tuple[object, bool]] = [(None, False)]
_debug_lock = threading.Lock()
_MOST_SWITCHES = 64  # that can still be taken back
_SWITCH = {"": False, "0": False, "false": False, "off": False, "no": False, "1": True, "true": True, "on": True,
           "yes": True}  # fmt: skip
_NUMBA_CACHE = "BRAINEVENT_NUMBA_CACHE"
_SIMULATE = "NUMBA_ENABLE_CUDASIM"  # read once by Numba, when numba.cuda is imported
_emulating: bool = False
_simulator_asked_for: bool = False  # by us, through that variable
_numba_cache: bool = True
_numba_parallel: bool = False
_numba_num_threads: int | None = None
_lfsr_algorithm: str = "lfsr88"
_prefer_system_nvcc: bool = False
_compute_capability: list[str] | None = None
_autotune: bool = False
_global_backends: dict[str, str] = {}
numba_thread_limit = ctypes.c_int64(0)  # compiled code reads this cell; 0 leaves the number to Numba


def check_platform(platform: object) -> str:
    """Return the platform, or raise if JAX has none of that name."""
    if platform not in PLATFORMS:
        raise UnknownPlatformError(
            f"unknown platform {platform!r}{did_you_mean(platform, PLATFORMS)}; known: {', '.join(PLATFORMS)}"
        )
    return str(platform)


def check_backend_name(backend: object, where: str) -> str:
    """Return the backend's name, or raise if it is no name."""
    if not isinstance(backend, str):
        raise TypeError(f"{where}: backend must be a string such as 'numba', found {type(backend).__name__}")
    if not backend.strip():
        raise ValueError(f"{where}: backend is an empty string; give a name such as 'numba', or None for no choice")
    return backend


def set_backend(platform: str, backend: str | None) -> None:
    """Prefer a backend on a platform, for all operators that have it; `None` takes the choice back.

    Functions that are already jitted follow at their next call, and going back finds what was compiled before.

    >>> import brainevent
    >>> brainevent.config.set_backend("cpu", "numba")
    >>> brainevent.config.get_backend("cpu")
    'numba'
    >>> brainevent.config.set_backend("cpu", None)
    """
    check_platform(platform)
    if backend is None:
        _global_backends.pop(platform, None)
    else:
        _global_backends[platform] = check_backend_name(backend, "config.set_backend")
    _jit_key.refresh()


def get_backend(platform: str) -> str | None:
    """Return the backend that `set_backend` chose for a platform, or None."""
    return _global_backends.get(platform)


def clear_backends() -> None:
    """Take back every choice of `set_backend`."""
    if _global_backends:
        _global_backends.clear()
        _jit_key.refresh()


def use_backend(platform: str, backend: str) -> AbstractContextManager[None]:
    """Prefer a backend in a `with` block, in this thread only.

    It wins over `set_backend`; a call's `backend=` wins over both.

    >>> import brainevent
    >>> with brainevent.use_backend("cpu", "numba"):
    ...     pass  # operators called here run their Numba kernel
    """
    return _jit_key.within_block(check_platform(platform), check_backend_name(backend, "use_backend"))


def autotune(mode: str) -> None:
    """Let operators tune themselves ('on'), or not ('off'): a call outside of traces with new shapes tunes first.

    >>> import brainevent
    >>> brainevent.config.autotune("on")
    >>> brainevent.config.get_autotune()
    'on'
    >>> brainevent.config.autotune("off")
    """
    global _autotune
    if mode not in ("on", "off"):
        raise ValueError(f"config.autotune: mode is {mode!r}; pass 'on' or 'off'")
    _autotune = mode == "on"


def get_autotune() -> str:
    """Tell whether operators tune themselves: 'on' or 'off'."""
    return "on" if _autotune else "off"


def set_numba_parallel(parallel: bool = True, num_threads: int | None = None) -> None:
    """Say whether our own Numba kernels use threads, as very large products always do, and how many parallel ones use.

    Functions that are already jitted follow at their next call.
    """
    global _numba_parallel, _numba_num_threads
    if num_threads is not None:
        import numba

        numba.set_num_threads(num_threads)  # raises for a number that Numba cannot use
        _numba_num_threads = numba_thread_limit.value = num_threads
    _numba_parallel = bool(parallel)
    _jit_key.refresh("numba_parallel")


def set_numba_cache(enabled: bool) -> None:
    """Say whether compiled Numba kernels are kept in the cache directory, and loaded from it: they are by default.

    The environment variable `BRAINEVENT_NUMBA_CACHE=0` turns it off too. Kernels that are compiled already stay.
    """
    global _numba_cache
    _numba_cache = bool(enabled)


def get_numba_cache() -> bool:
    """Return whether compiled Numba kernels are kept in the cache directory."""
    return _numba_cache


def get_numba_parallel() -> bool:
    """Tell whether our own Numba kernels use threads where products are not very large, too."""
    _jit_key.ask("numba_parallel", lambda: _numba_parallel)
    return _numba_parallel


def get_numba_num_threads() -> int | None:
    """Return the number of threads that parallel Numba kernels use, or None for Numba's own choice."""
    return _numba_num_threads


def prefer_system_nvcc(enable: bool = True) -> None:
    """Look for the CUDA compiler on PATH first, rather than among Python packages."""
    global _prefer_system_nvcc
    _prefer_system_nvcc = bool(enable)


def set_compute_capability(value: str | float | Sequence[str | float] | None = None) -> None:
    """Say for which GPUs CUDA C++ is compiled: "8.6", "86", "sm_86", "9.0a", several, or None to ask the machine."""
    global _compute_capability
    _compute_capability = None if value is None else capabilities(value, "config.set_compute_capability")


def get_compute_capability() -> list[str] | None:
    """Return what `set_compute_capability` chose, as in ["8.6", "9.0a"], or None."""
    return None if _compute_capability is None else list(_compute_capability)


def set_lfsr_algorithm(algorithm: str) -> None:
    """Choose the random generator of our own kernels: 'lfsr88', 'lfsr113' or 'lfsr128'."""
    global _lfsr_algorithm
    if algorithm not in _LFSR_ALGORITHMS:
        raise ValueError(
            f"Invalid LFSR algorithm {algorithm!r}{did_you_mean(algorithm, _LFSR_ALGORITHMS)}; "
            f"known: {', '.join(_LFSR_ALGORITHMS)}"
        )
    _lfsr_algorithm = algorithm
    _jit_key.refresh("lfsr_algorithm")


def get_lfsr_algorithm() -> str:
    """Return the random generator of our own kernels."""
    _jit_key.ask("lfsr_algorithm", lambda: _lfsr_algorithm)
    return _lfsr_algorithm


def emulate(on: bool = True) -> None:
    """Let programs for the CPU run kernels for GPUs and TPUs, in languages that can be emulated: see `doctor`.

    The environment variable `BRAINEVENT_EMULATE=1` does the same. Functions that are already jitted follow at their
    next call. For Numba-CUDA, call it before `numba.cuda` is imported, which is a simulator from then on, or never.

    >>> import brainevent
    >>> brainevent.config.emulate()
    >>> brainevent.config.is_emulating()
    True
    >>> brainevent.config.emulate(False)
    """
    global _emulating
    if not isinstance(on, bool):
        raise TypeError(f"config.emulate: on must be True or False, found {on!r}")
    changed, _emulating = on != _emulating, on
    if on:  # processes that this one starts do as it does
        os.environ[_EMULATE] = "1"
    else:
        os.environ.pop(_EMULATE, None)
    _simulate_numba_cuda(on)
    if changed:
        _jit_key.refresh()


def is_emulating() -> bool:
    """Tell whether programs for the CPU may run kernels for GPUs and TPUs."""
    _jit_key.ask("emulating", lambda: _emulating)
    return _emulating


def debug_indices(on: bool = True) -> AbstractContextManager[None]:
    """Let programs report indices and row pointers that are out of range, which kernels otherwise ignore.

    The program then fails as it runs, with an error that names the function or matrix, the array, the index and its
    place. It is on for the whole process, or, in a `with` statement, for the block and this thread. The environment
    variable `BRAINEVENT_DEBUG_INDICES=1` does the same. Functions that are already jitted follow at their next call,
    and nothing is added to a program while it is off.

    >>> import brainevent
    >>> with brainevent.config.debug_indices():
    ...     brainevent.config.is_debugging_indices()
    True
    >>> brainevent.config.is_debugging_indices()
    False
    """
    if not isinstance(on, bool):
        raise TypeError(f"config.debug_indices: on must be True or False, found {on!r}")
    return _DebugIndices(on)


def is_debugging_indices() -> bool:
    """Tell whether programs report indices that are out of range."""
    if (here := dict(_jit_key.block_choices()).get(_DEBUG_INDICES)) is not None:
        return here == "on"
    _jit_key.ask(_DEBUG_INDICES, lambda: _debug_indices[-1][1])
    return _debug_indices[-1][1]


def _switch_debug_indices(add: tuple[object, bool] | None = None, remove: object = None) -> None:
    """Add what a call says for the process, or take it back: the latest counts that was not taken back."""
    with _debug_lock:
        before = _debug_indices[-1][1]
        if add is not None:
            _debug_indices.append(add)
            if oldest := _debug_indices[1:-_MOST_SWITCHES]:
                _debug_indices[: len(oldest) + 1] = [(None, oldest[-1][1])]
        _debug_indices[1:] = [entry for entry in _debug_indices[1:] if entry[0] is not remove]
        changed = before != _debug_indices[-1][1]
    if changed:
        _jit_key.refresh(_DEBUG_INDICES)


class _DebugIndices(AbstractContextManager[None]):
    """What switches it for the process, and in a `with` statement for the block and this thread instead."""

    def __init__(self, on: bool):
        self._on, self._blocks, self._said = on, ExitStack(), object()
        _switch_debug_indices(add=(self._said, on))

    def __enter__(self) -> None:
        _switch_debug_indices(remove=self._said)
        self._blocks.enter_context(_jit_key.within_block(_DEBUG_INDICES, "on" if self._on else "off"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._blocks.pop_all().__exit__(kind, error, trace)


def _simulate_numba_cuda(on: bool) -> None:
    """Let `numba.cuda` be Numba's simulator, or not, if it is yet to be imported and the user has said nothing."""
    global _simulator_asked_for
    if "numba.cuda" in sys.modules or (_SIMULATE in os.environ) != _simulator_asked_for or on == _simulator_asked_for:
        return
    if on:
        os.environ[_SIMULATE] = "1"
    else:
        del os.environ[_SIMULATE]
    _simulator_asked_for = on
    if (numba_config := sys.modules.get("numba.core.config")) is not None:  # it has read the environment already
        numba_config.ENABLE_CUDASIM = int(on)  # type: ignore[attr-defined]


def _switch(name: str) -> bool:
    """Return what a variable of the environment says: on or off."""
    value = os.environ.get(name, "")
    if value.strip().lower() not in _SWITCH:
        raise ValueError(f"{name} is {value!r} in the environment; set it to 1 or 0")
    return _SWITCH[value.strip().lower()]


if _switch(_EMULATE):
    emulate()
if os.environ.get(_NUMBA_CACHE):
    set_numba_cache(_switch(_NUMBA_CACHE))
if _switch(_DEBUG_INDICES):
    debug_indices()


def __dir__() -> list[str]:
    return sorted(__all__)
