# SPDX-License-Identifier: Apache-2.0
"""The table of scripts/clients.sh counts what reports say, and names each test that only PyPI's package passes."""

import os
import re
import subprocess
import sys

import pytest
from programs import ROOT

sys.path.insert(0, str(ROOT / "scripts"))
import clients_table
import clients_tests

DRAWN = "AttributeError: module 'brainevent' has no attribute 'JITCScalarR'"
SAID = {"passed": "", "failed": '<failure message="{}">a trace</failure>', "skipped": '<skipped message="{}"/>'}


@pytest.fixture
def write(tmp_path):
    """Write a report of one file as pytest does: the state of each test, and what was said of it."""

    def report(which, file, **tests):
        path = tmp_path / which / f"{file}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        cases = (
            f'<testcase classname="pkg.a_test.TestIt" name="{name}">{SAID[state].format(why)}</testcase>'
            for name, (state, why) in tests.items()
        )
        path.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")
        path.with_suffix(".log").touch()

    return report


PASSED = ("passed", "")


def row(text, name):
    return next([int(word) for word in line.split()[1:]] for line in text.splitlines() if line.split()[:1] == [name])


def test_tests_are_counted_by_file_and_in_all(write, tmp_path, capsys):
    other = ("failed", "E: 1\n  assert 2\n--------------------\nFor simplicity, JAX has removed ...")
    differ = {"theirs": other, "both": other, "left": ("skipped", "no GPU")}
    write("pypi", "one/a_test.py", same=PASSED, drawn=PASSED, broken=PASSED, **differ)
    write("ours", "one/a_test.py", same=PASSED, drawn=("failed", DRAWN), broken=other, theirs=PASSED, both=other)
    write("pypi", "two/b_test.py", same=PASSED)
    write("ours", "two/b_test.py", same=PASSED)
    assert clients_table.main(tmp_path) == 1
    text = capsys.readouterr().out
    assert row(text, "one/a_test.py") == [3, 2, 2, 1]
    assert row(text, "two/b_test.py") == [1, 1, 0, 0]
    assert row(text, "all") == [4, 3, 2, 1]
    behind = text.split("Passes on PyPI's alone\n")[1]
    assert "JITCScalarR'\n    TestIt::drawn\n" in behind
    assert behind.endswith("  one/a_test.py: E: 1 assert 2\n    TestIt::broken\n")


@pytest.mark.parametrize("state", ["failed", "skipped"])
def test_tests_that_only_pypi_passes_are_named(write, tmp_path, capsys, state):
    write("pypi", "one/a_test.py", it=PASSED)
    write("ours", "one/a_test.py", it=(state, "why not"))
    assert clients_table.main(tmp_path) == 1
    assert {"failed": "a_test.py: why not", "skipped": "a_test.py: skipped: why not"}[state] in capsys.readouterr().out


def test_a_file_without_a_report_fails_all_its_tests(write, tmp_path, capsys):
    write("pypi", "one/a_test.py", it=PASSED, that=PASSED)
    write("ours", "one/a_test.py")
    (tmp_path / "ours" / "one" / "a_test.py.xml").unlink()
    assert clients_table.main(tmp_path) == 1
    text = capsys.readouterr().out
    assert row(text, "all") == [2, 0, 2, 0]
    assert "a_test.py: missing: \n    TestIt::it\n    TestIt::that\n" in text


def test_a_file_that_cannot_be_read_fails_with_its_error(write, tmp_path, capsys):
    write("pypi", "one/a_test.py", it=PASSED)
    write("ours", "one/a_test.py", a_test=("failed", "collection failure: ImportError"))
    assert clients_table.main(tmp_path) == 1
    assert "a_test.py: missing: collection failure: ImportError\n    TestIt::it" in capsys.readouterr().out


def test_tests_that_native_loops_fail_are_named(write, tmp_path, capsys):
    for which in ("pypi", "ours", "fused"):
        write(which, "one/a_test.py", it=PASSED, that=PASSED)
    assert clients_table.main(tmp_path) == 0
    write("fused", "one/a_test.py", it=PASSED, that=("failed", "another number"))
    assert clients_table.main(tmp_path) == 1
    text = capsys.readouterr().out.split("Passes on PyPI's alone\n")[-1]
    assert text.startswith("  none\n")
    assert row(text, "all") == [2, 1, 1, 0]
    assert "a_test.py: another number\n    TestIt::that\n" in text


LOOPS = """
import jax, jax.numpy as jnp

def scan(steps, step=lambda c, _: (c * 0.5, None)):
    return jax.jit(lambda x: jax.lax.scan(step, x, None, length=steps)[0])(jnp.ones(8))

def test_loops():
    scan(50), scan(50, lambda c, _: (jnp.sort(c), None)), scan(10), scan(11)
"""


@pytest.mark.parametrize(("fused", "native"), [("1", 1), ("all", 3)])
def test_loops_are_counted(write, tmp_path, capsys, fused, native):
    folder = tmp_path / "fused" / "one"
    folder.mkdir(parents=True)
    (tmp_path / "a_test.py").write_text(LOOPS)
    said = {"BRAINEVENT_FUSE_LOOPS": "1", "FUSED": fused, "LOOPS": str(folder / "a_test.py.loops")}
    path = os.pathsep.join([str(ROOT / "scripts"), str(ROOT)])
    options = ("-q", "-p", "no:cacheprovider", "-p", "clients_loops", "-c", os.devnull, "--rootdir", tmp_path)
    command = [sys.executable, "-m", "pytest", *options, tmp_path / "a_test.py"]
    subprocess.run(command, env=os.environ | said | {"PYTHONPATH": path}, check=True, cwd=tmp_path)
    for which in ("pypi", "ours", "fused"):
        write(which, "one/a_test.py", test_loops=PASSED)
    assert clients_table.main(tmp_path) == 0
    text = capsys.readouterr().out.split("and why others did not\n")[1]
    assert text.startswith(f"  one: {native} of ")
    assert re.search("^ +1 the JAX primitive sort$", text, re.MULTILINE)
    assert ("2 N steps are too few: at least N are worth compiling\n" in text) == (fused == "1")


def test_nothing_to_compare_is_a_failure(tmp_path):
    with pytest.raises(FileNotFoundError, match="no reports"):
        clients_table.main(tmp_path)


def test_files_are_found_by_what_they_name(tmp_path):
    for name, text in {
        "direct.py": "import brainevent\ndef product(x): return brainevent.CSR(x)\ndef plain(x): return x",
        "renamed.py": "from brainevent import CSR as C\nclass Layer:\n    def f(self): return C\nother = 3",
        "indirect.py": "from .direct import product\n__all__ = ['Net']\nclass Net:\n    def g(self): return product",
        "a_test.py": "from p import Net",
        "b_test.py": "import p\np.Layer()",
        "c_test.py": "import brainevent",
        "sub/d_test.py": "def test(): p.indirect.Net()",
        "sub/no_test.py": "from p import plain, other  # brainevent\nNet2 = 'Net'",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = [str(path) for path in clients_tests.touching(tmp_path)]
    assert found == ["a_test.py", "b_test.py", "c_test.py", "sub/d_test.py"]
