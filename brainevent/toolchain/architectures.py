# SPDX-License-Identifier: Apache-2.0
"""Choose the GPUs to compile for."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Sequence

from .. import config
from .._capabilities import capabilities
from ..errors import GpuArchDetectionError, UnsupportedArchError
from . import probe

__all__ = ["gpu_architectures", "least_architecture"]

_ARGUMENT = "compute_capability"
_SETTER = "config.set_compute_capability"
_VARIABLE = "$BRAINEVENT_COMPUTE_CAPABILITIES"
_OLDEST = 2


def gpu_architectures(
    value: str | float | Sequence[str | float] | None, devices: Callable[[], Sequence[str]]
) -> tuple[str, ...]:
    """Return ("8.0", "9.0a"): from the argument, the setting, the environment, the devices, or nvidia-smi.

    `devices` returns the compute capabilities of the GPUs of this machine; it may raise, or find none.
    """
    for where, given in (
        (_ARGUMENT, value),
        (_SETTER, config.get_compute_capability()),
        (_VARIABLE, os.environ.get(_VARIABLE[1:]) or None),
    ):
        if given is not None:
            return _in_order(capabilities(given, where), where)
    tried = [f"{_ARGUMENT}, {_SETTER} and {_VARIABLE}: not set"]
    for where, ask in (("devices", devices), ("nvidia-smi", _nvidia_smi)):
        try:
            asked = list(ask())
            found = capabilities(asked, where) if asked else []
        except Exception as error:  # noqa: BLE001 - a driver that does not answer leaves others to ask
            tried.append(f"{where}: {str(error).removeprefix(f'{where}: ') or type(error).__name__}")
            continue
        if found:
            return _in_order(found, where)
        tried.append(f"{where}: no GPU")
    raise GpuArchDetectionError(
        "[E-ARCH] no GPU to compile for is known. Tried:\n"
        + "".join(f"  {line}\n" for line in tried)
        + f"Name it: call brainevent.{_SETTER}('8.6'), or set the variable {_VARIABLE[1:]}=8.6; "
        f"the loaders of CUDA C++ take {_ARGUMENT}='8.6', too"
    )


def least_architecture(devices: Callable[[], Sequence[str]]) -> str:
    """Return the lowest of the architectures to compile for: PTX for it runs on all of them."""
    return gpu_architectures(None, devices)[0]


def _in_order(capabilities: list[str], where: str) -> tuple[str, ...]:
    """Sort by number: 9.0, 9.0a, 10.0."""
    for one in capabilities:
        major, minor = one.split(".")
        if int(major) < _OLDEST:
            raise UnsupportedArchError(
                f"{where}: no CUDA compiler knows the compute capability {one}; "
                f"if you mean {major}{minor[0]}.0, write '{major}{minor[0]}.0'"
            )

    def number(one: str) -> tuple[int, str]:
        digits = re.sub(r"\D", "", one)
        return int(digits), one

    return tuple(sorted(set(capabilities), key=number))


def _nvidia_smi() -> Sequence[str]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        raise probe.NoAnswerError("not on PATH")
    command = [tool, "--query-gpu=compute_cap", "--format=csv,noheader"]
    said = probe.recall(tool, command[1:], lambda: probe.Said(probe.run(command)), memo=None)
    return [line.strip() for line in said.version.splitlines() if line.strip()]
