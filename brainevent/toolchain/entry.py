# SPDX-License-Identifier: Apache-2.0
"""One library in the cache: its place and its manifest; checked, opened and published."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .directory import guard, is_ours, make_private, opened_base, writing
from .lock import locked_file

__all__ = ["MANIFEST", "Kept", "Place", "listed", "locked", "look_up", "publish", "sweep", "take_away", "work_folder"]

_WORK = re.compile(r"\.build-(?P<pid>[0-9]{1,9})-[0-9a-f]{8}")
_FORMAT = 1  # of the manifest
MANIFEST = "brainevent.json"
_LONGEST = 500  # a longer manifest is not ours, and may be nested deeply
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK  # opening follows no link and does not wait


@contextmanager
def new_file(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Open a new file of exactly this mode, which is flushed to the disk afterwards."""
    with open(path, "xb") as file:
        os.fchmod(file.fileno(), mode)
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync(directory: Path) -> None:
    """Flush the content of a directory to the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # not every filesystem supports this
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_in(prepared: Path, final: Path) -> None:
    """Replace one folder by another."""
    while True:
        try:
            os.rename(prepared, final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            take_away(final)  # then try again: without a lock, another process may publish in between
        else:
            return


def take_away(path: Path) -> bool:
    """Move something away and remove it; return whether it existed."""
    aside = _work_path(path.parent)
    try:
        os.rename(path, aside)
    except FileNotFoundError:
        return False
    _remove(aside)
    return True


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _work_path(base: Path) -> Path:
    return base / f".build-{os.getpid()}-{secrets.token_hex(4)}"


@contextmanager
def work_folder(base: Path) -> Iterator[Path]:
    """Make a folder for this block, which may rename it."""
    folder = _work_path(base)
    os.mkdir(folder, 0o700)
    try:
        os.chmod(folder, 0o700)  # the umask may have removed bits
        yield folder
    finally:
        _remove(folder)


@contextmanager
def locked(base: Path, name: str) -> Iterator[None]:
    """Wait until no other process or thread builds this name, and lock it."""
    with locked_file(make_private(base / ".locks") / f"{name}.lock"):  # without locks two may build: the last one wins
        yield


def sweep(base: Path, age: float) -> None:
    """Remove the files of builds of dead processes, if they are older than some seconds."""
    for folder in list(base.iterdir()):
        match = _WORK.fullmatch(folder.name)
        if match and not _is_alive(int(match["pid"])):
            with suppress(FileNotFoundError):
                if time.time() - folder.lstat().st_mtime >= age:
                    _remove(folder)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


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
