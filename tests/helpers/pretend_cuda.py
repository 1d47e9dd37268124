# SPDX-License-Identifier: Apache-2.0
"""A pretend CUDA driver, so that launch plans run without a GPU: its kernels are C++ functions."""

import ctypes
import subprocess

import pytest

from brainevent.ffi.launch import driver
from brainevent.toolchain.find import find_host_compiler

# The binary of a kernel is the path of a library; a kernel gets its configuration, and the addresses of its parameters.
SOURCE = r"""
#include <dlfcn.h>
#include <cstring>

extern "C" {
int pretend_calls[3];  // launches, zeroings, permissions for shared memory
int pretend_together;  // how many of the launches were cooperative
int pretend_failure;
int pretend_limits[2], pretend_allowed[2];  // bytes of shared memory, by device; launches are on the second
int pretend_cluster[3];  // that kernels are told to run in
int pretend_width, pretend_large[2];  // blocks of a cluster that kernels are made for; whether more than 8 are allowed

int cuInit(unsigned) { return 0; }
int cuGetErrorName(int code, const char** name) {
  *name = code == 1 ? "CUDA_ERROR_INVALID_VALUE" : code == 200 ? "CUDA_ERROR_INVALID_IMAGE"
        : code == 720 ? "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" : "CUDA_ERROR_UNKNOWN";
  return 0;
}
int cuDeviceGetCount(int* count) { return *count = 2, 0; }
int cuDeviceGet(int* device, int which) { return *device = which, 0; }
int cuDevicePrimaryCtxRetain(void** context, int) { return *context = &pretend_calls, 0; }
int cuDevicePrimaryCtxRelease_v2(int) { return 0; }
int cuCtxPushCurrent_v2(void* context) { return context == &pretend_calls ? 0 : 1; }
int cuCtxPopCurrent_v2(void**) { return 0; }
struct Configuration {
  unsigned grid[3], block[3], shared;
  void *stream, *attributes;
  unsigned number;
};
int cuOccupancyMaxActiveClusters(int* count, void* kernel, const Configuration* its) {  // of two multiprocessors
  if (!kernel || its->stream || its->attributes || its->number || its->grid[1] * its->block[1] != 1) return 1;
  return *count = 2 * (2048 / its->block[0]) * (its->shared > 100'000 ? 1 : 2) / its->grid[0], pretend_failure;
}
int cuKernelGetAttribute(int* value, int attribute, void*, int) {
  return *value = pretend_width, attribute == 11 ? pretend_failure : 1;
}
int cuKernelSetAttribute(int attribute, int value, void*, int device) {
  if (11 <= attribute && attribute <= 13) return pretend_cluster[attribute - 11] = value, pretend_failure;
  if (attribute == 14) return pretend_large[device] = value, 0;
  ++pretend_calls[2];
  if (attribute != 8 || value > pretend_limits[device]) return 1;
  return pretend_allowed[device] = value, 0;
}
int cuDriverGetVersion(int* version) { return *version = 13000, 0; }
int cuLibraryLoadData(void** library, const void* code, void*, void*, unsigned, void*, void*, unsigned) {
  const char* path = static_cast<const char*>(code);
  if (!strncmp(path, ".version ", 9)) {  // PTX: its path is in a comment
    if (strncmp(path + 9, "9.0", 3) > 0) return *library = nullptr, strstr(path, "eager") ? 222 : 0;
    path = strstr(path, "// ") + 3;
  }
  return *library = dlopen(path, RTLD_NOW), *library ? 0 : 200;
}
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  if (!library) return 222;  // PTX is compiled when it is needed
  return *kernel = dlsym(library, name), *kernel ? 0 : 500;
}
int cuMemsetD8Async(char* at, unsigned char value, size_t size, void*) {
  ++pretend_calls[1];
  return memset(at, value, size), pretend_failure;
}
int cuLaunchKernel(void* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void*, void** parameters, void**) {
  ++pretend_calls[0];
  if (shared > 48 * 1024 && int(shared) > pretend_allowed[1]) return 1;
  const unsigned configuration[7] = {gx, gy, gz, bx, by, bz, shared};
  return reinterpret_cast<int (*)(const unsigned*, void**)>(kernel)(configuration, parameters);
}
int cuLaunchCooperativeKernel(void* kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                              unsigned bz, unsigned shared, void* stream, void** parameters) {
  ++pretend_together;
  return gx > 132 ? 720 : cuLaunchKernel(kernel, gx, gy, gz, bx, by, bz, shared, stream, parameters, nullptr);
}
}

// out[i] += a * x[i] + y[i], in as many threads as there are
extern "C" int axpy(const unsigned* configuration, void** p) {
  const float *x = *(float**)p[0], *y = *(float**)p[1];
  float* out = *(float**)p[2];
  const int n = *(int*)p[3];
  const double a = *(double*)p[4];
  if (n < 0) return 1;
  for (unsigned i = 0; i < configuration[0] * configuration[3] && i < unsigned(n); ++i) out[i] += a * x[i] + y[i];
  return 0;
}

// writes its configuration down
extern "C" int tell(const unsigned* configuration, void** p) {
  for (int i = 0; i < 7; ++i) (*(int**)p[0])[i] = int(configuration[i]);
  return 0;
}
"""


@pytest.fixture(scope="session")
def pretend_library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretend")
    (folder / "cuda.cc").write_text(SOURCE)
    command = [*find_host_compiler().command, "-shared", "-fPIC", "-O1", "cuda.cc", "-o", "pretend.so", "-ldl"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "pretend.so"


@pytest.fixture
def pretend(pretend_library, monkeypatch):
    """Put the pretend driver in the place of the machine's; its library is also what plans take for a binary."""
    library = ctypes.CDLL(str(pretend_library))
    monkeypatch.setattr(driver, "LIBRARY", str(pretend_library))
    driver.driver.cache_clear()
    calls = (ctypes.c_int * 3).in_dll(library, "pretend_calls")
    calls[:] = [0, 0, 0]
    failure, together = (ctypes.c_int.in_dll(library, f"pretend_{name}") for name in ("failure", "together"))
    together.value = 0
    limits, allowed = ((ctypes.c_int * 2).in_dll(library, f"pretend_{name}") for name in ("limits", "allowed"))
    limits[:], allowed[:] = [227 * 1024] * 2, [48 * 1024] * 2
    yield Pretend(str(pretend_library).encode() + b"\0", calls, together, failure, limits, allowed)
    failure.value = 0
    driver.driver.cache_clear()


class Pretend:
    def __init__(self, binary, calls, together, failure, limits, allowed):
        self.binary, self.calls, self.together, self.failure = binary, calls, together, failure
        self.limits, self.allowed = limits, allowed  # of shared memory, by device
