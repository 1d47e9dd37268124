# SPDX-License-Identifier: Apache-2.0
"""Compile one Warp kernel, without the others of its module, for the CPU or for GPUs, with or without a GPU."""

from __future__ import annotations

import json
import re
import threading
import warnings
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import KernelCompilationError, UnsupportedOperationError
from ...ffi.devices import cuda_capabilities
from ...ffi.launch import Limits
from ...ffi.launch.host import pack_object
from ...toolchain.architectures import gpu_architectures
from .dtypes import the_warp
from .internals import built, keep_declared, new_module

__all__ = ["Code", "compiled", "titled"]

_TILES = re.compile(r"\bwp::(?:adj_)?tile_(?!shared_storage)\w+")
_HANDLES = re.compile(r"\bwp::(?:adj_)?(?:tile_)?(mesh|bvh|hash_grid|volume|texture)_\w+\(")
# A store to a parameter, in the text of a kernel: wp::array_store(var_x, ..., wp::store(&(wp::index(var_x, ...
_WRITES = re.compile(
    r"^\s*(?:var_\d+ = )?wp::(?:array_store|store|atomic_\w+|tile_store|tile_atomic_\w+)\b[^(\n]*"
    r"\((?:&\(wp::index\()*var_([A-Za-z_]\w*)",
    re.MULTILINE,
)
_codes: weakref.WeakKeyDictionary[Any, dict[Any, Code]] = weakref.WeakKeyDictionary()
_lock = threading.RLock()


@dataclass(frozen=True)
class Code:
    """A binary, its entry points, and the information for its launches."""

    binary: bytes
    forward: str
    backward: str
    tid_axes: int  # the number of values that wp.tid() returns
    tiles: bool
    strided: bool  # whether threads loop over elements, so that any grid is valid
    written: frozenset[str]  # the parameters that the kernel itself stores to
    shared: tuple[int, int] = (0, 0)  # bytes of dynamic shared memory, forward and backward
    limits: Limits = field(default_factory=Limits)


def titled(kernel: Any) -> str:
    """Return a kernel's name, for messages."""
    return str(getattr(kernel, "key", getattr(kernel, "__name__", type(kernel).__name__)))


def compiled(where: str, kernel: Any, types: tuple[Any, ...], platform: str, block_dim: int, backward: bool) -> Code:
    """Compile a kernel for arguments of these types, unless that was done."""
    architectures = gpu_architectures(None, cuda_capabilities) if platform == "cuda" else ()
    key = (tuple(map(_described, types)), platform, block_dim, backward, architectures)
    with _lock:
        known = _codes.setdefault(kernel, {})
        if key not in known:
            known[key] = _compile(where, kernel, types, architectures, block_dim, backward)
        return known[key]


def _described(kind: Any) -> Any:
    """Return a value that is equal for equal types; annotations of arrays are not."""
    return (kind.dtype, kind.ndim) if hasattr(kind, "ndim") else kind


def _compile(
    where: str, kernel: Any, types: Sequence[Any], architectures: tuple[str, ...], block_dim: int, backward: bool
) -> Code:
    warp = the_warp()
    _check_options(where, kernel)
    try:
        copy = _alone(warp, kernel, types, block_dim if architectures else 1, backward)
        path, source, meta = _built(copy.module, architectures)
    except UnsupportedOperationError:
        raise
    except Exception as error:
        raise KernelCompilationError(f"{where}: Warp cannot compile the kernel:\n  {_shown(error)}") from error
    _check_source(where, source)
    name = copy.get_mangled_name()
    common: dict[str, Any] = {
        "tid_axes": copy.adj.kernel_dim,
        "tiles": _TILES.search(source) is not None,
        "strided": bool(copy.grid_stride),
        "written": _written(name, source),
    }
    if not architectures:
        entries = {f"{name}_cpu_forward": 2, **({f"{name}_cpu_backward": 3} if backward else {})}
        native = "-march=native" in (copy.module.options.get("cpu_compiler_flags") or _global_flags(warp))
        # A kernel with tiles uses static variables, which another thread must not use at the same time.
        binary = pack_object(path.read_bytes(), entries, native=native, alone=common["tiles"])
        return Code(binary, f"{name}_cpu_forward", f"{name}_cpu_backward", **common)
    forward, back = f"{name}_cuda_kernel_forward", f"{name}_cuda_kernel_backward"
    shared = (meta[f"{forward}_smem_bytes"], meta.get(f"{back}_smem_bytes", 0))
    binary = path.read_bytes() + b"\0" * (path.suffix == ".ptx")
    return Code(binary, forward, back, **common, shared=shared, limits=Limits.of(architectures[0]))


