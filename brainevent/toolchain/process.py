# SPDX-License-Identifier: Apache-2.0
"""Run a tool and its child processes within a time limit; messages in English, temporary files in its folder."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["Finished", "NotStartedError", "run"]


class NotStartedError(OSError):
    """The program cannot be run."""


@dataclass(frozen=True)
class Finished:
    """The end of a tool, and its output; `late` if it was killed at the time limit."""

    status: int
    output: str
    late: bool


def run(command: Sequence[str], folder: str | Path, seconds: float) -> Finished:
    """Run a command in a folder, without input."""
    with _file_for_output(folder) as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, "LC_ALL": "C", "TMPDIR": "."},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise NotStartedError(error.errno, error.strerror or str(error)) from error
        late = _wait(process, seconds)
        output.seek(0)
        return Finished(process.returncode, output.read().decode(errors="replace"), late)


def _file_for_output(folder: str | Path) -> IO[bytes]:
    """Open a file: a pipe would stay open as long as a process that the tool has started.

    It is in memory, if Python supports this, because a message about a full disk needs room.
    """
    if hasattr(os, "memfd_create"):
        return open(os.memfd_create("output"), "w+b")
    return tempfile.TemporaryFile(dir=folder)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Wait for the end; return whether we ended it."""
    late = threading.Event()

    def stop() -> None:
        late.set()
        _kill(process)

    timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), stop)
    timer.start()
    try:
        return process.wait() != 0 and late.is_set()
    finally:
        timer.cancel()
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that still runs, and its child processes."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
