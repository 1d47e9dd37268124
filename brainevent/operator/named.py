# SPDX-License-Identifier: Apache-2.0
"""Register a kernel by its language's name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..config import check_platform
from ..errors import RegistrationTypeError, RegistrationValueError, did_you_mean
from ..languages import LANGUAGES
from .lowering import KernelEntry
from .variants import Declared, declared

__all__ = ["KernelGenerator", "LanguageKernels", "kernel_entry"]

KernelGenerator = Callable[..., Callable[..., Any]]


def kernel_entry(
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
    known = [row.name for row in LANGUAGES]
    if name not in known:
        raise RegistrationValueError(
            f"{where}: unknown language {name!r}{did_you_mean(name, known)}; known: {', '.join(known)}"
        )
    return name


class LanguageKernels(ABC):
    """What `def_kernel` registers, by one method per language."""

    name: str

    @abstractmethod
    def def_kernel(
        self,
        backend: str,
        platform: str,
        kg: KernelGenerator,
        asdefault: bool = False,
        *,
        variants: Declared | None = None,
        language: str | None = None,
    ) -> None:
        """Register a kernel generator."""

    def def_numba_kernel(
        self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Numba kernel for the CPU."""
        self.def_kernel("numba", "cpu", kg, asdefault, variants=variants)

    def def_cpp_kernel(self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None) -> None:
        """Register a kernel built from C++ for the CPU."""
        self.def_kernel("cpp", "cpu", kg, asdefault, variants=variants)

    def def_warp_kernel(
        self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Warp kernel for the GPU."""
        self.def_kernel("warp", "gpu", kg, asdefault, variants=variants)

    def def_triton_kernel(
        self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Triton kernel for the GPU."""
        self.def_kernel("triton", "gpu", kg, asdefault, variants=variants)

    def def_numba_cuda_kernel(
        self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Numba-CUDA kernel for the GPU."""
        self.def_kernel("numba_cuda", "gpu", kg, asdefault, variants=variants)

    def def_cuda_raw_kernel(
        self,
        kg: KernelGenerator,
        asdefault: bool = False,
        *,
        platform: str = "gpu",
        variants: Declared | None = None,
        language: str = "cuda_raw",
    ) -> None:
        """Register a kernel built from CUDA C++ for the platform 'gpu' or 'cpu'.

        `language="nvrtc"` says that `cuda_kernel` builds it, for which nvcc need not be installed.
        """
        if platform not in ("cpu", "gpu"):
            raise RegistrationValueError(
                f"operator {self.name!r}: a cuda_raw kernel runs on 'cpu' or 'gpu', not {platform!r}"
            )
        self.def_kernel("cuda_raw", platform, kg, asdefault, variants=variants, language=language)

    def def_pallas_kernel(
        self, platform: str, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Pallas kernel for the platform 'gpu' or 'tpu'."""
        if platform not in ("gpu", "tpu"):
            raise RegistrationValueError(
                f"operator {self.name!r}: a Pallas kernel runs on 'gpu' or 'tpu', not {platform!r}"
            )
        self.def_kernel("pallas", platform, kg, asdefault, variants=variants)
