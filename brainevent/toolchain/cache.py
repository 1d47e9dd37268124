# SPDX-License-Identifier: Apache-2.0
"""Cache compiled libraries by the hash of their sources, and build each of them once.

A library is published by renaming a finished directory, so readers need no lock, and it is used only if it has the hash
of its manifest. It is returned as an open file, so that the checked file is loaded, also if the path changes. A build
holds a lock that the operating system releases if the process ends.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import KernelError, KernelToolchainError
from .directory import (
    FULL,
    FullDiskError,
    UnsafeError,
    UnwritableError,
    bases_in_use,
    checked_bases,
    fall_back,
    get_cache_dir,
    guard_base,
    make_private,
    prepare,
    set_cache_dir,
    writing,
)
from .entry import MANIFEST, Kept, Place, listed, locked, look_up, publish, sweep, take_away, work_folder

__all__ = [
    "Entry",
    "Kept",
    "check_name",
    "clear_cache",
    "entries",
    "get_cache_dir",
    "get_or_build",
    "memo_dir",
    "opened",
    "read",
    "set_cache_dir",
]

# Libraries; GPU code, Numba's, adjoints and machine code of our own handlers, which are read.
_SUFFIXES = (".so", ".gpu", ".numba", ".forms", ".o")
_HOUR = 3600.0
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,99}")
_KEY = re.compile(r"[0-9a-f]{16,128}")
_DIRECTORY = re.compile(rf"(?P<name>{_NAME.pattern})_(?P<key>{_KEY.pattern})")


@dataclass(frozen=True)
class Entry:
    """A library in the cache: its path, its size and when it was built."""

    name: str
    key: str
    path: Path
    bytes: int
    modified: float


def _matches(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def check_name(name: str, where: str) -> str:
    """Return the name of a module, or raise if it is not valid in a file's name."""
    if _matches(_NAME, name) and ".." not in name:
        return name
    raise KernelError(
        f"{where}: {name!r:.200} is not a valid module name; pass 1 to 100 of the characters A-Z, a-z, 0-9, '_', '-' "
        "and single '.', beginning with a letter or '_'"
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
    """Return the path of a library, after `build(folder)` has made it in that folder if it is not in the cache.

    Use `read` or `opened` for its content: the file may be replaced later.
    """
    with opened(name, key, build, force=force, directory=directory, suffix=suffix) as kept:
        return kept.path


def read(
    name: str, key: str, build: Callable[[Path], Path], *, force: bool = False, suffix: str = _SUFFIXES[0]
) -> bytes:
    """Return the content of the library of `get_or_build`, after a check of these bytes."""
    for again in (force, True):
        with opened(name, key, build, force=again, suffix=suffix) as kept:
            content = kept.read()
        if hashlib.sha256(content).hexdigest() == kept.sha256:
            return content
    raise KernelToolchainError(
        f"cache: {kept.path} differs from what was written to it; check the disk, or choose another directory with "
        "set_cache_dir(...)"
    )


@contextmanager
def opened(
    name: str,
    key: str,
    build: Callable[[Path], Path],
    *,
    force: bool = False,
    directory: Path | None = None,
    suffix: str = _SUFFIXES[0],
) -> Iterator[Kept]:
    """Yield the library of `get_or_build` as the open file that was checked, for this block."""
    check_name(name, "get_or_build"), _check_key(key)
    kept = None if force else _look_up_everywhere(name, key, suffix)
    place = Place(bases_in_use()[0], name, key, suffix)
    while kept is None:
        try:
            kept = _build_at(place, build, force, directory)
        except UnwritableError as refusal:  # fall_back raises it again if there is no other directory
            place = replace(place, base=fall_back(refusal))
    try:
        yield kept
    finally:
        os.close(kept.descriptor)


def _look_up_everywhere(name: str, key: str, suffix: str) -> Kept | None:
    """Search all directories of this process, or the substitute of one that others can replace."""
    for base in bases_in_use():
        try:
            found = look_up(Place(base, name, key, suffix))
        except UnsafeError as refusal:
            return look_up(Place(fall_back(refusal), name, key, suffix))
        if found:
            return found
    return None


def _build_at(place: Place, build: Callable[[Path], Path], force: bool, directory: Path | None) -> Kept:
    with ExitStack() as stack:
        with writing(place.base):
            prepare(place.base)
            stack.enter_context(locked(place.base, place.directory.name))
        if not force and (found := look_up(place)):  # built while we waited
            return found
        with writing(place.base):
            sweep(place.base, _HOUR)
            folder = stack.enter_context(work_folder(place.base))
        if directory is None:
            with _noticing_a_full_disk(place.base):
                library = _built(place.name, build, folder)
        else:
            library = _built(place.name, build, _made(directory))
        try:
            return publish(place, library)
        except UnwritableError as refusal:  # perhaps a full disk: the build is still valid
            return publish(replace(place, base=fall_back(refusal)), library)


@contextmanager
def _noticing_a_full_disk(base: Path) -> Iterator[None]:
    try:
        yield
    except FullDiskError as error:
        raise UnwritableError(base, OSError(errno.ENOSPC, FULL[errno.ENOSPC])) from error
    except OSError as error:
        if error.errno in FULL:
            raise UnwritableError(base, error) from error
        raise


def _made(directory: Path) -> Path:
    """Return the user's build directory, which is made if it is missing."""
    try:
        os.makedirs(directory, exist_ok=True)
    except OSError as error:
        raise KernelToolchainError(f"get_or_build: cannot build in {directory} ({error}); pass another") from error
    return Path(directory).absolute()


def _built(name: str, build: Callable[[Path], Path], folder: Path) -> Path:
    library = folder / build(folder)
    if not library.is_file():
        raise KernelToolchainError(f"{name}: build returned {library}, which is not a file; return the library's path")
    return library


def _places(base: Path) -> Iterator[Place]:
    """Yield every directory of a base that looks like an entry, broken ones included."""
    guard_base(base)
    for path in sorted(base.iterdir()):
        match = _DIRECTORY.fullmatch(path.name)
        if match and ".." not in path.name and not path.is_symlink():
            places = [Place(base, match["name"], match["key"], suffix) for suffix in _SUFFIXES]
            place = next((place for place in places if os.path.lexists(place.library)), places[0])
            if _holds_entry(place):
                yield place


def _holds_entry(place: Place) -> bool:
    """Return whether a directory with such a name is an entry."""
    try:
        inside = set(os.listdir(place.directory))
    except OSError:
        return False
    return not inside or bool(inside & {place.library.name, MANIFEST})


def entries() -> list[Entry]:
    """List the libraries in the cache, by name."""
    found: list[Entry] = []
    for base in filter(os.path.lexists, checked_bases()):
        with writing(base):
            found += [
                Entry(place.name, place.key, place.library, status.st_size, status.st_mtime)
                for place in _places(base)
                if (status := listed(place)) is not None
            ]
    return sorted(found, key=lambda entry: (entry.name, entry.key))


def clear_cache(name: str | None = None) -> int:
    """Remove compiled libraries from the cache.

    Args:
        name: The name that libraries were loaded by; None for all libraries.

    Returns:
        The number of libraries that were removed.

    Raises:
        KernelError: If the name is not valid.

    Examples:
        >>> import brainevent
        >>> brainevent.clear_cache("doc_never_built")
        0
    """
    if name is not None:
        check_name(name, "clear_cache")
    removed = 0
    for base in filter(os.path.lexists, checked_bases()):
        with writing(base):
            removed += sum(take_away(place.directory) for place in _places(base) if name in (None, place.name))
            if name is None:
                sweep(base, 0)
    return removed


def memo_dir() -> Path | None:
    """Return a private directory for small cached facts, or None if the cache cannot be written."""
    base = bases_in_use()[0]
    try:
        try:
            prepare(base)
        except UnsafeError as refusal:
            base = fall_back(refusal)
        folder = make_private(base / "tools")
    except OSError:
        return None
    return folder if os.access(folder, os.W_OK) else None
