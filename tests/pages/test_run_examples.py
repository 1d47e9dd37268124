# SPDX-License-Identifier: Apache-2.0
"""Examples run again when something that they depend on has changed, and only then."""

import subprocess
import sys
from pathlib import Path

import pytest
from programs import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import run_examples
from run_examples import Program


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Make a small project, in whose place the script works."""
    for name, text in {
        "brainevent/room.py": "x = 1",
        "docs/page.md": "# Page\n\n```python\nprint(1)\n```\n",
        "docs/longer.md": "# Longer\n\n```python\nprint(2)\n```\nand more\n",
        "docs/text.md": "# Text\n",
        "docs/_static/a.svg": "<svg/>",
        "README.md": "# Readme\n",
        "good.py": "import sys\nprint('said', sys.argv[1:])",
        "bad.py": "print('why it failed')\nraise SystemExit(3)",
        "worse.py": "1 / 0",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(run_examples, "ROOT", tmp_path)
    monkeypatch.setattr(run_examples, "STAMPS", tmp_path / "build" / "stamps")
    run_examples.shared_digest.cache_clear()
    yield tmp_path
    run_examples.shared_digest.cache_clear()


def waiting():
    run_examples.shared_digest.cache_clear()
    return [program.words[-1] for program in run_examples.programs(site=True) if not program.is_done()]


def test_what_has_changed_waits(tree):
    everything = ["site", "brainevent", "100", "examples.networks.classifier", "50", "50", "examples.networks.ring"]
    everything += ["examples.demo"]
    everything += ["docs/longer.md", "docs/page.md"]  # of pages with programs, the longest first
    assert waiting() == everything
    for program in run_examples.programs(site=True):
        program.done()
    assert waiting() == ["site"]  # which is not there
    (tree / "site").mkdir()
    (tree / "site" / "index.html").touch()
    assert waiting() == []
    (tree / "docs" / "page.md").write_text("# Page\n\n```python\nprint(3)\n```\n")
    assert waiting() == ["site", "docs/page.md"]
    (tree / "docs" / "_static" / "a.svg").write_text("<svg> </svg>")
    run_examples.programs(site=True)[-1].done()
    assert waiting() == ["site"]
    (tree / "brainevent" / "room.py").write_text("x = 2")
    assert sorted(waiting()) == sorted(everything)
    assert "site" not in [program.words[-1] for program in run_examples.programs(site=False)]


def test_another_version_of_a_package_runs_all(tree, monkeypatch):
    before = Program(("good",)).digest
    monkeypatch.setattr(run_examples.importlib.metadata, "distributions", list)
    run_examples.shared_digest.cache_clear()
    assert Program(("good",)).digest != before


FAILS = """
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import run_examples

run_examples.ROOT = Path(sys.argv[2])
run_examples.STAMPS = run_examples.ROOT / "stamps"
sys.path.insert(0, sys.argv[2])
programs = [run_examples.Program(tuple(words.split())) for words in ("bad", "good a b", "worse")]
failed = run_examples.run(programs)
print(sorted(program.name for program in failed), [program.is_done() for program in programs])
"""


def test_what_fails_is_shown_and_runs_again(tree):
    """In a process that has no threads: this one may not fork."""
    command = [sys.executable, "-c", FAILS, str(Path(run_examples.__file__).parent), str(tree)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines()[-1] == "['bad', 'worse'] [False, True, False]"
    assert "why it failed" in printed
    assert "ZeroDivisionError" in printed
    assert "said" not in printed  # of what went well, nothing is shown
