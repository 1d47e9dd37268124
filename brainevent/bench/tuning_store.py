# SPDX-License-Identifier: Apache-2.0
"""Store which kernel was fastest: one small file per user, which processes and threads share.

A process reads the file once, when it first chooses a kernel, and again whenever it writes. Writers hold a lock and
replace the whole file, so readers need no lock.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shlex
import stat
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import _jit_key
from .._warned import warn_each_time
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
from ..toolchain.lock import locked_file
from ..typing import PyTree
from .whole_files import write_whole

__all__ = [
    "TunedChoice",
    "clear_tuned",
    "export_tuned",
    "file_path",
    "find",
    "import_tuned",
    "key_of",
    "knows",
    "refuse_foreign",
    "remember",
    "tuned_choices",
]

_FORMAT = 2  # 1 did not separate the content of kernels from that of keyword arguments
_LIMIT = 32 << 20  # bytes; a larger file is not one of ours
_ADVICE = "choose another directory with set_cache_dir(...) or $BRAINEVENT_CACHE_DIR"

_Choices = dict[str, "TunedChoice"]
_lock = threading.RLock()
_read_before: dict[str, _Choices] = {}  # the choices that this process has read, by the directory of the cache
_of_this_process: _Choices = {}  # choices that cannot be stored in a file
_warned: set[str] = set()


@dataclass(frozen=True)
class TunedChoice:
    """The fastest kernel of an operator for operands of some types, and the fastest variant of each backend.

    Attributes:
        operator: The name of the operator.
        platform: The platform.
        device: The device.
        shapes: The types of the operands.
        versions: The versions of the packages.
        content: A hash of the operator's kernels.
        params: The keyword arguments of the call.
        backend: The fastest backend.
        variants: Pairs of a backend and the name of its fastest variant.
        seconds: The time of a call.

    Examples:
        >>> import brainevent
        >>> texts = ["double", "cpu", "cpu", "float32[3]", "jax 0.11", "", ""]
        >>> choice = brainevent.TunedChoice(*texts, "numba", (("numba", "block=128"),), 1e-6)
        >>> choice.variant
        'block=128'
        >>> import dataclasses, json
        >>> brainevent.TunedChoice.from_json(json.loads(json.dumps(dataclasses.asdict(choice)))) == choice
        True
    """

    operator: str
    platform: str
    device: str
    shapes: str
    versions: str
    content: str
    params: str
    backend: str
    variants: tuple[tuple[str, str], ...]  # pairs of a backend and the name of its variant
    seconds: float

    @property
    def variant(self) -> str:
        """The name of the fastest variant, such as "block=128", or an empty string."""
        return dict(self.variants).get(self.backend, "")

    @property
    def key(self) -> str:
        """The hash by which the choice is found."""
        return key_of(self.operator, self.platform, self.device, self.shapes, self.versions, self.content, self.params)

    @classmethod
    def from_json(cls, values: PyTree) -> TunedChoice:
        """Return the choice from values that `dataclasses.asdict` and JSON made of one.

        Args:
            values: A dictionary with a value for each attribute.

        Returns:
            The choice.

        Raises:
            ValueError: If an attribute is missing, or has another type.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict) or set(values) != names:
            raise ValueError("an entry has other fields")
        variants = values["variants"]
        if not isinstance(variants, list) or not all(isinstance(p, list) and len(p) == 2 for p in variants):
            raise ValueError("variants are not pairs")
        texts = [values[name] for name in names - {"variants", "seconds"}] + [
            text for pair in variants for text in pair
        ]
        if not all(isinstance(text, str) for text in texts) or type(values["seconds"]) not in (int, float):
            raise ValueError("a value has another type")
        return cls(**{**values, "variants": tuple((backend, variant) for backend, variant in variants)})


def key_of(*parts: str) -> str:
    """Return 32 hexadecimal digits for what identifies a choice."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


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
        with locked_file(folder / ".lock"):  # without locks the last of two writers wins
            known = _reread()
            result = change(known)
            write_whole(path, _as_bytes(known), 0o600)
    _read_before[get_cache_dir()] = known
    return result


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        warn_each_time(message, UserWarning)