def _written(name: str, source: str) -> frozenset[str]:
    start = re.search(rf"\b{re.escape(name)}_(?:cpu|cuda)_kernel_forward\(", source)
    text = source[start.start() : source.find("\n}", start.start())] if start else ""
    return frozenset(_WRITES.findall(text))


def _global_flags(warp: Any) -> str:
    flags = getattr(warp.config, "cpu_compiler_flags", "")
    return "-march=native" if flags is None else str(flags)


def _alone(warp: Any, kernel: Any, types: Sequence[Any], block_dim: int, backward: bool) -> Any:
    """Return the same kernel in a separate module, independent of errors and changes of other kernels."""
    module = new_module("brainevent_" + re.sub(r"\W", "_", kernel.key))
    module.options.update(kernel.module.options)
    module.options.update(block_dim=block_dim, enable_backward=backward, strip_hash=False)
    if module.options.get("default_grid_stride", False) is None:  # our grids of three axes need no loop over elements
        module.options["default_grid_stride"] = False
    options = {key: value for key, value in kernel.options.items() if key != "enable_backward"}
    copy = warp.Kernel(kernel.func, key=kernel.key, module=module, options=options, source=kernel.adj.source)
    if copy.is_generic:
        generic, copy = copy, copy.add_overload(list(types))
        module.brainevent_keeps = generic  # a module refers to its kernels weakly
    keep_declared(copy, kernel)
    return copy


def _built(module: Any, architectures: tuple[str, ...]) -> tuple[Path, str, dict[str, Any]]:
    """Compile a module, or find it in Warp's cache; return the binary's path, its source, and Warp's metadata."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*compiled with -march=native")  # a plan says for which CPU it is
        architecture = int(re.sub(r"\D", "", architectures[0])) if architectures else None
        path = built(module, architecture, not _all_here_are(architectures))
    stem = path.parent / path.name.partition(".")[0]
    source = stem.with_suffix(".cu" if architectures else ".cpp").read_text()
    return path, source, json.loads(stem.with_suffix(".meta").read_text())


def _all_here_are(architectures: tuple[str, ...]) -> bool:
    """Return whether every GPU has the one architecture to compile for, so that PTX is not needed."""
    try:
        return set(cuda_capabilities()) == set(architectures)
    except RuntimeError:
        return False


def _check_options(where: str, kernel: Any) -> None:
    options = {**kernel.module.options, **kernel.options}
    if options.get("entry_point_abi", "warp") != "warp":
        raise UnsupportedOperationError(
            f"{where}: the kernel has entry_point_abi={options['entry_point_abi']!r}, which takes its arguments in "
            "another way; omit it"
        )
    if options.get("cluster_dim", 1) not in (0, 1, None):
        raise UnsupportedOperationError(
            f"{where}: the kernel has cluster_dim={options['cluster_dim']}, and XLA cannot launch clusters of blocks; "
            "omit it"
        )
    if getattr(options.get("deterministic"), "value", 0):
        raise UnsupportedOperationError(
            f"{where}: deterministic mode launches additional kernels of Warp; turn it off for this module"
        )


def _check_source(where: str, source: str) -> None:
    if found := _HANDLES.search(source):
        raise UnsupportedOperationError(
            f"{where}: the kernel uses a Warp {found[1]}, whose handle is an address that is valid only in this "
            "process; pass its arrays to the kernel, or call the kernel with warp.jax_kernel"
        )


def _shown(error: Exception) -> str:
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    return "\n  ".join(lines[:20] + ["..."] * (len(lines) > 20))
