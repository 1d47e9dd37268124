# SPDX-License-Identifier: Apache-2.0
"""What machine code says of itself: the GPU that it is for, its entries, and the sizes of their parameters."""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import KernelArgumentError, UnsupportedArchError, did_you_mean

__all__ = ["Code", "Entry", "capability", "chosen", "read"]

_ELF, _FATBIN = b"\x7fELF", (b"\x50\xed\x55\xba", b"\x50\xee\x55\xba")
_CUDA = 190  # the machine of an ELF file
_SECTION, _SYMBOL = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ")
_SYMBOLS, _FUNCTION, _IS_ENTRY = 2, 2, 0x10
_SIZED, _PARAMETER, _CLUSTER, _ALL_PARAMETERS = 4, 0x17, 0x3D, 0x19  # a value with its size; what it describes
_MOST_THREADS, _BLOCK = 0x05, 0x10
_OLD_ABI = 51  # of ELF files with the architecture in other bits

_TARGET = re.compile(r"^\s*\.target\s+sm_(\d+)([af]?)", re.MULTILINE)
_ENTRY = re.compile(r"\.entry\s+([\w$]+)\s*(?:\(([^)]*)\))?([^{;]*)")
_PARAM = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.([a-z]+)(\d+)(?:x2)?[^,\[]*?(?:\[(\d+)\])?\s*(?:,|$)")
_REQUIRED_CLUSTER, _REQUIRED_BLOCK, _LARGEST_BLOCK = (
    re.compile(rf"\.{name}\s+([\d,\s]+)") for name in ("reqnctapercluster", "reqntid", "maxntid")
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """A kernel: the bytes of its parameters in their order, None if the code does not say.

    Also the clusters and blocks that the code prescribes, and the most threads of a block: () and None if it does not.
    """

    name: str
    sizes: tuple[int, ...] | None
    cluster: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    most_threads: int | None = None


@dataclass(frozen=True)
class Code:
    """Machine code for GPUs from one compute capability on: the same major version, or all, if it is PTX."""

    binary: bytes = field(repr=False)
    origin: str
    capability: tuple[int, int]
    is_ptx: bool
    entries: tuple[Entry, ...]
    only: str = ""  # "a": for this compute capability alone; "f": for its major version

    @property
    def title(self) -> str:
        """What it is, for messages."""
        major, minor = self.capability
        return f"{'PTX' if self.is_ptx else 'a cubin'} for compute capability {major}.{minor}{self.only}"

    def runs_on(self, capability: tuple[int, int]) -> bool:
        """Return whether a GPU can run it."""
        if self.only == "a":
            return self.capability == capability
        in_family = self.is_ptx and not self.only
        return self.capability <= capability and (in_family or self.capability[0] == capability[0])

    def entry(self, where: str, name: str | None) -> Entry:
        """Return the kernel of that name, or the only one if no name is given."""
        if name is None and len(self.entries) == 1:
            return self.entries[0]
        found = next((entry for entry in self.entries if entry.name == name), None)
        if found is None:
            names = [entry.name for entry in self.entries]
            if name is None:
                raise KernelArgumentError(
                    f"{where}: {self.origin} has {len(names) or 'no'} kernels; pass the name of one as entry="
                    f"{': ' if names else ''}{', '.join(names)}"
                )
            raise KernelArgumentError(
                f"{where}: {self.origin} has no kernel {name!r}{did_you_mean(name, names)}; "
                f"there are: {', '.join(names) or 'none'}"
            )
        return found


def read(where: str, code: object) -> tuple[Code, ...]:
    """Return machine code of bytes, of a PTX text, of a file, or of several of these for several GPUs."""
    if isinstance(code, Sequence) and not isinstance(code, (str, bytes, bytearray)):
        found = tuple(one for given in code for one in read(where, given))
        if not found:
            raise KernelArgumentError(f"{where}: code is empty; pass a cubin, PTX, or the path of a file with one")
        return found
    if isinstance(code, (bytes, bytearray)):
        return (_of_bytes(where, "the code", bytes(code)),)
    if isinstance(code, str) and (".entry" in code or "\n" in code):
        return (_of_bytes(where, "the code", code.encode()),)
    if isinstance(code, (str, os.PathLike)):
        try:
            return (_of_bytes(where, f"{os.fspath(code)}", Path(code).read_bytes()),)
        except OSError as error:
            raise KernelArgumentError(
                f"{where}: the file {os.fspath(code)!r} cannot be read: {error.strerror}"
            ) from None
    raise KernelArgumentError(
        f"{where}: code is {type(code).__name__}; pass a cubin as bytes, PTX as a text, or the path of a file"
    )


def capability(architecture: str) -> tuple[int, int]:
    """Return (9, 0) for "9.0" and for "9.0a"."""
    major, _, minor = architecture.partition(".")
    return int(major), int(minor.rstrip("abcdefghijklmnopqrstuvwxyz") or 0)


def chosen(where: str, codes: Iterable[Code], capabilities: Sequence[tuple[int, int]]) -> Code:
    """Return the best code that runs on GPUs of all of these compute capabilities: a cubin for the newest, else PTX."""
    codes = list(codes)
    fitting = [code for code in codes if all(map(code.runs_on, capabilities))]
    if not fitting:
        here = ", ".join(f"{major}.{minor}" for major, minor in capabilities)
        raise UnsupportedArchError(
            f"{where}: the GPU here has compute capability {here}, and there is only "
            f"{', '.join(code.title for code in codes)}; compile it for {here}, or to PTX for an older one"
        )
    return max(fitting, key=lambda code: (not code.is_ptx, code.capability))


def _of_bytes(where: str, origin: str, content: bytes) -> Code:
    if content.startswith(_ELF):
        try:
            return _of_cubin(origin, content)
        except (struct.error, IndexError, ValueError, UnicodeDecodeError):
            raise KernelArgumentError(f"{where}: {origin} is damaged: it begins as an ELF file, and is none") from None
    if content.startswith(_FATBIN):
        raise KernelArgumentError(
            f"{where}: {origin} is a fat binary; extract a cubin of it (cuobjdump --extract-elf all), or compile to "
            "one (nvcc --cubin -arch=sm_90)"
        )
    try:
        text = content.decode().rstrip("\0")
    except UnicodeDecodeError:
        text = ""
    if ".version" in text and ".target" in text:
        return _of_ptx(origin, text)
    raise KernelArgumentError(f"{where}: {origin} is neither a cubin nor PTX; compile with nvcc --cubin, or --ptx")


# ---- cubins: ELF files -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Section:
    name: str
    kind: int
    content: bytes
    link: int


def _of_cubin(origin: str, content: bytes) -> Code:
    (machine,) = struct.unpack_from("<H", content, 18)
    if content[4] != 2 or machine != _CUDA:
        raise ValueError("not for CUDA")
    (flags,) = struct.unpack_from("<I", content, 48)
    number = flags & 0xFF if content[7] == _OLD_ABI else flags >> 8 & 0xFF
    sections = list(_sections(content))
    infos = {section.name: section.content for section in sections}
    entries = tuple(_entry(name, infos.get(f".nv.info.{name}", b"")) for name in _names(sections))
    return Code(content, origin, divmod(number, 10), False, entries)


def _sections(content: bytes) -> Iterator[_Section]:
    (start,) = struct.unpack_from("<Q", content, 40)
    number, names = struct.unpack_from("<HH", content, 60)
    rows = [_SECTION.unpack_from(content, start + k * _SECTION.size) for k in range(number)]
    texts = content[rows[names][4] : rows[names][4] + rows[names][5]]
    for name, kind, _, _, at, size, link, *_ in rows:
        has_content = kind != 8  # SHT_NOBITS
        yield _Section(_text(texts, name), kind, content[at : at + size] if has_content else b"", link)


def _text(texts: bytes, at: int) -> str:
    return texts[at : texts.index(b"\0", at)].decode()


def _names(sections: Sequence[_Section]) -> Iterator[str]:
    """Yield the names of the functions that may be launched."""
    for section in sections:
        if section.kind == _SYMBOLS:
            texts = sections[section.link].content
            for name, info, other, *_ in _SYMBOL.iter_unpack(section.content):
                if info & 0xF == _FUNCTION and other & _IS_ENTRY:
                    yield _text(texts, name)


def _entry(name: str, info: bytes) -> Entry:
    parameters: dict[int, int] = {}
    cluster: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    total = most = None
    for kind, value in _attributes(info):
        if kind == _PARAMETER:
            _, ordinal, _, flags = struct.unpack("<IHHI", value)
            parameters[ordinal] = flags >> 18
        elif kind == _CLUSTER:
            cluster = struct.unpack("<3I", value)
        elif kind == _BLOCK:
            block = struct.unpack("<3I", value)
        elif kind == _MOST_THREADS:
            most = math.prod(struct.unpack("<3I", value))
        elif kind == _ALL_PARAMETERS:
            total = int.from_bytes(value, "little")
    sizes = tuple(parameters[k] for k in sorted(parameters))
    is_whole = sorted(parameters) == list(range(len(parameters))) and (bool(parameters) or total in (None, 0))
    return Entry(name, sizes if info and is_whole else None, cluster, block, most)


def _attributes(info: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield what is said of a kernel: values of two bytes, or with their size."""
    at = 0
    while at < len(info):
        form, kind, size = struct.unpack_from("<BBH", info, at)
        is_sized = form == _SIZED
        yield kind, info[at + 4 : at + 4 + size] if is_sized else info[at + 2 : at + 4]
        at += 4 + (size if is_sized else 0)


# ---- PTX -------------------------------------------------------------------------------------------------------------


def _of_ptx(origin: str, text: str) -> Code:
    plain = _COMMENT.sub(" ", text)
    target = _TARGET.search(plain)
    number = int(target.group(1)) if target else 0
    entries = []
    for name, parameters, more in _ENTRY.findall(plain):
        cluster, block, largest = (
            _extents(pattern, more) for pattern in (_REQUIRED_CLUSTER, _REQUIRED_BLOCK, _LARGEST_BLOCK)
        )
        entries.append(Entry(name, _ptx_sizes(parameters), cluster, block, math.prod(largest) if largest else None))
    return Code(
        text.encode() + b"\0", origin, divmod(number, 10), True, tuple(entries), target.group(2) if target else ""
    )


def _extents(pattern: re.Pattern[str], directives: str) -> tuple[int, ...]:
    found = pattern.search(directives)
    return (*(int(n) for n in found.group(1).split(",")), 1, 1)[:3] if found else ()


def _ptx_sizes(parameters: str) -> tuple[int, ...] | None:
    found = []
    for parameter in filter(None, map(str.strip, parameters.split(","))):
        match = _PARAM.match(parameter)
        if match is None:
            return None
        _, bits, number = match.groups()
        found.append(int(bits) // 8 * int(number or 1))
    return tuple(found)
