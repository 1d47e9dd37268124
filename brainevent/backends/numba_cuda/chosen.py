# SPDX-License-Identifier: Apache-2.0
"""Which of two compilers kernels of `numba.cuda` go to: numba-cuda, or its successor numba-cuda-mlir."""

from __future__ import annotations

import os

from ...errors import KernelNotAvailableError
from ...languages import no_package

__all__ = ["compiles_all", "why_not"]

_VARIABLE = "BRAINEVENT_NUMBA_CUDA"
_OLD, _NEW = "numba-cuda", "numba-cuda-mlir"


def compiles_all() -> bool:
    """Return whether numba-cuda-mlir compiles kernels of `numba.cuda` too: if asked to, or if it is alone here.

    Raises:
        KernelNotAvailableError: If it is asked to and is not installed, or the variable has another value.
    """
    if (why := why_not()) is not None:
        raise KernelNotAvailableError(why)
    asked = os.environ.get(_VARIABLE) or (_OLD if _is_there("numba_cuda") or not _is_there("numba_cuda_mlir") else _NEW)
    return asked == _NEW


def why_not() -> str | None:
    """Return why the choice of the environment variable cannot be followed, or None."""
    asked = os.environ.get(_VARIABLE, "")
    if asked not in ("", _OLD, _NEW):
        return f"${_VARIABLE} is {asked!r}; set it to {_OLD!r} or {_NEW!r}, or unset it"
    missing = asked == _NEW and no_package("numba_cuda_mlir", "pip install 'numba-cuda-mlir[cu13]'")
    return f"${_VARIABLE} is {asked!r}: {missing}" if missing else None


def _is_there(package: str) -> bool:
    return no_package(package, "") is None
