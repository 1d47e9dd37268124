# SPDX-License-Identifier: Apache-2.0
"""Exported programs with their kernels: one target, registered in every process that imports this package.

A custom call of the target holds its kernel as the attribute `PAYLOAD`. XLA passes it to `_instantiate` once, when a
program is loaded; then only native code calls the loaded kernel.
"""

from __future__ import annotations

import ctypes
import functools
import importlib
import json
import platform as machines
import threading
import zlib
from collections.abc import Mapping
from typing import Any, cast

import jax
import numpy as np

from . import frame
from .callbacks import native_address

__all__ = ["GRAPH_TARGET", "PAYLOAD", "TARGET", "check_environment", "environment", "install", "pack"]

TARGET = "brainevent_portable"
GRAPH_TARGET = "brainevent_portable_graph"  # the same, for kernels that XLA may record in CUDA graphs
PAYLOAD = "be.payload"

_LAYOUT = 2  # of payloads
_PLATFORMS = {"cpu": (TARGET,), "CUDA": (TARGET, GRAPH_TARGET)}
STATE_ARGS_SIZE = 48  # XLA_FFI_State_Get_Args_STRUCT_SIZE, and that of XLA_FFI_State_Set_Args
INVALID_ARGUMENT = 3
_loaders: dict[str, str] = {}
_handlers: dict[bytes, Any] = {}  # by payload; a handler lives as long as the process
_lock = threading.Lock()
_keep: list[Any] = []


def pack(language: str, header: Mapping[str, Any], code: bytes) -> np.ndarray:
    """Return a payload: a line of JSON with the way to load the code, and the compressed code."""
    line = json.dumps({"layout": _LAYOUT, "language": language, **header}, sort_keys=True)
    return np.frombuffer(zlib.compress(line.encode() + b"\n" + code), np.uint8)


def environment() -> dict[str, str]:
    """Return the properties that must be equal where the library is loaded."""
    return {"machine": machines.machine(), "system": machines.system()}


def check_environment(header: dict[str, Any]) -> None:
    """Raise if a library was made for another machine or system."""
    for what, here in environment().items():
        if header[what] != here:
            raise RuntimeError(
                f"its compiled kernels are for {what} {header[what]}, and this is {here}; export it again here"
            )


def _load(payload: bytes) -> int:
    """Return the address of a cell with the address of the payload's handler, and the handler's own words."""
    with _lock:
        if payload not in _handlers:
            line, code = zlib.decompress(payload).split(b"\n", 1)
            header = json.loads(line)
            if header["layout"] != _LAYOUT:
                raise RuntimeError(
                    f"this program was exported with kernels in layout {header['layout']}, and this brainevent reads "
                    f"layout {_LAYOUT}; export it again, or run it with the brainevent that exported it"
                )
            load = importlib.import_module(_loaders[header["language"]]).load
            loaded = load(header, code)
            _handlers[payload] = ctypes.c_int64(loaded) if isinstance(loaded, int) else loaded
        return ctypes.addressof(_handlers[payload])


