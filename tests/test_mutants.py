# SPDX-License-Identifier: Apache-2.0
"""The table of mutants fits the package, and what judges them tells those that are noticed from the others."""

import ast
import sys
from pathlib import Path

import pytest
from programs import ROOT

import brainevent

PACKAGE = Path(brainevent.__file__).resolve().parent
sys.path.insert(0, str(ROOT / "scripts"))

from mutations import MUTANTS, Mutant  # noqa: E402 - found by the line above
from mutations.judge import Judge  # noqa: E402

ROOMS_WITHOUT = {
    "_names",
    "__main__",
    "_version",
    "backends",
    "backends/triton",
    "network",
    "typing",
}  # they hold no line that could be wrong


def test_mutants_fit_the_package():
    wrong = {}
    for mutant in MUTANTS:
        text = mutant.applied(ROOT)
        if text is None:
            wrong[mutant.name] = f"brainevent/{mutant.file} does not hold this text once:\n{mutant.old}"
        elif text == (ROOT / "brainevent" / mutant.file).read_text():
            wrong[mutant.name] = "it changes nothing"
        elif mutant.file.endswith(".py"):
            ast.parse(text)
        if missing := [name for name in mutant.tests if name not in mutant.test_files(ROOT)]:
            wrong[mutant.name] = f"there are no tests {', '.join(missing)}"
        assert mutant.tests
    assert wrong == {}


def test_every_room_has_mutants():
    files = [path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")]
    rooms = {path.stem if len(path.parts) == 1 else str(path.parent) for path in files}
    assert rooms - ROOMS_WITHOUT <= {mutant.room for mutant in MUTANTS}
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 70


TESTS = {
    "test_values": "import time, brainevent as b\ndef test_a():\n    assert b.A == 1\n    time.sleep(b.PAUSE)\n",
    "test_broken": "import brainevent as b\ndef test_always():\n    assert False\ndef test_b():\n    assert b.B == 1\n",
    "test_absent": "import pytest\ndef test_c():\n    pytest.skip('a package is missing')\n",
    "test_crash": "import os, brainevent as b\ndef test_d():\n    b.D == 1 or os.abort()\n",
}
LEFT_OUT = "left out, as they fail without the mutant"
VERDICTS = {
    ("A = 1", "A = 2", "test_values"): ("killed", "tests/test_values.py::test_a"),
    ("B = 1", "B = 2", "test_values"): ("survived", ""),
    ("B = 1", "B = 3", "test_broken"): ("killed", "tests/test_broken.py::test_b"),
    ("A = 1", "A = 3", "test_broken"): ("survived", f"{LEFT_OUT}: tests/test_broken.py::test_always"),
    ("B = 1", "B = 4", "test_absent"): ("not judged", "all of its tests are skipped"),
    ("D = 1", "D = 2", "test_crash"): ("killed", "tests/room/test_crash.py::test_d"),
    ("PAUSE = 0", "PAUSE = 60", "test_values"): ("timed out", "tests/test_values.py::test_a"),
    ("E = 1", "E = 2", "test_values"): ("not applicable", "its text is not once in brainevent/__init__.py"),
    ("A = 1", "A = 4", "test_none"): ("not applicable", "not once in tests/: test_none.py"),
}  # fmt: skip


@pytest.mark.thorough
def test_verdicts(tmp_path):
    """It starts ten processes."""
    for folder in ("tree/brainevent", "tree/tests/room"):
        (tmp_path / folder).mkdir(parents=True)
    package = tmp_path / "tree" / "brainevent" / "__init__.py"
    package.write_text("A = 1\nB = 1\nD = 1\nPAUSE = 0\n")
    for name, text in TESTS.items():
        (tmp_path / "tree" / "tests" / ("room" if name == "test_crash" else ".") / f"{name}.py").write_text(text)
    with Judge(tmp_path / "tree", tmp_path / "scratch", sys.executable, limit=8) as judge:
        for number, ((old, new, test), expected) in enumerate(VERDICTS.items()):
            verdict = judge(Mutant(f"mutant-{number}", "__init__.py", old, new, (test,)))
            assert (verdict.outcome, verdict.by) == expected
    assert package.read_text() == "A = 1\nB = 1\nD = 1\nPAUSE = 0\n"
    assert not (tmp_path / "scratch").exists()
