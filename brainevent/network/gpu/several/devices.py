# SPDX-License-Identifier: Apache-2.0
"""`chosen_devices`: the GPUs that `build(devices=...)` names, if they can run one network; or those of a process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax

from ....errors import KernelLoadError, NetworkError
from ...description.checks import is_integer
from ..cuda_device import CudaDevice, cuda_device, local_device, number_of_gpus
from ..device import gpu_name

__all__ = ["MOST_GPUS", "chosen_devices", "devices_of_process"]

MOST_GPUS = 16  # a block sends to each with a lane of a warp
_PASS = 'pass a number of GPUs, a list such as [0, 1], or "all"'


def chosen_devices(devices: Any) -> list[CudaDevice]:
    """Return the GPUs that are named, each of which reaches the memory of all others.

    Args:
        devices: How many; a list of their numbers or of devices of JAX; or "all".

    Returns:
        The GPUs, in this order.

    Raises:
        NetworkError: There are fewer, they differ, or one cannot reach another one.
    """
    numbers = _numbers(devices, range(number_of_gpus()))
    found = [cuda_device(number) for number in numbers]
    _check_alike(found)
    for one in found:
        for other in found:
            if one is not other:
                _open(one, other)
    return found


def devices_of_process(devices: Any = None) -> list[CudaDevice]:
    """Return the GPUs with which this process takes part in what several do; they need not reach each other's memory.

    Args:
        devices: How many of those that JAX has in this process; a list of their numbers or of devices of JAX; or "all".
            None is the one that `jax.default_device` names, else the first.

    Raises:
        NetworkError: There are fewer, or it is something else.
    """
    if devices is None:
        return [local_device()]
    return [cuda_device(number) for number in _numbers(devices, _of_jax() or range(number_of_gpus()))]


def _of_jax() -> list[int]:
    """Return the numbers of the GPUs that JAX has in this process: others may be those of other processes."""
    try:
        return [int(device.local_hardware_id) for device in jax.local_devices(backend="gpu")]
    except RuntimeError:  # JAX has none
        return []


def _numbers(devices: Any, there: Sequence[int]) -> list[int]:
    """Return the numbers of GPUs, of those that are there."""
    if isinstance(devices, str) and devices == "all":
        numbers = list(there)
    elif is_integer(devices):
        if not 1 <= devices <= len(there):
            raise NetworkError(f"build: devices is {devices}, and this process has {_counted(len(there))}; {_PASS}")
        numbers = list(there[:devices])
    elif isinstance(devices, str) or not isinstance(devices, Iterable):
        raise NetworkError(f"build: devices is {devices!r}; {_PASS}")
    else:
        numbers = [_number(device) for device in devices]
    for number in numbers:
        if number not in there:
            numbered = (
                "numbered from 0" if list(there) == list(range(len(there))) else f"numbers {', '.join(map(str, there))}"
            )
            raise NetworkError(
                f"build: devices has GPU {number}, and this process has {_counted(len(there))}, {numbered}; {_PASS}"
            )
        if numbers.count(number) > 1:
            raise NetworkError(f"build: devices has GPU {number} {numbers.count(number)} times; name each once")
    if not 1 <= len(numbers) <= MOST_GPUS:
        raise NetworkError(f"build: devices has {_counted(len(numbers))}; pass 1 to {MOST_GPUS}")
    return numbers


def _number(device: Any) -> int:
    """Return the number of a GPU, which may be a device of JAX."""
    if is_integer(device):
        return int(device)
    if getattr(device, "platform", None) != "gpu":
        raise NetworkError(f"build: devices has {device!r}, which is no GPU; {_PASS}")
    return int(device.local_hardware_id)


def _check_alike(devices: list[CudaDevice]) -> None:
    """Raise if GPUs differ in what the kernel is made for."""
    first = devices[0]
    for other in devices[1:]:
        for what, named in (
            ("name", "the name"),
            ("capability", "the compute capability"),
            ("multiprocessors", "the number of multiprocessors"),
            ("shared_bytes", "the shared memory of a block"),
        ):
            if getattr(first, what) != getattr(other, what):
                raise NetworkError(
                    f"build: {gpu_name(first)} and {gpu_name(other)} differ in {named}, {getattr(first, what)} and "
                    f"{getattr(other, what)}; pass devices= with GPUs of one kind"
                )


def _open(one: CudaDevice, other: CudaDevice) -> None:
    """Let a GPU use the memory of another one, or raise."""
    why = ""
    try:
        if one.opened(other):
            return
    except KernelLoadError as error:
        why = f": {error}"
    raise NetworkError(
        f"build: {gpu_name(one)} cannot use the memory of {gpu_name(other)}, so one network cannot run on both; pass "
        f"devices= with GPUs that can (nvidia-smi topo -p2p r lists them){why}"
    )


def _counted(number: int) -> str:
    return f"{number or 'no'} GPU{'' if number == 1 else 's'}"
