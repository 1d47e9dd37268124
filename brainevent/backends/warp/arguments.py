# SPDX-License-Identifier: Apache-2.0
"""The parameters of a Warp kernel, its arguments, and their form for compiled code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..._compat import Tracer
from ...errors import KernelArgumentError, UnsupportedOperationError
from ...ffi.scalars import number_bytes
from .dtypes import the_warp
from .internals import array_structure, is_array_type

__all__ = ["Array", "Parameter", "Value", "array_bytes", "as_array", "as_value", "declared"]

_MOST = 2**31 - 1  # Warp counts elements and bytes along an axis in 32 bits


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel, by its annotation; `ndim` is None if it is not an array."""

    name: str
    type: Any
    ndim: int | None

    @property
    def is_array(self) -> bool:
        """Whether it takes an array."""
        return self.ndim is not None

    def __str__(self) -> str:
        return f"an array of {_named(self.type.dtype)} with ndim={self.ndim}" if self.is_array else _named(self.type)


@dataclass(frozen=True)
class Array:
    """An array argument: its element type, its extents in Warp's count, and which operand or result it is."""

    name: str
    dtype: Any
    shape: tuple[int, ...]
    buffer: int
    itemsize: int

    @property
    def type(self) -> Any:
        """The annotation of such an array."""
        return the_warp().array(dtype=self.dtype, ndim=len(self.shape))

    @property
    def scalar(self) -> str:
        """The dtype of its numbers."""
        return _scalar(self.dtype).__name__

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.itemsize


@dataclass(frozen=True)
class Value:
    """An argument by value: its bytes are part of the program."""

    name: str
    type: Any
    content: bytes


def declared(where: str, kernel: Any) -> tuple[Parameter, ...]:
    """Return a kernel's parameters, or raise if XLA cannot provide one."""
    return tuple(_parameter(where, argument.label, argument.type) for argument in kernel.adj.args)


def _parameter(where: str, name: str, kind: Any) -> Parameter:
    if hasattr(kind, "ndim") and hasattr(kind, "dtype"):
        if not is_array_type(kind):
            raise UnsupportedOperationError(
                f"{where}: the parameter {name!r} is of the type {_named(kind)}; of Warp's arrays, only warp.array "
                "can be made from a JAX array; declare one"
            )
        if hasattr(kind.dtype, "vars"):
            raise UnsupportedOperationError(
                f"{where}: the parameter {name!r} is an array of the struct {kind.dtype.key}; JAX has arrays of "
                "numbers: pass one array for each field"
            )
        return Parameter(name, kind, int(kind.ndim))
    if hasattr(kind, "ctype"):
        pointers = [label for label, field in kind.ctype._fields_ if _holds_array(field)]
        if pointers:
            raise UnsupportedOperationError(
                f"{where}: the parameter {name!r} is the struct {kind.key}, whose field {pointers[0]!r} is an array; "
                "make that a parameter of the kernel"
            )
    elif not _is_number(kind) and not (isinstance(kind, type) and issubclass(kind, ctypes.Array)):
        raise UnsupportedOperationError(
            f"{where}: the parameter {name!r} is of the type {_named(kind)}; kernels take arrays, numbers, vectors, "
            "matrices and structs of these"
        )
    return Parameter(name, kind, None)


def _holds_array(field: Any) -> bool:
    return (isinstance(field, type) and issubclass(field, array_structure())) or any(
        _holds_array(inner) for _, inner in getattr(field, "_fields_", ())
    )


def _is_any(kind: Any) -> bool:
    return getattr(kind, "__name__", str(kind).rpartition(".")[2]) == "Any"


def _is_number(kind: Any) -> bool:
    return _is_any(kind) or kind in (int, float, bool) or _scalar_name(kind) is not None


def _scalar_name(kind: Any) -> str | None:
    """Return the NumPy name of a scalar type of Warp's."""
    name = str(getattr(kind, "__name__", ""))
    return name if isinstance(kind, type) and getattr(the_warp(), name, None) is kind and _has_numpy(name) else None


def _has_numpy(name: str) -> bool:
    try:
        jax.numpy.dtype(name)
    except TypeError:
        return False
    return True


def _scalar(dtype: Any) -> Any:
    return getattr(dtype, "_wp_scalar_type_", dtype)


def _named(kind: Any) -> str:
    return str(getattr(kind, "__name__", getattr(kind, "key", type(kind).__name__)))


