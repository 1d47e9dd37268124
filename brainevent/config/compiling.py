# SPDX-License-Identifier: Apache-2.0
"""Settings: threads and the cache of Numba kernels, for which GPUs CUDA C++ is compiled, random generators."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from .. import _jit_key
from .._capabilities import capabilities
from ..errors import did_you_mean

__all__ = [
    "get_compute_capability",
    "get_lfsr_algorithm",
    "get_numba_cache",
    "get_numba_num_threads",
    "get_numba_parallel",
    "numba_thread_limit",
    "prefer_system_nvcc",
    "prefers_system_nvcc",
    "set_compute_capability",
    "set_lfsr_algorithm",
    "set_numba_cache",
    "set_numba_parallel",
]

_LFSR_ALGORITHMS = ("lfsr88", "lfsr113", "lfsr128")
_numba_cache: bool = True
_numba_parallel: bool = False
_numba_num_threads: int | None = None
_lfsr_algorithm: str = "lfsr88"
_prefer_system_nvcc: bool = False
_compute_capability: list[str] | None = None
numba_thread_limit = ctypes.c_int64(0)  # compiled code reads this cell; 0 leaves the number to Numba


def set_numba_parallel(parallel: bool = True, num_threads: int | None = None) -> None:
    """Choose whether our own Numba kernels use threads, and how many threads parallel kernels use.

    Very large products always use threads. Functions that are already jitted use the setting from their next call.

    Args:
        parallel: Whether our own kernels use threads for smaller products, too.
        num_threads: The number of threads of parallel kernels, including yours; None to leave it unchanged.

    Raises:
        ValueError: If Numba cannot use this number of threads.

    Examples:
        >>> import brainevent
        >>> brainevent.config.set_numba_parallel(True)
        >>> brainevent.config.get_numba_parallel()
        True
        >>> brainevent.config.set_numba_parallel(False)
    """
    global _numba_parallel, _numba_num_threads
    if num_threads is not None:
        import numba

        numba.set_num_threads(num_threads)  # raises for an invalid number
        _numba_num_threads = numba_thread_limit.value = num_threads
    _numba_parallel = bool(parallel)
    _jit_key.refresh("numba_parallel")


def set_numba_cache(enabled: bool) -> None:
    """Choose whether compiled Numba kernels are stored in the cache directory, and loaded from it.

    They are by default. The environment variable `BRAINEVENT_NUMBA_CACHE=0` turns it off, too.

    Args:
        enabled: Whether kernels that are compiled from now on are stored.

    Examples:
        >>> import brainevent
        >>> kept = brainevent.config.get_numba_cache()
        >>> brainevent.config.set_numba_cache(False)
        >>> brainevent.config.get_numba_cache()
        False
        >>> brainevent.config.set_numba_cache(kept)
    """
    global _numba_cache
    _numba_cache = bool(enabled)


def get_numba_cache() -> bool:
    """Return whether compiled Numba kernels are stored in the cache directory.

    Returns:
        What `set_numba_cache` chose.

    Examples:
        >>> import brainevent
        >>> isinstance(brainevent.config.get_numba_cache(), bool)
        True
    """
    return _numba_cache


def get_numba_parallel() -> bool:
    """Return whether our own Numba kernels use threads for smaller products, too.

    Returns:
        What `set_numba_parallel` chose; False by default.

    Examples:
        >>> import brainevent
        >>> brainevent.config.get_numba_parallel()
        False
    """
    _jit_key.ask("numba_parallel", lambda: _numba_parallel)
    return _numba_parallel


def get_numba_num_threads() -> int | None:
    """Return the number of threads that parallel Numba kernels use.

    Returns:
        What `set_numba_parallel` chose; None if Numba chooses.

    Examples:
        >>> import brainevent
        >>> brainevent.config.get_numba_num_threads() is None
        True
    """
    return _numba_num_threads


def prefer_system_nvcc(enable: bool = True) -> None:
    """Look for the CUDA compiler on PATH first, and then among Python packages.

    Args:
        enable: Whether to do so; False for the reverse order, which is the default.

    Examples:
        >>> import brainevent
        >>> brainevent.config.prefer_system_nvcc()
        >>> brainevent.config.prefer_system_nvcc(False)
    """
    global _prefer_system_nvcc
    _prefer_system_nvcc = bool(enable)


def prefers_system_nvcc() -> bool:
    """Return whether the CUDA compiler is looked for on PATH first."""
    return _prefer_system_nvcc


def set_compute_capability(value: str | float | Sequence[str | float] | None = None) -> None:
    """Choose for which GPUs CUDA C++ is compiled.

    Args:
        value: A compute capability such as "8.6", "86", "sm_86" or "9.0a", several of them, or None for the GPUs here.

    Raises:
        ValueError: If a value is not a compute capability.

    Examples:
        >>> import brainevent
        >>> brainevent.config.set_compute_capability(["sm_86", 9.0])
        >>> brainevent.config.get_compute_capability()
        ['8.6', '9.0']
        >>> brainevent.config.set_compute_capability(None)
    """
    global _compute_capability
    _compute_capability = None if value is None else capabilities(value, "config.set_compute_capability")


def get_compute_capability() -> list[str] | None:
    """Return for which GPUs CUDA C++ is compiled.

    Returns:
        What `set_compute_capability` chose, such as ["8.6", "9.0a"]; None for the GPUs here.

    Examples:
        >>> import brainevent
        >>> brainevent.config.get_compute_capability() is None
        True
    """
    return None if _compute_capability is None else list(_compute_capability)


def set_lfsr_algorithm(algorithm: str) -> None:
    """Choose the random generator of Pallas kernels.

    Args:
        algorithm: "lfsr88", "lfsr113" or "lfsr128".

    Raises:
        ValueError: If there is no such generator.

    Examples:
        >>> import brainevent
        >>> brainevent.config.set_lfsr_algorithm("lfsr113")
        >>> brainevent.get_pallas_lfsr_rng_class().__name__
        'PallasLFSR113RNG'
        >>> brainevent.config.set_lfsr_algorithm("lfsr88")
    """
    global _lfsr_algorithm
    if algorithm not in _LFSR_ALGORITHMS:
        raise ValueError(
            f"Invalid LFSR algorithm {algorithm!r}{did_you_mean(algorithm, _LFSR_ALGORITHMS)}; "
            f"known: {', '.join(_LFSR_ALGORITHMS)}"
        )
    _lfsr_algorithm = algorithm
    _jit_key.refresh("lfsr_algorithm")


def get_lfsr_algorithm() -> str:
    """Return the random generator of Pallas kernels.

    Returns:
        What `set_lfsr_algorithm` chose; "lfsr88" by default.

    Examples:
        >>> import brainevent
        >>> brainevent.config.get_lfsr_algorithm()
        'lfsr88'
    """
    _jit_key.ask("lfsr_algorithm", lambda: _lfsr_algorithm)
    return _lfsr_algorithm
