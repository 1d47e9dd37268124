# SPDX-License-Identifier: Apache-2.0
"""Continuous integration tests two pairs of Python and JAX in turn, and says which one is missing."""

import shutil
import subprocess

import pytest
from programs import ROOT

OLDEST = "VENV=.venv-oldest JAX=0.10.*"
NEWEST = "VENV=.venv-newest JAX="
WORKS = "#!/bin/sh\nexit 0\n"
MAKE = '#!/bin/sh\necho "$@" >> "$CALLS"\n[ "$4" != "$FAILS" ]\n'


@pytest.fixture
def folder(tmp_path):
    """A checkout with CI's script alone, and programs that stand for make, git and interpreters."""
    (tmp_path / ".ci").mkdir()
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    written(tmp_path / "bin" / "make", MAKE)
    written(tmp_path / "bin" / "git", '#!/bin/sh\n[ "$1" = rev-list ] && echo "$COMMITS" || echo false\n')
    return tmp_path


def written(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def ran(folder, commits=0, **environment):
    """Return how CI ended, and the lines of make in order: the installation runs beside others, so it is apart."""
    calls = folder / "calls"
    calls.write_text("")
    given = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin", "CALLS": str(calls), "COMMITS": str(commits), "FAILS": ""}
    # What the machine has must not count, so its interpreters of these versions are hidden by those that do not run.
    for version in ("3.11", "3.13"):
        if not (folder / "bin" / f"python{version}").exists():
            written(folder / "bin" / f"python{version}", "#!/bin/sh\nexit 127\n")
    done = subprocess.run(
        [folder / ".ci" / "run"], env=given | environment, capture_output=True, text=True, check=False, cwd="/"
    )
    lines = calls.read_text().splitlines()
    installed = [line for line in lines if line.endswith("installed-test")]
    return done, installed, [line for line in lines if line not in installed]


def works(folder, version):
    written(folder / "bin" / f"python{version}", WORKS)


@pytest.mark.parametrize(("commits", "part"), [(0, "0/13"), (1, "1/13"), (14, "1/13"), (25, "12/13")])
def test_the_pairs_take_turns(folder, commits, part):
    works(folder, "3.11"), works(folder, "3.13")
    done, installed, calls = ran(folder, commits)
    pairs = [f"PYTHON=python3.11 {OLDEST}", f"PYTHON=python3.13 {NEWEST}"]
    first, second = pairs[:: -1 if commits % 2 else 1]
    assert calls == [f"{first} check", f"{second} like-users", f"{first} test-thorough PART={part}"]
    assert installed == [f"{second} installed-test"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("has", "lacks", "name", "pair"),
    [("3.11", "3.13", "PYTHON_NEW", OLDEST), ("3.13", "3.11", "PYTHON_OLD", NEWEST)],
)
@pytest.mark.parametrize("commits", [2, 3])
def test_a_missing_interpreter_is_said_in_one_line(folder, has, lacks, name, pair, commits):
    works(folder, has)
    done, installed, calls = ran(folder, commits)
    assert calls == [f"PYTHON=python{has} {pair} check", f"PYTHON=python{has} {pair} test-thorough PART={commits}/13"]
    assert (done.returncode, installed) == (0, [])
    assert done.stderr == (
        f"### NOT TESTED: the pair of Python {lacks}, as 'python{lacks}' is missing or cannot make environments: "
        f"install it, or name one in {name}\n"
    )


def test_interpreters_are_those_that_the_environment_names_or_pyenv_has(folder):
    works(folder, "3.13")
    written(folder / "own python", WORKS)
    written(folder / "versions" / "bin" / "python3.11", WORKS)
    written(folder / "bin" / "pyenv", f'#!/bin/sh\n[ "$*" = "prefix 3.11" ] && echo {folder}/versions\n')
    done, _, calls = ran(folder, PYTHON_NEW=str(folder / "own python"))
    assert calls[0] == f"PYTHON={folder}/versions/bin/python3.11 {OLDEST} check"
    assert calls[1] == f"PYTHON={folder}/own python {NEWEST} like-users"
    assert done.returncode == 0
    done, _, calls = ran(folder, PYTHON_NEW="/does/not/run")  # and no other one takes its place
    assert "NOT TESTED: the pair of Python 3.13, as '/does/not/run' is missing" in done.stderr
    assert len(calls) == 2


@pytest.mark.parametrize("step", ["check", "like-users", "test-thorough"])
def test_a_step_that_fails_fails_the_run(folder, step):
    works(folder, "3.11"), works(folder, "3.13")
    done, _, calls = ran(folder, FAILS=step)
    assert done.returncode == 1
    assert step in calls[-1]
