# SPDX-License-Identifier: Apache-2.0
"""Run test files of a tree in a process of their own, with caches that nobody else reads or writes."""

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Finished", "python_environment", "run_tests", "stop"]

_MARKS = "not gpu and not thorough"
_SCRIPTS = Path(__file__).resolve().parent.parent
_CACHES = ("BRAINEVENT_CACHE_DIR", "NUMBA_CACHE_DIR", "TRITON_CACHE_DIR", "WARP_CACHE_PATH", "XDG_CACHE_HOME")
_running: set[int] = set()  # process groups
_stopped = threading.Event()
_OURS = ("BRAINEVENT_", "JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE", "PYTEST_")


@dataclass(frozen=True)
class Finished:
    """What a run of tests left behind."""

    status: int
    late: bool
    stuck: float  # seconds in the last test
    seconds: float
    cpu_seconds: float
    passed: int
    failed: str  # the test that failed, if one did
    began: str  # the last test that began
    last_line: str


def python_environment(tree: Path, home: Path) -> dict[str, str]:
    """Return the environment in which Python finds the package of a tree, and keeps all that it keeps in `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    caches = {name: str(home / name.lower()) for name in _CACHES}
    paths = [str(tree), str(_SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    (home / "tmp").mkdir(parents=True, exist_ok=True)
    return {
        **kept,
        **caches,
        "JAX_PLATFORMS": "cpu",
        "MPLCONFIGDIR": str(_SCRIPTS.parent / "build" / "mutants" / "matplotlib"),  # fonts, which no mutant touches
        "MUTANT_REPORT": str(home / "report"),
        "PYTHONPATH": os.pathsep.join(paths),
        "TMPDIR": str(home / "tmp"),
    }


def run_tests(
    python: str, tree: Path, home: Path, tests: Sequence[str], left_out: Sequence[str], limit: float
) -> Finished:
    """Run tests until one fails; all processes that they started are gone after the limit."""
    if _stopped.is_set():
        raise InterruptedError("no more tests are run")
    environment = python_environment(tree, home)
    command = [python, "-m", "pytest", "-x", "-q", "-m", _MARKS, "-p", "mutations.report", "-p", "no:cacheprovider"]
    command += [*(f"--deselect={test}" for test in left_out), *tests]
    start, late = time.monotonic(), threading.Event()
    with open(home / "output", "w+b") as output:
        process = subprocess.Popen(
            command,
            cwd=tree,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        _running.add(process.pid)
        timer = threading.Timer(limit, lambda: (late.set(), _kill(process.pid)))
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        _running.discard(process.pid)
        process.returncode = os.waitstatus_to_exitcode(status)
        _kill(process.pid)  # what the tests left running
        output.seek(0)
        lines = output.read().decode(errors="replace").strip().splitlines()
    end, reports = time.monotonic(), _reports(home / "report")
    began, since = next(((test, at) for kind, test, at in reversed(reports) if kind == "began"), ("", start))
    return Finished(
        status=process.returncode,
        late=late.is_set() and process.returncode < 0,
        stuck=end - since,
        seconds=end - start,
        cpu_seconds=usage.ru_utime + usage.ru_stime,
        passed=sum(kind == "passed" for kind, _, _ in reports),
        failed=next((test for kind, test, _ in reports if kind == "failed"), ""),
        began=began,
        last_line=lines[-1] if lines else "",
    )


def stop() -> None:
    """End all runs, of all threads, and begin no more."""
    _stopped.set()
    for group in list(_running):
        _kill(group)


def _reports(path: Path) -> list[tuple[str, str, float]]:
    found = []
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):  # the last line of a process that was killed
                found.append(tuple(json.loads(line)))
    return found


def _kill(group: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
