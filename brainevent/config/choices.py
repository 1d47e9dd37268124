# SPDX-License-Identifier: Apache-2.0
"""Settings: the backend of each platform, and automatic tuning."""

from __future__ import annotations

from contextlib import AbstractContextManager

from .. import _jit_key
from ..errors import UnknownPlatformError, did_you_mean

__all__ = [
    "PLATFORMS",
    "autotune",
    "check_backend_name",
    "check_platform",
    "clear_backends",
    "get_autotune",
    "get_backend",
    "is_autotuning",
    "set_backend",
    "use_backend",
]

PLATFORMS = ("cpu", "gpu", "tpu", "cuda", "rocm", "oneapi")  # the platforms for which JAX accepts lowering rules

_autotune: bool = False
_global_backends: dict[str, str] = {}


def check_platform(platform: object) -> str:
    """Return the platform, or raise if JAX has none of that name."""
    if platform not in PLATFORMS:
        raise UnknownPlatformError(
            f"unknown platform {platform!r}{did_you_mean(platform, PLATFORMS)}; known: {', '.join(PLATFORMS)}"
        )
    return str(platform)


def check_backend_name(backend: object, where: str) -> str:
    """Return the backend's name, or raise if it is not a name."""
    if not isinstance(backend, str):
        raise TypeError(f"{where}: backend must be a string such as 'numba', found {type(backend).__name__}")
    if not backend.strip():
        raise ValueError(f"{where}: backend is an empty string; give a name such as 'numba', or None for no choice")
    return backend


def set_backend(platform: str, backend: str | None) -> None:
    """Choose the backend of a platform, for all operators that have it.

    Functions that are already jitted use it from their next call; a later switch back reuses the earlier program.

    Args:
        platform: "cpu", "gpu", "tpu", "cuda", "rocm" or "oneapi".
        backend: The name of a backend such as "numba"; None to undo the choice.

    Raises:
        UnknownPlatformError: If JAX has no such platform.
        TypeError: If the backend is not a string.

    Examples:
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
    """Return the backend that `set_backend` chose for a platform.

    Args:
        platform: The name of a platform, such as "cpu".

    Returns:
        The name of the backend, or None.

    Examples:
        >>> import brainevent
        >>> brainevent.config.get_backend("gpu") is None
        True
    """
    return _global_backends.get(platform)


def clear_backends() -> None:
    """Undo every choice of `set_backend`.

    Examples:
        >>> import brainevent
        >>> brainevent.config.set_backend("cpu", "numba")
        >>> brainevent.config.clear_backends()
        >>> brainevent.config.get_backend("cpu") is None
        True
    """
    if _global_backends:
        _global_backends.clear()
        _jit_key.refresh()


def use_backend(platform: str, backend: str) -> AbstractContextManager[None]:
    """Choose the backend of a platform in a `with` block, for this thread only.

    It has precedence over `set_backend`; the `backend=` of a call has precedence over both.

    Args:
        platform: "cpu", "gpu", "tpu", "cuda", "rocm" or "oneapi".
        backend: The name of a backend such as "numba".

    Returns:
        A context manager.

    Raises:
        UnknownPlatformError: If JAX has no such platform.
        TypeError: If the backend is not a string.

    Examples:
        >>> import brainevent
        >>> with brainevent.use_backend("cpu", "numba"):
        ...     pass  # operators called here run their Numba kernel
    """
    return _jit_key.within_block(check_platform(platform), check_backend_name(backend, "use_backend"))


def autotune(mode: str) -> None:
    """Turn automatic tuning on or off: if it is on, an eager call with new shapes first measures all kernels.

    Args:
        mode: "on" or "off".

    Raises:
        ValueError: If the mode is anything else.

    Examples:
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
    """Return whether automatic tuning is on.

    Returns:
        "on" or "off".

    Examples:
        >>> import brainevent
        >>> brainevent.config.get_autotune()
        'off'
    """
    return "on" if _autotune else "off"


def is_autotuning() -> bool:
    """Return whether automatic tuning is on."""
    return _autotune
