# SPDX-License-Identifier: Apache-2.0
"""One room per kernel language, whose value says what the rest of the package knows of it; none imports operators.

Rooms are imported with the package: so they import what their language needs only within functions.
"""

import importlib

from ..languages import register

__all__ = ["LOADERS", "WRAPPERS"]

# A language is a folder here, and a line.
_ROOMS = ("numba", "source", "numba_cuda", "nvrtc", "cubin", "tvm", "cutile", "cute", "warp", "triton", "pallas")

WRAPPERS: dict[str, str] = {}  # public names, and the modules that they are in
LOADERS: dict[str, str] = {}  # of kernels in exported programs, by kind
for _room in _ROOMS:
    for _language in importlib.import_module(f".{_room}", __name__).LANGUAGES:
        register(_language)
        WRAPPERS.update(_language.wrappers)
        LOADERS.update(_language.loaders)
