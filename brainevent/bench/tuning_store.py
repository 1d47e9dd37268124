# SPDX-License-Identifier: Apache-2.0
"""Store which kernel was fastest: one small file per user, which processes and threads share.

A process reads the file once, when it first chooses a kernel, and again whenever it writes. Writers hold a lock and
replace the whole file, so readers need no lock.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import stat
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jax

from .. import _jit_key
from ..errors import KernelError, KernelToolchainError
from ..toolchain.directory import (
    UnwritableError,
    current_base,
    get_cache_dir,
    guard_base,
    is_ours,
    make_private,
    prepare,
    writing,
)
from .tuned_choice import TunedChoice
from .whole_files import write_whole

__all__ = [
    "clear_tuned", "export_tuned", "file_path", "find", "import_tuned", "knows", "refuse_foreign", "remember",
    "tuned_choices",
]  # fmt: skip

_FORMAT = 2  # 1 did not separate the content of kernels from that of keyword arguments
_LIMIT = 32 << 20  # bytes; a larger file is not one of ours
_ADVICE = "choose another directory with set_cache_dir(...) or $BRAINEVENT_CACHE_DIR"
_INNER = tuple(os.path.dirname(os.path.realpath(file)) + os.sep for file in (_jit_key.__file__, jax.__file__))

_Choices = dict[str, TunedChoice]
_lock = threading.RLock()
_read_before: dict[str, _Choices] = {}  # the choices that this process has read, by the directory of the cache
_of_this_process: _Choices = {}  # choices that cannot be stored in a file
_warned: set[str] = set()


def file_path() -> Path:
    """Return the path of this user's file, which need not exist."""
    return current_base() / "tuning" / "choices.json"


def find(key: str) -> TunedChoice | None:
    """Return the choice, or None."""
    with _lock:
        return _of_this_process.get(key) or _known().get(key)


def knows(operator: str) -> bool:
    """Return whether any choice is about operators of this name."""
    with _lock:
        return any(choice.operator == operator for choice in (*_of_this_process.values(), *_known().values()))


def tuned_choices(operator: str | None = None) -> list[TunedChoice]:
    """Return the choices that `tune` stored, also those for changed kernels, by operator, platform and shapes.

    Args:
        operator: The name of an operator; None for all.

    Returns:
        The choices.

    Examples:
        >>> import brainevent
        >>> brainevent.tuned_choices("doc_never_tuned")
        []
    """
    with _lock:
        found = {**_reread(), **_of_this_process}.values()
    chosen = [choice for choice in found if operator in (None, choice.operator)]
    return sorted(chosen, key=lambda choice: (choice.operator, choice.platform, choice.shapes, choice.key))


def remember(choice: TunedChoice, *, lasting: bool = True) -> bool:
    """Store a choice, only in this process unless `lasting`; return whether it is in the file."""
    with _lock:
        written = False
        if lasting:
            try:
                _update(lambda known: known.update({choice.key: choice}))
                written = True
            except UnwritableError as error:
                _warn_once(f"tuning: {error.trouble}, so choices are valid in this process only; "
                           f"{error.remedy}{_ADVICE}")  # fmt: skip
            except _NewerFileError as error:
                _warn_once(f"{error}. Choices are valid in this process only")
        if not written:
            _of_this_process[choice.key] = choice
        else:
            _of_this_process.pop(choice.key, None)
    _jit_key.refresh()
    return written


def clear_tuned(operator: str | None = None) -> int:
    """Remove choices that `tune` stored.

    Args:
        operator: The name of an operator; None for all.

    Returns:
        The number of choices that were removed.

    Examples:
        >>> import brainevent
        >>> brainevent.clear_tuned("doc_never_tuned")
        0
    """

    def drop(known: _Choices) -> int:
        gone = [key for key, choice in known.items() if operator in (None, choice.operator)]
        for key in gone:
            del known[key]
        return len(gone)

    with _lock:
        count = drop(_of_this_process)
        if os.path.lexists(file_path()):
            count += _update(drop)
    _jit_key.refresh()
    return count


def export_tuned(path: str | os.PathLike[str]) -> int:
    """Write the choices that `tune` stored to a file, for `import_tuned` on another machine.

    Args:
        path: The path of the file.

    Returns:
        The number of choices.

    Raises:
        KernelError: If the file cannot be written.

    Examples:
        >>> import pathlib, tempfile, brainevent
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "tuned.json"
        >>> brainevent.export_tuned(file) == brainevent.import_tuned(file)
        True
    """
    with _lock:
        known = _reread()
    try:
        write_whole(Path(path), _as_bytes(known))
    except OSError as error:
        raise KernelError(f"export_tuned: {path} cannot be written ({error.strerror}); pass another path") from error
    return len(known)


