# SPDX-License-Identifier: Apache-2.0
"""Get the version of a tool, and cache it until the tool's files change."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import process

__all__ = ["NoAnswerError", "Said", "recall", "run"]

TIMEOUT = 20.0  # seconds; a tool that takes longer to print its version hangs


class NoAnswerError(Exception):
    """A tool does not answer; the text is the reason, to follow its path: "does not exist"."""


@dataclass(frozen=True)
class Said:
    """The answer of a tool, valid until the tool or one of `files` changes."""

    version: str
    top: str = ""
    include_dirs: tuple[str, ...] = ()
    library_dirs: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    lasting: bool = True  # False: another process asks again


@dataclass(frozen=True)
class _Record:
    key: str
    signatures: dict[str, list[int] | None]
    said: Said

    def holds(self, key: str, tool: str) -> bool:
        """Return whether it is for this question, and no file has changed since."""
        files = {tool, *self.said.files}
        return self.key == key and {path: _signature(path) for path in files} == self.signatures


_remembered: dict[str, _Record] = {}


def run(command: Sequence[str]) -> str:
    """Return the output of a command, which runs in a temporary folder."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            finished = process.run(command, folder, TIMEOUT)
    except OSError as error:
        raise NoAnswerError(f"cannot be run: {error.strerror or error}") from error
    if finished.late:
        raise NoAnswerError(f"does not run: no answer within {TIMEOUT:g} s")
    if finished.status:
        last = "; ".join(line.strip() for line in finished.output.strip().splitlines()[-2:])
        raise NoAnswerError(f"does not run: status {finished.status}" + (f", it prints: {last}" if last else ""))
    return finished.output


def recall(tool: str, words: Sequence[str], ask: Callable[[], Said], memo: Path | None) -> Said:
    """Return the cached answer of `ask()`, of this process or in `memo`; ask again if the tool has changed.

    `words` are the other dependencies of the answer. A failure is not cached, because it may be corrected.
    """
    key = json.dumps([tool, *words])
    record = _remembered.get(key)
    if record is not None and record.holds(key, tool):
        return record.said
    file = None if memo is None else memo / f"{hashlib.sha256(key.encode()).hexdigest()[:24]}.json"
    record = None if file is None else _read(file)
    if record is None or not record.holds(key, tool):
        before = _signature(tool)
        said = ask()
        record = _Record(key, {**{path: _signature(path) for path in said.files}, tool: before}, said)
        if file is not None and said.lasting:
            _write(file, record)
    _remembered[key] = record
    return record.said


def _signature(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _read(file: Path) -> _Record | None:
    """Return the record that `_write` wrote, or None for anything else."""
    try:
        found: Any = json.loads(file.read_bytes())
        said: dict[str, Any] = {
            name: tuple(part) if isinstance(part, list) else part for name, part in found["said"].items()
        }
        record = _Record(found["key"], found["signatures"], Said(**said))
        words = [record.said.version, record.said.top]
        lists = [record.said.include_dirs, record.said.library_dirs, record.said.files]
        sound = all(isinstance(part, tuple) for part in lists)
        return record if sound and all(isinstance(w, str) for part in (words, *lists) for w in part) else None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def _write(file: Path, record: _Record) -> None:
    """Write atomically; a directory that cannot be written to is not an error."""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.stem}-")
        try:
            with open(handle, "w", encoding="ascii") as draft:
                json.dump(asdict(record), draft)
            os.replace(name, file)
        except OSError:
            os.unlink(name)
            raise
