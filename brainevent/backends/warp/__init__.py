# SPDX-License-Identifier: Apache-2.0
"""NVIDIA Warp on the CPU and on the GPU."""

from __future__ import annotations

from typing import Any

from ...languages import Generator, Language, Variants, no_package, where_compiled

__all__ = ["LANGUAGES"]

_is_missing = where_compiled("Warp", lambda: no_package("warp", "pip install warp-lang"))


def def_warp_kernel(self: Any, kg: Generator, asdefault: bool = False, *, variants: Variants | None = None) -> None:
    """Register a Warp kernel for the GPU: a generator that returns what `warp_kernel` returns.

    Examples:
        >>> import brainevent
        >>> double = brainevent.XLACustomKernel("doc_languages")
        >>> double.def_warp_kernel(lambda *, outs: None, variants={"block_dim": (64, 128)})
        >>> double.def_numba_cuda_kernel(lambda *, outs: None)
        >>> double.def_triton_kernel(lambda *, outs: None)
        >>> double.def_nvrtc_kernel(lambda *, outs: None)
        >>> double.def_cubin_kernel(lambda *, outs: None)
        >>> double.def_cutile_kernel(lambda *, outs: None)
        >>> double.def_cute_kernel(lambda *, outs: None)
        >>> double.def_cuda_raw_kernel(lambda *, outs: None, asdefault=True, language="nvrtc")
        >>> double.def_pallas_kernel("tpu", lambda *, outs: None)
        >>> double.defaults
        {'gpu': 'cuda_raw', 'tpu': 'pallas'}
    """
    self.def_kernel("warp", "gpu", kg, asdefault, variants=variants)


LANGUAGES = (
    Language(
        "warp",
        "NVIDIA Warp",
        platforms=("cpu", "gpu"),
        why_missing=_is_missing,
        method=def_warp_kernel,
        wrappers={
            "jaxinfo_to_warpinfo": f"{__name__}.dtypes",
            "jaxtype_to_warptype": f"{__name__}.dtypes",
            "warp_kernel": f"{__name__}.kernel",
        },
        packages=("warp-lang",),
        extra=True,
        libraries=("warp",),
        merges_batches=True,
        needs="`warp-lang`",
        derives="`adjoint=True`",
        emulator="Warp's CPU device",
        why_not_emulated=_is_missing,
        on_laptop="yes, on the CPU",
    ),
)
