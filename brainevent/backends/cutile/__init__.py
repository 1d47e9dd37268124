# SPDX-License-Identifier: Apache-2.0
"""NVIDIA cuTile: kernels on tiles of arrays, compiled ahead to machine code."""

from __future__ import annotations

import importlib.util
import shutil

from ...languages import Language, no_device, no_driver, no_package, where_compiled

__all__ = ["INSTALL", "LANGUAGES"]

INSTALL = "pip install 'cuda-tile[tileiras]'"


def _why_missing() -> str | None:
    return (
        no_package("cuda.tile", INSTALL, "cuda-tile")
        or _why_no_compiler()
        or no_device("gpu")
        or no_driver("cuTile's machine code", (13, 0))
    )


def _why_no_compiler() -> str | None:
    found = shutil.which("tileiras") or importlib.util.find_spec("nvidia.cu13") is not None
    return None if found else f"cuTile's compiler, tileiras of CUDA 13.1 or newer, is not installed; run: {INSTALL}"


LANGUAGES = (
    Language(
        "cutile",
        "cuTile",
        platforms=("gpu",),
        why_missing=where_compiled("cuTile", _why_missing),
        returns="what `cutile_kernel` returns",
        wrappers={"cutile_kernel": f"{__name__}.kernel"},
        packages=("cuda-tile", "nvidia-cuda-tileiras"),
        extra=True,
        libraries=("cuda.tile",),
        needs="`cuda-tile[tileiras]`; a driver for CUDA 13",
        on_laptop="compiles",
    ),
)
