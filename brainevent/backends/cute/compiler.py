# SPDX-License-Identifier: Apache-2.0
"""Compile host functions of CuTe DSL ahead, to shared libraries of TVM FFI; no GPU is needed."""

from __future__ import annotations

import functools
import inspect
import math
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cutlass
import numpy as np
from cutlass import cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from ...errors import KernelArgumentError, KernelCompilationError
from ...ffi.declared import Argument
from ...ffi.launch.code import capability
from ...toolchain.find import find_host_compiler

__all__ = ["library", "parameters"]

_NAME = "brainevent_kernel"
_TYPES = {
    "bool": "Boolean", "float16": "Float16", "bfloat16": "BFloat16", "float32": "Float32", "float64": "Float64",
    **{f"{sign}int{bits}": f"{'U' if sign else 'I'}int{bits}".replace("Iint", "Int") for sign in ("", "u")
       for bits in (8, 16, 32, 64)},
}  # fmt: skip
_WIDEST = 16  # bytes: to more, neither XLA's arrays nor elements of a batch are aligned


def parameters(function: Any) -> tuple[str, ...]:
    """Return the names of a function's parameters."""
    return tuple(inspect.signature(inspect.unwrap(function)).parameters)


@functools.lru_cache(maxsize=256)
def _library(function: Any, arguments: tuple[Any, ...], architecture: str) -> bytes:
    given = [_number(what) if is_number else _tensor(*what) for is_number, what in arguments]
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    compiled = cute.compile(function, *given, stream, options=f"--enable-tvm-ffi --gpu-arch={architecture}")
    with tempfile.TemporaryDirectory(prefix="brainevent-") as folder:
        compiled.export_to_c(os.path.join(folder, "kernel.o"), function_name=_NAME)
        # The libraries that it needs are loaded before it, wherever they are on the machine that runs it.
        command = [*find_host_compiler().command, "-shared", "kernel.o", "-o", "kernel.so"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return Path(folder, "kernel.so").read_bytes()


def _type(dtype: str) -> Any:
    return getattr(cutlass, _TYPES[dtype])


def _number(dtype: str) -> Any:
    return _type(dtype)(1)


def _tensor(dtype: str, shape: tuple[int, ...], alignment: int) -> Any:
    order = tuple(reversed(range(len(shape))))  # row-major
    return make_fake_compact_tensor(_type(dtype), shape, stride_order=order, assumed_align=alignment)


def library(
    where: str, function: Any, arguments: Sequence[Argument], arrays: Sequence[Any], architecture: str
) -> tuple[bytes, str]:
    """Return the library of a function, compiled for arrays and numbers, and the name of its function there."""
    described: list[tuple[bool, Any]] = []
    for argument, x in zip(arguments, arrays, strict=True):
        dtype = argument.dtype if x is None else np.dtype(x.dtype).name
        if dtype not in _TYPES:
            raise KernelArgumentError(f"{where}: CuTe DSL has no {dtype}, as {argument.name!r} is; convert it")
        if x is None:
            described.append((True, dtype))
        elif 0 in x.shape or not x.shape:
            raise KernelArgumentError(
                f"{where}: {argument.name!r} is {dtype}{list(x.shape)}; CuTe DSL's arrays have axes, of at least one "
                "element: reshape it, or do not call the kernel"
            )
        else:
            size = math.prod(x.shape) * np.dtype(x.dtype).itemsize
            described.append((False, (dtype, tuple(x.shape), math.gcd(_WIDEST, size))))
    major, minor = capability(architecture)
    try:
        found = _library(function, tuple(described), f"sm_{major}{minor}{'a' if major >= 9 else ''}")
    except subprocess.CalledProcessError as error:
        raise KernelCompilationError(f"{where}: the library cannot be linked:\n{error.stderr}") from error
    except Exception as error:
        lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
        shown = "\n  ".join(lines[:12] + (["..."] if len(lines) > 12 else []))
        raise KernelCompilationError(f"{where}: the function does not compile:\n  {shown}") from error
    return found, _NAME
