# SPDX-License-Identifier: Apache-2.0
"""XLA's call frame as compiled code reads it: byte offsets of `xla/ffi/api/c_api.h` on 64-bit machines."""

from __future__ import annotations

import functools
import pathlib
import re

import jax

__all__ = ["ERROR_CREATE_SIZE", "INTERNAL", "OFFSETS", "api_version"]

# A test compiles a C program against the installed header and compares every entry.
OFFSETS = {
    "XLA_FFI_CallFrame.extension_start": 8,
    "XLA_FFI_CallFrame.api": 16,
    "XLA_FFI_CallFrame.ctx": 24,
    "XLA_FFI_CallFrame.args.args": 72,
    "XLA_FFI_CallFrame.rets.rets": 112,
    "XLA_FFI_CallFrame.attrs.attrs": 160,
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
    "XLA_FFI_Api.XLA_FFI_Type_Register": 88,
    "XLA_FFI_Api.XLA_FFI_State_Set": 104,
    "XLA_FFI_Api.XLA_FFI_State_Get": 112,
}
METADATA_EXTENSION = 1  # XLA_FFI_Extension_Metadata
INTERNAL = 13  # XLA_FFI_Error_Code_INTERNAL
ERROR_CREATE_SIZE = 28  # XLA_FFI_Error_Create_Args_STRUCT_SIZE


@functools.cache
def api_version() -> tuple[int, int]:
    """Return the version of the binary interface that the installed jaxlib was built with."""
    header = pathlib.Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h").read_text()
    found = [re.search(rf"#define XLA_FFI_API_{part} (\d+)", header) for part in ("MAJOR", "MINOR")]
    if None in found:
        raise RuntimeError(f"cannot read the FFI version of jaxlib from {jax.ffi.include_dir()}; reinstall jaxlib")
    major, minor = (int(match[1]) for match in found if match)
    return major, minor
