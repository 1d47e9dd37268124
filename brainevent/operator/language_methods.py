# SPDX-License-Identifier: Apache-2.0
"""The methods of an operator that register a kernel by its language's name."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..errors import RegistrationValueError
from .entry import KernelGenerator
from .variants import Declared

__all__ = ["LanguageMethods"]


class LanguageMethods(ABC):
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
