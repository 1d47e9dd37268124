# SPDX-License-Identifier: Apache-2.0
"""A pretend GPU for kernels whose warps talk: as C++, each lane a fiber; all reach a shuffle before any goes on."""

import ctypes
import functools
import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

import numpy as np

HEAD = r"""
#include <ucontext.h>
#include <cstdint>
#include <cstring>
#include <functional>
#define __global__ static
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)
#define __restrict__
struct Extent { unsigned x; };
static Extent threadIdx, blockIdx, blockDim = {32};
static ucontext_t outside, lanes[32];
static char stacks[32][1 << 16];
static uint64_t slots[2][32];
static unsigned turns[32], done;
static std::function<void()> work;

template <class T> static const uint64_t* meet(T mine) {
  const unsigned lane = threadIdx.x;
  uint64_t* row = slots[turns[lane]++ % 2];
  row[lane] = 0;
  std::memcpy(row + lane, &mine, sizeof(T));
  swapcontext(lanes + lane, &outside);
  threadIdx.x = lane;
  return row;
}
template <class T> static T of_lane(T mine, int source) {
  const uint64_t* row = meet(mine);
  T found;
  std::memcpy(&found, row + (source & 31), sizeof(T));
  return found;
}
template <class T> static T __shfl_sync(unsigned, T mine, int source) { return of_lane(mine, source); }
template <class T> static T __shfl_up_sync(unsigned, T mine, int step) {
  const int lane = threadIdx.x;
  return of_lane(mine, lane < step ? lane : lane - step);
}
template <class T> static T __shfl_down_sync(unsigned, T mine, int step) {
  const int lane = threadIdx.x;
  return of_lane(mine, lane + step > 31 ? lane : lane + step);
}
static unsigned __ballot_sync(unsigned, bool mine) {
  const uint64_t* row = meet((uint64_t)mine);
  unsigned found = 0;
  for (int i = 0; i < 32; i++) found |= (unsigned)row[i] << i;
  return found;
}
static void __syncthreads() { meet(0); }
static bool __any_sync(unsigned all, bool mine) { return __ballot_sync(all, mine) != 0; }
static int __clz(unsigned x) { return x ? __builtin_clz(x) : 32; }
struct uint2 { unsigned x, y; };
static unsigned __umulhi(unsigned x, unsigned y) { return (uint64_t)x * y >> 32; }
static int __ffs(unsigned x) { return __builtin_ffs(x); }
template <class T> static void atomicAdd(T* at, T x) { *at += x; }

static void lane_runs() {
  work();
  done++;
  while (true) swapcontext(lanes + threadIdx.x, &outside);
}
static int run(unsigned warps, std::function<void()> kernel) {
  work = kernel;
  for (blockIdx.x = 0; blockIdx.x < warps; blockIdx.x++) {
    done = 0;
    for (int i = 0; i < 32; i++) {
      getcontext(lanes + i);
      lanes[i].uc_stack = {stacks[i], 0, sizeof(stacks[i])};
      lanes[i].uc_link = nullptr;
      turns[i] = 0;
      makecontext(lanes + i, lane_runs, 0);
    }
    while (done < 32) {
      const unsigned before = done;
      for (unsigned i = 0; i < 32; i++) {
        threadIdx.x = i;
        swapcontext(&outside, lanes + i);
      }
      if (done != before && done < 32) return 1;  // some lanes ended, and others wait for them
    }
  }
  return 0;
}
"""


@functools.cache
def built(text):
    """Return the library of a text, which follows `HEAD`."""
    folder = Path(tempfile.gettempdir()) / f"brainevent_warps_{os.getuid()}"
    folder.mkdir(exist_ok=True)
    path = folder / f"{hashlib.sha256((HEAD + text).encode()).hexdigest()[:20]}.so"
    if not path.exists():
        source, made = path.with_suffix(f".{os.getpid()}.cc"), path.with_suffix(f".{os.getpid()}.so")
        source.write_text(HEAD + text)
        command = ["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-w", str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        made.rename(path)
        source.unlink()
    return ctypes.CDLL(str(path))


def launched(function, *operands):
    """Call a function of a library with arrays of NumPy and numbers; no lane may wait for one that has ended."""
    given = [ctypes.c_void_p(x.ctypes.data) if isinstance(x, np.ndarray) else ctypes.c_longlong(x) for x in operands]
    assert function(*given) == 0, "some lanes of a warp ended while others waited for them"
