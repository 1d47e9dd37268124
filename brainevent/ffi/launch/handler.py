# SPDX-License-Identifier: Apache-2.0
"""The native handler of launch plans, compiled when the first plan is loaded."""

from __future__ import annotations

import functools
import string
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

from ..frame import OFFSETS
from .plan import MAX_BUFFERS, MAX_PARAMETER_BYTES, MAX_PARAMETERS, OTHER_ARRAYS, ZEROING

__all__ = ["handler_address"]

_SOURCE = Path(__file__).with_suffix(".ll")

# XLA's call frame
_FRAME = {
    "API": "XLA_FFI_CallFrame.api",
    "CTX": "XLA_FFI_CallFrame.ctx",
    "OPERANDS": "XLA_FFI_CallFrame.args.args",
    "RESULTS": "XLA_FFI_CallFrame.rets.rets",
    "N_OPERANDS": "XLA_FFI_CallFrame.args.size",
    "N_RESULTS": "XLA_FFI_CallFrame.rets.size",
    "ATTRIBUTES": "XLA_FFI_CallFrame.attrs.attrs",
    "DATA": "XLA_FFI_Buffer.data",
    "ARRAY_SIZE": "XLA_FFI_Array.size",
    "ARRAY_DATA": "XLA_FFI_Array.data",
    "STREAM_GET": "XLA_FFI_Api.XLA_FFI_Stream_Get",
}
# The words of a plan (see `target.load`), and of a launch behind its kernel, grid, block and shared memory.
_PLAN = (
    "HANDLER", "LAUNCH_KERNEL", "LAUNCH_TOGETHER", "MEMSET", "REPORT", "HAS_STREAM", "N_BUFFERS", "N_ZEROED",
    "N_LAUNCHES", "FIRST",
)  # fmt: skip
_LAUNCH = {"TOGETHER": 64, "N_WORDS": 72, "N_PARAMETERS": 80, "N_SLOTS": 88, "WORDS": 96}
# The handler's own memory; parameters are aligned, which takes some bytes more.
_STREAM_ARGS = 32  # XLA_FFI_Stream_Get_Args, with the stream as its last word
_ADDRESSES = _STREAM_ARGS + MAX_PARAMETER_BYTES + 4 + 16 * MAX_PARAMETERS
_BUFFERS = _ADDRESSES + 8 * MAX_PARAMETERS

_engines: list[Any] = []  # compiled code lives as long as the process


def _numbers() -> dict[str, int]:
    return {
        **{name: OFFSETS[field] for name, field in _FRAME.items()},
        **{name: 8 * word for word, name in enumerate(_PLAN)},
        **_LAUNCH,
        "STREAM_ARGS": _STREAM_ARGS,
        "STREAM": _STREAM_ARGS - 8,
        "MISALIGNED": 0,  # over words that XLA has already read
        "PARAMETERS": _STREAM_ARGS,
        "ADDRESSES": _ADDRESSES,
        "BUFFERS": _BUFFERS,
        "MEMORY": _BUFFERS + 8 * MAX_BUFFERS,
        "ZEROING": ZEROING,
        "OTHER_ARRAYS": OTHER_ARRAYS,
    }


@functools.cache
def handler_address() -> int:
    """Return the address of `run_plan(frame, plan)`."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = llvm.parse_assembly(string.Template(_SOURCE.read_text()).substitute(_numbers()))
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2)
    passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
    passes.getModulePassManager().run(module, passes)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address("run_plan"))
