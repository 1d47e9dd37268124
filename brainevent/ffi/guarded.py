# SPDX-License-Identifier: Apache-2.0
"""Run native targets of the CPU in guarded memory, to find what they write and read outside of their arrays."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._compat import custom_call_targets
from . import float_mode, frame
from .callbacks import native_address

__all__ = ["BEFORE", "BEHIND", "Watch", "guard", "guard_of", "watching"]

BEFORE, BEHIND = "before the beginning", "past the end"
_MARGIN, _MOST = 1 << 12, 1 << 20  # bytes on each side of an array, at least and at most
_ALIGNED = 64  # as XLA's arrays
# Targets of JAX and of exported programs: they need what XLA prepares for them, or write less than their results.
_NOT_KERNELS = ("xla_", "lapack_", "dce_sink", "brainevent_portable")

Contents = Callable[[int, str, np.ndarray], Any]


@dataclass
class Watch:
    """How native code is called, and what it did.

    Attributes:
        poison: What an element of a result is before the call, by dtype.
        margin: What is beside an operand, by its number, side and content.
        standard: Whether the call begins in the processor's standard floating-point mode, rather than in XLA's.
        operands: The largest number of operands of a call.
        outside: What was written outside of the arrays.
        modes: How the floating-point mode changed.
    """

    poison: Callable[[Any], Any]
    margin: Contents
    standard: bool = False
    operands: int = 0
    outside: list[str] = field(default_factory=list)
    modes: list[str] = field(default_factory=list)


_lock = threading.RLock()
_current: list[Watch] = []


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[Watch]:
    """Watch the calls of guards in this block; blocks of several threads wait for each other."""
    with _lock:
        _current.append(watch)
        try:
            yield watch
        finally:
            _current.pop()


def guard(lowered: Any) -> list[bool]:
    """Make a lowered program for the CPU call guards; return for each of its custom calls whether it has one."""
    found = []
    for operation in _operations(lowered.compiler_ir("stablehlo").operation):
        if operation.name == "stablehlo.custom_call":
            attributes = operation.attributes
            target = attributes["call_target_name"]
            typed = "mhlo.backend_config" in attributes  # as JAX marks calls that get typed arrays
            name = guard_of(target.value) if typed else None
            if name is not None:
                attributes["call_target_name"] = type(target).get(name, target.context)
            found.append(name is not None)
    return found


def _operations(operation: Any) -> Iterator[Any]:
    """Return all operations in one."""
    for region in operation.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield inner.operation
                yield from _operations(inner.operation)


def guard_of(name: str) -> str | None:
    """Return the target that calls the target `name` in guarded memory; None if it cannot be guarded."""
    if name.startswith(_NOT_KERNELS):
        return None
    with _lock:
        return _guard(name)


@functools.cache
def _guard(name: str) -> str | None:
    target = custom_call_targets("cpu").get(name)
    if not isinstance(target, dict):
        return None
    kind = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    address = kind(("PyCapsule_GetPointer", ctypes.pythonapi))(target["execute"], None)
    inner = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)
    guarded = f"brainevent_guarded_{name}"
    outer = native_address(functools.partial(_call, inner), str)
    jax.ffi.register_ffi_target(guarded, jax.ffi.pycapsule(outer), platform="cpu")
    return guarded


@functools.cache
def _dtypes() -> dict[int, np.dtype[Any]]:
    kinds = {"PRED": "bool", "F16": "float16", "F32": "float32", "F64": "float64", "BF16": "bfloat16"}
    kinds |= {"C64": "complex64", "C128": "complex128"}
    kinds |= {
        f"{short}{bits}": f"{long}{bits}" for short, long in (("S", "int"), ("U", "uint")) for bits in (8, 16, 32, 64)
    }
    return {number: jnp.dtype(kinds[name]) for name, number in frame.data_types().items() if name in kinds}


class _Block:
    """Memory for an array, with a margin on each side."""

    def __init__(self, size: int):
        margin = -(-max(_MARGIN, min(size, _MOST)) // _ALIGNED) * _ALIGNED
        memory = np.empty(size + 2 * margin + _ALIGNED, np.uint8)
        start = margin + -memory.ctypes.data % _ALIGNED
        self.data = memory[start : start + size]
        self.margins = {BEFORE: memory[start - margin : start], BEHIND: memory[start + size : start + size + margin]}
        self.address = self.data.ctypes.data
        self.filled: dict[str, np.ndarray] = {}

    def fill(self, side: str, value: np.ndarray) -> None:
        self.margins[side].view(value.dtype)[:] = value
        self.filled[side] = self.margins[side].copy()

    def written(self, side: str) -> int:
        """Return how many bytes of a margin have changed."""
        return int((self.margins[side] != self.filled[side]).sum())


@dataclass(frozen=True)
class _Array:
    """A buffer of a call frame."""

    buffer: int
    number: int
    is_result: bool
    dtype: np.dtype[Any]
    size: int  # in bytes

    @property
    def name(self) -> str:
        return f"{'output' if self.is_result else 'operand'} {self.number}"

    @property
    def pointer(self) -> Any:
        return ctypes.c_int64.from_address(self.buffer + frame.OFFSETS["XLA_FFI_Buffer.data"])


def _arrays(call_frame: int) -> list[_Array] | None:
    """Return the arrays of a call; None if one has a dtype that NumPy lacks."""
    found = []
    for is_result, buffers in enumerate(frame.buffers_of(call_frame)):
        for number, (buffer, (_, kind, shape)) in enumerate(
            zip(frame.addresses_of(call_frame)[is_result], buffers, strict=True)
        ):
            dtype = _dtypes().get(kind)
            if dtype is None:
                return None
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            found.append(_Array(buffer, number, bool(is_result), dtype, size))
    return found


def _call(inner: Callable[[int], int], call_frame: int) -> int:
    """Call native code on blocks with the content of XLA's arrays, and copy the results back."""
    watch = _current[-1] if _current else None
    arrays = _arrays(call_frame) if watch is not None else None
    if watch is None or arrays is None:
        return inner(call_frame)
    places = [array.pointer.value for array in arrays]
    blocks: dict[Any, _Block] = {}  # one for arrays that share memory, as operands that are one array
    watch.operands = max(watch.operands, sum(not array.is_result for array in arrays))
    try:
        for array, place in zip(arrays, places, strict=True):
            _enter(watch, blocks, array, place)
        with float_mode.watched(watch.standard) as changed:
            answer = inner(call_frame)
    finally:
        for array, place in zip(arrays, places, strict=True):
            array.pointer.value = place
    watch.modes += changed
    for array, place in zip(arrays, places, strict=True):
        block = blocks[_key(array, place)]
        if array.is_result and array.size:
            ctypes.memmove(place, block.address, array.size)
        watch.outside += [
            f"{array.name}: {count} bytes were written {side} of its memory"
            for side in block.margins
            if (count := block.written(side))
        ]
    return answer


def _key(array: _Array, place: int) -> Any:
    return place if array.size else (array.is_result, array.number)


def _enter(watch: Watch, blocks: dict[Any, _Block], array: _Array, place: int) -> None:
    """Place an array of the call in a block."""
    key = _key(array, place)
    if (block := blocks.get(key)) is None:
        block = blocks[key] = _Block(array.size)
        content = block.data.view(array.dtype)
        if array.is_result:
            content[:] = watch.poison(array.dtype)
        elif array.size:
            ctypes.memmove(block.address, place, array.size)
        for side in block.margins:
            value = watch.poison(array.dtype) if array.is_result else watch.margin(array.number, side, content)
            block.fill(side, np.asarray(value, array.dtype))
    array.pointer.value = block.address
