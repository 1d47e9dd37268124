# SPDX-License-Identifier: Apache-2.0
"""A launch plan as a frozen value: binaries, entry points, grids, and where addresses of buffers go."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...errors import KernelArgumentError
from ..elements import MAX_BUFFERS

__all__ = ["Assembly", "Launch", "LaunchPlan", "Limits", "Slot", "check_limits"]

Dim3 = tuple[int, int, int]

# The most shared memory of a block, in KiB, by compute capability; for others the driver decides.
_SHARED = {
    "7.0": 96, "7.2": 96, "7.5": 64, "8.0": 163, "8.6": 99, "8.7": 163, "8.9": 99, "9.0": 227, "10.0": 227, "12.0": 99,
}  # fmt: skip
MAX_PARAMETERS = 1024
ZEROING = -1  # instead of the number of a launch: setting results to zero failed
MAX_CLUSTER = 16  # blocks; some GPUs take 8
MAX_PARAMETER_BYTES = 32_764  # CUDA's own limit


@dataclass(frozen=True)
class Slot:
    """The position of a buffer's address: a byte of a parameter. Buffers are operands, then results."""

    parameter: int
    buffer: int
    byte: int = 0
    shift: int = 0  # added to the address
    alignment: int = 1  # a power of two that must divide the address


@dataclass(frozen=True)
class Launch:
    """One kernel launch; `parameters` are constant but for the slots."""

    binary: bytes  # a cubin, or PTX that ends with a zero byte; for the CPU the result of `host.pack_object`
    entry: str
    title: str
    grid: Dim3
    block: Dim3
    parameters: tuple[bytes, ...]
    slots: tuple[Slot, ...]
    shared: int = 0  # bytes of dynamic shared memory
    together: bool = False  # a cooperative launch: all blocks run at the same time, or none does
    cluster: Dim3 = (0, 0, 0)  # blocks of a cluster; zeros: as the kernel was compiled
    done: int = 0  # steps of a loop that are done after it

    def __str__(self) -> str:
        how = ", together" if self.together else ""
        how += f", clusters of {self.cluster}" if any(self.cluster) else ""
        return f"{self.title}<<<{self.grid}, {self.block}, {self.shared}{how}>>>"


@dataclass(frozen=True)
class Assembly:
    """What is said of a kernel in PTX that rounds as it is written, and so can be part of another kernel.

    `said` has sentences of its author, and `names` those of its arrays, in the order of buffers.
    """

    said: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class LaunchPlan:
    """Launches in their order, after the results `zeroed` (counted as buffers, with their bytes) are set to zero.

    If they are the parts of a loop of some `steps`, each waits for the one before it, unless Ctrl-C ends the loop.
    """

    title: str
    buffers: int  # operands and results
    launches: tuple[Launch, ...]
    zeroed: tuple[tuple[int, int], ...] = ()
    in_graphs: bool = True
    host: bool = False  # whether its kernels run on the CPU
    steps: int = 0

    def __post_init__(self) -> None:
        if self.buffers > MAX_BUFFERS:
            raise KernelArgumentError(
                f"{self.title}: {self.buffers} operands, results and temporaries; a call takes at most {MAX_BUFFERS}; "
                "combine some"
            )


@dataclass(frozen=True)
class Limits:
    """The limits of a device; the defaults are those of every CUDA device of the last ten years."""

    grid: Dim3 = (2**31 - 1, 65_535, 65_535)
    block: Dim3 = (1024, 1024, 64)
    threads: int = 1024
    shared: int = 48 * 1024

    @classmethod
    def of(cls, capability: str) -> Limits:
        """Return those of devices of a compute capability, such as "9.0" or "9.0a"."""
        return cls(shared=1024 * _SHARED.get(capability.rstrip("abcdefghijklmnopqrstuvwxyz"), 227))


def check_limits(where: str, launch: Launch, limits: Limits) -> None:
    """Raise if no device could run the launch, before the first run does."""
    for what, sizes, most in (("grid", launch.grid, limits.grid), ("block", launch.block, limits.block)):
        for axis, size, limit in zip("xyz", sizes, most, strict=True):
            if not 1 <= size <= limit:
                raise KernelArgumentError(
                    f"{where}: {what}.{axis} is {size}, and must be from 1 to {limit}; change the launch configuration"
                )
    if (threads := math.prod(launch.block)) > limits.threads:
        raise KernelArgumentError(
            f"{where}: the block {launch.block} has {threads} threads; use at most {limits.threads}"
        )
    if any(launch.cluster):
        _check_cluster(where, launch)
    if not 0 <= launch.shared <= limits.shared:
        raise KernelArgumentError(
            f"{where}: {launch.shared} bytes of dynamic shared memory; use at most {limits.shared}"
        )
    size = sum(len(parameter) for parameter in launch.parameters)
    if size > MAX_PARAMETER_BYTES or len(launch.parameters) > MAX_PARAMETERS:
        raise KernelArgumentError(
            f"{where}: {len(launch.parameters)} parameters of {size} bytes in all; a kernel takes at most "
            f"{MAX_PARAMETERS} of {MAX_PARAMETER_BYTES} bytes: pass arrays instead of many scalars"
        )


def _check_cluster(where: str, launch: Launch) -> None:
    for axis, blocks, size in zip("xyz", launch.grid, launch.cluster, strict=True):
        if size < 1 or blocks % size:
            raise KernelArgumentError(
                f"{where}: grid.{axis} is {blocks}, and must be a multiple of cluster.{axis}, which is {size}"
            )
    if (blocks := math.prod(launch.cluster)) > MAX_CLUSTER:
        raise KernelArgumentError(
            f"{where}: the cluster {launch.cluster} has {blocks} blocks; use at most {MAX_CLUSTER}"
        )
