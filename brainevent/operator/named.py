# SPDX-License-Identifier: Apache-2.0
"""Register a kernel by its language's name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ..errors import RegistrationValueError
from .variants import Declared

__all__ = ["KernelGenerator", "LanguageKernels"]

KernelGenerator = Callable[..., Callable[..., Any]]


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
    ) -> None:
        """Register a kernel built from CUDA C++ for the platform 'gpu' or 'cpu'."""
        if platform not in ("cpu", "gpu"):
            raise RegistrationValueError(
                f"operator {self.name!r}: a cuda_raw kernel runs on 'cpu' or 'gpu', not {platform!r}"
            )
        self.def_kernel("cuda_raw", platform, kg, asdefault, variants=variants)

    def def_pallas_kernel(
        self, platform: str, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Pallas kernel for the platform 'gpu' or 'tpu'."""
        if platform not in ("gpu", "tpu"):
            raise RegistrationValueError(
                f"operator {self.name!r}: a Pallas kernel runs on 'gpu' or 'tpu', not {platform!r}"
            )
        self.def_kernel("pallas", platform, kg, asdefault, variants=variants)
