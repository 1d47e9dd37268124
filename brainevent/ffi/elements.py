# SPDX-License-Identifier: Apache-2.0
"""Native handlers that run something for each element of a batch: text for LLVM, compiled when it is first needed."""

from __future__ import annotations

import string
from collections.abc import Mapping
from pathlib import Path

from .frame import OFFSETS
from .machine_code import address_of

__all__ = ["HEAD", "MAX_BUFFERS", "OTHER_ARRAYS", "OWN", "compile_handler"]

_SOURCE = Path(__file__).with_suffix(".ll")
MAX_BUFFERS = 128  # operands and results of one call: the handler's memory for them
OTHER_ARRAYS = -2  # instead of the number of a part: called with other arrays
HEAD = 4  # words of a plan that every handler has: see `_WORDS`

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
    "DEVICE_GET": "XLA_FFI_Api.XLA_FFI_DeviceOrdinal_Get",
}
_WORDS = ("HANDLER", "REPORT", "HAS_STREAM", "N_BUFFERS")
_STREAM_ARGS = 32  # XLA_FFI_Stream_Get_Args, with the stream as its last word
OWN = _STREAM_ARGS + 8 * MAX_BUFFERS  # where a handler's own memory begins; a multiple of 16


def compile_handler(source: Path, words: Mapping[str, int], memory: int) -> int:
    """Return the address of `run(frame, plan)`, which calls `run_element(frame, plan, memory)` of a text for LLVM.

    `words` are the text's own numbers, and `memory` are the bytes of its memory with those before `OWN`.
    """
    numbers = {
        **{name: OFFSETS[field] for name, field in _FRAME.items()},
        **{name: 8 * word for word, name in enumerate(_WORDS)},
        "OTHER_ARRAYS": OTHER_ARRAYS,
        "STREAM_ARGS": _STREAM_ARGS,
        "STREAM": _STREAM_ARGS - 8,
        "BUFFERS": _STREAM_ARGS,
        "MEMORY": memory,
        **words,
    }
    text = string.Template(_SOURCE.read_text() + source.read_text()).substitute(numbers)
    return address_of("run", f"{source.parent.name}_{source.stem}", text)
