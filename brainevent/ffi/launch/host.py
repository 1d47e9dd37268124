# SPDX-License-Identifier: Apache-2.0
"""Plans on the CPU: a kernel is a function of an object file, and a launch calls it."""

from __future__ import annotations

import functools
import itertools
import json
import platform
import threading
from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm

from ...errors import KernelLoadError

__all__ = ["Host", "host", "pack_object"]

_ASSERTION = 1  # what a launch returns when the kernel's own assertion failed
_ERRORS = {_ASSERTION: "an assertion of the kernel failed"}

# The functions of the CUDA driver that the handler calls.
_DRIVER = """
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i32 @cuMemsetD8Async(ptr %at, i8 %value, i64 %size, ptr %stream) {
  call void @llvm.memset.p0.i64(ptr %at, i8 %value, i64 %size, i1 false)
  ret i32 0
}
define i32 @cuStreamSynchronize(ptr %stream) {
  ret i32 0
}
define i32 @cuLaunchKernel(ptr %kernel, i32 %0, i32 %1, i32 %2, i32 %3, i32 %4, i32 %5, i32 %6, ptr %stream,
                           ptr %parameters, ptr %extra) {
  %code = call i32 %kernel(ptr %parameters)
  ret i32 %code
}
define i32 @cuLaunchCooperativeKernel(ptr %kernel, i32 %0, i32 %1, i32 %2, i32 %3, i32 %4, i32 %5, i32 %6, ptr %stream,
                                      ptr %parameters) {
  %code = call i32 %kernel(ptr %parameters)
  ret i32 %code
}
"""

# Functions that Warp's objects need besides the C library. The launch reports a failed assertion.
_RUNTIME = """
@failed = internal global i32 0
declare double @llvm.fabs.f64(double)
define void @_wp_assert(ptr %expression, ptr %file, i32 %line) {
  store atomic i32 1, ptr @failed seq_cst, align 4
  ret void
}
define i32 @_wp_isnan(double %x) {
  %answer = fcmp uno double %x, %x
  %number = zext i1 %answer to i32
  ret i32 %number
}
define i32 @_wp_isinf(double %x) {
  %size = call double @llvm.fabs.f64(double %x)
  %answer = fcmp oeq double %size, 0x7FF0000000000000
  %number = zext i1 %answer to i32
  ret i32 %number
}
define i32 @_wp_isfinite(double %x) {
  %size = call double @llvm.fabs.f64(double %x)
  %answer = fcmp one double %size, 0x7FF0000000000000
  %number = zext i1 %answer to i32
  ret i32 %number
}
"""

# A kernel as the driver calls it: with the addresses of its parameters. Zeros are an open mutex.
_ENTRY = """
define i32 @be_{entry}(ptr %parameters) {{
{load}
{enter}
  call void @{entry}({given})
{leave}
  %code = atomicrmw xchg ptr @failed, i32 0 seq_cst
  ret i32 %code
}}
declare void @{entry}({kinds})
"""
_MUTEX = """
@mutex = internal global [64 x i8] zeroinitializer, align 16
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
"""


def pack_object(code: bytes, kernels: Mapping[str, int], *, native: bool, alone: bool) -> bytes:
    """Return an object file as a plan's binary; `kernels` says how many parameters, all pointers, each entry takes.

    `native` means that it was compiled for all features of this CPU, `alone` that its kernels use static variables:
    only one thread at a time runs them.
    """
    header = {
        "machine": platform.machine(),
        "system": platform.system(),
        "features": _features() if native else [],
        "kernels": dict(kernels),
        "alone": alone,
    }
    return json.dumps(header, sort_keys=True).encode() + b"\n" + code


def _features() -> list[str]:
    return sorted(name for name, there in llvm.get_host_cpu_features().items() if there)


class Host:
    """Loads kernels for this process's CPU; has the methods of `driver.Driver`."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self._lock = threading.Lock()
        self._jit = llvm.create_lljit_compiler()
        self._loaded: dict[tuple[bytes, str], Any] = {}
        self._numbers = itertools.count()  # a library's name is used up even where linking it fails
        builder = llvm.JITLibraryBuilder().add_ir(_DRIVER)
        for name in ("cuLaunchKernel", "cuLaunchCooperativeKernel", "cuMemsetD8Async", "cuStreamSynchronize"):
            builder.export_symbol(name)
        self._driver = builder.link(self._jit, "driver")

    def address(self, name: str) -> int:
        """Return the address of a function of the driver."""
        return int(self._driver[name])

    def error_name(self, code: int) -> str:
        """Say what an error code means."""
        return _ERRORS.get(code, f"error {code}")

    def kernel(self, binary: bytes, entry: str, shared: int, cluster: object = None) -> int:
        """Load a kernel, once in the life of the process; there is no shared memory here, and there are no clusters."""
        with self._lock:
            if (binary, entry) not in self._loaded:
                self._loaded[binary, entry] = self._load(binary, entry)
            return int(self._loaded[binary, entry][f"be_{entry}"])

    def _load(self, binary: bytes, entry: str) -> Any:
        line, code = binary.split(b"\n", 1)
        header = json.loads(line)
        _check_machine(entry, header)
        text = _RUNTIME + _MUTEX * header["alone"] + _entry(entry, header["kernels"][entry], header["alone"])
        builder = llvm.JITLibraryBuilder().add_object_img(code).add_ir(text).add_current_process()
        try:
            return builder.export_symbol(f"be_{entry}").link(self._jit, f"{entry}_{next(self._numbers)}")
        except RuntimeError as error:
            raise KernelLoadError(
                f"loading the kernel {entry!r}: {error}; it calls a function that is neither in the C library nor in "
                "Warp's own code: remove the call, or run the kernel on a GPU"
            ) from None


def _check_machine(entry: str, header: dict[str, Any]) -> None:
    here = (platform.machine(), platform.system())
    missing = set(header["features"]) - set(_features()) if header["features"] else set()
    if (header["machine"], header["system"]) != here or missing:
        lacks = f", which lacks {', '.join(sorted(missing))}" if missing else ""
        raise KernelLoadError(
            f"the kernel {entry!r} was compiled for a CPU {header['machine']} under {header['system']}, and this is "
            f"{' under '.join(here)}{lacks}; compile it here"
        )


def _entry(entry: str, parameters: int, alone: bool) -> str:
    load = "\n".join(
        f"  %at{i} = getelementptr ptr, ptr %parameters, i64 {i}\n  %p{i} = load ptr, ptr %at{i}"
        for i in range(parameters)
    )
    return _ENTRY.format(
        entry=entry,
        load=load,
        given=", ".join(f"ptr %p{i}" for i in range(parameters)),
        kinds=", ".join(["ptr"] * parameters),
        enter="  %entered = call i32 @pthread_mutex_lock(ptr @mutex)" if alone else "",
        leave="  %left = call i32 @pthread_mutex_unlock(ptr @mutex)" if alone else "",
    )


@functools.cache
def host() -> Host:
    """Return the driver of this process's CPU."""
    return Host()
