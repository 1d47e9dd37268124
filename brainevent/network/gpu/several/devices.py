# SPDX-License-Identifier: Apache-2.0
"""`chosen_devices`: the GPUs that `build(devices=...)` names, if one network can run on all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ....errors import NetworkError
from ...description.checks import is_integer
from ..device import CudaDevice, cuda_device, number_of_gpus

__all__ = ["MOST_GPUS", "chosen_devices"]

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
    numbers = _numbers(devices, number_of_gpus())
    found = [cuda_device(number) for number in numbers]
    _check_alike(found)
    for one in found:
        for other in found:
            if one is not other and not one.opened(other):
                raise NetworkError(
                    f"build: {_said(one)} cannot use the memory of {_said(other)}, so one network cannot run on both; "
                    "pass devices= with GPUs that can (nvidia-smi topo -p2p r lists them)"
                )
    return found


def _numbers(devices: Any, there: int) -> list[int]:
    """Return the numbers of GPUs, of which so many are there."""
    if isinstance(devices, str) and devices == "all":
        numbers = list(range(there))
    elif is_integer(devices):
        if not 1 <= devices <= there:
            raise NetworkError(f"build: devices is {devices}, and this process has {_counted(there)}; {_PASS}")
        numbers = list(range(devices))
    elif isinstance(devices, str) or not isinstance(devices, Iterable):
        raise NetworkError(f"build: devices is {devices!r}; {_PASS}")
    else:
        numbers = [_number(device) for device in devices]
    for number in numbers:
        if not 0 <= number < there:
            raise NetworkError(
                f"build: devices has GPU {number}, and this process has {_counted(there)}, numbered from 0; {_PASS}"
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
                    f"build: {_said(first)} and {_said(other)} differ in {named}, {getattr(first, what)} and "
                    f"{getattr(other, what)}; pass devices= with GPUs of one kind"
                )


def _said(device: CudaDevice) -> str:
    return f"GPU {device.number} ({device.name})"


def _counted(number: int) -> str:
    return f"{number or 'no'} GPU{'' if number == 1 else 's'}"
