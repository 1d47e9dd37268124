# SPDX-License-Identifier: Apache-2.0
"""Find the tuned kernel for a call, by its types, the device, the content of kernels and versions."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import platform as machine
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from .._content import content_name
from .._system import cores
from .._version import __version__
from ..languages import language
from .entry import KernelEntry
from .variants import free_variants, label

if TYPE_CHECKING:
    from ..bench.tuning_store import TunedChoice

__all__ = ["CallTypes", "content_of", "device_of", "lowering_platform", "tuned_choice", "unlike_here",
           "versions_of", "with_tuned_variant"]  # fmt: skip

_MANY = 1024  # contents to keep
_contents: dict[Any, tuple[str, bool]] = {}
_lock = threading.Lock()


@dataclass(frozen=True)
class CallTypes:
    """The types of a call's operands and results, and its keyword arguments, to which a choice applies."""

    shapes: str  # in words
    params: str  # by content
    given: frozenset[str]  # the keywords that the call gives

    @classmethod
    def of(cls, operands: Sequence[Any], outs: Sequence[Any], params: Mapping[str, Any]) -> CallTypes:
        """Describe a call."""
        words = f"{_described(operands)} -> {_described(outs)}"
        words += "".join(f", {name}={params[name]!r:.40}" for name in sorted(params))
        return cls(words, content_name(dict(params)) if params else "", frozenset(params))


def _described(types: Sequence[Any]) -> str:
    return ", ".join(f"{x.dtype}{list(x.shape)}" for x in types) or "nothing"


def tuned_choice(
    operator: str, platform: str, table: Mapping[str, KernelEntry], call: CallTypes | None
) -> TunedChoice | None:
    """Return the choice of `tune` for such a call, or None."""
    from ..bench.tuning_store import (  # imported when the first kernel is chosen: the import stays light
        find,
        key_of,
        knows,
    )

    if call is None or not knows(operator) or (device := device_of(platform)) is None:
        return None
    content, _ = content_of(table)
    return find(key_of(operator, platform, device, call.shapes, versions_of(table.values()), content, call.params))


def with_tuned_variant(entry: KernelEntry, tuned: TunedChoice | None, call: CallTypes | None) -> KernelEntry:
    """Return the entry with its fastest variant first."""
    name = dict(tuned.variants).get(entry.backend) if tuned else None
    if not name or call is None:
        return entry
    variants = free_variants(entry.variants, call.given)
    best = next((variant for variant in variants if label(variant) == name), None)
    return entry if best is None else dataclasses.replace(entry, variants=(best, *variants))


def content_of(table: Mapping[str, KernelEntry]) -> tuple[str, bool]:
    """Return the content of all kernels of a table, and whether it is the same in other processes."""
    kernels = tuple((name, entry.kernel_generator, entry.variants) for name, entry in table.items())
    with suppress(TypeError):  # a generator that cannot be hashed is walked each time
        with _lock:
            known = _contents.get(kernels)
        if known is None:
            known = _named(kernels)
            with _lock:
                if len(_contents) >= _MANY:
                    _contents.clear()
                _contents[kernels] = known
        return known
    return _named(kernels)


def _named(kernels: Any) -> tuple[str, bool]:
    name = content_name(kernels, as_written=True)
    return name, name == content_name(kernels, as_written=True)  # an object without content gets a random name


@functools.cache
def _version(package: str) -> str:
    if package == "brainevent":
        return __version__
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def versions_of(entries: Iterable[KernelEntry]) -> str:
    """Return the versions that affect the speed of these kernels: those of their languages' compilers."""
    rows = filter(None, {language(entry.language) for entry in entries})
    packages = sorted({package for row in rows for package in row.packages})
    found = ((package, _version(package)) for package in ("brainevent", "jax", "jaxlib", *packages))
    return ", ".join(f"{package} {version}" for package, version in found if version)


def unlike_here(choice: TunedChoice) -> str:
    """Return the device and the versions of a choice that differ from the current ones."""
    found = [] if choice.device == device_of(choice.platform) else [choice.device]
    for package, _, version in (one.rpartition(" ") for one in choice.versions.split(", ")):
        if (here := _version(package)) != version:
            found.append(f"{package} {version} ({f'here {here}' if here else 'not here'})")
    return ", ".join(found)


def lowering_platform(device: jax.Device) -> str:
    """Return the name by which kernels for a device are lowered."""
    if device.platform != "gpu":
        return str(device.platform)
    return "rocm" if "rocm" in device.client.platform_version else "cuda"


@functools.cache
def device_of(platform: str) -> str | None:
    """Return the kind of device of a platform on this machine; None if there is none, or more than one."""
    try:
        devices = jax.local_devices(backend=platform)
    except RuntimeError:
        return None
    kinds = {device.device_kind for device in devices}
    if len(kinds) != 1:
        return None
    return _processor() if platform == "cpu" else str(kinds.pop())


def _processor() -> str:
    """Return the name of the processor, and how many of its cores this process may use."""
    name = machine.processor() or machine.machine()
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        lines = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
        name = lines[0] if lines else name
    return f"{name}, {cores()} cores"
