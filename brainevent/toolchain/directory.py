# SPDX-License-Identifier: Apache-2.0
"""Choose the directory for compiled libraries, and reject one that others can write to or replace."""

from __future__ import annotations

import atexit
import errno
import os
import shlex
import shutil
import stat
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .._version import __version__
from ..errors import CompilationError, KernelError, KernelToolchainError
from .trust import UntrustedError, check_ancestors, is_ours, opened_directory

__all__ = [
    "FULL",
    "FullDiskError",
    "UnsafeError",
    "UnwritableError",
    "bases_in_use",
    "checked_bases",
    "current_base",
    "fall_back",
    "get_cache_dir",
    "guard",
    "guard_base",
    "guard_way",
    "is_ours",
    "make_private",
    "opened_base",
    "prepare",
    "set_cache_dir",
    "writing",
]

FULL = {number: os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT)}  # the errors of a full disk
_CHOOSE = "choose another directory with set_cache_dir(...) or $BRAINEVENT_CACHE_DIR"

_chosen: list[str] = []  # the argument of set_cache_dir, if any
_given_up: dict[Path, Path] = {}  # bases that cannot be written to, and their substitutes
_unsafe: dict[Path, Path] = {}  # bases that others can replace, and their substitutes
_links: dict[Path, Path] = {}  # bases, and the choices that led there by symbolic links
_fresh: list[Path] = []  # the base that this process made, if necessary
_PUBLIC = ("/tmp", "/var/tmp")
_lock = threading.Lock()


class UnwritableError(KernelToolchainError):
    """A base directory could not be read or written."""

    def __init__(self, base: Path, error: OSError):
        self.base, self.reason = base, error.strerror or str(error)
        self.trouble = f"{base} cannot be written ({self.reason})"
        self.remedy = "free some space, or " if error.errno in FULL else "make it writable, or "
        super().__init__(f"cache: {self.trouble}; {_CHOOSE}")


class FullDiskError(CompilationError):
    """There is no room for the output of a compiler."""


class UnsafeError(UnwritableError):
    """Other users can replace a base directory."""

    def __init__(self, base: Path, error: UntrustedError):
        self.base, self.reason = base, error.reason
        self.trouble = f"other users could replace {base} with code that would run as you ({self.reason})"
        self.remedy = f"run `{error.remedy}`, or " if error.remedy else ""
        KernelToolchainError.__init__(self, f"cache: {self.trouble}; {self.remedy}{_CHOOSE}")


@contextmanager
def writing(base: Path) -> Iterator[None]:
    """Convert an `OSError` in this block to `UnwritableError`."""
    try:
        yield
    except OSError as error:
        raise UnwritableError(base, error) from error


def set_cache_dir(path: str | os.PathLike[str] | None) -> None:
    """Choose the directory for compiled libraries.

    Args:
        path: The directory, which need not exist; None to undo the choice.

    Raises:
        TypeError: If it is not a path.
        KernelError: If it is an empty string.

    Examples:
        >>> import brainevent
        >>> brainevent.set_cache_dir("/tmp/kernels")
        >>> brainevent.get_cache_dir()
        '/tmp/kernels'
        >>> brainevent.set_cache_dir(None)
    """
    if path is None:
        _chosen.clear()
        return
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(
            f"set_cache_dir: {path!r}, of type {type(path).__name__}, is not a path; pass a str or Path of a "
            "directory, or None for the default"
        )
    text = os.fsdecode(path)
    if not text or "\0" in text:
        raise KernelError(
            f"set_cache_dir: {text!r} is not a path; pass the path of a directory, or None for the default"
        )
    _chosen[:] = [os.path.abspath(os.path.expanduser(text))]


def get_cache_dir() -> str:
    """Return the directory for compiled libraries, which need not exist.

    Returns:
        The path that `set_cache_dir` chose, or the environment variable `BRAINEVENT_CACHE_DIR`, or one of the user's
        own.

    Examples:
        >>> import os, brainevent
        >>> os.path.isabs(brainevent.get_cache_dir())
        True
    """
    return _choice() or str(_temporary_base())


def current_base() -> Path:
    """Return `get_cache_dir()` without symbolic links."""
    choice = _choice()
    if not choice:  # not resolved: a link there may belong to another user
        return _temporary_base()
    base = Path(os.path.realpath(choice))
    _links[base] = Path(choice)
    return base


def _choice() -> str | None:
    chosen = _chosen[0] if _chosen else os.environ.get("BRAINEVENT_CACHE_DIR")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    caches, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    if not os.path.isabs(caches):  # the standard ignores relative paths
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


