# SPDX-License-Identifier: Apache-2.0
"""Compilers behind one interface: a text becomes a library whose functions can be looked up, or an error says why."""

import ctypes
import shutil

import pytest

import brainevent
from brainevent import CompilationError, CompilerBackend, CPPBackend, CUDABackend, HIPBackend

TWICE = 'extern "C" int twice(int x) { return FACTOR * x; }'


def test_cpp_is_compiled(tmp_path, capfd):
    library = tmp_path / "twice.so"
    found = CPPBackend(None).compile_source(
        TWICE, library, tmp_path / "work", extra_cflags=["-DFACTOR=2"], extra_include_paths=[tmp_path], verbose=True
    )
    assert found == str(library)
    assert ctypes.CDLL(found).twice(21) == 42
    assert "-DFACTOR=2" in capfd.readouterr().out
    with pytest.raises(CompilationError, match=r"CPPBackend.compile_source\('source'\)?.*FACTOR|FACTOR"):
        CPPBackend().compile_source(TWICE, library, tmp_path)
    with pytest.raises(TypeError, match="unknown option 'gpu_arch'"):
        CPPBackend().compile_source(TWICE, library, tmp_path, gpu_arch="9.0")


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_cuda_is_compiled(tmp_path):
    text = '__global__ void k(float* x) { *x = 1; }\nextern "C" int seven() { return 7; }'
    found = CUDABackend().compile_source(text, tmp_path / "k.so", tmp_path, gpu_arch="9.0", optimization_level=1)
    assert ctypes.CDLL(found).seven() == 7


def test_names_and_platforms():
    assert [repr(b()) for b in (CPPBackend, CUDABackend, HIPBackend)] == [
        "CPPBackend(platform='cpu')",
        "CUDABackend(platform='cuda')",
        "HIPBackend(platform='hip')",
    ]
    with pytest.raises(NotImplementedError, match="no compiler for HIP here; use CUDABackend"):
        HIPBackend().compile_source("", "a", "b")
    with pytest.raises(TypeError, match="abstract"):
        CompilerBackend()
    assert all(issubclass(b, brainevent.CompilerBackend) for b in (CPPBackend, CUDABackend, HIPBackend))
