# SPDX-License-Identifier: Apache-2.0
"""A call of a function of TVM FFI as a target: part of the program, like a launch plan."""

from __future__ import annotations

import ctypes
import functools
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import KernelArgumentError
from .. import frame, last_words
from ..callbacks import native_address
from ..elements import HEAD, MAX_BUFFERS, OTHER_ARRAYS, OWN, compile_handler
from ..portable import GRAPH_TARGET, PAYLOAD, TARGET, check_environment, environment, pack
from .library import Source, callable_of, runtime_address

__all__ = ["Call", "CallTarget", "Tensor", "dtype_words", "load"]

MAX_ARGUMENTS = 256  # the handler's memory for them
_INT, _BOOL, _FLOAT, _TENSOR = 1, 2, 3, 7  # TVMFFITypeIndex
_DEVICES = {"cpu": 1, "cuda": 2}  # DLDeviceType
_WORDS = ("SAFE_CALL", "OBJECT", "N_ARGUMENTS", "N_TENSORS", "SET_STREAM", "RELEASE", "DEVICE_TYPE", "FIRST")
_DTYPES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}  # DLDataTypeCode by NumPy's kind
_NARROW = {
    name: code
    for code, name in enumerate(
        ("bfloat16", None, None, "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn",
         "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"), 4)
}  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """An array of a call: its place among the arguments, and its buffer; buffers are operands, then results."""

    argument: int
    buffer: int
    dtype: tuple[int, int]  # DLPack's code, and bits
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """A function, and its arguments: numbers with their values, and arrays."""

    source: Source
    numbers: tuple[tuple[int, str, Any], ...]  # a place, a kind and a value; floats as hexadecimal text, for their bits
    tensors: tuple[Tensor, ...]
    buffers: int
    platform: str
    in_graphs: bool

    def __post_init__(self) -> None:
        if self.buffers > MAX_BUFFERS or len(self.numbers) + len(self.tensors) > MAX_ARGUMENTS:
            raise KernelArgumentError(
                f"tvm_kernel({self.source.name}): {self.buffers} arrays, and {len(self.numbers)} numbers; a call takes "
                f"at most {MAX_BUFFERS} arrays and {MAX_ARGUMENTS} arguments"
            )


@dataclass(frozen=True)
class CallTarget:
    """A call as a target of `native_call`; `again` makes the call for operands and results of other ranks."""

    call: Call
    again: Callable[[Sequence[Any], Sequence[Any]], Call] = field(compare=False, repr=False)

    @property
    def name(self) -> str:
        """The target's name: the same for all calls."""
        return GRAPH_TARGET if self.call.in_graphs else TARGET

    @property
    def title(self) -> str:
        """The function's name, for messages."""
        return self.call.source.name

    @property
    def platform(self) -> str:
        """The platform."""
        return self.call.platform

    @property
    def attributes(self) -> dict[str, Any]:
        """The call itself, with its library."""
        return {PAYLOAD: _packed(self.call)}

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Return itself, if the function is in a library."""
        if self.call.source.token:
            raise KernelArgumentError(
                f"tvm_kernel({self.title}): a function of this process cannot be exported; write it to a library, and "
                "pass the path of that: tvm_kernel('library.so', ...)"
            )
        return self.name, {}

    def for_types(self, operands: Sequence[Any], outs: Sequence[Any]) -> CallTarget:
        """Return the same function's call for other ranks."""
        return CallTarget(self.again(operands, outs), self.again)


def dtype_words(where: str, dtype: Any) -> tuple[int, int]:
    """Return DLPack's code and bits of a dtype."""
    dtype = np.dtype(dtype)
    code = _NARROW.get(dtype.name, _DTYPES.get(dtype.kind))
    if code is None:
        raise KernelArgumentError(f"{where}: TVM FFI has no arrays of {dtype.name}; convert it, as to int8")
    return code, 8 * dtype.itemsize


@functools.lru_cache(maxsize=256)
def _packed(call: Call) -> np.ndarray:
    header = {
        "name": call.source.name,
        "token": call.source.token,
        "runtime": call.source.runtime,
        "numbers": call.numbers,
        "tensors": [(one.argument, one.buffer, one.dtype, one.shape) for one in call.tensors],
        "buffers": call.buffers,
        "platform": call.platform,
        **environment(),
    }
    return pack("tvm", header, call.source.library)


