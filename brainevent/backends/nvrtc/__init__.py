# SPDX-License-Identifier: Apache-2.0
"""Kernels in CUDA C++ without nvcc or a host compiler."""

from __future__ import annotations

from ...languages import Language, no_device, no_package, where_compiled

__all__ = ["LANGUAGES"]

_INSTALL = "pip install 'cuda-bindings[all]'"


def _why_missing() -> str | None:
    return no_package("cuda.bindings", _INSTALL, "cuda-bindings") or no_device("gpu")


LANGUAGES = (
    Language(
        "nvrtc",
        "Raw CUDA (NVRTC)",
        platforms=("gpu",),
        why_missing=where_compiled("CUDA", _why_missing),
        returns="what `cuda_kernel` returns",
        wrappers={"cuda_kernel": f"{__name__}.kernel"},
        packages=("cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12"),
        needs="`cuda-bindings[all]`",
        on_laptop="compiles",
        loaders={"plan": "brainevent.ffi.launch"},
    ),
)
