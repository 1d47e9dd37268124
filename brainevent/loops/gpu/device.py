# SPDX-License-Identifier: Apache-2.0
"""The GPU that loops are compiled for."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Protocol

from ...backends.nvrtc.compiler import compiled
from ...backends.nvrtc.translation_unit import OwnText
from ...ffi.devices import cuda_capabilities, cuda_multiprocessors
from ...scalar.cuda_text import NVRTC_OPTIONS
from ...toolchain.architectures import gpu_architectures

__all__ = ["Device", "Gpu", "text_of_file"]

_WITH_CLUSTERS = 9  # the first major compute capability with clusters


class Device(Protocol):
    """What compiles and runs the kernel of a loop."""

    @property
    def words(self) -> str:
        """What is defined before the text."""

    @property
    def on_host(self) -> bool:
        """Whether it is the CPU."""

    @property
    def blocks(self) -> int:
        """How many blocks run at once, at least."""

    @property
    def has_clusters(self) -> bool:
        """Whether blocks can be a cluster."""

    def code(self, text: str, entry: str) -> tuple[bytes, str]:
        """Return what a launch takes: a binary, and the name of the kernel in it."""


@functools.cache
def text_of_file(name: str) -> str:
    """Return a text of this folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


class Gpu:
    """An NVIDIA GPU: the first of this process, or a large one if there is none."""

    on_host = False

    @property
    def words(self) -> str:
        """The words of CUDA."""
        return text_of_file("prelude.cu")

    @property
    def blocks(self) -> int:
        """One for each multiprocessor."""
        return cuda_multiprocessors()

    @property
    def has_clusters(self) -> bool:
        """Whether all GPUs that code is compiled for have clusters."""
        least = gpu_architectures(None, cuda_capabilities)[0]
        return int(least.split(".", maxsplit=1)[0]) >= _WITH_CLUSTERS

    def code(self, text: str, entry: str) -> tuple[bytes, str]:
        """Compile with NVRTC."""
        unit = OwnText(entry, text, ("--std=c++17", *NVRTC_OPTIONS))
        code = compiled("fuse_loops", unit, gpu_architectures(None, cuda_capabilities))
        return code.binary, code.entry
