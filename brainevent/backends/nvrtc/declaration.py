# SPDX-License-Identifier: Apache-2.0
"""Find a kernel in a CUDA C++ text, and read the names of its parameters."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from ...errors import KernelArgumentError, did_you_mean
from ...toolchain.parameters import CppParameter, read_parameters
from ...toolchain.scan import scan
from ...toolchain.signature import Declarator, declarators

__all__ = ["Declaration", "find_declaration"]

_ENTRY = re.compile(
    r"(?:::)?(?P<path>[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*)\s*(?P<arguments><[\w\s:,<>*&.+()-]*>)?", re.ASCII
)


@dataclass(frozen=True)
class Declaration:
    """A kernel as its source declares it; `entry` is its name as C++ takes it, such as "scale<float>"."""

    entry: str
    name: str
    parameters: tuple[CppParameter, ...]

    def __str__(self) -> str:
        return f"__global__ void {self.name}({', '.join(map(str, self.parameters))})"


@functools.lru_cache(maxsize=256)
def find_declaration(where: str, source: str, entry: str) -> Declaration:
    """Return the declaration of the kernel that `entry` names, or raise."""
    match = _ENTRY.fullmatch(entry)
    if match is None:
        raise KernelArgumentError(
            f"{where}: entry is {entry!r}; pass the name of a kernel, such as 'add', or of an instance of a template, "
            "such as 'scale<float>'"
        )
    kernels: dict[str, list[Declarator]] = {}
    for found in declarators(scan(source).code):
        if "__global__" in found.marks and not found.name.startswith("__"):  # __launch_bounds__(256) is not a kernel
            kernels.setdefault("::".join(filter(None, (found.namespace, found.name))), []).append(found)
    path = match["path"]
    ends = [name for name in kernels if path == name or path.endswith(f"::{name}")]
    name = max(ends, key=len, default=None)
    if name is None:
        raise KernelArgumentError(_not_found(where, path, list(kernels)))
    _check_template(where, name, bool(match["arguments"]), kernels[name])
    return Declaration(entry.strip(), name, _parameters(where, name, kernels[name]))


def _parameters(where: str, name: str, found: list[Declarator]) -> tuple[CppParameter, ...]:
    """Read the parameters of a kernel, which may be declared before it is defined."""
    lists = [read_parameters(each.words) for each in found]
    if pack := next((str(each) for parameters in lists for each in parameters if "..." in each.declared), None):
        raise KernelArgumentError(
            f"{where}: the parameter `{pack}` of {name!r} is a parameter pack; declare each parameter separately"
        )
    counts = sorted({len(parameters) for parameters in lists})
    if len(counts) > 1:
        raise KernelArgumentError(
            f"{where}: there are several kernels {name!r}, with {' and '.join(map(str, counts))} parameters (all "
            "branches of an #if count); give each its own name"
        )
    places = [sorted(place, key=lambda each: not each.name) for place in zip(*lists, strict=True)]
    for place in places:
        if len(names := dict.fromkeys(each.name for each in place if each.name)) > 1:
            raise KernelArgumentError(
                f"{where}: the kernel {name!r} is declared several times, with different names for one parameter: "
                f"{' and '.join(map(repr, names))}; use one name"
            )
    return tuple(place[0] for place in places)


def _not_found(where: str, path: str, kernels: list[str]) -> str:
    known = f"it has: {', '.join(kernels)}" if kernels else "it has none"
    return (
        f"{where}: the source has no kernel {path!r}{did_you_mean(path, kernels)}; {known}. Write `__global__ void "
        f"{path.rpartition('::')[2]}(...)`, outside of macros"
    )


def _check_template(where: str, name: str, has_arguments: bool, found: list[Declarator]) -> None:
    is_template = any("template" in each.marks for each in found)
    if is_template and not has_arguments:
        raise KernelArgumentError(f"{where}: {name!r} is a template; name an instance, such as entry='{name}<float>'")
    if has_arguments and not is_template:
        raise KernelArgumentError(f"{where}: {name!r} is not a template; name it without <...>")
