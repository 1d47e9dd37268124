# SPDX-License-Identifier: Apache-2.0
"""`Kernels`: those of one text, on one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .device import Device

__all__ = ["Kernels"]


class Kernels:
    """Kernels of a text on a device, for blocks of a number of threads; each is looked up once."""

    def __init__(self, device: Device, text: str, threads: int):
        self.device, self._text, self._threads = device, text, threads
        self._found: dict[str, Any] = {}

    def launch(self, entry: str, blocks: int, *structures: Any) -> None:
        """Run a kernel on structures."""
        parameters = [structure.tobytes() for structure in structures]
        self.device.launch(self._kernel(entry), blocks, self._threads, 0, parameters, at_once=False)

    def launcher(self, entry: str, blocks: int, *structures: Any) -> Callable[[], None]:
        """Return what runs a kernel whenever it is called, with what structures have in them then."""
        return self.device.launcher(self._kernel(entry), blocks, self._threads, 0, structures)

    def _kernel(self, entry: str) -> Any:
        if entry not in self._found:
            self._found[entry] = self.device.kernel(self._text, entry, 0)
        return self._found[entry]
