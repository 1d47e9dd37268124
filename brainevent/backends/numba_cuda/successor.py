# SPDX-License-Identifier: Apache-2.0
"""A kernel of `numba.cuda` as one of numba-cuda-mlir: the same code, with the successor's names for Numba's."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import numba
from numba import cuda, types

from .record import CUDADispatcher

__all__ = ["translated_function"]

_ITS_CUDA, _ITS_TYPES = "numba_cuda_mlir.cuda", "numba_cuda_mlir.types"


def translated_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose names of `numba`, its types, `numba.cuda` and device functions are the successor's."""
    return _Translation().function(function)


class _Translation:
    """A translation of a function and of the device functions that it calls, each once."""

    def __init__(self) -> None:
        self._functions: dict[int, Any] = {}  # by the ids of dispatchers

    def function(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with other globals and other cells; its own stay as they are."""
        made = _copied(function)
        self._fill(made, function)
        return made

    def _fill(self, made: Callable[..., Any], function: Callable[..., Any]) -> None:
        """Translate what a copy looks up."""
        names = function.__globals__
        made.__globals__.update({k: self.value(names[k]) for k in _names_in(function.__code__) if k in names})
        for cell, own in zip(made.__closure__ or (), function.__closure__ or (), strict=True):
            cell.cell_contents = self.value(own.cell_contents)

    def value(self, value: Any) -> Any:
        """Return what a name stands for in the successor; what is not Numba's stays as it is."""
        if isinstance(value, ModuleType):
            return _module(value)
        if isinstance(value, CUDADispatcher):
            return self._device_function(value)
        if isinstance(value, types.Type):
            return _type(value)
        return _member(value)

    def _device_function(self, its: CUDADispatcher) -> Any:
        if id(its) not in self._functions:
            made = _copied(its.py_func)
            # Known before it is filled: it may call itself.
            self._functions[id(its)] = importlib.import_module(_ITS_CUDA).jit(device=True)(made)
            self._fill(made, its.py_func)
        return self._functions[id(its)]


def _copied(function: Callable[..., Any]) -> Any:
    """Return a copy of a function with globals of its own and empty cells."""
    cells = tuple(CellType() for _ in function.__closure__ or ()) or None
    code, name, defaults = function.__code__, function.__name__, function.__defaults__
    made = functools.update_wrapper(FunctionType(code, {**function.__globals__}, name, defaults, cells), function)
    del made.__wrapped__
    return made


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that a function and the functions within it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)


def _module(module: ModuleType) -> ModuleType:
    if module is numba:
        return _its_numba()
    if module.__name__ in ("numba.types", "numba.core.types", "numba.cuda.types"):
        return importlib.import_module(_ITS_TYPES)
    if module.__name__ == "numba.cuda" or module.__name__.startswith("numba.cuda."):
        return importlib.import_module(_ITS_CUDA + module.__name__.removeprefix("numba.cuda"))
    return module


@functools.cache
def _its_numba() -> ModuleType:
    """Return a module with the types of `numba`, and `cuda`, which are what kernels use of it."""
    its = ModuleType("numba")
    its.__dict__.update({name: _type(value) for name, value in vars(numba).items() if isinstance(value, types.Type)})
    its.__dict__.update(cuda=importlib.import_module(_ITS_CUDA), types=importlib.import_module(_ITS_TYPES))
    return its


def _type(value: Any) -> Any:
    """Return the successor's type of that name, such as float32; others, such as arrays, have no counterpart."""
    return getattr(importlib.import_module(_ITS_TYPES), {"bool": "boolean"}.get(value.name, value.name), value)


def _member(value: Any) -> Any:
    """Return the successor's function for one that a program imported from `numba.cuda`, such as `grid`."""
    if not str(getattr(value, "__module__", "")).startswith("numba.cuda"):
        return value
    named = next((name for name, member in vars(cuda).items() if member is value), "")
    return getattr(importlib.import_module(_ITS_CUDA), named, value)
