# SPDX-License-Identifier: Apache-2.0
"""What tests cost is recorded, and chooses what `make quick` and a part of the thorough tests run."""

import argparse
import itertools

import costs
import pytest

TESTS = """
import pytest

@pytest.mark.parametrize("x", range(4))
def test_dear(x):
    pass

def test_new():
    pass
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Return a function that runs two files of tests, with records of costs of their own."""
    (pytester.path / "tests").mkdir()
    for name in ("test_a", "test_b"):
        (pytester.path / "tests" / f"{name}.py").write_text(TESTS)
    monkeypatch.setattr(costs, "FILE", pytester.path / "tests" / "costs.tsv")
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)

    def run(*options):
        done = pytester.runpytest_inprocess("-p", "costs", "-p", "no:cacheprovider", "-p", "no:xdist", "-v", *options)
        assert done.ret == 0, done.stdout
        return [line.partition(" ")[0].removeprefix("tests/") for line in done.stdout.lines if " PASSED" in line]

    return run


def test_expensive_tests_are_left_out_of_a_quick_run(run):
    costs.FILE.write_text("# seconds\n2.5\ttest_b.py::test_dear\n")
    assert len(run()) == 10
    assert run("--cheaper-than", "1") == [
        *(f"test_a.py::test_dear[{x}]" for x in range(4)), "test_a.py::test_new", "test_b.py::test_new",
    ]  # fmt: skip


def test_parts_hold_each_test_once_and_cost_about_the_same(run):
    costs.FILE.write_text("2\ttest_a.py::test_dear\n2\ttest_b.py::test_dear\n")
    parts = [run("--part", f"{k}/3") for k in range(3)]
    assert sorted(itertools.chain(*parts)) == sorted(run())
    assert parts == [run("--part", f"{k}/3") for k in range(3)]
    assert {sum("dear" in name for name in names) for names in parts} == {2, 3}


@pytest.mark.parametrize("text", ["7/7", "1", "1/0", "-1/7", "a/7", "1/7/2", ""])
def test_invalid_parts_are_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match=f"'{text}' is no part; pass k/n with k from 0 to n - 1"):
        costs.part(text)
    assert costs.part("6/7") == (6, 7)


def test_recorded_costs_replace_those_of_the_files_that_ran(run):
    costs.FILE.write_text("3\ttest_c.py::test_other\n4\ttest_a.py::test_gone\n5\ttest_a.py::test_dear\n")
    run("--record-costs", "tests/test_a.py")
    found = costs.read(costs.FILE.read_text())
    assert found["test_c.py::test_other"] == 3
    assert "test_a.py::test_gone" not in found
    assert found.get("test_a.py::test_dear", 0) < 1


def test_a_record_holds_the_mean_of_a_test_s_items():
    seconds = {"tests/test_a.py::test_x[1]": 1.0, "tests/test_a.py::test_x[2]": 2.0, "tests/test_a.py::T::test_y": 0.01}
    found = costs.read(costs.written(costs.renewed({"test_a.py::test_x": 9.0}, seconds)))
    assert found == {"test_a.py::test_x": 1.5, "test_a.py::T::test_y": 0.01}
    assert costs.cost_name("tests/test_a.py::T::test_y[tests/x]") == "test_a.py::T::test_y"
    assert costs.cost_name("tests/event/csr/test_c.py::test_z[0]") == "event/csr/test_c.py::test_z"


def test_processor_time_is_measured(run):
    (costs.FILE.parent / "test_b.py").write_text("def test_counts():\n    assert sum(range(3_000_000))\n")
    run("--record-costs")
    assert costs.read(costs.FILE.read_text()).keys() >= {"test_b.py::test_counts"}
