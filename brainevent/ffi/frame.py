# SPDX-License-Identifier: Apache-2.0
"""XLA's call frame as compiled code reads it: byte offsets of `xla/ffi/api/c_api.h` on 64-bit machines."""

from __future__ import annotations

import ctypes
import functools
import pathlib
import re
from collections.abc import Sequence
from typing import Any

import jax

__all__ = [
    "INTERNAL",
    "METADATA_EXTENSION",
    "OFFSETS",
    "SIZES",
    "addresses_of",
    "answer_metadata_query",
    "api_version",
    "buffers_of",
    "data_types",
    "device_of",
    "make_error",
    "read_attribute",
    "read_word",
    "run_of",
    "stream_of",
]

# A test compiles a C program against the installed header and compares every entry.
OFFSETS = {
    "XLA_FFI_CallFrame.extension_start": 8,
    "XLA_FFI_CallFrame.api": 16,
    "XLA_FFI_CallFrame.ctx": 24,
    "XLA_FFI_CallFrame.args.size": 56,
    "XLA_FFI_CallFrame.args.args": 72,
    "XLA_FFI_CallFrame.rets.size": 96,
    "XLA_FFI_CallFrame.rets.rets": 112,
    "XLA_FFI_CallFrame.attrs.size": 136,
    "XLA_FFI_CallFrame.attrs.names": 152,
    "XLA_FFI_CallFrame.attrs.attrs": 160,
    "XLA_FFI_Buffer.dtype": 16,
    "XLA_FFI_Buffer.data": 24,
    "XLA_FFI_Buffer.rank": 32,
    "XLA_FFI_Buffer.dims": 40,
    "XLA_FFI_Array.size": 8,
    "XLA_FFI_Array.data": 16,
    "XLA_FFI_ByteSpan.ptr": 0,
    "XLA_FFI_ByteSpan.len": 8,
    "XLA_FFI_Extension_Base.type": 8,
    "XLA_FFI_Extension_Base.next": 16,
    "XLA_FFI_Metadata_Extension.metadata": 24,
    "XLA_FFI_Metadata.api_version.major_version": 24,
    "XLA_FFI_Metadata.api_version.minor_version": 28,
    "XLA_FFI_Metadata.traits": 32,
    "XLA_FFI_Api.XLA_FFI_Error_Create": 48,
    "XLA_FFI_Api.XLA_FFI_Stream_Get": 80,
    "XLA_FFI_Api.XLA_FFI_Type_Register": 88,
    "XLA_FFI_Api.XLA_FFI_State_Set": 104,
    "XLA_FFI_Api.XLA_FFI_State_Get": 112,
    "XLA_FFI_Api.XLA_FFI_RunId_Get": 176,
    "XLA_FFI_Api.XLA_FFI_DeviceOrdinal_Get": 184,
}
METADATA_EXTENSION = 1  # XLA_FFI_Extension_Metadata
INTERNAL = 13  # XLA_FFI_Error_Code_INTERNAL
SIZES = {
    "XLA_FFI_Error_Create_Args": 28,
    "XLA_FFI_Stream_Get_Args": 32,
    "XLA_FFI_RunId_Get_Args": 32,
    "XLA_FFI_DeviceOrdinal_Get_Args": 28,
}  # the header's *_STRUCT_SIZE


@functools.cache
def api_version() -> tuple[int, int]:
    """Return the version of the binary interface that the installed jaxlib was built with."""
    header = pathlib.Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text()
    found = [re.search(rf"#define XLA_FFI_API_{part} (\d+)", header) for part in ("MAJOR", "MINOR")]
    if None in found:
        raise RuntimeError(f"cannot read the FFI version of jaxlib from {jax.ffi.include_dir()}; reinstall jaxlib")
    major, minor = (int(match[1]) for match in found if match)
    return major, minor


@functools.cache
def data_types() -> dict[str, int]:
    """Return XLA's number of each data type, by its short name such as "F32"."""
    header = pathlib.Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text()
    return {name: int(number) for name, number in re.findall(r"XLA_FFI_DataType_(\w+) = (\d+)", header)}


# The rest reads and answers call frames in Python, which happens only outside of running programs.


def read_word(base: int, offset: int | str) -> int:
    """Read 8 bytes at an offset, which is a number or a name of `OFFSETS`."""
    return ctypes.c_int64.from_address(base + (OFFSETS[offset] if isinstance(offset, str) else offset)).value


