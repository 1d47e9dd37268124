# SPDX-License-Identifier: Apache-2.0
"""A Python function that XLA calls in every run, because a plan cannot repeat it."""

from __future__ import annotations

import ctypes
import threading
import uuid
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numba import cuda

from ...errors import UnsupportedOperationError
from ...ffi import frame
from ...ffi.callbacks import native_address
from ...ffi.targets import register_once
from .arguments import weak_key

__all__ = ["callback_target", "elements"]

# XLA's numbers of dtypes
_DTYPES = {
    1: "bool", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "uint8", 7: "uint16", 8: "uint32", 9: "uint64",
    10: "float16", 11: "float32", 12: "float64", 15: "complex64", 18: "complex128",
}  # fmt: skip
_names: weakref.WeakKeyDictionary[Callable[..., Any], str] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


@dataclass(frozen=True)
class CallbackTarget:
    """A target that calls Python."""

    name: str
    title: str
    reason: str = field(compare=False)
    platform: str = "cuda"

    @property
    def attributes(self) -> dict[str, Any]:
        """None of its own."""
        return {}

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Raise: a Python function exists only in this process."""
        raise UnsupportedOperationError(
            f"the kernel {self.title!r} cannot be exported: it is called through Python, because it {self.reason}"
        )

    def for_types(self, operands: Sequence[Any], outs: Sequence[Any]) -> CallbackTarget:
        """Return itself: shapes and dtypes are read at run time."""
        return self


def callback_target(where: str, function: Callable[..., Any], reason: str) -> CallbackTarget:
    """Return the target that calls a function, and warn once."""
    with _lock:
        known = _names.get(weak_key(function))
        if known is None:
            warnings.warn(
                f"{where}: it is called through Python in each run, because it {reason}; a function that only "
                "launches kernels on the given stream runs natively",
                UserWarning,
                stacklevel=5,
            )
            known = _names[weak_key(function)] = f"brainevent_numba_cuda_callable_{uuid.uuid4().hex}"
            register_once(known, "CUDA", lambda: native_address(_handler(function), _described(where)))
    return CallbackTarget(known, where, reason)


def _described(where: str) -> Callable[[BaseException], str]:
    return lambda error: f"{where} raised {type(error).__name__}: {error}"


def _handler(function: Callable[..., Any]) -> Callable[[int], int]:
    def handle(call_frame: int) -> int:
        if frame.answer_metadata_query(call_frame):
            return 0
        stream, device = frame.stream_of(call_frame), frame.device_of(call_frame)
        with cuda.gpus[device]:
            on = cuda.external_stream(stream)
            for buffers in elements(call_frame):
                arrays = [cuda.as_cuda_array(_Memory(*buffer, stream), sync=False) for buffer in buffers]
                function(*arrays, on)
        return 0

    return handle


class _Memory:
    """A part of XLA's memory, in the interface of Python's CUDA libraries."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: np.dtype[Any], stream: int):
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
            "stream": stream or 1,
        }


def elements(call_frame: int) -> Iterator[list[tuple[int, tuple[int, ...], np.dtype[Any]]]]:
    """Yield address, shape and dtype of each operand and result, for each element of the batch."""
    operands, results = frame.buffers_of(call_frame)
    attribute = frame.read_attribute(call_frame, "be.batch")
    size, data = (frame.read_word(attribute, f"XLA_FFI_Array.{part}") for part in ("size", "data"))
    words = np.ctypeslib.as_array((ctypes.c_int64 * size).from_address(data)).tolist() if size else [0]
    levels, width, buffers = words[0], 1 + len(operands) + len(results), [*operands, *results]
    rows = [words[1 + level * width : 1 + (level + 1) * width] for level in range(levels)]
    depths = [*words[1 + levels * width :], *[levels] * len(results)] if levels else [0] * len(buffers)
    for element in range(int(np.prod([row[0] for row in rows]))):
        rest, steps = element, [0] * len(buffers)
        for row in rows:
            steps = [step + rest % row[0] * stride for step, stride in zip(steps, row[1:], strict=True)]
            rest //= row[0]
        yield [
            (address + step, shape[depth:], np.dtype(_DTYPES[kind]))
            for (address, kind, shape), step, depth in zip(buffers, steps, depths, strict=True)
        ]
