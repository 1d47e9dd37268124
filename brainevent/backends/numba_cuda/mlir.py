# SPDX-License-Identifier: Apache-2.0
"""Kernels that numba-cuda-mlir compiles, NVIDIA's successor of Numba-CUDA: their types, PTX, and parameters."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import KernelArgumentError
from ...ffi.launch import Slot
from . import chosen

__all__ = ["NAME", "compiles", "dispatcher", "is_kernel", "parameters_of", "ptx", "type_of"]

NAME = "numba_cuda_mlir"


def is_kernel(kernel: Any) -> bool:
    """Return whether a kernel is one of numba-cuda-mlir, without importing that."""
    module = sys.modules.get(f"{NAME}.descriptor")
    return module is not None and isinstance(kernel, module.MLIRDispatcher)


def compiles(kernel: Any) -> bool:
    """Return whether numba-cuda-mlir compiles a kernel: its own, and if chosen for them, those of `numba.cuda`."""
    return is_kernel(kernel) or chosen.compiles_all()


def dispatcher() -> tuple[Any, Any] | None:
    """Return the class of such kernels and the module of their decorator, if the program has imported them."""
    modules = sys.modules.get(f"{NAME}.descriptor"), sys.modules.get(f"{NAME}.cuda")
    return None if None in modules else (modules[0].MLIRDispatcher, modules[1])  # type: ignore[union-attr]


def type_of(where: str, argument: Any) -> Any:
    """Return the type of an array or of a number, which is not Numba's own."""
    types = importlib.import_module(f"{NAME}.types")
    if hasattr(argument, "buffer"):
        named = {"bool": "boolean"}.get(argument.dtype.name, argument.dtype.name)
        return types.Array(getattr(types, named), argument.ndim, "C")
    return getattr(types, {"bool": "boolean"}.get(name := _number(where, argument).dtype.name, name))


def _number(where: str, argument: Any) -> np.generic:
    """Return a number with the dtype that Numba gives it."""
    kinds = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}
    number = kinds[type(argument)](argument) if type(argument) in kinds else argument
    if not isinstance(number, np.generic) or number.dtype.kind not in "biufc":
        raise KernelArgumentError(
            f"{where}: {argument!r} is an argument of the type {type(argument).__name__}; kernels take arrays and "
            "numbers"
        )
    return number


def ptx(kernel: Any, signature: Sequence[Any], capability: tuple[int, int], options: Mapping[str, Any]) -> str:
    """Compile a kernel to PTX."""
    cuda = importlib.import_module(f"{NAME}.cuda")
    function = kernel.py_func
    if not is_kernel(kernel):  # one of numba.cuda, whose flags may be numbers
        function = importlib.import_module(".successor", package=__package__).translated_function(function)
        flags = {name: bool(value) for name, value in options.items() if name != "launch_bounds"}
        options = {**options, **flags}
    text, _ = cuda.compile_ptx(function, tuple(signature), cc=capability, **options)
    return text if isinstance(text, str) else text.decode()


def parameters_of(where: str, arguments: Sequence[Any]) -> tuple[tuple[bytes, ...], tuple[Slot, ...]]:
    """Return the words of the arguments: an array is two addresses, an offset, extents, and strides in elements."""
    parameters: list[bytes] = []
    slots = []
    for argument in arguments:
        if not hasattr(argument, "buffer"):
            parameters.append(_number(where, argument).tobytes())
            continue
        slots += [Slot(len(parameters) + k, argument.buffer, shift=argument.shift) for k in (0, 1)]
        strides = [stride // argument.dtype.itemsize for stride in argument.strides]
        words = np.array([0, 0, 0, *argument.shape, *strides], np.int64)
        parameters += [word.tobytes() for word in words]
    return tuple(parameters), tuple(slots)