def read_attribute(call_frame: int, name: str) -> int:
    """Return the address of an attribute's value."""
    names, values = (read_word(call_frame, f"XLA_FFI_CallFrame.attrs.{part}") for part in ("names", "attrs"))
    for i in range(read_word(call_frame, "XLA_FFI_CallFrame.attrs.size")):
        span = read_word(names, 8 * i)
        size = read_word(span, "XLA_FFI_ByteSpan.len")
        if ctypes.string_at(read_word(span, "XLA_FFI_ByteSpan.ptr"), size) == name.encode():
            return read_word(values, 8 * i)
    raise KeyError(name)


def answer_metadata_query(call_frame: int) -> bool:
    """Answer XLA's question for our version of its interface; return whether it was this question."""
    extension = read_word(call_frame, "XLA_FFI_CallFrame.extension_start")
    while extension:
        kind = ctypes.c_int32.from_address(extension + OFFSETS["XLA_FFI_Extension_Base.type"]).value
        if kind == METADATA_EXTENSION:
            metadata = read_word(extension, "XLA_FFI_Metadata_Extension.metadata")
            major, minor = api_version()
            answers = {"api_version.major_version": major, "api_version.minor_version": minor, "traits": 0}
            for field, value in answers.items():
                ctypes.c_int32.from_address(metadata + OFFSETS[f"XLA_FFI_Metadata.{field}"]).value = value
            return True
        extension = read_word(extension, "XLA_FFI_Extension_Base.next")
    return False


def buffers_of(call_frame: int) -> tuple[list[Any], list[Any]]:
    """Return (address, XLA's number of the dtype, shape) of each operand, and of each result."""
    operands, results = addresses_of(call_frame)
    return _buffers(operands), _buffers(results)


def addresses_of(call_frame: int) -> tuple[list[int], list[int]]:
    """Return where XLA describes each operand, and each result."""
    found = []
    for part in ("args.args", "rets.rets"):
        first = read_word(call_frame, f"XLA_FFI_CallFrame.{part}")
        count = read_word(call_frame, f"XLA_FFI_CallFrame.{part[:4]}.size")
        found.append([read_word(first, 8 * i) for i in range(count)])
    return found[0], found[1]


def _buffers(buffers: Sequence[int]) -> list[Any]:
    found = []
    for buffer in buffers:
        kind = ctypes.c_int32.from_address(buffer + OFFSETS["XLA_FFI_Buffer.dtype"]).value
        dims, rank = (read_word(buffer, f"XLA_FFI_Buffer.{part}") for part in ("dims", "rank"))
        shape = tuple(read_word(dims, 8 * axis) for axis in range(rank))
        found.append((read_word(buffer, "XLA_FFI_Buffer.data"), kind, shape))
    return found


def stream_of(call_frame: int) -> int:
    """Return the address of the stream of a call on a GPU."""
    return _asked(call_frame, "Stream")


def device_of(call_frame: int) -> int:
    """Return the number of the device of a call."""
    return _asked(call_frame, "DeviceOrdinal") & 0xFFFF_FFFF


def run_of(call_frame: int) -> int:
    """Return the number of the run of a program that a call is part of: the same on all its devices."""
    return _asked(call_frame, "RunId")


def _asked(call_frame: int, what: str) -> int:
    """Get one word about a call from XLA: XLA_FFI_*_Get_Args are size, extension, ctx, and the answer."""
    ctx, api = (read_word(call_frame, f"XLA_FFI_CallFrame.{part}") for part in ("ctx", "api"))
    args = (ctypes.c_int64 * 4)(SIZES[f"XLA_FFI_{what}_Get_Args"], 0, ctx, 0)
    get = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(read_word(api, f"XLA_FFI_Api.XLA_FFI_{what}_Get"))
    if get(ctypes.addressof(args)):
        raise RuntimeError(f"XLA has no {what} for this call")
    return int(args[3])


class _ErrorArgs(ctypes.Structure):
    """XLA_FFI_Error_Create_Args."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("message", ctypes.c_char_p),
        ("code", ctypes.c_int32),
    )


def make_error(call_frame: int, message: str, code: int) -> int:
    """Make an error for XLA, which becomes its owner."""
    api = read_word(call_frame, "XLA_FFI_CallFrame.api")
    create = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(_ErrorArgs))(
        read_word(api, "XLA_FFI_Api.XLA_FFI_Error_Create")
    )
    args = _ErrorArgs(SIZES["XLA_FFI_Error_Create_Args"], None, message.encode(), code)
    return int(create(ctypes.byref(args)))
