# SPDX-License-Identifier: Apache-2.0
"""The texts of kernels that take as long as they are told to, and of a second clock for them: C++ and CUDA C++."""

# The steps of xorshift: each needs the one before, and no compiler knows a shorter way to the last.
_STEPS = """
    value ^= value << 13;
    value ^= value >> 17;
    value ^= value << 5;
"""

# It writes down how long each call took; `kept` is the number of the latest calls that it remembers.
CPP_SPIN = f"""
#include <chrono>
#include "brainevent/common.h"

extern "C" BE_EXPORT long kept, calls;
extern "C" BE_EXPORT double seconds[1 << 20];
long kept = 1 << 20, calls = 0;
double seconds[1 << 20];

// @BE spin arg arg ret
void spin(const BE::Tensor x, const BE::Tensor turns, BE::Tensor out) {{
  const auto start = std::chrono::steady_clock::now();
  uint32_t value = *x.data_ptr<uint32_t>();
  for (int32_t i = *turns.data_ptr<int32_t>(); i > 0; --i) {{{_STEPS}  }}
  *out.data_ptr<uint32_t>() = value;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  seconds[calls++ % kept] = spent.count();
}}

// @BE nothing arg ret
void nothing(const BE::Tensor, BE::Tensor) {{}}
"""

_CUDA_KERNELS = f"""
#include <cuda_runtime.h>
#include "brainevent/common.h"

__global__ void spin_on(const uint32_t* x, const int32_t* turns, uint32_t* out) {{
  uint32_t value = *x;
  for (int32_t i = *turns; i > 0; --i) {{{_STEPS}  }}
  *out = value;
}}

__global__ void do_nothing() {{}}
"""

CUDA_SPIN = f"""{_CUDA_KERNELS}
// @BE spin arg arg ret stream
void spin(const BE::Tensor x, const BE::Tensor turns, BE::Tensor out, cudaStream_t stream) {{
  spin_on<<<1, 1, 0, stream>>>(x.data_ptr<uint32_t>(), turns.data_ptr<int32_t>(), out.data_ptr<uint32_t>());
  BE_CHECK_KERNEL_LAUNCH();
}}

// @BE nothing arg ret stream
void nothing(const BE::Tensor, BE::Tensor, cudaStream_t stream) {{
  do_nothing<<<1, 1, 0, stream>>>();
  BE_CHECK_KERNEL_LAUNCH();
}}
"""

# The same kernel between two events of the device. It waits for them, so it must not be part of a CUDA graph.
CUDA_EVENTS = f"""{_CUDA_KERNELS}
extern "C" BE_EXPORT double seconds_per_launch;
double seconds_per_launch = 0;

static void check(cudaError_t status) {{ BE_CHECK(status == cudaSuccess) << cudaGetErrorString(status); }}

// @BE timed_spin arg arg ret attr.launches:int32 stream
void timed_spin(const BE::Tensor x, const BE::Tensor turns, BE::Tensor out, int32_t launches, cudaStream_t stream) {{
  cudaEvent_t start, stop;
  float milliseconds = 0;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&stop));
  check(cudaEventRecord(start, stream));
  for (int32_t i = 0; i < launches; ++i)
    spin_on<<<1, 1, 0, stream>>>(x.data_ptr<uint32_t>(), turns.data_ptr<int32_t>(), out.data_ptr<uint32_t>());
  BE_CHECK_KERNEL_LAUNCH();
  check(cudaEventRecord(stop, stream));
  check(cudaEventSynchronize(stop));
  check(cudaEventElapsedTime(&milliseconds, start, stop));
  check(cudaEventDestroy(start));
  check(cudaEventDestroy(stop));
  seconds_per_launch = 1e-3 * milliseconds / launches;
}}
"""