def as_array(where: str, parameter: Parameter, x: Any, buffer: int) -> Array:
    """Check an array, or the type of an output, against the kernel's declaration."""
    if not parameter.is_array:
        raise KernelArgumentError(
            f"{where}: the output {parameter.name!r} is declared as {parameter}; declare it as warp.array(dtype=...)"
        )
    shape, name = tuple(x.shape), jax.dtypes.canonicalize_dtype(x.dtype).name
    passed = f"{name}{list(shape)} is passed"
    if not shape:
        raise KernelArgumentError(
            f"{where}: {parameter.name!r} is declared as {parameter}, and {passed}: Warp has no 0-D arrays; give the "
            "array one axis, x.reshape(1), or declare a number and pass one"
        )
    dtype = parameter.type.dtype
    if _is_any(dtype):
        dtype = getattr(the_warp(), name, None)
        if dtype is None or _scalar_name(dtype) is None:
            raise KernelArgumentError(f"{where}: {parameter.name!r}: {passed}, and Warp has no such dtype; convert it")
    inner = tuple(getattr(dtype, "_shape_", ()))
    outer = shape[: len(shape) - len(inner)]
    if _scalar_name(_scalar(dtype)) != name or len(outer) != parameter.ndim or shape[len(outer) :] != inner:
        shown = f" (in JAX {(parameter.ndim or 0) + len(inner)} axes, the last {list(inner)})" if inner else ""
        raise KernelArgumentError(
            f"{where}: {parameter.name!r} is declared as {parameter}{shown}, and {passed}; change one of them"
        )
    itemsize = int(np.prod(inner, dtype=np.int64)) * jax.numpy.dtype(name).itemsize
    array = Array(parameter.name, dtype, outer, buffer, itemsize)
    if max((*outer, *_strides(array))) > _MOST:
        raise KernelArgumentError(
            f"{where}: {parameter.name!r}: {passed}, and Warp counts bytes along an axis in 32 bits; split the array"
        )
    return array


def _strides(array: Array) -> tuple[int, ...]:
    steps = [array.itemsize]
    for extent in reversed(array.shape[1:]):
        steps.append(steps[-1] * extent)
    return tuple(reversed(steps))


def array_bytes(array: Array) -> Any:
    """Return Warp's own description of an array, as ctypes; addresses are zero."""
    return array_structure()(data=0, grad=0, ndim=len(array.shape), shape=array.shape, strides=_strides(array))


def as_value(where: str, parameter: Parameter, value: Any) -> Value:
    """Return an argument that is passed by value, as bytes."""
    if isinstance(value, (Tracer, jax.Array, np.ndarray)):
        raise KernelArgumentError(
            f"{where}: {parameter.name!r} is declared as {parameter}, and an array is passed; numbers are part of the "
            "program: pass a Python number, or declare warp.array(dtype=...) and pass an array of one element"
        )
    kind = parameter.type
    if _is_any(kind):
        kind = _kind_of(value)
    name = {int: "int32", float: "float32", bool: "bool"}.get(kind, _scalar_name(kind))
    if name is not None:
        number = value.value if _scalar_name(type(value)) is not None and hasattr(value, "value") else value
        return Value(parameter.name, kind, number_bytes(f"{where}: {parameter.name!r}", name, number))
    try:
        content = _composite(kind, value)
    except (TypeError, ValueError) as error:
        raise KernelArgumentError(
            f"{where}: {parameter.name!r} is declared as {parameter}, and {value!r} is passed: {error}"
        ) from None
    return Value(parameter.name, kind, content)


def _kind_of(value: Any) -> Any:
    """Return the type of a number that a kernel does not declare."""
    warp = the_warp()
    by_type = {bool: warp.bool, int: warp.int32, float: warp.float32}
    return by_type.get(type(value)) or getattr(warp, getattr(getattr(value, "dtype", None), "name", ""), type(value))


def _composite(kind: Any, value: Any) -> bytes:
    if hasattr(kind, "ctype"):
        if getattr(getattr(value, "_cls", None), "key", None) != kind.key:
            raise TypeError(f"an instance of {kind.key} is needed")
        return bytes(value.__ctype__())
    if not isinstance(value, kind):
        numbers = value if isinstance(value, Sequence) else (value,)
        name = _scalar_name(_scalar(kind)) or ""
        for number in numbers:
            if isinstance(number, int):  # ctypes would truncate it
                number_bytes("a component", name, number)
        value = kind(*numbers)
    return bytes(value)
