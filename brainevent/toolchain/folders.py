# SPDX-License-Identifier: Apache-2.0
"""Folders of the cache: made elsewhere, moved into place in one step, locked, and removed after dead processes."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .directory import make_private

__all__ = ["locked", "move_in", "new_file", "sweep", "sync", "take_away", "work_folder"]

_WORK = re.compile(r"\.build-(?P<pid>[0-9]{1,9})-[0-9a-f]{8}")


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
    path = make_private(base / ".locks") / f"{name}.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        with suppress(OSError):  # not every filesystem supports this: then two may build, and the last one wins
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):  # closing is not enough: a forked child may have the same descriptor
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


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
