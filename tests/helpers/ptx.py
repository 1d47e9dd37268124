# SPDX-License-Identifier: Apache-2.0
"""Compile the text of kernels of networks with NVRTC, as far as that goes without a GPU."""

import pytest

from brainevent.scalar.cuda_text import NVRTC_OPTIONS

AS_WRITTEN = "-DSHORTENS=false"  # without the short functions, in which some products are fused


def ptx_of(text, *options, capability=75):
    """Return the PTX of a text for a compute capability, or skip the test where there is no NVRTC."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"text.cu", 0, [], [])
    given = [option.encode() for option in (*NVRTC_OPTIONS, *options, f"--gpu-architecture=compute_{capability}")]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(given), given)
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    log = b" " * (size + 1)  # NVRTC writes into it: bytes of length 1 are shared by all of Python
    nvrtc.nvrtcGetProgramLog(program, log)
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS, log.decode()
    _, size = nvrtc.nvrtcGetPTXSize(program)
    ptx = b" " * (size + 1)
    nvrtc.nvrtcGetPTX(program, ptx)
    return ptx[:size].decode()
