# SPDX-License-Identifier: Apache-2.0
"""Choose the directory for compiled libraries, and refuse one that others can write to."""

from __future__ import annotations

import os
import shlex
import stat
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .._version import __version__
from ..errors import KernelError, KernelToolchainError

__all__ = [
    "UnwritableError",
    "bases_in_use",
    "current_base",
    "fall_back",
    "get_cache_dir",
    "guard",
    "guard_base",
    "is_ours",
    "make_private",
    "prepare",
    "set_cache_dir",
    "writing",
]

_CHOOSE = "choose another directory with set_cache_dir(...) or $BRAINEVENT_CACHE_DIR"

_chosen: list[str] = []  # what set_cache_dir was given, if anything
_given_up: set[Path] = set()  # bases in whose place the temporary directory is used
_lock = threading.Lock()


class UnwritableError(KernelToolchainError):
    """A base directory could not be read or written."""

    def __init__(self, base: Path, error: OSError):
        self.base, self.reason = base, error.strerror or str(error)
        super().__init__(f"cache: {base} cannot be written ({self.reason}); {_CHOOSE}")


@contextmanager
def writing(base: Path) -> Iterator[None]:
    """Turn an `OSError` of our own steps into `UnwritableError`."""
    try:
        yield
    except OSError as error:
        raise UnwritableError(base, error) from error


def set_cache_dir(path: str | os.PathLike[str] | None) -> None:
    """Choose the directory for compiled libraries; `None` takes the choice back."""
    if path is None:
        _chosen.clear()
        return
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(
            f"set_cache_dir: {path!r}, of type {type(path).__name__}, is no path; pass a str or Path of a directory, "
            "or None for the default"
        )
    text = os.fsdecode(path)
    if not text or "\0" in text:
        raise KernelError(f"set_cache_dir: {text!r} is no path; pass the path of a directory, or None for the default")
    _chosen[:] = [os.path.abspath(os.path.expanduser(text))]


def get_cache_dir() -> str:
    """Return the directory for compiled libraries, which need not exist yet."""
    return _choice() or str(_temporary_base())


def current_base() -> Path:
    """Return `get_cache_dir()` without symbolic links."""
    choice = _choice()
    # The temporary base is not resolved: a link there may be someone else's.
    return Path(os.path.realpath(choice)) if choice else _temporary_base()


def _choice() -> str | None:
    chosen = _chosen[0] if _chosen else os.environ.get("BRAINEVENT_CACHE_DIR")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    caches, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if not os.path.isabs(caches):  # as the standard says, a relative one does not count
        if not (os.path.isabs(home) and os.path.isdir(home)):
            return None
        caches = os.path.join(home, ".cache")
    return os.path.join(caches, "brainevent", __version__)


def _temporary_name() -> str:
    return f"brainevent-{os.geteuid()}"


def _temporary_base() -> Path:
    """Return this user's directory among the temporary files."""
    try:
        return Path(os.path.realpath(tempfile.gettempdir()), _temporary_name(), __version__)
    except OSError as error:
        raise KernelToolchainError(f"cache: there is no temporary directory ({error}); {_CHOOSE}") from error


def is_ours(status: os.stat_result) -> bool:
    """Tell whether nobody but us, and root, can change a file."""
    return status.st_uid in (os.geteuid(), 0) and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def guard(path: Path, where: str = "cache", advice: str = _CHOOSE) -> bool:
    """Tell whether this is a directory, and raise if others can change it."""
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        return False
    if not is_ours(status):
        owner, mode = status.st_uid, stat.S_IMODE(status.st_mode)
        raise KernelToolchainError(
            f"{where}: {path} belongs to user {owner} and has mode {mode:04o}, so that others could put code there "
            f"which would run as you (user {os.geteuid()}); "
            + (f"run `chmod 700 {shlex.quote(str(path))}`, or " if owner == os.geteuid() else "")
            + advice
        )
    return True


def guard_base(base: Path) -> None:
    """Raise if a base directory is none, or if others can change it."""
    _guard_parent(base)
    _require(base)


def _guard_parent(base: Path) -> None:
    if base.parent.name == _temporary_name():  # made by us too, where everybody can make directories and links
        _require(base.parent)


def _require(path: Path) -> None:
    if not guard(path):
        raise KernelToolchainError(f"cache: {path} is a file, not a directory; remove it, or {_CHOOSE}")


def make_private(path: Path, where: str = "cache", advice: str = _CHOOSE) -> Path:
    """Make a directory that nobody else can enter, and its missing parents; check one that is there."""
    _make(path)
    if not guard(path, where, advice):
        raise NotADirectoryError(f"{path} is a file, not a directory")
    return path


def _make(path: Path) -> None:
    if os.path.lexists(path):
        return
    _make(path.parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        return
    os.chmod(path, 0o700)  # the umask may have taken bits away


def prepare(base: Path) -> None:
    """Make the base directory if it is missing, and raise if others can change it."""
    _make(base.parent)
    _guard_parent(base)
    _make(base)
    _require(base)


def fall_back(refusal: UnwritableError) -> Path:
    """Return the temporary directory to use in place of one that cannot be written, and say so once."""
    base = _temporary_base()
    if refusal.base == base:
        raise refusal
    with writing(base):
        prepare(base)
    with _lock:
        known = refusal.base in _given_up
        _given_up.add(refusal.base)
    if not known:
        warnings.warn(
            f"cache: {refusal.base} cannot be written ({refusal.reason}), so compiled libraries go to {base}, "
            f"which may not last; make it writable, or {_CHOOSE}",
            stacklevel=2,
        )
    return base


def bases_in_use() -> list[Path]:
    """Return where this process looks for libraries: in the base directory, and where it fell back to."""
    base = current_base()
    return [base, _temporary_base()] if base in _given_up else [base]
