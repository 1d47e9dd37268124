# SPDX-License-Identifier: Apache-2.0
"""`Device`: what kernels of training need to know of a GPU, and the compiler of their text."""

from __future__ import annotations

import functools
import threading
from typing import Protocol

from ....backends.nvrtc.clusters import most_clusters
from ....backends.nvrtc.compiler import compiled
from ....backends.nvrtc.translation_unit import OwnText
from ....ffi.devices import cuda_capabilities, cuda_multiprocessors
from ....ffi.launch import Limits
from ....scalar.cuda_text import NVRTC_OPTIONS
from ....toolchain.architectures import gpu_architectures

__all__ = ["Device", "Gpu", "gpu"]

_CLUSTERS = 9.0  # the first compute capability of GPUs with clusters
_WHOLE = "9.0a"  # copies to all blocks of a cluster are fast in code for this


class Device(Protocol):
    """What runs kernels of training."""

    words: str | None  # in which kernels are written, None for those of a GPU
    on_host: bool

    @property
    def shared_bytes(self) -> int:
        """How many bytes of shared memory a block has at most."""

    def at_once(self, blocks: int) -> int:
        """Return how many clusters of this number of blocks run at the same time; 0 if there are none."""

    def code(self, text: str, entry: str) -> tuple[bytes, str]:
        """Compile a text; return the binary of a launch plan, and the name of the kernel in it."""


class Gpu:
    """The GPUs that JAX has here, or those that code is compiled for."""

    words: str | None = None
    on_host = False

    def __init__(self, architectures: tuple[str, ...]):
        self.architectures = (_WHOLE,) if architectures == ("9.0",) else architectures
        self._codes: dict[str, bytes] = {}
        self._lock = threading.Lock()

    @property
    def shared_bytes(self) -> int:
        """How many bytes of shared memory a block has at most."""
        return Limits.of(self.architectures[0]).shared

    def at_once(self, blocks: int) -> int:
        """Return how many clusters of this number of blocks run at the same time; 0 if there are none."""
        if blocks == 1:
            return cuda_multiprocessors()
        has_clusters = float(self.architectures[0].rstrip("abcdefghijklmnopqrstuvwxyz")) >= _CLUSTERS
        return most_clusters(blocks) if has_clusters else 0

    def code(self, text: str, entry: str) -> tuple[bytes, str]:
        """Compile a text, unless it is kept."""
        with self._lock:
            if text not in self._codes:
                unit = OwnText(entry, text, ("--std=c++17", *NVRTC_OPTIONS))
                self._codes[text] = compiled(f"training kernel {entry}", unit, self.architectures).binary
        return self._codes[text], entry


@functools.cache
def _gpu(architectures: tuple[str, ...]) -> Gpu:
    return Gpu(architectures)


def gpu() -> Gpu:
    """Return the GPUs for which code is being compiled."""
    return _gpu(gpu_architectures(None, cuda_capabilities))