def guard(path: Path, where: str = "cache", advice: str = _CHOOSE, status: os.stat_result | None = None) -> bool:
    """Return whether this is a directory; raise if others can change it; `status` is that of the open file."""
    status = status or os.lstat(path)
    if not stat.S_ISDIR(status.st_mode):
        return False
    if not is_ours(status):
        owner, mode = status.st_uid, stat.S_IMODE(status.st_mode)
        raise KernelToolchainError(
            f"{where}: {path} belongs to user {owner} and has mode {mode:04o}, so other users could put code there "
            f"that would run as you (user {os.geteuid()}); "
            + (f"run `chmod 700 {shlex.quote(str(path))}`, or " if owner == os.geteuid() else "")
            + advice
        )
    return True


def guard_base(base: Path) -> None:
    """Raise if a base is not a directory, or if others can change it."""
    with opened_base(base):
        pass


@contextmanager
def opened_base(base: Path) -> Iterator[int]:
    """Open a base directory for this block; raise if it is not one, or if others can change or replace it."""
    _guard_parent(base)
    with _trusting(base), opened_directory(_links.get(base, base)) as descriptor:
        _require(base, os.fstat(descriptor))
        yield descriptor


@contextmanager
def _trusting(base: Path) -> Iterator[None]:
    try:
        yield
    except UntrustedError as error:
        raise UnsafeError(base, error) from error


def guard_way(base: Path) -> None:
    """Raise if others can replace a base directory, which need not exist yet."""
    with _trusting(base):
        check_ancestors(_links.get(base, base))


def _guard_parent(base: Path) -> None:
    if base.parent.name == _temporary_name():  # it must be ours if everybody can make directories and links there
        _require(base.parent)


def _require(path: Path, status: os.stat_result | None = None) -> None:
    if not guard(path, status=status):
        raise KernelToolchainError(f"cache: {path} is a file, not a directory; remove it, or {_CHOOSE}")


def make_private(path: Path, where: str = "cache", advice: str = _CHOOSE) -> Path:
    """Make a directory that no other user can enter, and its missing parents; check an existing one."""
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
    os.chmod(path, 0o700)  # the umask may have removed bits


def prepare(base: Path) -> None:
    """Make the base directory if it is missing, and raise if others can change or replace it."""
    if not os.path.lexists(base):
        if os.path.lexists(base.parent):
            _guard_parent(base)
        guard_way(base)
        _make(base.parent)
        _guard_parent(base)
        _make(base)
    guard_base(base)


def fall_back(refusal: UnwritableError) -> Path:
    """Return the private substitute of a directory that cannot be written or trusted, and warn once."""
    unsafe = isinstance(refusal, UnsafeError)
    if refusal.base in _fresh or (refusal.base == _temporary_base() and not unsafe):
        raise refusal
    base = _substitute(refusal)
    with _lock:
        taken_back = _unsafe if unsafe else _given_up
        known = refusal.base in taken_back
        taken_back[refusal.base] = base
    if not known:
        warnings.warn(
            f"cache: {refusal.trouble}, so compiled libraries go to {base}, which may not last; "
            f"{refusal.remedy}{_CHOOSE}",
            stacklevel=2,
        )
    return base


def _substitute(refusal: UnwritableError) -> Path:
    """Return a base among the temporary files, for later processes too, or only for this process."""
    base = _temporary_base()
    if refusal.base != base:
        try:
            with writing(base):
                prepare(base)
            return base
        except KernelToolchainError as error:  # otherwise another user was first
            if type(error) is UnwritableError:
                raise
    return _made_fresh(refusal)


def _made_fresh(refusal: UnwritableError) -> Path:
    """Make a base that no other user can replace, and that is removed when this process ends."""
    with _lock:
        for folder in (tempfile.gettempdir(), *_PUBLIC):
            if _fresh:
                break
            with suppress(OSError, UntrustedError):
                check_ancestors(Path(os.path.realpath(folder), "new"))
                _fresh.append(Path(tempfile.mkdtemp(prefix="brainevent-", dir=os.path.realpath(folder))))
                atexit.register(_remove_fresh, _fresh[0], os.getpid())
    if not _fresh:
        raise refusal
    return _fresh[0]


def _remove_fresh(base: Path, pid: int) -> None:
    if os.getpid() == pid:  # a forked child must not remove its parent's
        shutil.rmtree(base, ignore_errors=True)


def bases_in_use() -> list[Path]:
    """Return the directories in which this process searches libraries: the base and its substitutes."""
    base = current_base()
    if base in _unsafe:
        return [_unsafe[base]]
    return [base, _given_up[base]] if base in _given_up else [base]


def checked_bases() -> list[Path]:
    """Return `bases_in_use`, after a check whether others can replace them."""
    base = current_base()
    if base not in _unsafe:
        try:
            guard_way(base)
        except UnsafeError as refusal:
            return [fall_back(refusal)]
        except OSError:  # the error is raised where it is used
            pass
    return bases_in_use()