@functools.cache
def _handler_address() -> int:
    tensors = OWN + 16 * MAX_ARGUMENTS
    rest = tensors + 48 * MAX_BUFFERS
    words = {
        **{name: 8 * (HEAD + word) for word, name in enumerate(_WORDS)},
        "ARGUMENTS": OWN,
        "TENSORS": tensors,
        "RESULT": rest,
        "DEVICE_ARGS": rest + 16,
        "DEVICE": rest + 40,  # the last word of the arguments of XLA's function
        "DEVICE_SIZE": frame.SIZES["XLA_FFI_DeviceOrdinal_Get_Args"],
        "STREAM_BEFORE": rest + 48,
    }
    return compile_handler(Path(__file__).with_name("handler.ll"), words, rest + 64)


def load(header: dict[str, Any], code: bytes) -> ctypes.Array[ctypes.c_int64]:
    """Return the words that the handler reads, the first of which is its own address."""
    check_environment(header)
    source = Source(header["name"], code, header["token"], header["runtime"])
    function, its_object = callable_of(source)
    on_gpu = header["platform"] == "cuda"
    numbers, tensors = header["numbers"], [Tensor(a, b, tuple(d), tuple(s)) for a, b, d, s in header["tensors"]]
    words = [
        _handler_address(),
        _report_address(),
        int(on_gpu),
        header["buffers"],
        function,
        its_object,
        len(numbers) + len(tensors),
        len(tensors),
        runtime_address("TVMFFIEnvSetStream"),
        runtime_address("TVMFFIObjectDecRef"),
        _DEVICES[header["platform"]],
    ]
    arguments = [0] * (2 * (len(numbers) + len(tensors)))
    for place, kind, value in numbers:
        arguments[2 * place : 2 * place + 2] = _number_words(kind, value)
    for tensor in tensors:
        arguments[2 * tensor.argument] = _TENSOR
    first = len(words) + len(arguments)
    words += [*arguments, *_rows(tensors, _DEVICES[header["platform"]])]
    memory = (ctypes.c_int64 * len(words))(*words)
    for k in range(len(tensors)):  # addresses of shapes and strides, within these words
        for word in (first + 8 * k + 5, first + 8 * k + 6):
            memory[word] += ctypes.addressof(memory) + 8 * first
    _titles[ctypes.addressof(memory)] = header["name"]
    return memory


_titles: dict[int, str] = {}  # by the address of the memory that the handler reads


def _number_words(kind: str, value: Any) -> tuple[int, int]:
    if kind == "float":
        return _FLOAT, struct.unpack("<q", struct.pack("<d", float.fromhex(value)))[0]
    return (_BOOL if kind == "bool" else _INT), int(value)


def _rows(tensors: Sequence[Tensor], device: int) -> list[int]:
    """Return rows of eight words (a place, a buffer, and a DLTensor), then all shapes and strides."""
    rows: list[int] = []
    extents: list[int] = []
    for tensor in tensors:
        at = 8 * (8 * len(tensors) + len(extents))
        strides = [math.prod(tensor.shape[axis + 1 :]) for axis in range(len(tensor.shape))]
        extents += [*tensor.shape, *strides]
        code, bits = tensor.dtype
        kinds = len(tensor.shape) | code << 32 | bits << 40 | 1 << 48  # ndim; the dtype, of one lane
        rows += [tensor.argument, tensor.buffer, 0, device, kinds, at, at + 8 * len(tensor.shape), 0]
    return rows + extents


@functools.cache
def _report_address() -> int:
    return native_address(_report, lambda error: f"a function of TVM FFI failed: {error!r}", words=4)


def _report(call_frame: int, memory: int, index: int, code: int) -> int:
    """Make an XLA error of the error that a function has raised."""
    span = frame.read_attribute(call_frame, "be.operator")
    size, text = frame.read_word(span, "XLA_FFI_ByteSpan.len"), frame.read_word(span, "XLA_FFI_ByteSpan.ptr")
    operator = ctypes.string_at(text, size).decode()
    where = (f"operator {operator!r}, " if operator else "") + f"function {_titles[memory]!r} of TVM FFI"
    said = "called with other arrays than it was made for" if index == OTHER_ARRAYS else _raised(code)
    return last_words.make_error(call_frame, f"{where}: {said}".encode(errors="replace").decode())


def _raised(code: int) -> str:
    """Take the error of this thread, an object whose words begin with its kind and its message."""
    error = ctypes.c_void_p()
    take = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(runtime_address("TVMFFIErrorMoveFromRaised"))
    take(ctypes.addressof(error))
    if not error.value:
        return f"it failed with the code {code}"
    kind, message = (
        ctypes.string_at(frame.read_word(error.value, at), frame.read_word(error.value, at + 8)) for at in (24, 40)
    )
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(runtime_address("TVMFFIObjectDecRef"))(error.value)
    return f"{kind.decode(errors='replace')}: {message.decode(errors='replace')}"
