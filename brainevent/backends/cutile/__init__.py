# SPDX-License-Identifier: Apache-2.0
"""NVIDIA cuTile: kernels on tiles of arrays, compiled ahead to machine code."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil

from ...languages import Language, no_device, no_driver, no_package, where_compiled

__all__ = ["INSTALL", "LANGUAGES"]

INSTALL = "pip install 'cuda-tile[tileiras]'"
_COMPILER = ("nvidia-cuda-tileiras", "nvidia-cuda-nvcc", "nvidia-nvvm")  # packages, of one release


def _why_missing() -> str | None:
    return (
        no_package("cuda.tile", INSTALL, "cuda-tile")
        or _why_no_compiler()
        or no_device("gpu")
        or no_driver("cuTile's machine code", (13, 0))
    )


def _why_no_compiler() -> str | None:
    """Search where cuTile does: packages of one release, then programs of that name."""
    from importlib import metadata

    found: dict[str, str] = {}
    for package in _COMPILER:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    releases = {version.rpartition(".")[0] for version in found.values()}
    folders = [os.environ.get("PATH", ""), *(f"{one}/bin" for one in _toolkits())]
    if (len(found) == len(_COMPILER) and len(releases) == 1) or shutil.which("tileiras", path=os.pathsep.join(folders)):
        return None
    if len(found) < len(_COMPILER):
        return f"cuTile's compiler, tileiras of CUDA 13.1 or newer, is not installed; run: {INSTALL}"
    several = ", ".join(f"{package} {version}" for package, version in found.items())
    newest = max(releases, key=lambda release: tuple(map(int, release.split("."))))
    return (
        f"cuTile's compiler is of several releases ({several}); "
        f"run: pip install {' '.join(f'{package}=={newest}.*' for package in _COMPILER)}"
    )


def _toolkits() -> list[str]:
    named = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    return [*filter(None, named), *sorted(glob.glob("/usr/local/cuda*"))]


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
