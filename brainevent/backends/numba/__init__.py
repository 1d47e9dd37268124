# SPDX-License-Identifier: Apache-2.0
"""Numba on the CPU."""

from ...languages import Language, no_package, where_compiled

__all__ = ["LANGUAGES"]

LANGUAGES = (
    Language(
        "numba",
        "Numba",
        platforms=("cpu",),
        why_missing=where_compiled("Numba", lambda: no_package("numba", "pip install numba")),
        returns="what `numba_kernel` returns",
        wrappers={"half": f"{__name__}.kernel", "numba_kernel": f"{__name__}.kernel"},
        packages=("numba", "llvmlite"),
        libraries=("numba", "llvmlite"),
        on_laptop="yes",
        loaders={"numba": f"{__name__}.kept"},
    ),
)
