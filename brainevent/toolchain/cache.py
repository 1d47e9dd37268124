# SPDX-License-Identifier: Apache-2.0
"""Keep compiled libraries by the hash of what they were compiled from, and build each of them once.

A library is published by renaming a finished directory, so that readers need no lock, and is believed only while it
has the hash that its manifest says. Who builds holds a lock that the kernel releases if the process dies.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from ..errors import KernelError, KernelToolchainError
from .directory import (
    UnwritableError,
    bases_in_use,
    current_base,
    fall_back,
    get_cache_dir,
    guard,
    guard_base,
    is_ours,
    make_private,
    prepare,
    set_cache_dir,
    writing,
)

__all__ = [
    "Entry",
    "check_name",
    "clear_cache",
    "entries",
    "get_cache_dir",
    "get_or_build",
    "memo_dir",
    "set_cache_dir",
]

_FORMAT = 1  # of the manifest
_MANIFEST = "brainevent.json"
_SUFFIXES = (".so", ".gpu")  # libraries, and GPU code that is loaded from memory
_HOUR = 3600.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_KEY = re.compile(r"[0-9a-f]{16,128}")
_DIRECTORY = re.compile(rf"(?P<name>{_NAME.pattern})_(?P<key>{_KEY.pattern})")
_WORK = re.compile(r"\.build-(?P<pid>[0-9]{1,9})-[0-9a-f]{8}")


@dataclass(frozen=True)
class Entry:
    """A library in the cache: its path, its size and when it was built."""

    name: str
    key: str
    path: Path
    bytes: int
    modified: float


@dataclass(frozen=True)
class _Place:
    """Where a library belongs."""

    base: Path
    name: str
    key: str
    suffix: str = _SUFFIXES[0]

    @property
    def directory(self) -> Path:
        return self.base / f"{self.name}_{self.key}"

    @property
    def library(self) -> Path:
        return self.directory / f"{self.name}{self.suffix}"

    def manifest(self, size: int, sha256: str) -> dict[str, object]:
        return {"format": _FORMAT, "name": self.name, "key": self.key, "bytes": size, "sha256": sha256}


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def check_name(name: str, where: str) -> str:
    """Return the name of a module, or raise if it cannot be part of a file's name."""
    if _matches(_NAME, name) and ".." not in name:
        return name
    raise KernelError(
        f"{where}: {name!r:.200} cannot name a module; pass 1 to 100 of the characters A-Z, a-z, 0-9, '_', '-' and "
        "single '.', the first of them a letter or '_'"
    )


def _check_key(key: str) -> str:
    if _matches(_KEY, key):
        return key
    raise KernelError(f"get_or_build: key is {key!r:.200}; pass 16 to 128 hexadecimal digits in lower case")


def get_or_build(
    name: str,
    key: str,
    build: Callable[[Path], Path],
    *,
    force: bool = False,
    directory: Path | None = None,
    suffix: str = _SUFFIXES[0],
) -> Path:
    """Return the path of a library, after `build(folder)` has made it in that folder if it is not in the cache."""
    check_name(name, "get_or_build"), _check_key(key)
    places = [_Place(base, name, key, suffix) for base in bases_in_use()]
    if not force:
        for place in places:
            if found := _look_up(place):
                return found
    place = places[0]
    while True:
        try:
            return _build_at(place, build, force, directory)
        except UnwritableError as refusal:  # fall_back raises it again where there is nowhere else to go
            place = replace(place, base=fall_back(refusal))


def _build_at(place: _Place, build: Callable[[Path], Path], force: bool, directory: Path | None) -> Path:
    with ExitStack() as stack:
        with writing(place.base):
            prepare(place.base)
            stack.enter_context(_locked(place))
        if not force and (found := _look_up(place)):  # built while we waited
            return found
        with writing(place.base):
            _sweep(place.base, _HOUR)
            folder = stack.enter_context(_work_folder(place.base))
        library = _built(place.name, build, folder if directory is None else _made(directory))
        try:
            return _publish(place, library)
        except UnwritableError as refusal:  # a full disk, perhaps: what was built is still good
            return _publish(replace(place, base=fall_back(refusal)), library)


def _made(directory: Path) -> Path:
    """Return a directory that the user chose to build in, made if it is missing."""
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise KernelToolchainError(f"get_or_build: cannot build in {directory} ({error}); pass another") from error
    return Path(directory).absolute()


def _built(name: str, build: Callable[[Path], Path], folder: Path) -> Path:
    library = folder / build(folder)
    if not library.is_file():
        raise KernelToolchainError(f"{name}: build returned {library}, which is no file; return the library's path")
    return library


def _look_up(place: _Place) -> Path | None:
    """Return the library's path if the cache has it whole."""
    try:
        guard_base(place.base)
        if not guard(place.directory):
            return None
        manifest = _read_manifest(place.directory)
        seen = manifest.pop("seen", None)
        status = os.lstat(place.library)
        if not (stat.S_ISREG(status.st_mode) and is_ours(status)):
            return None
        sha256 = str(manifest.get("sha256"))
        if seen != _signature(status):  # to hash a megabyte takes a fifth of the time of a load
            with open(place.library, "rb") as library:
                sha256 = hashlib.file_digest(library, "sha256").hexdigest()
    except (OSError, ValueError):
        return None
    return place.library if manifest == place.manifest(status.st_size, sha256) else None


