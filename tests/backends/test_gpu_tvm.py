# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: functions of TVM FFI that launch kernels on its current stream."""

import subprocess

import pytest
from scaling_kernels import check_every_promise, check_runs_batches_and_graphs

from brainevent import tvm_kernel
from brainevent.ffi.devices import cuda_capabilities
from brainevent.toolchain.find import find_cuda_toolkit

tvm_ffi = pytest.importorskip("tvm_ffi")
pytestmark = pytest.mark.gpu

SOURCE = r"""
#include <tvm/ffi/c_api.h>
#include <tvm/ffi/extra/c_env_api.h>
__global__ void scale(const float* x, float factor, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = factor * x[i];
}
extern "C" __attribute__((visibility("default"))) int __tvm_ffi_scale(
    void* self, const TVMFFIAny* args, int32_t n, TVMFFIAny* result) {
  DLTensor *x = (DLTensor*)args[0].v_ptr, *out = (DLTensor*)args[2].v_ptr;
  if (x->device.device_type != kDLCUDA) return TVMFFIErrorSetRaisedFromCStr("ValueError", "x is on no GPU"), -1;
  auto stream = (cudaStream_t)TVMFFIEnvGetStream(x->device.device_type, x->device.device_id);
  int size = x->shape[0];
  auto from = (float*)x->data, to = (float*)out->data;
  if (size) scale<<<(size + 255) / 256, 256, 0, stream>>>(from, args[1].v_float64, to, size);
  cudaError_t code = cudaGetLastError();
  if (code) return TVMFFIErrorSetRaisedFromCStr("RuntimeError", cudaGetErrorString(code)), -1;
  return 0;
}
"""
ARGUMENTS = {"x": "input", "factor": "float32", "out": "output"}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tvm")
    (folder / "k.cu").write_text(SOURCE)
    include = [f"-I{path}" for path in tvm_ffi.libinfo.include_paths()]
    architecture = f"-arch=sm_{cuda_capabilities()[0].replace('.', '')}"
    nvcc, runtime = find_cuda_toolkit().nvcc, tvm_ffi.libinfo.find_libtvm_ffi()
    command = [nvcc, architecture, "-shared", "-Xcompiler", "-fPIC", *include, "k.cu", runtime, "-o", "k.so"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "k.so"


@pytest.fixture(scope="module")
def scaled(library):
    return lambda x, factor: tvm_kernel(library, x, name="scale", arguments=ARGUMENTS)(x, factor=factor)


def test_runs_batches_and_graphs(scaled):
    check_runs_batches_and_graphs(scaled)


def test_every_promise(scaled):
    check_every_promise("tvm", scaled)
