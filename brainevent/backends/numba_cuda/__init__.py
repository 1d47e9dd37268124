# SPDX-License-Identifier: Apache-2.0
"""Numba-CUDA on the GPU; on the CPU, where `numba.cuda` is Numba's simulator."""

from __future__ import annotations

import os
from collections.abc import Iterator

from ...languages import Language, no_device, no_package, where_compiled
from . import chosen
from .emulation import SIMULATE, is_simulated, simulate

__all__ = ["LANGUAGES"]


def _why_missing() -> str | None:
    if no_package("numba_cuda", "") is None or no_package("numba_cuda_mlir", "") is None:
        return no_device("gpu")
    return no_package("numba_cuda", "pip install 'numba-cuda[cu13]'")


def _why_no_simulator() -> str | None:
    if is_simulated() is False:
        return (
            "numba.cuda was imported before emulation was switched on; start Python with BRAINEVENT_EMULATE=1, or call "
            "brainevent.config.emulate() before anything imports numba.cuda"
        )
    return no_package("numba", "pip install numba")


def _notes() -> Iterator[tuple[str, str]]:
    if no_package("numba_cuda_mlir", "") is None:
        others = "too" if chosen.why_not() is None and chosen.compiles_all() else "by numba-cuda"
        yield (
            "numba_cuda_mlir",
            (
                "its kernels (@numba_cuda_mlir.cuda.jit) are compiled by it, on GPUs alone; "
                f"those of @numba.cuda.jit {others}"
            ),
        )
    if (why := chosen.why_not()) is not None:
        yield "numba.cuda", why
    if is_simulated() or os.environ.get(SIMULATE) == "1":
        yield "numba.cuda", "Numba's simulator in this process: Numba-CUDA kernels run on CPUs, and on no GPU"


LANGUAGES = (
    Language(
        "numba_cuda",
        "Numba-CUDA",
        platforms=("gpu",),
        why_missing=where_compiled("Numba-CUDA", _why_missing),
        returns="what `numba_cuda_kernel` returns",
        wrappers={"numba_cuda_callable": f"{__name__}.kernel", "numba_cuda_kernel": f"{__name__}.kernel"},
        packages=("numba-cuda", "numba-cuda-mlir"),
        extra=True,
        needs="`numba-cuda` or `numba-cuda-mlir`",
        emulator="Numba's simulator",
        why_not_emulated=where_compiled("Numba's simulator", _why_no_simulator),
        when_emulating=simulate,
        on_laptop="Numba's simulator",
        notes=_notes,
    ),
)
