# SPDX-License-Identifier: Apache-2.0
"""The methods of an operator that register a kernel by its language's name."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ..errors import RegistrationValueError
from .entry import KernelGenerator
from .variants import Declared

__all__ = ["LanguageMethods"]


class LanguageMethods(ABC):
    """The methods that register kernels, one per language."""

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
        """Register a kernel generator; `XLACustomKernel.def_kernel` says more.

        Args:
            backend: A name for the kernel.
            platform: The name of a platform.
            kg: The kernel generator. `kg(*, outs, **kwargs)` returns a function of the operands.
            asdefault: Whether the backend becomes the default of its platform; the first one is in any case.
            variants: Keyword arguments of the generator to choose from.
            language: What the kernel is written in.
        """

    def def_numba_kernel(
        self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Numba kernel for the CPU: a generator that returns what `numba_kernel` returns.

        Args:
            kg: The kernel generator. `kg(*, outs, **kwargs)` returns a function of the operands.
            asdefault: Whether the backend becomes the default of its platform; the first one is in any case.
            variants: Keyword arguments of the generator to choose from, as in `{"block": (64, 128)}` or `[{"block":
                64}, {"block": 128}]`. The first is used until `tune` has found a faster one.

        Raises:
            RegistrationTypeError: If the generator is not callable.
        """
        self.def_kernel("numba", "cpu", kg, asdefault, variants=variants)

    def def_cpp_kernel(self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None) -> None:
        r"""Register a kernel in C++ for the CPU: a generator that calls a function of what `load_cpp_inline` returns.

        Args:
            kg: The kernel generator. `kg(*, outs, **kwargs)` returns a function of the operands.
            asdefault: Whether the backend becomes the default of its platform; the first one is in any case.
            variants: Keyword arguments of the generator to choose from, as in `{"block": (64, 128)}` or `[{"block":
                64}, {"block": 128}]`. The first is used until `tune` has found a faster one.

        Raises:
            RegistrationTypeError: If the generator is not callable.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> seven = brainevent.XLACustomKernel("doc_cpp_seven")
            >>> def generator(*, outs):
            ...     module = brainevent.load_cpp_inline(
            ...         "doc_cpp_seven",
            ...         '#include "brainevent/common.h"\n'
            ...         "// @BE seven ret\n"
            ...         "void seven(BE::Tensor out) { out.data_ptr<float>()[0] = 7; }",
            ...     )
            ...     return lambda: module.seven(outs=outs)
            >>> seven.def_cpp_kernel(generator)
            >>> seven(outs=jnp.zeros(1))
            Array([7.], dtype=float32)
        """
        self.def_kernel("cpp", "cpu", kg, asdefault, variants=variants)

    def def_warp_kernel(
        self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Warp kernel for the GPU: a generator that returns what `warp_kernel` returns.

        Args:
            kg: The kernel generator. `kg(*, outs, **kwargs)` returns a function of the operands.
            asdefault: Whether the backend becomes the default of its platform; the first one is in any case.
            variants: Keyword arguments of the generator to choose from, as in `{"block": (64, 128)}` or `[{"block":
                64}, {"block": 128}]`. The first is used until `tune` has found a faster one.

        Raises:
            RegistrationTypeError: If the generator is not callable.

        Examples:
            >>> import brainevent
            >>> double = brainevent.XLACustomKernel("doc_languages")
            >>> double.def_warp_kernel(lambda *, outs: None, variants={"block_dim": (64, 128)})
            >>> double.def_numba_cuda_kernel(lambda *, outs: None)
            >>> double.def_triton_kernel(lambda *, outs: None)
            >>> double.def_cuda_raw_kernel(lambda *, outs: None, asdefault=True, language="nvrtc")
            >>> double.def_pallas_kernel("tpu", lambda *, outs: None)
            >>> double.defaults
            {'gpu': 'cuda_raw', 'tpu': 'pallas'}
        """
        self.def_kernel("warp", "gpu", kg, asdefault, variants=variants)

    def def_triton_kernel(
        self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Triton kernel for the GPU: a generator that returns a function with `jax_triton.triton_call`.

        Args:
            kg: The kernel generator. `kg(*, outs, **kwargs)` returns a function of the operands.
            asdefault: Whether the backend becomes the default of its platform; the first one is in any case.
            variants: Keyword arguments of the generator to choose from, as in `{"block": (64, 128)}` or `[{"block":
                64}, {"block": 128}]`. The first is used until `tune` has found a faster one.

        Raises:
            RegistrationTypeError: If the generator is not callable.
        """
        self.def_kernel("triton", "gpu", kg, asdefault, variants=variants)

    def def_numba_cuda_kernel(
        self, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Numba-CUDA kernel for the GPU: a generator that returns what `numba_cuda_kernel` returns.

        Args:
            kg: The kernel generator. `kg(*, outs, **kwargs)` returns a function of the operands.
            asdefault: Whether the backend becomes the default of its platform; the first one is in any case.
            variants: Keyword arguments of the generator to choose from, as in `{"block": (64, 128)}` or `[{"block":
                64}, {"block": 128}]`. The first is used until `tune` has found a faster one.

        Raises:
            RegistrationTypeError: If the generator is not callable.
        """
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
        """Register a kernel in CUDA C++, from `load_cuda_inline` or `cuda_kernel`.

        Args:
            kg: The kernel generator. `kg(*, outs, **kwargs)` returns a function of the operands.
            asdefault: Whether the backend becomes the default of its platform; the first one is in any case.
            platform: "gpu", or "cpu" for host code that nvcc compiles.
            variants: Keyword arguments of the generator to choose from, as in `{"block": (64, 128)}` or `[{"block":
                64}, {"block": 128}]`. The first is used until `tune` has found a faster one.
            language: "nvrtc" for kernels of `cuda_kernel`, which need no nvcc.

        Raises:
            RegistrationTypeError: If the generator is not callable.
            RegistrationValueError: If the platform is another one.
        """
        if platform not in ("cpu", "gpu"):
            raise RegistrationValueError(
                f"operator {self.name!r}: a cuda_raw kernel runs on 'cpu' or 'gpu', not {platform!r}"
            )
        self.def_kernel("cuda_raw", platform, kg, asdefault, variants=variants, language=language)

    def def_pallas_kernel(
        self, platform: str, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        """Register a Pallas kernel: a generator that returns a function with `jax.experimental.pallas.pallas_call`.

        Args:
            platform: "gpu" or "tpu".
            kg: The kernel generator. `kg(*, outs, **kwargs)` returns a function of the operands.
            asdefault: Whether the backend becomes the default of its platform; the first one is in any case.
            variants: Keyword arguments of the generator to choose from, as in `{"block": (64, 128)}` or `[{"block":
                64}, {"block": 128}]`. The first is used until `tune` has found a faster one.

        Raises:
            RegistrationTypeError: If the generator is not callable.
            RegistrationValueError: If the platform is another one.
        """
        if platform not in ("gpu", "tpu"):
            raise RegistrationValueError(
                f"operator {self.name!r}: a Pallas kernel runs on 'gpu' or 'tpu', not {platform!r}"
            )
        self.def_kernel("pallas", platform, kg, asdefault, variants=variants)