def import_tuned(path: str | os.PathLike[str]) -> int:
    """Add the choices of a file that `export_tuned` wrote; they replace yours for the same calls.

    Args:
        path: The path of the file.

    Returns:
        The number of choices in the file.

    Raises:
        KernelError: If the file cannot be read, or holds anything else.

    Examples:
        >>> import pathlib, tempfile, brainevent
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "tuned.json"
        >>> brainevent.export_tuned(file) == brainevent.import_tuned(file)
        True
    """
    try:
        with open(path, "rb") as file:
            new = _from_bytes(file.read(_LIMIT + 1))
    except OSError as error:
        raise KernelError(f"import_tuned: {path} cannot be read ({error.strerror}); pass another path") from error
    except ValueError as error:
        raise KernelError(
            f"import_tuned: {path} is not a file of tuned choices ({error}); pass one that export_tuned wrote"
        ) from error
    with _lock:
        _update(lambda known: known.update(new))
    _jit_key.refresh()
    return len(new)


def refuse_foreign() -> None:
    """Raise if the file, or its folder, exists and others can change it."""
    path = file_path()
    if os.path.lexists(path.parent.parent):
        guard_base(path.parent.parent)
    for place in (path.parent, path):
        if os.path.lexists(place):
            _guard(place, os.lstat(place))


def _guard(path: Path, status: os.stat_result) -> None:
    kind = "file" if path == file_path() else "directory"
    if not (stat.S_ISREG if kind == "file" else stat.S_ISDIR)(status.st_mode):
        raise KernelToolchainError(f"tuning: {path} is not a {kind}, or is a link; remove it, or {_ADVICE}")
    if not is_ours(status):
        owner, mode = status.st_uid, stat.S_IMODE(status.st_mode)
        own = f"run `chmod go-w {shlex.quote(str(path))}`, or " if owner == os.geteuid() else ""
        raise KernelToolchainError(
            f"tuning: {path} belongs to user {owner} and has mode {mode:04o}, so other users could choose the kernels "
            f"that you run (user {os.geteuid()}); {own}{_ADVICE}"
        )


def _known() -> _Choices:
    """Return the choices at the first read or last write of this process; none for a rejected file."""
    place = get_cache_dir()
    if place not in _read_before:
        try:
            _read_before[place] = _reread()
        except KernelToolchainError as error:
            _read_before[place] = {}
            _warn_once(f"{error}. Tuned choices are ignored")
        except Exception:  # a warning that is an error: it comes once; Ctrl-C is none, and the next call reads
            _read_before[place] = {}
            raise
    return _read_before[place]


def _reread() -> _Choices:
    """Return the content of the file; nothing, with a warning, if it is damaged."""
    refuse_foreign()
    path = file_path()
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            _guard(path, os.fstat(file.fileno()))
            return _from_bytes(file.read(_LIMIT + 1))
    except FileNotFoundError:
        return {}
    except _OtherFormatError as error:
        if error.number > _FORMAT:
            raise _NewerFileError(
                f"tuning: {path} is of format {error.number}, which a newer brainevent wrote; update brainevent, or "
                f"{_ADVICE}"
            ) from None
        return {}  # all in it is stale
    except OSError as error:
        _warn_once(f"tuning: {path} cannot be read ({error.strerror}), so tuned choices are ignored")
    except ValueError as error:
        _warn_once(
            f"tuning: {path} is damaged, or of another program ({error}), so it is ignored; the next choice replaces it"
        )
    return {}


def _from_bytes(data: bytes) -> _Choices:
    if len(data) > _LIMIT:
        raise ValueError(f"it is larger than {_LIMIT} bytes")
    try:
        content = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested deeply") from None
    number = content.get("format") if isinstance(content, dict) else None
    if type(number) is int and number != _FORMAT:
        raise _OtherFormatError(number)
    if type(number) is not int or not isinstance(content.get("tuned"), list):
        raise ValueError(f"it is not of format {_FORMAT}")
    found = [TunedChoice.from_json(values) for values in content["tuned"]]
    return {choice.key: choice for choice in found}


class _OtherFormatError(ValueError):
    """A file has the format of another version."""

    def __init__(self, number: int):
        super().__init__(f"it is of format {number}, and this brainevent reads format {_FORMAT}")
        self.number = number


class _NewerFileError(KernelToolchainError):
    """A file was written by a newer version, and must not be replaced."""


def _as_bytes(known: Mapping[str, TunedChoice]) -> bytes:
    content = {"format": _FORMAT, "tuned": [dataclasses.asdict(choice) for choice in known.values()]}
    return json.dumps(content, indent=1).encode() + b"\n"


def _update(change: Callable[[_Choices], Any]) -> Any:
    """Change the content of the file under a lock; return the result of `change`."""
    refuse_foreign()
    path = file_path()
    base, folder = path.parent.parent, path.parent
    with writing(base):
        prepare(base)
        make_private(folder, "tuning", _ADVICE)
        with _locked(folder):
            known = _reread()
            result = change(known)
            write_whole(path, _as_bytes(known), 0o600)
    _read_before[get_cache_dir()] = known
    return result


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other process writes."""
    import fcntl  # Windows has none

    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        with suppress(OSError):  # not every filesystem has locks: then the last of two writers wins
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        with suppress(OSError):  # closing is not enough: a forked child may have the same descriptor
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warnings.warn(message, UserWarning, stacklevel=_users_level())


def _users_level() -> int:
    """Return the stack level of the user's line: the nearest that is neither ours nor JAX's."""
    level, frame = 0, sys._getframe()
    while frame.f_back is not None and os.path.realpath(frame.f_code.co_filename).startswith(_INNER):
        level, frame = level + 1, frame.f_back
    return level
