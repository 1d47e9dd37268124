# SPDX-License-Identifier: Apache-2.0
"""One registered kernel, and aliases of the reference and of platforms."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

from ..config import check_platform
from ..errors import RegistrationTypeError, RegistrationValueError, did_you_mean
from ..languages import known_languages
from .variants import Declared, Variant, declared

__all__ = ["GENERAL", "REFERENCE", "KernelEntry", "KernelGenerator", "checked_entry", "meant"]

KernelGenerator = Callable[..., Callable[..., Any]]

REFERENCE = "reference"  # the backend name of an operator's jax.numpy implementation
_REFERENCES = (REFERENCE, "jax_raw", "jax")  # its names, except those that kernels have
GENERAL = {"cuda": "gpu", "rocm": "gpu", "oneapi": "gpu"}  # platforms whose kernels a platform can use, too


@dataclass(frozen=True)
class KernelEntry:
    """One registered kernel.

    Attributes:
        backend: The name of the backend.
        platform: The name of the platform.
        kernel_generator: `kernel_generator(**kwargs)` returns a function of the operands.
        variants: Keyword arguments of the generator to choose from; the first is used first.
        language: What it is written in, as `brainevent doctor` names it.

    Examples:
        >>> import brainevent
        >>> entry = brainevent.KernelEntry("mine", "cpu", lambda **kwargs: None, variants=((("block", 64),),))
        >>> entry.completed({"n": 3})
        {'block': 64, 'n': 3}
    """

    backend: str
    platform: str
    kernel_generator: KernelGenerator
    variants: tuple[Variant, ...] = ()  # the one to use first
    language: str = ""  # its language, as `brainevent doctor` names it: by default the backend's name

    def __post_init__(self) -> None:
        object.__setattr__(self, "language", self.language or self.backend)

    def completed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Add the keyword arguments of the first variant to those of a call, which have precedence.

        Args:
            params: The keyword arguments of a call.

        Returns:
            All of them.
        """
        return {**dict(self.variants[0] if self.variants else ()), **params}


KernelEntry.__module__ = "brainevent"


def meant(backend: str, known: Container[str]) -> str | None:
    """Return the known backend of a name; each alias of the reference means the backend with one of them."""
    others = _REFERENCES if backend in _REFERENCES else ()
    return next((name for name in (backend, *others) if name in known), None)


def checked_entry(
    operator: str, backend: Any, platform: Any, kg: Any, variants: Declared | None, language: Any
) -> KernelEntry:
    """Return what `def_kernel` registers for an operator, or raise."""
    where = f"operator {operator!r}"
    for what, value in (("backend", backend), ("platform", platform)):
        if not isinstance(value, str):
            raise RegistrationTypeError(f"{where}: {what} must be a string, found {type(value).__name__}")
    if not callable(kg):
        raise RegistrationTypeError(f"{where}: the kernel generator must be callable, found {type(kg).__name__}")
    if hasattr(kg, "py_func"):
        raise RegistrationTypeError(
            f"{where}: {kg.py_func.__name__!r} is a compiled kernel, not a kernel generator; "
            f"register lambda *, outs: brainevent.numba_kernel({kg.py_func.__name__}, outs=outs)"
        )
    if not backend.strip():
        raise RegistrationValueError(f"{where}: backend is an empty string; give it a name")
    check_platform(platform)
    where += f", backend {backend!r}"
    return KernelEntry(backend, platform, kg, declared(variants, where), _known_language(language, where) or backend)


def _known_language(name: Any, where: str) -> str | None:
    if name is None:
        return None
    if not isinstance(name, str):
        raise RegistrationTypeError(f"{where}: language must be a string, found {type(name).__name__}")
    known = [row.name for row in known_languages()]
    if name not in known:
        raise RegistrationValueError(
            f"{where}: unknown language {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"
        )
    return name
