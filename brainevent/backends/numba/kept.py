# SPDX-License-Identifier: Apache-2.0
"""Compiled handlers as object code: loaded, cached by content for later processes, and exported with programs."""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import platform
import re
import struct
import sys
import warnings
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np

from ... import config
from ..._content import Content
from ...errors import KernelToolchainError, UnsupportedOperationError
from ...ffi import frame, pulse
from ...ffi.portable import pack
from ...toolchain import cache
from ...toolchain.directory import UnwritableError
from . import runtime
from .internals import (
    add_object_code,
    compiler_lock,
    local_reason,
    object_code,
    objects_of,
    objects_of_text,
    processor,
    settings,
    text_of_objects,
    threads_in,
)
from .uninterrupted import uninterrupted

__all__ = ["address_of", "carry", "load", "payload_of"]

_FORMAT = 2  # of what is kept
_PACKAGE = Path(__file__).parents[2]
_warned: set[str] = set()
_alive: list[Any] = []  # arrays that code points to, which lives as long as the process
# Our own code that determines a handler, besides the kernel.
_MACHINERY = ("_content", "backends/numba", "ffi/call.py", "ffi/frame.py", "ffi/portable.py", "ffi/pulse.py")
_SYMBOL = struct.Struct("<IBBHQQ")  # Elf64_Sym: name, info, other, section, value, size


class MissingSymbolsError(Exception):
    """Code calls functions that this process does not have."""


class LocalError(Exception):
    """Code works only in the process in which it was compiled."""


class Boxing(dict[str, list[Any]]):
    """The objects from which code makes Python's values, for messages and prints, by the name of a pointer."""

    @classmethod
    def of(cls, module: llvm.ModuleRef, name: str) -> Boxing:
        """Return the objects that a module of the handler `name` needs, which was compiled in this process."""
        return cls(objects_of(module, name))

    def written(self) -> dict[str, str]:
        """Return it as text, or raise `LocalError`."""
        try:
            return {
                pointer: base64.b64encode(text_of_objects(objects)).decode() if objects else ""
                for pointer, objects in self.items()
            }
        except Exception as error:  # whatever the objects raise
            raise LocalError(f"it creates Python objects from values that cannot be stored ({error})") from error

    @classmethod
    def read(cls, text: Mapping[str, str]) -> Boxing:
        """Return what was written."""
        return cls({name: objects_of_text(base64.b64decode(word)) if word else [] for name, word in text.items()})


@dataclass(frozen=True)
class ObjectCode:
    """A handler's object code, with the objects for Python's values: pointers to fill in when it is loaded."""

    name: str
    boxing: Boxing
    code: bytes

    @classmethod
    def of(cls, module: llvm.ModuleRef, name: str, boxing: Boxing | None = None) -> ObjectCode:
        """Make code for this processor of a module that holds the handler `name`."""
        return cls(name, Boxing.of(module, name) if boxing is None else boxing, object_code(module))

    def packed(self) -> bytes:
        """Return it in the format of the cache, or raise `LocalError`."""
        header = json.dumps({"name": self.name, "boxing": self.boxing.written()})
        return header.encode() + b"\n" + zlib.compress(self.code, 1)

    @classmethod
    def unpacked(cls, content: bytes) -> ObjectCode:
        """Return the object from this format."""
        line, code = content.split(b"\n", 1)
        header = json.loads(line)
        return cls(header["name"], Boxing.read(header["boxing"]), zlib.decompress(code))

    @compiler_lock  # type: ignore[untyped-decorator]
    def load(self) -> int:
        """Return the handler's address, or raise `MissingSymbolsError`."""
        reference = llvm.ObjectFileRef.from_data(self.code)
        wanted = _undefined(reference)
        with uninterrupted():
            runtime.prepare()
            if runtime.ENTER_PARALLEL in wanted or threads_in(wanted):
                runtime.prepare_parallel()
            if pulse.SYMBOL in wanted:
                pulse.prepare(llvm.address_of_symbol(runtime.REPORT))
        address, missing = add_object_code(reference, self.name, wanted, self.boxing)
        if missing:
            raise MissingSymbolsError(", ".join(missing))
        return address


def _undefined(reference: llvm.ObjectFileRef) -> list[str]:
    """Return the names that an object file uses but does not define."""
    sections = {section.name(): section.data() for section in reference.sections()}
    names = sections[b".strtab"]
    symbols = _SYMBOL.iter_unpack(sections[b".symtab"])
    wanted = [name for name, _, _, section, _, _ in symbols if name and not section]
    return [names[start : names.index(b"\0", start)].decode() for start in wanted]