def _signature(status: os.stat_result) -> list[int]:
    """Return what changes with every change of a file, even one that keeps its size and sets its time back."""
    return [status.st_ino, status.st_mtime_ns, status.st_ctime_ns]


def _read_manifest(directory: Path) -> dict[str, object]:
    """Return what a manifest says, or raise `OSError` or `ValueError`."""
    with open(directory / _MANIFEST, "rb") as file:
        text = file.read(500)  # a longer one is none of ours, and might be nested deeply
    manifest = json.loads(text)
    return manifest if isinstance(manifest, dict) else {}


def _publish(place: _Place, library: Path) -> Path:
    """Copy a library into the cache, where it appears whole or not at all."""
    with writing(place.base), _work_folder(place.base) as prepared:
        sha256 = hashlib.sha256()
        # Always a copy: the compiler's file may be linked to elsewhere, and a mapped one must not be written to.
        with open(library, "rb") as source, _new_file(prepared / place.library.name, 0o700) as copy:
            while chunk := source.read(1 << 20):
                sha256.update(chunk)
                copy.write(chunk)
            size = copy.tell()
        seen = {"seen": _signature(os.stat(prepared / place.library.name))}
        with _new_file(prepared / _MANIFEST, 0o600) as file:
            file.write(json.dumps(place.manifest(size, sha256.hexdigest()) | seen).encode())
        _sync(prepared)
        _move_in(prepared, place.directory)
        _sync(place.base)
    return place.library


@contextmanager
def _new_file(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Open a new file of exactly this mode, which is on the disk afterwards."""
    with open(path, "xb") as file:
        os.fchmod(file.fileno(), mode)
        yield file
        file.flush()
        os.fsync(file.fileno())


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # not every filesystem can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _move_in(prepared: Path, final: Path) -> None:
    while True:
        try:
            os.rename(prepared, final)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            _take_away(final)  # then again: without a lock, another process may publish in between
        else:
            return


def _take_away(path: Path) -> bool:
    """Move something out of sight and remove it; tell whether it was there."""
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
def _work_folder(base: Path) -> Iterator[Path]:
    """Make a folder for this block alone; it may be renamed."""
    folder = _work_path(base)
    os.mkdir(folder, 0o700)
    try:
        os.chmod(folder, 0o700)  # the umask may have taken bits away
        yield folder
    finally:
        _remove(folder)


@contextmanager
def _locked(place: _Place) -> Iterator[None]:
    """Wait until no other process or thread builds this library."""
    path = make_private(place.base / ".locks") / f"{place.directory.name}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        with suppress(OSError):  # not every filesystem can: then two may build, and the last one wins
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):  # closing would not do: a forked child may hold the same descriptor
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _sweep(base: Path, age: float) -> None:
    """Remove what builds of dead processes left behind, if it is older than some seconds."""
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


def _places(base: Path) -> Iterator[_Place]:
    """Yield every directory of a base that looks like an entry, broken ones included."""
    guard_base(base)
    for path in sorted(base.iterdir()):
        match = _DIRECTORY.fullmatch(path.name)
        if match and ".." not in path.name and not path.is_symlink():
            places = [_Place(base, match["name"], match["key"], suffix) for suffix in _SUFFIXES]
            place = next((place for place in places if os.path.lexists(place.library)), places[0])
            if _holds_entry(place):
                yield place


def _holds_entry(place: _Place) -> bool:
    """Tell an entry from someone else's directory that has such a name."""
    try:
        inside = set(os.listdir(place.directory))
    except OSError:
        return False
    return not inside or bool(inside & {place.library.name, _MANIFEST})


def entries() -> list[Entry]:
    """List the libraries in the cache, by name."""
    found = []
    for base in filter(os.path.lexists, bases_in_use()):
        with writing(base):
            for place in _places(base):
                with suppress(OSError, ValueError):
                    status, manifest = place.library.lstat(), _read_manifest(place.directory)
                    manifest.pop("seen", None)
                    if manifest == place.manifest(status.st_size, str(manifest.get("sha256"))):
                        found.append(Entry(place.name, place.key, place.library, status.st_size, status.st_mtime))
    return sorted(found, key=lambda entry: (entry.name, entry.key))


def clear_cache(name: str | None = None) -> int:
    """Remove the libraries of this name, or all of them, and return how many there were."""
    if name is not None:
        check_name(name, "clear_cache")
    removed = 0
    for base in filter(os.path.lexists, bases_in_use()):
        with writing(base):
            removed += sum(_take_away(place.directory) for place in _places(base) if name in (None, place.name))
            if name is None:
                _sweep(base, 0)
    return removed


def memo_dir() -> Path | None:
    """Return a private directory for small facts to remember, or None if the cache cannot be written."""
    base = current_base()
    try:
        prepare(base)
        folder = make_private(base / "tools")
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
