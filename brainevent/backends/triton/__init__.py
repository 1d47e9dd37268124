# SPDX-License-Identifier: Apache-2.0
"""Triton on the GPU, through `jax_triton`."""

from __future__ import annotations

from ...languages import Language, no_device, no_package, where_compiled

__all__ = ["LANGUAGES"]

_INSTALL = "pip install jax-triton triton"


def _why_missing() -> str | None:
    return no_package("jax_triton", _INSTALL) or no_package("triton", _INSTALL) or no_device("gpu")


LANGUAGES = (
    Language(
        "triton",
        "Triton",
        platforms=("gpu",),
        why_missing=where_compiled("Triton", _why_missing),
        returns="a function with `jax_triton.triton_call`",
        packages=("triton", "jax-triton"),
        extra=True,
        libraries=("triton", "jax_triton"),
        batches="scan",
        needs="`triton`, `jax-triton`",
        on_laptop="compiles",
    ),
)
