# SPDX-License-Identifier: Apache-2.0
"""Kernels for GPUs and TPUs as kernels for the CPU, where their language can be emulated."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .. import config
from ..errors import BrainEventError, KernelCompilationError, KernelNotAvailableError
from ..languages import Language, language
from .entry import KernelEntry

__all__ = ["EmulatedGenerator", "advice", "emulated_entries", "explained"]

Kernels = Mapping[str, Mapping[str, KernelEntry]]  # of an operator, by platform and backend

_PLATFORMS = ("cuda", "gpu", "tpu")  # whose kernels are emulated, in this order


@dataclass(frozen=True)
class EmulatedGenerator:
    """The kernel generator of another platform, whose kernel an emulator runs."""

    generator: Callable[..., Callable[..., Any]]
    language: Language
    platform: str

    @property
    def __wrapped__(self) -> tuple[Any, ...]:  # its parts, for its name by content
        return self.generator, self.language.name, self.platform

    def __call__(self, **kwargs: Any) -> Any:
        """Build the kernel as its own platform would, to run in the emulator."""
        if why := self.language.why_not_emulated():
            raise KernelNotAvailableError(
                f"{self.language.title} cannot be emulated by {self.language.emulator}: {why}"
            )
        return self.language.emulated(self.generator)(**kwargs)


def emulated_entries(kernels: Kernels, defaults: Mapping[str, str]) -> dict[str, KernelEntry]:
    """Return the kernels that programs for the CPU may run besides those for the CPU; none unless emulating.

    Those for the GPU come first, the GPU's default before others. A Pallas kernel for the TPU is called "pallas_tpu"
    if there is one for the GPU too.
    """
    found: dict[str, KernelEntry] = {}
    if not config.emulates():
        return found
    for entry, row in _foreign(kernels, defaults):
        if row is None or row.emulator is None:
            continue
        name = f"{entry.backend}_tpu" if entry.platform == "tpu" and entry.backend in found else entry.backend
        generator = EmulatedGenerator(entry.kernel_generator, row, entry.platform)
        found.setdefault(name, dataclasses.replace(entry, backend=name, kernel_generator=generator))
    return found


def _foreign(kernels: Kernels, defaults: Mapping[str, str]) -> Iterator[tuple[KernelEntry, Language | None]]:
    for platform in _PLATFORMS:
        table, default = kernels.get(platform, {}), defaults.get(platform)
        for name in sorted(table, key=lambda name: name != default):
            yield table[name], language(table[name].language)


def advice(kernels: Kernels, defaults: Mapping[str, str], platform: str, backend: str | None) -> str:
    """Return advice on emulation if the CPU has no kernel, or not the requested one."""
    if platform != "cpu":
        return ""
    wanted = [(entry, row) for entry, row in _foreign(kernels, defaults) if backend in (None, entry.backend)]
    for entry, row in wanted:
        if row is not None and row.emulator is not None:
            kernel = f"its {entry.platform} kernel {entry.backend!r}"
            return f"; or call brainevent.config.emulate() to run {kernel} on the CPU"
    named = [f"its {entry.platform} kernel {entry.backend!r} ({row.title})" for entry, row in wanted if row is not None]
    return f"; {named[0]} cannot be emulated on the CPU" if named else ""


@contextlib.contextmanager
def explained(operator: str, entry: KernelEntry) -> Iterator[None]:
    """Explain an error of an emulator as a limit of the emulator."""
    try:
        yield
    except BrainEventError:
        raise
    except Exception as error:
        emulated = entry.kernel_generator
        if not isinstance(emulated, EmulatedGenerator):
            raise
        raise KernelCompilationError(
            f"operator {operator!r}: {emulated.language.emulator} cannot run the {entry.platform} kernel "
            f"{entry.backend!r} on the CPU:\n  {type(error).__name__}: {error}\nIt does not support all features of a "
            f"{entry.platform.upper()}: run this kernel there, and give the operator a kernel for the CPU, or a "
            "jax.numpy one with def_reference(fn)"
        ) from error
