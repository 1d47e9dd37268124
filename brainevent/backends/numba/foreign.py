# SPDX-License-Identifier: Apache-2.0
"""XLA handlers of other languages, called from Numba functions: with a call frame as XLA makes it."""

from __future__ import annotations

import ctypes
import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...ffi import frame
from .internals import RequireLiteralValue, cgutils

__all__ = ["ForeignError", "call_handler", "described", "make_known"]

_I32, _I64, _BYTES = ir.IntType(32), ir.IntType(64), ir.IntType(8).as_pointer()
_API = "brainevent_numba_foreign_api"
_FRAME, _BUFFER, _ATTRS = 192, 48, "XLA_FFI_CallFrame.attrs."
_SCALAR, _STRING = 3, 4  # XLA_FFI_AttrType
_SHORT = {"bool": "PRED", "float16": "U16", "bfloat16": "U16", "float32": "F32", "float64": "F64"}
_SHORT |= {f"{long}int{bits}": f"{short}{bits}" for long, short in (("", "S"), ("u", "U")) for bits in (8, 16, 32, 64)}


class ForeignError(Exception):
    """A handler returned an error: its text was noted when it was made."""


def make_known(symbol: str, address: int) -> None:
    """Let compiled code call the handler at an address by the name of a symbol."""
    _api()
    llvm.add_symbol(symbol, address)


@functools.cache
def _api() -> tuple[Any, Any]:
    """Make the table of functions that handlers get: it only makes errors, whose texts are noted before."""

    @numba.cfunc("int64(int64)")  # type: ignore[untyped-decorator, unused-ignore]
    def create(arguments: int) -> int:
        return 1

    table = (ctypes.c_int64 * 64)()
    table[frame.OFFSETS["XLA_FFI_Api.XLA_FFI_Error_Create"] // 8] = create.address
    llvm.add_symbol(_API, ctypes.addressof(table))
    return create, table


def described(
    symbol: str, operator: str, operands: int, dtypes: Sequence[str], attributes: Sequence[tuple[str, str, bytes]]
) -> str:
    """Return what `call_handler` has to know, as text: the dtypes of all arrays, and values of attributes as bytes."""
    numbers = [frame.data_types()[_named(dtype)] for dtype in dtypes]
    rows = [(name, frame.data_types()[_SHORT[kind]], value.hex()) for name, kind, value in attributes]
    return json.dumps([symbol, operator, operands, numbers, sorted(rows)])


def _named(dtype: str) -> str:
    return {"float16": "F16", "bfloat16": "BF16"}.get(dtype) or _SHORT[dtype]


@intrinsic(prefer_literal=True)
def call_handler(typing_context: Any, what: Any, arrays: Any) -> Any:
    """Call a handler, which `described` tells, with a tuple of its operands and results; return 0 if it succeeded."""
    if not isinstance(what, types.StringLiteral):
        raise RequireLiteralValue("call_handler takes literal text")
    if not isinstance(arrays, types.BaseTuple):
        return None

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> ir.Value:
        return _Frame(context, builder, json.loads(what.literal_value)).called(signature.args[1], args[1])

    return types.int64(what, arrays), codegen


class _Frame:
    """Writes code that fills a call frame and calls the handler."""

    def __init__(self, context: Any, builder: ir.IRBuilder, what: Sequence[Any]):
        self.context, self.builder = context, builder
        self.symbol, self.operator, self.operands, self.dtypes, self.attributes = what

    def called(self, arrays_type: Any, arrays: ir.Value) -> ir.Value:
        builder = self.builder
        frame_ = self._room(_FRAME)
        api = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), _API)
        self._put(frame_, frame.OFFSETS["XLA_FFI_CallFrame.api"], builder.bitcast(api, _BYTES))
        values = cgutils.unpack_tuple(builder, arrays, len(arrays_type))
        buffers = [self._buffer(*each) for each in zip(arrays_type, values, self.dtypes, strict=True)]
        for part, own in (("args.args", buffers[: self.operands]), ("rets.rets", buffers[self.operands :])):
            self._put(frame_, frame.OFFSETS[f"XLA_FFI_CallFrame.{part[:4]}.size"], _I64(len(own)))
            self._put(frame_, frame.OFFSETS[f"XLA_FFI_CallFrame.{part}"], self._list(own))
        self._put_attributes(frame_)
        kind = ir.FunctionType(_I64, [_BYTES])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, self.symbol), [frame_])

    def _room(self, size: int) -> ir.Value:
        """Return zeroed memory of this function."""
        room = cgutils.alloca_once(self.builder, ir.ArrayType(_I64, size // 8))
        self.builder.store(ir.Constant(ir.ArrayType(_I64, size // 8), None), room)
        return self.builder.bitcast(room, _BYTES)

    def _put(self, base: ir.Value, offset: int, value: ir.Value) -> None:
        place = self.builder.gep(base, [_I64(offset)])
        self.builder.store(value, self.builder.bitcast(place, value.type.as_pointer()))

    def _list(self, values: Sequence[ir.Value]) -> ir.Value:
        room = self._room(8 * max(1, len(values)))
        for place, value in enumerate(values):
            self._put(room, 8 * place, value)
        return room

    def _buffer(self, kind: Any, value: ir.Value, dtype: int) -> ir.Value:
        array = self.context.make_array(kind)(self.context, self.builder, value)
        shape = cgutils.unpack_tuple(self.builder, array.shape, kind.ndim)
        buffer = self._room(_BUFFER)
        fields = {"dtype": _I32(dtype), "data": self.builder.bitcast(array.data, _BYTES)}
        fields |= {"rank": _I64(kind.ndim), "dims": self._list(shape)}
        for field, content in fields.items():
            self._put(buffer, frame.OFFSETS[f"XLA_FFI_Buffer.{field}"], content)
        return buffer

    def _span(self, text: str) -> ir.Value:
        return self._list([self._bytes(text.encode()), _I64(len(text.encode()))])

    def _bytes(self, content: bytes) -> ir.Value:
        data = cgutils.make_bytearray(content + b"\0")
        text = cgutils.global_constant(self.builder.module, "foreign", data)
        return self.builder.bitcast(text, _BYTES)

    def _put_attributes(self, frame_: ir.Value) -> None:
        """Write the attributes: the operator for messages, and scalars."""
        rows = [("be.operator", _STRING, self._span(self.operator))]
        for name, kind, value in self.attributes:
            scalar = self._room(16)
            self._put(scalar, 0, _I32(kind))
            self._put(scalar, 8, self._bytes(bytes.fromhex(value)))
            rows.append((name, _SCALAR, scalar))
        kinds = self._room(8 * len(rows))
        for place, (_, kind, _) in enumerate(rows):
            self._put(kinds, 4 * place, _I32(kind))
        parts: Mapping[str, ir.Value] = {
            "size": _I64(len(rows)),
            "names": self._list([self._span(name) for name, *_ in rows]),
            "attrs": self._list([value for *_, value in rows]),
        }
        for part, value in parts.items():
            self._put(frame_, frame.OFFSETS[_ATTRS + part], value)
        self._put(frame_, frame.OFFSETS[_ATTRS + "names"] - 8, kinds)
