# SPDX-License-Identifier: Apache-2.0
"""The functions of the CUDA driver that plans need; it is loaded with the first plan."""

from __future__ import annotations

import ctypes
import functools
import re
import threading
from typing import Any

from ...errors import CUDANotInstalledError, KernelLoadError

__all__ = ["Driver", "driver", "ptx_version"]

Cluster = tuple[int, int, int]

LIBRARY = "libcuda.so.1"

_MAX_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_CLUSTER_WIDTH = 11  # CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH; height and depth follow
_LARGE_CLUSTERS = 14  # CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
_PORTABLE = 8  # blocks of a cluster
_UNSUPPORTED_PTX_VERSION = 222  # CUDA_ERROR_UNSUPPORTED_PTX_VERSION
_PTX_VERSION = re.compile(rb"^(\s*\.version\s+)\d+\.\d+", re.MULTILINE)


class _Configuration(ctypes.Structure):
    """The driver's CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.c_void_p),
        ("number", ctypes.c_uint),
    )


class Driver:
    """The driver's library, initialised; its kernels are independent of contexts, and valid on every device."""

    def __init__(self, library: ctypes.CDLL):
        self._library = library
        self._kernels: dict[tuple[bytes, str, Cluster], ctypes.c_void_p] = {}
        self._allowed: dict[tuple[int, int], int] = {}  # bytes of shared memory, by kernel and device
        self._lock = threading.Lock()
        self._check("cuInit", library.cuInit(0))

    def address(self, name: str) -> int:
        """Return the address of one of its functions, for native code."""
        return ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value or 0

    def error_name(self, code: int) -> str:
        """Return the driver's own name of an error, such as CUDA_ERROR_INVALID_VALUE."""
        name = ctypes.c_char_p()
        self._library.cuGetErrorName(code, ctypes.byref(name))
        return (name.value or b"an unknown CUDA error").decode()

    def kernel(self, binary: bytes, entry: str, shared: int, cluster: Cluster = (0, 0, 0)) -> int:
        """Load a kernel, once per process, and allow its shared memory on every device that supports it.

        With a `cluster`, it runs in clusters of so many blocks.
        """
        with self._lock:
            handle = self._kernels.get((binary, entry, cluster))
            if handle is None:
                handle = self._kernels[binary, entry, cluster] = self._load(binary, entry, cluster)
            if shared:  # even if it is small: the kernel's own declarations add to it
                self._allow_shared(handle, entry, shared)
        return handle.value or 0

    def clusters(self, kernel: int, blocks: int, threads: int, shared: int, number: int = 0) -> int:
        """Return how many clusters of this number of blocks a device runs at once for a kernel."""
        its, device, context, count = self._library, ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        what = "counting clusters"
        self._check(what, its.cuDeviceGet(ctypes.byref(device), number))
        self._check(what, its.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        try:
            self._check(what, its.cuCtxPushCurrent_v2(context))
            configuration = _Configuration(blocks, 1, 1, threads, 1, 1, shared)
            found = its.cuOccupancyMaxActiveClusters(
                ctypes.byref(count), ctypes.c_void_p(kernel), ctypes.byref(configuration)
            )
            its.cuCtxPopCurrent_v2(ctypes.byref(context))
        finally:
            its.cuDevicePrimaryCtxRelease_v2(device)
        self._check(what, found)
        return count.value

    def _load(self, binary: bytes, entry: str, cluster: Cluster) -> ctypes.c_void_p:
        what, status, kernel = self._found(binary, entry)
        if status == _UNSUPPORTED_PTX_VERSION:  # as of a newer toolkit, which often uses nothing new in it
            what, status, kernel = self._found(self._in_its_version(binary), entry)
        self._check(f"{what} the kernel {entry!r}", status)
        if any(cluster):
            self._set_cluster(kernel, entry, cluster)
        self._allow_cluster(kernel, entry)
        return kernel

    def _found(self, binary: bytes, entry: str) -> tuple[str, int, ctypes.c_void_p]:
        """Return the step that was done last, its status, and the kernel; PTX may be compiled in either step."""
        library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        nothing: Any = None
        status: int = self._library.cuLibraryLoadData(
            ctypes.byref(library), binary, nothing, nothing, 0, nothing, nothing, 0
        )
        if status != 0:
            return "loading", status, kernel
        return "finding", self._library.cuLibraryGetKernel(ctypes.byref(kernel), library, entry.encode()), kernel

    def _in_its_version(self, ptx: bytes) -> bytes:
        """Return PTX in the version of this driver, which then rejects what it does not know."""
        version = ctypes.c_int()
        self._check("asking for the driver's version", self._library.cuDriverGetVersion(ctypes.byref(version)))
        return _PTX_VERSION.sub(lambda match: match[1] + ptx_version(version.value).encode(), ptx, count=1)

    def _set_cluster(self, kernel: ctypes.c_void_p, entry: str, cluster: Cluster) -> None:
        """Let a kernel run in clusters, on every device that has them."""
        count = ctypes.c_int()
        self._check("counting devices", self._library.cuDeviceGetCount(ctypes.byref(count)))
        for attribute, size in enumerate(cluster, start=_CLUSTER_WIDTH):
            statuses = [
                self._library.cuKernelSetAttribute(attribute, size, kernel, device) for device in range(count.value)
            ]
            if all(statuses):
                self._check(f"letting the kernel {entry!r} run in clusters of {cluster}", max(statuses, default=0))

    def _allow_cluster(self, kernel: ctypes.c_void_p, entry: str) -> None:
        """Allow a kernel's clusters, also if not every GPU with clusters supports this size."""
        width, count = ctypes.c_int(), ctypes.c_int()
        self._check("counting devices", self._library.cuDeviceGetCount(ctypes.byref(count)))
        for device in range(count.value):
            status = self._library.cuKernelGetAttribute(ctypes.byref(width), _CLUSTER_WIDTH, kernel, device)
            if status == 0 and width.value > _PORTABLE:
                self._library.cuKernelSetAttribute(_LARGE_CLUSTERS, 1, kernel, device)

    def _allow_shared(self, handle: ctypes.c_void_p, entry: str, shared: int) -> None:
        """Raise the limit of a kernel, never lower it; a device without enough memory rejects the launch."""
        count = ctypes.c_int()
        self._check("counting devices", self._library.cuDeviceGetCount(ctypes.byref(count)))
        statuses = [self._allow_on(device, handle, shared) for device in range(count.value)]
        if all(statuses):
            self._check(f"allowing {shared} bytes of shared memory to the kernel {entry!r}", max(statuses, default=0))

    def _allow_on(self, device: int, handle: ctypes.c_void_p, shared: int) -> int:
        place = (handle.value or 0, device)
        if shared <= self._allowed.get(place, 0):
            return 0
        status: int = self._library.cuKernelSetAttribute(_MAX_DYNAMIC_SHARED, shared, handle, device)
        if status == 0:
            self._allowed[place] = shared
        return status

    def _check(self, what: str, status: int) -> None:
        if status != 0:
            raise KernelLoadError(
                f"{what}: {self.error_name(status)}; the driver may be older than the kernel's compiler: update it"
            )


def ptx_version(cuda: int) -> str:
    """Return the newest version of PTX that the driver of a CUDA version takes: "9.1" for 13010."""
    major, minor = cuda // 1000, cuda % 1000 // 10
    skipped = major == 12 and minor > 5  # CUDA 12.5 and 12.6 share one
    return f"{major - 4}.{minor - skipped}"


@functools.cache
def driver() -> Driver:
    """Return the driver of this machine."""
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        raise CUDANotInstalledError(
            f"no CUDA driver ({LIBRARY}) is found; install the driver of your NVIDIA GPU; "
            "on a machine without one, pass a backend= of the CPU, or none"
        ) from None
    return Driver(library)
