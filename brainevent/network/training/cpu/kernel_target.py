# SPDX-License-Identifier: Apache-2.0
"""A kernel that is compiled when a program that runs it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from ....ffi.call import NativeTarget
from ...placed import OnCpu

__all__ = ["KernelTarget"]


@dataclass(frozen=True)
class KernelTarget(OnCpu):
    """One of the kernels that a function compiles by title."""

    title: str
    compiled: Callable[[str], NativeTarget]

    platforms: ClassVar[tuple[str, ...]] = ("cpu",)

    def on(self, platform: str) -> NativeTarget:
        """Return the target."""
        return self.compiled(self.title)
