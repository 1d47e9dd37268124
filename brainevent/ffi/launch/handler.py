# SPDX-License-Identifier: Apache-2.0
"""The native handler of launch plans: reads a plan, fills in addresses, launches, once per element of the batch."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import cfunc, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from ..frame import OFFSETS
from .plan import MAX_BUFFERS, MAX_PARAMETER_BYTES, MAX_PARAMETERS, OTHER_ARRAYS, ZEROING

__all__ = ["run_plan"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)

# XLA's call frame
_API = OFFSETS["XLA_FFI_CallFrame.api"]
_CTX = OFFSETS["XLA_FFI_CallFrame.ctx"]
_OPERANDS = OFFSETS["XLA_FFI_CallFrame.args.args"]
_RESULTS = OFFSETS["XLA_FFI_CallFrame.rets.rets"]
_N_OPERANDS = OFFSETS["XLA_FFI_CallFrame.args.size"]
_N_RESULTS = OFFSETS["XLA_FFI_CallFrame.rets.size"]
_ATTRIBUTES = OFFSETS["XLA_FFI_CallFrame.attrs.attrs"]
_DATA = OFFSETS["XLA_FFI_Buffer.data"]
_ARRAY_SIZE, _ARRAY_DATA = OFFSETS["XLA_FFI_Array.size"], OFFSETS["XLA_FFI_Array.data"]
_STREAM_GET = OFFSETS["XLA_FFI_Api.XLA_FFI_Stream_Get"]

# The words of a plan: see `target.load`.
_LAUNCH_KERNEL, _MEMSET, _REPORT, _HAS_STREAM, _N_BUFFERS, _N_ZEROED, _N_LAUNCHES, _FIRST = range(8, 72, 8)
# The words of a launch: see `target._words`.
_N_WORDS, _N_PARAMETERS, _N_SLOTS, _BLOCK = 64, 72, 80, 88

# The handler's own memory, in bytes: the arguments of a call, parameters, their addresses, addresses of buffers.
_PARAMETERS = 32
_ADDRESSES = _PARAMETERS + MAX_PARAMETER_BYTES + 16 * MAX_PARAMETERS // 8 * 8 + 4
_BUFFERS = _ADDRESSES + 8 * MAX_PARAMETERS
_MEMORY = _BUFFERS + 8 * MAX_BUFFERS


@intrinsic
def _load(context: Any, address: Any, offset: Any) -> Any:
    def codegen(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(builder.add(*args), _I64.as_pointer()))

    return types.int64(types.int64, types.int64), codegen


@intrinsic
def _store(context: Any, address: Any, offset: Any, value: Any) -> Any:
    def codegen(base: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], builder.inttoptr(builder.add(args[0], args[1]), _I64.as_pointer()))
        return base.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


@intrinsic
def _stack(context: Any) -> Any:
    def codegen(_: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ptrtoint(cgutils.alloca_once(builder, ir.ArrayType(_I64, _MEMORY // 8 + 1)), _I64)

    return types.int64(), codegen


def _caller(returns: Any, *parameters: Any) -> Any:
    """Make a function that calls native code by its address."""

    @intrinsic
    def call(context: Any, address: Any, operands: Any) -> Any:
        def codegen(_: Any, builder: Any, signature: Any, args: Any) -> Any:
            kind = ir.FunctionType(returns, parameters).as_pointer()
            values = [
                builder.trunc(value, kind) if kind.width < 64 else value
                for value, kind in zip(cgutils.unpack_tuple(builder, args[1]), parameters, strict=True)
            ]
            result = builder.call(builder.inttoptr(args[0], kind), values)
            return builder.zext(result, _I64) if returns.width < 64 else result

        return types.int64(types.int64, operands), codegen

    return call


_call_get_stream = _caller(_I64, _I64)
_call_memset = _caller(_I32, _I64, ir.IntType(8), _I64, _I64)
_call_launch = _caller(_I32, _I64, *[_I32] * 7, _I64, _I64, _I64)
_call_report = _caller(_I64, _I64, _I64, _I64, _I64)


@njit
def _stream_of(frame: Any, plan: Any, memory: Any) -> Any:
    """Ask XLA for its stream, which is left in `memory`; return XLA's error, or 0."""
    _store(memory, 0, 32)  # XLA_FFI_Stream_Get_Args: size, extension, ctx, stream
    _store(memory, 8, 0)
    _store(memory, 16, _load(frame, _CTX))
    _store(memory, 24, 0)
    if _load(plan, _HAS_STREAM) == 0:
        return 0
    return _call_get_stream(_load(_load(frame, _API), _STREAM_GET), (memory,))


