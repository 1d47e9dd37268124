# SPDX-License-Identifier: Apache-2.0
"""The binary interface of XLA: our offsets are those of the installed header."""

import shutil
import subprocess
from pathlib import Path

import jax
import pytest

from brainevent.ffi import frame, portable


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_offsets_agree_with_the_installed_header(tmp_path):
    asked = {
        **{f"offsetof({name.partition('.')[0]}, {name.partition('.')[2]})": at for name, at in frame.OFFSETS.items()},
        **{f"{name}_STRUCT_SIZE": size for name, size in frame.SIZES.items()},
        "XLA_FFI_State_Get_Args_STRUCT_SIZE": portable.STATE_ARGS_SIZE,
        "XLA_FFI_State_Set_Args_STRUCT_SIZE": portable.STATE_ARGS_SIZE,
        "XLA_FFI_TypeInfo_STRUCT_SIZE": 24,
        "XLA_FFI_Extension_Metadata": frame.METADATA_EXTENSION,
        "XLA_FFI_Error_Code_INTERNAL": frame.INTERNAL,
        "XLA_FFI_Error_Code_INVALID_ARGUMENT": portable.INVALID_ARGUMENT,
        "XLA_FFI_ExecutionStage_EXECUTE": 3,
        "XLA_FFI_API_MAJOR": frame.api_version()[0],
        "XLA_FFI_API_MINOR": frame.api_version()[1],
    }
    lines = "\n".join(f'  printf("%s=%lld\\n", "{question}", (long long)({question}));' for question in asked)
    source = tmp_path / "offsets.c"
    # The header names two types before it makes them known to C.
    source.write_text(
        "#include <stdbool.h>\n#include <stdio.h>\ntypedef struct XLA_FFI_Api_Version XLA_FFI_Api_Version;\n"
        f'#include "xla/ffi/api/c_api.h"\nint main(void) {{\n{lines}\n  return 0;\n}}\n'
    )
    header = Path(jax.ffi.include_dir(), "xla/ffi/api/c_api.h").read_text()
    renamed = [] if "XLA_FFI_Extension_Base;" in header else ["-DXLA_FFI_Extension_Base=XLA_FFI_InternalExtension"]
    command = ["gcc", *renamed, f"-I{jax.ffi.include_dir()}", source, "-o", tmp_path / "offsets"]
    subprocess.run(command, check=True)
    printed = subprocess.run([tmp_path / "offsets"], check=True, capture_output=True, text=True).stdout
    found = dict(line.split("=") for line in printed.splitlines())
    assert {question: int(value) for question, value in found.items()} == asked


def test_a_handler_answers_the_version_query_further_down_the_chain():
    """XLA may put other extensions before the query."""
    import ctypes

    import numba
    import numpy as np

    from brainevent.backends.numba.handler import ArraySpec, compile_handler
    from brainevent.backends.numba.kept import ObjectCode

    @numba.njit
    def nothing(x):
        pass

    module = compile_handler(nothing, [ArraySpec(np.dtype(np.float32), 1)], [], "test_version_query")
    address = ObjectCode.of(module, "test_version_query").load()
    metadata = (ctypes.c_int64 * 8)()
    query = (ctypes.c_int64 * 4)(32, frame.METADATA_EXTENSION, 0, ctypes.addressof(metadata))
    other = (ctypes.c_int64 * 3)(24, 99, ctypes.addressof(query))
    for first in (query, other):
        metadata[3] = -1
        call_frame = (ctypes.c_int64 * 24)()
        call_frame[1] = ctypes.addressof(first)
        assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(ctypes.addressof(call_frame)) == 0
        version = ctypes.cast(ctypes.addressof(metadata) + 24, ctypes.POINTER(ctypes.c_int32))
        assert (version[0], version[1]) == frame.api_version()