class _StateArgs(ctypes.Structure):
    """XLA_FFI_State_Set_Args."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("ctx", ctypes.c_void_p),
        ("stage", ctypes.c_int32),
        ("type_id", ctypes.c_void_p),
        ("state", ctypes.c_void_p),
    ]


class _TypeInfo(ctypes.Structure):
    """XLA_FFI_TypeInfo."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t),
        ("extension_start", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


def _instantiate(type_id: ctypes.c_int64, call_frame: int) -> int:
    """Load the kernel of one custom call, when XLA loads the program."""
    if frame.answer_metadata_query(call_frame):
        return 0
    array = frame.read_attribute(call_frame, PAYLOAD)
    size, data = (frame.read_word(array, f"XLA_FFI_Array.{part}") for part in ("size", "data"))
    cell = _load(ctypes.string_at(data, size))
    ctx = frame.read_word(call_frame, "XLA_FFI_CallFrame.ctx")
    args = _StateArgs(STATE_ARGS_SIZE, None, ctx, 0, ctypes.addressof(type_id), cell)
    api = frame.read_word(call_frame, "XLA_FFI_CallFrame.api")
    set_state = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(frame.read_word(api, "XLA_FFI_Api.XLA_FFI_State_Set"))
    return cast(int, set_state(ctypes.addressof(args)))


def _described(error: BaseException) -> str:
    return f"cannot load a kernel of this program: {type(error).__name__}: {error}"


# execute: the state is the address of a cell that holds the handler's address. The attribute list is the same, with
# the payload after all other attributes of ours, so the handler reads it as usual.
_EXECUTE = """
define i64 @{target}_on_{platform}(ptr %frame) {{
entry:
  %first_at = getelementptr i8, ptr %frame, i64 {extension_start}
  %first = load ptr, ptr %first_at
  br label %look
look:
  %extension = phi ptr [ %first, %entry ], [ %next, %further ]
  %no_query = icmp eq ptr %extension, null
  br i1 %no_query, label %run, label %inspect
inspect:
  %type_at = getelementptr i8, ptr %extension, i64 {type}
  %type = load i32, ptr %type_at
  %is_query = icmp eq i32 %type, {query}
  br i1 %is_query, label %answer, label %further
further:
  %next_at = getelementptr i8, ptr %extension, i64 {next}
  %next = load ptr, ptr %next_at
  br label %look
answer:
  %metadata_at = getelementptr i8, ptr %extension, i64 {metadata}
  %metadata = load ptr, ptr %metadata_at
  %major = getelementptr i8, ptr %metadata, i64 {major_version}
  store i32 {major_value}, ptr %major
  %minor = getelementptr i8, ptr %metadata, i64 {minor_version}
  store i32 {minor_value}, ptr %minor
  %traits = getelementptr i8, ptr %metadata, i64 {traits}
  store i32 {traits_value}, ptr %traits
  ret i64 0
run:
  %args = alloca [6 x i64]
  store [6 x i64] [i64 {args_size}, i64 0, i64 0, i64 3, i64 {type_id}, i64 0], ptr %args
  %ctx_at = getelementptr i8, ptr %frame, i64 {ctx}
  %ctx = load i64, ptr %ctx_at
  %args_ctx = getelementptr i8, ptr %args, i64 16
  store i64 %ctx, ptr %args_ctx
  %api_at = getelementptr i8, ptr %frame, i64 {api}
  %api = load ptr, ptr %api_at
  %get_at = getelementptr i8, ptr %api, i64 {XLA_FFI_State_Get}
  %get = load ptr, ptr %get_at
  %error = call i64 %get(ptr %args)
  %failed = icmp ne i64 %error, 0
  br i1 %failed, label %fail, label %call
fail:
  ret i64 %error
call:
  %state_at = getelementptr i8, ptr %args, i64 40
  %state = load ptr, ptr %state_at
  %handler = load ptr, ptr %state
  %result = tail call i64 %handler(ptr %frame, ptr %state)
  ret i64 %result
}}
"""
_DELETE = """
define void @brainevent_portable_delete(ptr %state) {
  ret void
}
"""


def install(loaders: Mapping[str, str]) -> None:
    """Register the target; `loaders` names, by language, the module whose `load(header, code)` gives a handler."""
    import llvmlite.binding as llvm

    _loaders.update(loaders)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    offsets = {name.rpartition(".")[2]: offset for name, offset in frame.OFFSETS.items()}
    major, minor = frame.api_version()
    type_ids = {platform: ctypes.c_int64(0) for platform in _PLATFORMS}  # XLA_FFI_TypeId; each XLA fills in its own
    text = _DELETE + "".join(
        _EXECUTE.format(
            **offsets,
            target=target,
            platform=platform,
            query=frame.METADATA_EXTENSION,
            major_value=major,
            minor_value=minor,
            traits_value=int(target == GRAPH_TARGET),
            args_size=STATE_ARGS_SIZE,
            type_id=ctypes.addressof(type_ids[platform]),
        )
        for platform, targets in _PLATFORMS.items()
        for target in targets
    )
    engine = llvm.create_mcjit_compiler(
        llvm.parse_assembly(text), llvm.Target.from_default_triple().create_target_machine(opt=1)
    )
    engine.finalize_object()
    type_info = _TypeInfo(ctypes.sizeof(_TypeInfo), None, engine.get_function_address(f"{TARGET}_delete"))
    _keep.extend([engine, type_info])
    for platform, type_id in type_ids.items():
        _register(platform, type_id, type_info, engine)


def _register(platform: str, type_id: ctypes.c_int64, type_info: _TypeInfo, engine: Any) -> None:
    """Register the targets with the XLA of one platform, now or when it is loaded."""
    capsule = jax.ffi.pycapsule
    address = native_address(functools.partial(_instantiate, type_id), _described, code=INVALID_ARGUMENT)
    _keep.append(type_id)
    registration: Any = {
        "type_id": capsule(ctypes.addressof(type_id)),
        "type_info": capsule(ctypes.addressof(type_info)),
    }
    jax.ffi.register_ffi_type(f"{TARGET}_handler", registration, platform=platform)
    for target in _PLATFORMS[platform]:
        execute = engine.get_function_address(f"{target}_on_{platform}")
        stages = {"instantiate": capsule(address), "execute": capsule(execute)}
        jax.ffi.register_ffi_target(target, stages, platform=platform)