def address_of(name: str, title: str, content: Content, compile_: Callable[[], llvm.ModuleRef]) -> int:
    """Return the address of the handler `name`: loaded from the cache, or compiled, loaded and stored there."""
    made: list[ObjectCode] = []

    def made_once() -> ObjectCode:
        if not made:
            module = compile_()
            made.append(ObjectCode.of(module, name))
            if reason := local_reason(module):
                _alive.append(content.large)
                raise LocalError(reason)
        return made[0]

    def build(folder: Path) -> Path:
        (folder / "code").write_bytes(made_once().packed())
        return folder / "code"

    if content.opaque or content.fleeting or not config.get_numba_cache():
        _alive.append(content.large)
        return ObjectCode.of(compile_(), name).load()
    try:
        kept = cache.read(_file_name(title), _key(name, content), build, suffix=".numba")
        return (made[0] if made else ObjectCode.unpacked(kept)).load()
    except (MissingSymbolsError, KernelToolchainError, LocalError) as error:  # not from the cache, or not into it
        _warn(error)
        return (made[0] if made else ObjectCode.of(compile_(), name)).load()


def payload_of(name: str, title: str, content: Content, carry: Callable[[], np.ndarray]) -> np.ndarray:
    """Return the handler `name` for an exported program: from the cache, or made and stored there."""

    def build(folder: Path) -> Path:
        (folder / "payload").write_bytes(carry().tobytes())
        return folder / "payload"

    if content.opaque or content.fleeting or not config.get_numba_cache():
        return carry()
    try:
        return np.frombuffer(cache.read(_file_name(title), _key(name, content), build, suffix=".numba"), np.uint8)
    except KernelToolchainError as error:  # the cache cannot be used
        _warn(error)
        return carry()


def _warn(error: Exception) -> None:
    """Warn once that nothing is stored, with the reason; a cache that cannot be written warns by itself."""
    if isinstance(error, KernelToolchainError) and not isinstance(error, UnwritableError) and str(error) not in _warned:
        _warned.add(str(error))
        warnings.warn(f"compiled Numba kernels are not stored: {error}", RuntimeWarning, stacklevel=2)


def _file_name(title: str) -> str:
    return "numba_" + re.sub("[^A-Za-z0-9_]+", "", title)[:80]


def _key(name: str, content: Content) -> str:
    """Return the hash of all that must be equal to load the code, including the source lines in exceptions."""
    return hashlib.sha256(f"{name} {content.places} {_environment()}".encode()).hexdigest()


def _environment() -> str:
    return json.dumps([_FORMAT, *_machine(), settings()], sort_keys=True)


@functools.cache
def _machine() -> tuple[str, ...]:
    ours = hashlib.sha256()
    for path in map(_PACKAGE.joinpath, _MACHINERY):
        for file in sorted(path.glob("*.py")) if path.is_dir() else (path,):
            ours.update(file.read_bytes())
    versions = (sys.version, numba.__version__, llvmlite.__version__, llvm.llvm_version_info, frame.api_version())
    return (*map(str, versions), *processor(), ours.hexdigest())


def carry(module: llvm.ModuleRef, name: str, title: str, opaque: str | None) -> np.ndarray:
    """Pack the handler `name`, and all that it calls, for an exported program, unless a part is `opaque`."""
    reason = None
    if local := local_reason(module):
        reason = f"{local}, which exists only in this process"
    elif opaque:
        reason = (
            f"it uses {opaque}, whose content another process cannot identify; pass its data as "
            "operands, or as numbers and tuples"
        )
    try:
        boxing = Boxing.of(module, name).written()
    except LocalError as error:
        reason = reason or str(error)
    if reason:
        raise UnsupportedOperationError(f"the Numba kernel {title!r} cannot be exported: {reason}")
    return pack("numba", {"name": name, "boxing": boxing, **_versions()}, module.as_bitcode())


def _versions() -> dict[str, str]:
    """Return the versions that must be equal where bitcode is loaded."""
    return {"machine": platform.machine(), "system": platform.system(), "numba": numba.__version__}


def load(header: dict[str, Any], code: bytes) -> int:
    """Return the address of an exported handler."""
    for what, here in _versions().items():
        if header[what] != here:
            raise RuntimeError(
                f"its Numba kernels were compiled for {what} {header[what]}, and this is {here}; export it again here"
            )
    return ObjectCode.of(llvm.parse_bitcode(code), header["name"], Boxing.read(header["boxing"])).load()