@njit
def _find_buffers(frame: Any, memory: Any, batch: Any, levels: Any, element: Any) -> Any:
    """Write down the address of each operand and result for one element of the batch."""
    n_operands, n_results = _load(frame, _N_OPERANDS), _load(frame, _N_RESULTS)
    width = 8 * (1 + n_operands + n_results)
    for i in range(n_operands + n_results):
        buffer = _load(_load(frame, _OPERANDS), 8 * i)
        if i >= n_operands:
            buffer = _load(_load(frame, _RESULTS), 8 * (i - n_operands))
        address, rest = _load(buffer, _DATA), element
        for level in range(levels):
            row = batch + level * width
            address += rest % _load(row, 0) * _load(row, 8 + 8 * i)
            rest //= _load(row, 0)
        _store(memory, _BUFFERS + 8 * i, address)


@njit
def _zero(plan: Any, memory: Any) -> Any:
    """Set results to zero; return CUDA's error, or 0."""
    for k in range(_load(plan, _N_ZEROED)):
        at = plan + _FIRST + 16 * k
        address, size = _load(memory, _BUFFERS + 8 * _load(at, 0)), _load(at, 8)
        code = _call_memset(_load(plan, _MEMSET), (address, 0, size, _load(memory, 24)))
        if code != 0:
            return code
    return 0


@njit
def _launch(plan: Any, at: Any, memory: Any) -> Any:
    """Launch what is written down at `at`; return CUDA's error, or 0."""
    n_words, n_parameters, n_slots = _load(at, _N_WORDS), _load(at, _N_PARAMETERS), _load(at, _N_SLOTS)
    offsets = at + _BLOCK + 8 * n_words
    slots = offsets + 8 * n_parameters
    for k in range(n_words):
        _store(memory, _PARAMETERS + 8 * k, _load(at, _BLOCK + 8 * k))
    for k in range(n_parameters):
        _store(memory, _ADDRESSES + 8 * k, memory + _PARAMETERS + _load(offsets, 8 * k))
    for k in range(n_slots):
        place, which, shift = _load(slots, 24 * k), _load(slots, 24 * k + 8), _load(slots, 24 * k + 16)
        _store(memory, _PARAMETERS + place, _load(memory, _BUFFERS + 8 * which) + shift)
    grid = _load(at, 8), _load(at, 16), _load(at, 24)
    block = _load(at, 32), _load(at, 40), _load(at, 48)
    rest = _load(at, 56), _load(memory, 24), memory + _ADDRESSES, 0
    return _call_launch(_load(plan, _LAUNCH_KERNEL), (_load(at, 0), *grid, *block, *rest))


@njit
def _run_element(frame: Any, plan: Any, memory: Any) -> Any:
    """Run the plan once; return XLA's error, or 0."""
    code = _zero(plan, memory)
    if code != 0:
        return _call_report(_load(plan, _REPORT), (frame, plan, ZEROING, code))
    at = plan + _FIRST + 16 * _load(plan, _N_ZEROED)
    for index in range(_load(plan, _N_LAUNCHES)):
        code = _launch(plan, at, memory)
        if code != 0:
            return _call_report(_load(plan, _REPORT), (frame, plan, index, code))
        at += _BLOCK + 8 * (_load(at, _N_WORDS) + _load(at, _N_PARAMETERS) + 3 * _load(at, _N_SLOTS))
    return 0


@cfunc(types.int64(types.int64, types.int64))
def run_plan(frame: Any, plan: Any) -> Any:
    """Run the plan at the address `plan` for every element of the batch; return XLA's error, or 0."""
    if _load(frame, _N_OPERANDS) + _load(frame, _N_RESULTS) != _load(plan, _N_BUFFERS):
        return _call_report(_load(plan, _REPORT), (frame, plan, OTHER_ARRAYS, 0))
    memory = _stack()
    error = _stream_of(frame, plan, memory)
    if error != 0:
        return error
    attribute = _load(_load(frame, _ATTRIBUTES), 0)  # be.batch, the first by name
    batch, levels, elements = _load(attribute, _ARRAY_DATA) + 8, 0, 1
    if _load(attribute, _ARRAY_SIZE) > 0:
        levels = _load(batch, -8)
    for level in range(levels):
        elements *= _load(batch, level * 8 * (1 + _load(plan, _N_BUFFERS)))
    for element in range(elements):
        _find_buffers(frame, memory, batch, levels, element)
        error = _run_element(frame, plan, memory)
        if error != 0:
            return error
    return 0
