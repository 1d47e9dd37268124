# SPDX-License-Identifier: Apache-2.0
"""Judge mutants: each in a copy of the tree, by its own test files, with caches of its own."""

import os
import shutil
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .mutant import Mutant
from .running import Finished, python_environment, run_tests, stop

__all__ = ["NOTICED", "NOT_APPLICABLE", "Judge", "Verdict"]

KILLED, SURVIVED, TIMED_OUT = "killed", "survived", "timed out"
NOT_JUDGED, NOT_APPLICABLE = "not judged", "not applicable"
NOTICED = (KILLED, TIMED_OUT)
_LEFT_OUT = {".git", ".hypothesis", ".mypy_cache", ".pytest_cache", ".ruff_cache", "build", "dist", "shared", "site"}
_MOST_BROKEN = 5  # tests that fail without the mutant, too, and are then left out


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant."""

    outcome: str
    by: str = ""  # the test that failed, or why there is no verdict
    passed: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    fingerprint: str = ""

    def __str__(self) -> str:
        by = f" by {self.by}" if self.outcome == KILLED else f" ({self.by})" if self.by else ""
        return f"{self.outcome}{by}; {self.passed} passed, {self.seconds:.0f} s, {self.cpu_seconds:.0f} CPU s"


class Judge:
    """Say of mutants of one tree whether its tests notice them; several threads may ask at once."""

    def __init__(self, tree: Path, scratch: Path, python: str, limit: float):
        self._tree, self._scratch, self._python, self._limit = tree, scratch, python, limit
        self._sound: dict[str, bool] = {}  # tests that failed with some mutant: whether they pass without it
        self._locks: dict[str, threading.Lock] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> "Judge":
        self._remove(self._scratch)
        self._pristine, self._unmutated = self._scratch / "pristine", self._scratch / "unmutated"
        _copy(self._tree, self._pristine, compiled=False)
        command = [self._python, "-m", "compileall", "-q", "brainevent"]
        subprocess.run(command, cwd=self._pristine, check=True)  # once, and not anew for each mutant
        _copy(self._pristine, self._unmutated)
        program = "import brainevent, pytest; print(brainevent.__file__)"
        environment = python_environment(self._unmutated, self._scratch / "first")
        first = subprocess.run(
            [self._python, "-c", program],
            cwd=self._unmutated,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if first.returncode or not first.stdout.startswith(str(self._unmutated)):
            sys.exit(f"the tests would not run the copy of {self._tree}:\n{first.stdout}{first.stderr}")
        return self

    def __exit__(self, kind: type | None, *_: Any) -> None:
        if kind is not None:
            stop()
        self._remove(self._scratch)

    def __call__(self, mutant: Mutant) -> Verdict:
        text = mutant.applied(self._tree)
        missing = [f"{name}.py" for name in mutant.tests if name not in mutant.test_files(self._tree)]
        if text is None or missing:
            nowhere = f"its text is not once in brainevent/{mutant.file}"
            why = f"not once in tests/: {', '.join(missing)}" if missing else nowhere
            return Verdict(NOT_APPLICABLE, why, fingerprint=mutant.fingerprint)
        folder = self._scratch / "mutants" / mutant.name
        try:
            _copy(self._pristine, folder / "tree")
            _put(folder / "tree" / "brainevent" / mutant.file, text)
            return self._judged(mutant, folder)
        finally:
            self._remove(folder)

    def _judged(self, mutant: Mutant, folder: Path) -> Verdict:
        broken: list[str] = []
        spent = cpu = 0.0
        while True:
            home = folder / f"run_{len(broken)}"
            files = list(mutant.test_files(self._tree).values())
            found = run_tests(self._python, folder / "tree", home, files, broken, self._limit)
            spent, cpu = spent + found.seconds, cpu + found.cpu_seconds
            outcome, by = _outcome(found)
            if outcome == KILLED and not self._is_sound(by):
                broken.append(by)
                if len(broken) <= _MOST_BROKEN:
                    continue
                outcome, by = NOT_JUDGED, f"{len(broken)} tests fail without the mutant, too"
            elif broken and outcome != KILLED:
                by = f"left out, as they fail without the mutant: {', '.join(broken)}"
            return Verdict(outcome, by, found.passed, round(spent, 1), round(cpu, 1), mutant.fingerprint)

    def _is_sound(self, test: str) -> bool:
        """Say whether a test passes without any mutant, so that its failure means something."""
        with self._lock:
            lock = self._locks.setdefault(test, threading.Lock())
            number = len(self._locks)
        with lock:
            if test not in self._sound:
                home = self._scratch / "sound" / f"{number}_{threading.get_ident()}"
                found = run_tests(self._python, self._unmutated, home, [test], [], self._limit)
                self._sound[test] = not found.failed  # one that is not found is of the mutant's making
                self._remove(home)
        return self._sound[test]

    @staticmethod
    def _remove(folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)


def _outcome(found: Finished) -> tuple[str, str]:
    if found.late and found.stuck > found.seconds / 2:
        return TIMED_OUT, found.began
    if found.late:
        return NOT_JUDGED, f"no end after {found.seconds:.0f} s, though no test hung; pass a longer --limit"
    if found.failed:
        return KILLED, found.failed
    if found.status < 0 or (found.status and found.began):  # what crashes the process fails no test
        return KILLED, found.began or f"a crash, status {found.status}"
    if found.status not in (0, 5):
        return NOT_JUDGED, f"pytest ended with status {found.status}: {found.last_line}"
    if not found.passed:
        return NOT_JUDGED, "all of its tests are skipped"
    return SURVIVED, ""


def _copy(tree: Path, place: Path, *, compiled: bool = True) -> None:
    """Copy a tree without what was built in it, with or without its compiled modules."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        top = Path(folder) == tree
        found = {name for name in names if top and (name in _LEFT_OUT or name.startswith(".venv"))}
        return found if compiled else found | ({"__pycache__"} & set(names))

    shutil.copytree(tree, place, ignore=left_out, symlinks=True)


def _put(path: Path, text: str) -> None:
    for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*"):
        compiled.unlink()  # the time and size by which Python knows a module could be those of before
    os.chmod(path, 0o644)
    path.write_text(text, encoding="utf-8")
