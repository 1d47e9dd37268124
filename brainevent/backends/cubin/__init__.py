# SPDX-License-Identifier: Apache-2.0
"""Machine code for GPUs that another compiler made: cubins, and PTX."""

from __future__ import annotations

from ...languages import Language, no_device, where_compiled

__all__ = ["LANGUAGES"]

LANGUAGES = (
    Language(
        "cubin",
        "machine code",
        platforms=("gpu",),
        why_missing=where_compiled("CUDA", lambda: no_device("gpu")),
        returns="what `cubin_kernel` returns",
        wrappers={"cubin_kernel": f"{__name__}.kernel"},
        needs="nothing; the code's own compiler, ahead of time",
    ),
)
