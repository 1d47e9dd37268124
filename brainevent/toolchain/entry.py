# SPDX-License-Identifier: Apache-2.0
"""One library in the cache: its place and its manifest; checked, opened and published."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from .directory import guard, is_ours, opened_base, writing
from .folders import move_in, new_file, sync, work_folder

__all__ = ["MANIFEST", "Kept", "Place", "listed", "look_up", "publish"]

_FORMAT = 1  # of the manifest
MANIFEST = "brainevent.json"
_LONGEST = 500  # a longer manifest is not ours, and may be nested deeply
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening follows no link and does not wait


@dataclass(frozen=True)
class Place:
    """The place of a library."""

    base: Path
    name: str
    key: str
    suffix: str

    @property
    def directory(self) -> Path:
        """The directory of the entry."""
        return self.base / f"{self.name}_{self.key}"

    @property
    def library(self) -> Path:
        """The file in it."""
        return self.directory / f"{self.name}{self.suffix}"

    def manifest(self, size: int, sha256: str) -> dict[str, object]:
        """Return the manifest of a library of this size and hash."""
        return {"format": _FORMAT, "name": self.name, "key": self.key, "bytes": size, "sha256": sha256}


@dataclass(frozen=True)
class Kept:
    """A library of the cache, open within the block of `opened`: its path may already be that of another file."""

    path: Path
    descriptor: int
    sha256: str  # as the manifest has it

    def read(self) -> bytes:
        """Return the content."""
        with open(os.dup(self.descriptor), "rb") as file:
            return os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0)


def look_up(place: Place) -> Kept | None:
    """Open the library if the cache has it completely."""
    try:
        with ExitStack() as opened:
            base = opened.enter_context(opened_base(place.base))
            entry = _enter(opened, place.directory.name, base)
            if not guard(place.directory, status=os.fstat(entry)):
                return None
            manifest = _parsed(os.read(_enter(opened, MANIFEST, entry), _LONGEST))
            library = _enter(opened, place.library.name, entry)
            sha256 = _checked(place, library, manifest)
            return None if sha256 is None else Kept(place.library, os.dup(library), sha256)
    except (OSError, ValueError):
        return None


def _enter(opened: ExitStack, name: str, directory: int) -> int:
    descriptor = os.open(name, _OPEN, dir_fd=directory)
    opened.callback(os.close, descriptor)
    return descriptor


def _checked(place: Place, library: int, manifest: dict[str, object]) -> str | None:
    """Return the hash of an open library if it agrees with the manifest."""
    status, seen = os.fstat(library), manifest.pop("seen", None)
    if not (stat.S_ISREG(status.st_mode) and is_ours(status)):
        return None
    sha256 = str(manifest.get("sha256"))
    if seen != _signature(status):  # hashing a megabyte takes a fifth of the time of a load
        with open(os.dup(library), "rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    return sha256 if manifest == place.manifest(status.st_size, sha256) else None


def _signature(status: os.stat_result) -> list[int]:
    """Return a value that changes with every change of a file, even with the same size and time."""
    return [status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def listed(place: Place) -> os.stat_result | None:
    """Return a library's status if it has a valid manifest, without reading its content."""
    try:
        with open(place.directory / MANIFEST, "rb") as file:
            manifest = _parsed(file.read(_LONGEST))
        status = place.library.lstat()
    except (OSError, ValueError):
        return None
    manifest.pop("seen", None)
    return status if manifest == place.manifest(status.st_size, str(manifest.get("sha256"))) else None


def _parsed(text: bytes) -> dict[str, object]:
    """Return the content of a manifest, or raise `ValueError`."""
    manifest = json.loads(text)
    return manifest if isinstance(manifest, dict) else {}


def publish(place: Place, library: Path) -> Kept:
    """Copy a library into the cache atomically, and open it."""
    with writing(place.base), work_folder(place.base) as prepared:
        sha256 = hashlib.sha256()
        # Always a copy: the compiler's file may have other links, and a mapped file must not be written to.
        with open(library, "rb") as source, new_file(prepared / place.library.name, 0o700) as copy:
            while chunk := source.read(1 << 20):
                sha256.update(chunk)
                copy.write(chunk)
            size = copy.tell()
        kept = Kept(place.library, os.open(prepared / place.library.name, _OPEN), sha256.hexdigest())
        try:
            seen = {"seen": _signature(os.fstat(kept.descriptor))}
            with new_file(prepared / MANIFEST, 0o600) as file:
                file.write(json.dumps(place.manifest(size, kept.sha256) | seen).encode())
            sync(prepared)
            move_in(prepared, place.directory)
            sync(place.base)
        except BaseException:
            os.close(kept.descriptor)
            raise
    return kept
