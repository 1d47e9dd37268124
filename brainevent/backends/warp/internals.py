# SPDX-License-Identifier: Apache-2.0
"""Everything of Warp that is private or differs between its releases."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .dtypes import the_warp

__all__ = ["array_structure", "built", "check_release", "is_array_type", "keep_declared", "launch_bounds", "new_module"]

_OLDEST = (1, 17)  # compiled code of earlier releases takes its arguments in another way


def _private(room: str) -> Any:
    the_warp()
    return importlib.import_module(f"warp._src.{room}")


def check_release(where: str) -> None:
    """Raise if Warp is too old."""
    version = the_warp().__version__
    if tuple(int(part) for part in re.findall(r"\d+", version)[:2]) < _OLDEST:
        raise ImportError(
            f"{where}: it needs Warp {'.'.join(map(str, _OLDEST))} or newer, and {version} is installed; "
            "run: pip install -U warp-lang"
        )


def array_structure() -> Any:
    """Return the ctypes structure of an array in a kernel's arguments."""
    return _private("types").array_t


def is_array_type(kind: Any) -> bool:
    """Return whether an annotation is that of a plain array, not of one of Warp's other kinds."""
    return bool(_private("types").matches_array_class(kind, the_warp().array))


def launch_bounds(dims: Sequence[int], tid_axes: int) -> Any:
    """Return the ctypes structure with the number of threads."""
    return _private("context")._build_launch_bounds_from_tuple(tuple(dims), tid_axes)


def new_module(name: str) -> Any:
    """Make a module for kernels that is not in Warp's list of modules."""
    return _private("context").Module(name, None)


def keep_declared(copy: Any, kernel: Any) -> None:
    """Give a copy of a kernel the values of `wp.static` from its declaration, not the current ones."""
    for name in ("tree", "resolved_static_expressions", "static_expressions", "has_unresolved_static_expressions"):
        if hasattr(kernel.adj, name):
            setattr(copy.adj, name, getattr(kernel.adj, name))


def built(module: Any, architecture: int | None, ptx: bool) -> Path:
    """Compile a module, for GPUs or for the CPU, or find it in Warp's cache; return the binary's path."""
    if architecture is None and not the_warp().is_cpu_available():
        raise RuntimeError("its compiler for CPUs, warp-clang, is missing; reinstall warp-lang")
    target = {"device": "cpu"} if architecture is None else {"arch": architecture, "use_ptx": ptx}
    [path] = the_warp().compile_aot_module(module, **target)
    return Path(path)
