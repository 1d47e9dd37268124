# SPDX-License-Identifier: Apache-2.0
"""`brainevent benchmark`: what is measured, what is written, what counts as a regression, bad input."""

import json
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import jax
import pytest
from command_line import CommandLine
from programs import program_environment, run_program

from brainevent import BenchmarkResult, XLACustomKernel
from brainevent.bench.runs import Run
from brainevent.cli import reporting

QUICK = ("benchmark", "--platform", "cpu", "--n-warmup", "0", "--n-runs", "3")
OURS = (*QUICK, "--import", "ours")
TWO = """
    one = operator("one", "dense", "binary", fast=twice, slow=slow)
    two = operator("two", "sparse", fast=twice)
    three = operator("three", "dense", data=None)
"""


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    """Run commands where the module `ours` defines three operators, two of them with data."""
    command = CommandLine(tmp_path, capsys, monkeypatch)
    command.module("ours", TWO)
    return command


def measured(out):
    """Return which operators have a title."""
    return re.findall(r"^(\w+)(?: \(\d+ of \d+\))?\n=+$", out, re.MULTILINE)


# What is measured.


def test_the_operators_of_a_module_are_measured(run, tmp_path):
    status, out, err = run(*OURS, "--output", "new/folder/run.json")
    assert status == 0
    assert err == "1 operator skipped; --verbose says why\n"
    assert measured(out) == ["one", "two"]
    assert "\nwrote 2 results to new/folder/run.json\n" in out
    written = json.loads((tmp_path / "new/folder/run.json").read_text())
    assert written["platform"] == "cpu"
    assert [one["primitive_name"] for one in written["results"]] == ["one", "two"]
    assert [(r["backend"], r["label"]) for r in written["results"][0]["records"]] == [
        ("fast", "n=4"), ("slow", "n=4"), ("fast", "n=12"), ("slow", "n=12"),
    ]  # fmt: skip
    assert written["optimal_defaults"] == {"one": {"cpu": "fast"}, "two": {"cpu": "fast"}}
    assert written["settings"] == {"n_warmup": 0, "n_runs": 3, "n_batch_per_run": 1, "cold": False}
    assert written["versions"]["jax"] == jax.__version__
    assert out.splitlines()[0] == f"cpu: {written['machine']}"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", written["date"])


def test_tables_are_hierarchies_with_the_best_marked(run):
    out = run(*OURS, "--operators", "one")[1]
    rows = [[cell.strip() for cell in line.split("|")] for line in out.splitlines() if "|" in line]
    assert rows[0][:3] == ["n", "label", "backend"]
    assert rows[0][3] in ("mean_ms", "mean_us")
    assert [row[:3] for row in rows[1:]] == [
        ["4", "n=4", "fast"], ["", "", "slow"], ["12", "n=12", "fast"], ["", "", "slow"],
    ]  # fmt: skip
    assert [row[-1].endswith("*") for row in rows[1:]] == [True, False, True, False]
    assert "\nbest: fast, for 2 of 2 labels\n" in out


def test_labels_without_columns_keep_their_order(run):
    run.module("plain", """
        def plain(*, platform):
            return [BenchmarkConfig(f"n={n}", (jnp.ones(n),)) for n in (3, 20, 100)]

        operator("plain", fast=twice, data=plain)
    """)  # fmt: skip
    out = run(*QUICK, "--import", "plain")[1]
    assert re.findall(r"n=\d+", out) == ["n=3", "n=20", "n=100"]


def test_a_wrong_kernel_is_reported_and_is_not_the_best(run):
    run.module("wrong", 'operator("wrong", right=slow, hasty=thrice)')
    status, out, _ = run(*QUICK, "--import", "wrong", "--output", "run.json")
    assert status == 0
    assert (
        "mismatch: [cpu|hasty] n=4: differs from 'reference' in 4 of 4 elements, most at [0]: 3.0 instead of 2.0" in out
    )
    assert "best: right, for 2 of 2 labels" in out
    assert {line.split("|")[2].strip() for line in out.splitlines() if line.endswith("*")} == {"right"}
    assert Run.read(Path("run.json")).optimal_defaults() == {"wrong": {"cpu": "right"}}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--data", "all"], ["one", "two"]),
        (["--data", "sparse"], ["two"]),
        (["--data", "sparse,binary"], ["one", "two"]),
        (["--data", " dense , "], ["one"]),
        (["--operators", "two,one"], ["two", "one"]),
        (["--data", "dense", "--operators", "one"], ["one"]),
    ],
    ids=" ".join,
)
def test_operators_are_chosen_by_any_tag_and_by_name(run, words, names):
    status, out, _ = run(*OURS, *words)
    assert (status, measured(out)) == (0, names)


def test_one_of_several_tags_is_unknown(run):
    status, out, err = run(*OURS, "--data", "spars,dense")
    assert (status, measured(out)) == (0, ["one"])
    assert "brainevent: no operator has the tag 'spars'; did you mean 'sparse'?\n" in err


def test_backends_are_chosen(run):
    """An operator that lacks some is measured with those that it has, one that lacks all is left out."""
    status, out, err = run(*OURS, "--backends", "slow,reference", "--output", "run.json")
    assert status == 0
    found = {one.primitive_name: {r.backend for r in one.records} for one in Run.read(Path("run.json")).results}
    assert found == {"one": {"slow", "reference"}, "two": {"reference"}}
    status, out, err = run(*OURS, "--backends", "slow")
    assert (status, measured(out)) == (0, ["one"])
    assert "1 operator skipped, without these backends: two\n" in err


def test_how_it_is_measured_goes_through(run, monkeypatch):
    seen = {}

    def benchmark(self, **kwargs):
        seen.update(kwargs)
        return BenchmarkResult([], self.name)

    monkeypatch.setattr(XLACustomKernel, "benchmark", benchmark)
    status, out, err = run(*OURS, "--operators", "two", "--n-warmup", "1", "--n-runs", "4", "--n-batch-per-run", "7")
    assert (status, measured(out)) == (1, ["two"])
    assert "no configuration" in out
    assert err == "brainevent: nothing was measured of two: its benchmark data are empty\n"
    assert seen == {
        "platform": "cpu", "n_warmup": 1, "n_runs": 4, "n_batch_per_run": 7, "cold": False, "backends": None,
        "verbose": False, "n_configs": None,
    }  # fmt: skip
    run(*OURS, "--operators", "two", "--cold", "--verbose", "--backends", "fast")
    assert (seen["cold"], seen["verbose"], seen["backends"]) == (True, True, ["fast"])


def test_where_each_backend_fails_nothing_was_measured(run):
    run.module("failing", 'works = operator("works", fast=twice, bad=broken)\noperator("fails", bad=broken)')
    status, out, err = run(*QUICK, "--import", "failing", "--output", "run.json")
    assert (status, measured(out)) == (1, ["fails", "works"])
    assert err == (
        "brainevent: nothing was measured of fails: each backend failed, the first one with: KernelCompilationError: "
        "operator 'fails': backend 'bad' on cpu failed while its kernel was built: RuntimeError: this kernel cannot be "
        "built\n"
    )
    assert run(*QUICK, "--import", "failing:works")[0] == 0


def test_one_operator_of_a_module(run):
    run.module("pair", """
        class Ops:
            third = operator("third", fast=twice)
        first, second = operator("first", fast=twice), operator("second", fast=twice)
    """)  # fmt: skip
    for words, names in (
        (["pair:second"], ["second"]),
        (["pair:Ops.third", "--import", "pair:first"], ["third", "first"]),
    ):
        status, out, _ = run(*QUICK, "--import", *words)
        assert (status, measured(out)) == (0, names)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ours:ones"], "--import ours:ones: the module has no 'ones'; did you mean 'one'?; operators: one, two, thr"),
        (["ours:"], "--import ours:: the module has no ''; operators: one, two, three"),
        (["ours:twice"], "--import ours:twice: expected an XLACustomKernel, found function"),
        (["ours:one", "--import", "ours"], "--import ours: name an operator of each module (MODULE:OPERATOR), or of n"),
        (["absent:one"], "--import absent: ModuleNotFoundError: No module named 'absent'"),
    ],
)  # fmt: skip
def test_an_attribute_that_is_no_operator(run, words, said):
    status, out, err = run(*QUICK, "--import", *words)
    assert (status, out) == (1, "")
    assert err.startswith(f"brainevent: {said}")


def test_the_longer_name_of_the_command(run):
    status, out, _ = run("benchmark-performance", *OURS[1:], "--operators", "two")
    assert (status, measured(out)) == (0, ["two"])


def test_the_defaults(run, monkeypatch):
    seen = {}
    monkeypatch.setattr(
        XLACustomKernel, "benchmark", lambda self, **kwargs: seen.update(kwargs) or BenchmarkResult([], self.name)
    )
    run("benchmark", "--platform", "cpu", "--import", "ours")
    assert (seen["n_warmup"], seen["n_runs"], seen["n_batch_per_run"]) == (5, 20, 1)


def test_verbose(run):
    status, out, err = run(*OURS, "--verbose")
    assert status == 0
    assert err == "1 operator skipped\n  three has no benchmark data: store a function with def_benchmark_data\n"
    assert re.search(r"^\[one\] \[cpu\|fast\] n=4: mean=[\d.]+ [mun]?s, std=.*s, min=.*s", out, re.MULTILINE)


def test_what_is_skipped(run):
    run.module("lacking", """
        op = brainevent.XLACustomKernel("callless")
        op = operator("elsewhere", fast=twice)
        del op.definition.rules["reference"], op.definition.kernels["cpu"]
    """)  # fmt: skip
    status, out, err = run(*QUICK, "--import", "lacking", "--verbose", "--output", "run.json")
    assert (status, out) == (1, "")
    assert err == (
        "brainevent: nothing is left to measure: callless: no benchmark data: store a function with "
        "def_benchmark_data; elsewhere: no backend for cpu\n"
    )
    assert not Path("run.json").exists()


def test_progress_is_quiet_without_a_terminal(run):
    assert run(*OURS, "--operators", "one")[2] == ""


# Errors.


def test_a_backend_that_fails_is_a_row(run):
    run.module("failing", 'operator("failing", fast=twice, broken=broken)')
    status, out, _ = run(*QUICK, "--import", "failing")
    assert status == 0
    assert "failed: [cpu|broken] n=4: KernelCompilationError: " in out
    assert "FAILED" in out


def test_an_operator_with_an_error_keeps_no_other_from_being_measured(run):
    run.module("bad", """
        def bad(*, platform):
            raise LookupError("the data are gone")

        operator("bad", fast=twice, data=bad)
        operator("good", fast=twice)
    """)  # fmt: skip
    status, out, err = run(*QUICK, "--import", "bad", "--output", "run.json")
    assert (status, measured(out)) == (1, ["bad", "good"])
    assert "\nERROR — LookupError: the data are gone\n" in out
    assert err == "brainevent: 1 operator with an error: bad\n"
    assert [one.primitive_name for one in Run.read(Path("run.json")).results] == ["good"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--data", "denze"], "no operator has the tag 'denze'; did you mean 'dense'?; tags: binary, dense, sparse"),
        (["--data", "x,y"], "no operator has the tag 'x' or 'y'; tags: binary, dense, sparse"),
        (["--operators", "noe"], "there is no operator 'noe'; did you mean 'one'?; operators: one, three, two"),
        (["--data", "sparse", "--operators", "one"], "there is no operator 'one'; operators: two"),
        (
            ["--backends", "fast,fats"],
            ("--backends: no operator has a backend 'fats' for cpu; did you mean 'fast'?; "
             "backends: fast, reference, slow"),
        ),
        (["--import", "absent.ops"], "--import absent.ops: ModuleNotFoundError: No module named 'absent'"),
        (["--import", "ours.py"], "--import ours.py: this is a file; name a module, such as my_package.ops"),
        (["--output", "."], "--output .: this is a folder; pass the name of a file"),
        (["--output", "ours.py/x.json"], "--output: the folder ours.py cannot be made (File exists)"),
        (["--plot", "x.svg"], "--plot x.svg: one file cannot show 2 operators; pass a folder"),
        (["--plot", "x.pdf"], "--plot x.pdf: pictures are .svg or .png files; pass one, or a folder"),
        (["--compare", "absent.json"], "--compare: absent.json cannot be read (No such file or directory)"),
        (["--compare", "."], "--compare: . cannot be read (Is a directory)"),
        (
            ["--compare", "ours.py"],
            ("--compare: ours.py is not JSON, or is incomplete (Expecting value: line 2 column 1 (char 1)); "
             "pass a file that --output or BenchmarkResult.save wrote"),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_what_cannot_be_done_is_said_before_anything_is_measured(run, monkeypatch, words, said):
    monkeypatch.setattr(XLACustomKernel, "benchmark", lambda self, **kwargs: pytest.fail("it is measured"))
    status, out, err = run(*OURS, *words)
    assert (status, out) == (1, "")
    assert err.splitlines()[-1] == f"brainevent: {said}"


def test_without_operators(run):
    status, out, err = run(*QUICK)
    assert (status, out) == (1, "")
    assert err == (
        "brainevent: no operator is defined, so there is nothing to measure; name the module that defines yours: "
        "--import my_package.ops\n"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import numpy\nimport absent", r"ModuleNotFoundError: No module named 'absent' \(.*/faulty\.py, line 2\)"),
        ("def f():\n    raise ValueError('a\\nb')\nf()", r"ValueError: a \(.*/faulty\.py, line 2\)"),
        ("x = (", r"SyntaxError: '\(' was never closed \(faulty\.py, line 1\)"),
        ("raise SystemExit(7)", r"SystemExit: 7 \(.*/faulty\.py, line 1\)"),
        ("raise KeyError", r"KeyError \(.*/faulty\.py, line 1\)"),
    ],
)
def test_a_module_that_cannot_be_imported(run, tmp_path, text, said):
    (tmp_path / "faulty.py").write_text(text)
    status, out, err = run(*QUICK, "--import", "faulty")
    assert (status, out) == (1, "")
    assert re.fullmatch(rf"brainevent: --import faulty: {said}\n", err)


def test_modules_of_packages_and_several_of_them(run, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "ops.py").write_text("from ours import operator, twice\noperator('deep', fast=twice)\n")
    status, out, _ = run(*OURS, "--import", "package.ops", "--operators", "deep,two")
    assert (status, measured(out)) == (0, ["deep", "two"])


def test_a_platform_that_is_not_here(run, monkeypatch):
    def nothing(backend=None):
        raise RuntimeError("Unknown backend: 'tpu' requested")

    monkeypatch.setattr(jax, "local_devices", nothing)
    status, out, err = run("benchmark", "--platform", "tpu", "--import", "ours")
    assert (status, out) == (1, "")
    assert err.splitlines()[-1] == (
        "brainevent: --platform tpu: JAX finds no such device here (Unknown backend: 'tpu' requested)"
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--platfrom", "cpu"], "unrecognized arguments: --platfrom cpu; did you mean '--platform'?"),
        (["--platform", "cuda"], "invalid choice: 'cuda'"),
        (["--platform", "cpu", "--n-runs", "0"], "--n-runs: pass an integer of at least 1, not '0'"),
        (["--platform", "cpu", "--n-warmup", "-1"], "--n-warmup: "),
        (["--platform", "cpu", "--n-batch-per-run", "2.5"], "--n-batch-per-run: pass an integer of at least 1"),
        (["--platform", "cpu", "--tolerance", "-5"], "--tolerance: "),
        (["--platform", "cpu", "--tolerance", "ten"], "--tolerance: pass a percentage, such as 10, not 'ten'"),
        (["--platform", "cpu", "--tolerance", "inf"], "--tolerance: pass a percentage, such as 10, not 'inf'"),
        (["--platform", "cpu", "--data", ","], "--data: name at least one"),
        (["--platform", "cpu", "--backends", ""], "--backends: name at least one"),
        (["--platform", "cpu", "--cold", "--n-batch-per-run", "2"], "--cold times single calls"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_usage(run, words, said):
    with pytest.raises(SystemExit) as caught:
        run("benchmark", *words)
    out, err = run.capsys.readouterr()
    assert (caught.value.code, out) == (2, "")
    assert err.startswith("usage: brainevent benchmark")
    assert said in err.splitlines()[-1]


def test_options_are_not_abbreviated(run):
    with pytest.raises(SystemExit) as caught:
        run(*QUICK, "--out", "x")
    assert caught.value.code == 2
    assert "unrecognized arguments: --out x" in run.capsys.readouterr().err


def test_an_interruption_leaves_no_traceback_and_no_file(run, monkeypatch):
    def interrupted(self, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(XLACustomKernel, "benchmark", interrupted)
    status, _, err = run(*OURS, "--output", "run.json")
    assert status == 130
    assert err.splitlines()[-1] == "brainevent: interrupted"
    assert not Path("run.json").exists()


def test_what_was_measured_before_an_interruption_is_kept(run, monkeypatch):
    measure = XLACustomKernel.benchmark

    def once(self, **kwargs):
        if self.name == "two":
            raise KeyboardInterrupt
        return measure(self, **kwargs)

    monkeypatch.setattr(XLACustomKernel, "benchmark", once)
    assert run(*OURS, "--output", "run.json")[0] == 130
    assert [one.primitive_name for one in BenchmarkResult.load_run("run.json")] == ["one"]


def test_a_file_that_cannot_be_written_after_all(run, monkeypatch):
    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Run, "write", full)
    status, out, err = run(*OURS, "--operators", "two", "--output", "run.json")
    assert (status, measured(out)) == (1, ["two"])
    assert err == "brainevent: --output: run.json cannot be written (No space left on device)\n"


# Comparison with a saved run.


def saved(run, change=lambda content: None, name="before.json"):
    """Measure, and rewrite what was written."""
    run(*OURS, "--output", name)
    content = json.loads(Path(name).read_text())
    change(content)
    Path(name).write_text(json.dumps(content))


def scaled(factor):
    """Return a change of a run: everything took `factor` times as long."""

    def change(content):
        for record in (record for result in content["results"] for record in result["records"]):
            record.update({key: record[key] * factor for key in record if key.endswith("_ms")})

    return change


def verdicts(out):
    """Return (label, backend, verdict) of the rows of comparisons."""
    tables = re.findall(r"^label .*verdict\n((?:.+\n)+)", out, re.MULTILINE)
    rows = [row.split("  <-- ")[0].split() for table in tables for row in table.splitlines()]
    return [(row[0], row[1], row[-1]) for row in rows]


def test_no_regression(run):
    saved(run, scaled(1000))
    status, out, err = run(*OURS, "--compare", "before.json")
    assert status == 0
    assert set(verdicts(out)) == {(f"n={n}", b, "faster") for n in (4, 12) for b in ("fast", "slow")}
    assert out.endswith("\nno regression since before.json\n")
    assert "conditions" not in err


def test_regressions(run):
    saved(run, scaled(0.001))
    status, out, _ = run(*OURS, "--compare", "before.json", "--operators", "one")
    assert status == 3
    assert [verdict for _, _, verdict in verdicts(out)] == ["slower"] * 4
    end = out.split("\n4 regressions since before.json\n")[1].splitlines()
    assert [re.sub(r"\d+\.\d+x", "?x", line) for line in end] == [
        f"  one, {label}, {backend}: ?x as long"
        for label, backend in (("n=4", "fast"), ("n=4", "slow"), ("n=12", "fast"), ("n=12", "slow"))
    ]


def test_the_tolerance_goes_through(run):
    saved(run, scaled(0.001))
    assert run(*OURS, "--compare", "before.json", "--tolerance", "1e9%")[0] == 0


def test_a_kernel_that_fails_or_is_wrong_now_is_a_regression(run):
    saved(run)
    run.module("ours", 'operator("one", fast=thrice, slow=broken)\noperator("two", fast=twice, extra=thrice)')
    status, out, _ = run(*OURS, "--compare", "before.json", "--tolerance", "1000000", "--backends",
                         "reference,fast,slow,extra")  # fmt: skip
    assert status == 3
    assert [v for _, backend, v in verdicts(out) if backend in ("slow", "extra")] == ["failed"] * 2 + ["wrong"] * 2
    assert [v for _, backend, v in verdicts(out) if backend == "reference"] == ["new"] * 4
    end = out.split("\n6 regressions since before.json\n")[1].splitlines()
    assert end[:2] == ["  one, n=4, fast: wrong", "  one, n=4, slow: failed"]


def test_what_is_gone_is_shown(run):
    saved(run)
    run.module("ours", 'operator("one", fast=twice)')
    status, out, err = run(*OURS, "--compare", "before.json", "--tolerance", "1000000")
    assert status == 0
    assert [row for row in verdicts(out) if row[1] == "slow"] == [("n=4", "slow", "gone"), ("n=12", "slow", "gone")]
    assert "brainevent: before.json has results that are not compared: two\n" in err


def test_an_operator_that_the_file_lacks(run):
    saved(run, lambda content: content["results"].pop(0))
    status, _, err = run(*OURS, "--compare", "before.json", "--tolerance", "1000000")
    assert status == 0
    assert "brainevent: before.json has no results of one\n" in err


def test_an_error_comes_before_regressions(run):
    saved(run, scaled(0.001))
    run.module("ours", 'operator("one", fast=twice)\noperator("two", data=lambda *, platform: 1 / 0)')
    status, out, _ = run(*OURS, "--compare", "before.json")
    assert status == 1
    assert "regressions since before.json" in out


def test_different_conditions_are_reported_first(run):
    saved(run, lambda content: content.update(machine="a slow machine", platform="gpu"))
    _, out, err = run(*OURS, "--compare", "before.json")
    machine = out.splitlines()[0].removeprefix("cpu: ")
    where = "brainevent: before.json was measured under other conditions: "
    assert err.splitlines()[1:] == [
        f"{where}platform: gpu before, cpu now",
        f"{where}machine: a slow machine before, {machine} now",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--n-batch-per-run", "2"], "n_batch_per_run: 1 before, 2 now"),
        (["--cold"], "cold: False before, True now"),
    ],
)
def test_times_that_cannot_be_compared_are_not_measured(run, monkeypatch, words, said):
    saved(run)
    monkeypatch.setattr(XLACustomKernel, "benchmark", lambda self, **kwargs: pytest.fail("it is measured"))
    status, out, err = run(*OURS, "--compare", "before.json", *words)
    assert (status, out) == (1, "")
    assert err.splitlines()[-1] == (
        f"brainevent: --compare: before.json was measured with other settings ({said}), so its times cannot be "
        "compared; measure with the settings of that run, or repeat that run"
    )


def test_the_saved_result_of_one_operator(run):
    run(*OURS, "--output", "run.json")
    one, _ = Run.read(Path("run.json")).results
    one.save("one.json")
    status, out, err = run(*OURS, "--operators", "one", "--compare", "one.json", "--tolerance", "1000000")
    assert (status, err, len(verdicts(out))) == (0, "", 4)
    BenchmarkResult(one.records).save("nameless.json")
    assert run(*OURS, "--operators", "one", "--compare", "nameless.json", "--tolerance", "1000000")[0] == 0
    status, _, err = run(*OURS, "--compare", "nameless.json")
    assert status == 1
    assert "nameless.json has no results of the operators to measure (one, two); it has those of: none\n" in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda c: c.update(version=9), "is of version 9, and this brainevent reads version 1; pass a file that"),
        (lambda c: c.update(format="other"), "holds no benchmark results; pass a file that"),
        (lambda c: c.pop("machine"), "is not a complete run: machine is None; pass a file that"),
        (
            lambda c: [result.update(primitive_name="noe") for result in c["results"]],
            "has no results of the operators to measure (one, two); did you mean 'noe'?; it has those of: noe, noe",
        ),
        (lambda c: c["results"].extend(c["results"][:1]), "has several results of one"),
    ],
)
def test_saved_runs_that_cannot_be_compared_with(run, monkeypatch, change, said):
    saved(run, change)
    monkeypatch.setattr(XLACustomKernel, "benchmark", lambda self, **kwargs: pytest.fail("it is measured"))
    status, out, err = run(*OURS, "--compare", "before.json")
    assert (status, out) == (1, "")
    assert f"brainevent: --compare: before.json {said}" in err


def test_output_may_replace_what_it_is_compared_with(run):
    saved(run, scaled(1000))
    assert run(*OURS, "--compare", "before.json", "--output", "before.json")[0] == 0
    assert Run.read(Path("before.json")).results[0].records[0].mean_ms < 1000


# Pictures.


def test_pictures_in_a_folder(run):
    pytest.importorskip("matplotlib")
    status, out, _ = run(*OURS, "--plot", "new/pictures")
    assert status == 0
    assert sorted(path.name for path in Path("new/pictures").iterdir()) == ["one.svg", "two.svg"]
    assert "<svg" in Path("new/pictures/one.svg").read_text()
    assert "\ndrew new/pictures/one.svg\n" in out


@pytest.mark.parametrize(("name", "head"), [("x.svg", b"<?xml"), ("sub/x.png", b"\x89PNG")])
def test_a_picture_of_one_operator(run, name, head):
    pytest.importorskip("matplotlib")
    assert run(*OURS, "--operators", "one", "--plot", name)[0] == 0
    assert Path(name).read_bytes().startswith(head)


def test_a_folder_for_pictures_that_cannot_be_made(run):
    pytest.importorskip("matplotlib")
    status, out, err = run(*OURS, "--plot", "ours.py/x")
    assert (status, out) == (1, "")
    assert err.endswith("brainevent: --plot: the folder ours.py/x cannot be made (Not a directory)\n")


def test_pictures_need_matplotlib(run, monkeypatch):
    monkeypatch.setattr(XLACustomKernel, "benchmark", lambda self, **kwargs: pytest.fail("it is measured"))
    monkeypatch.setattr(reporting.importlib.util, "find_spec", lambda name: None)
    status, out, err = run(*OURS, "--plot", "pictures")
    assert (status, out) == (1, "")
    assert err.endswith("brainevent: --plot needs matplotlib; run: pip install matplotlib\n")
    assert not Path("pictures").exists()


# Processes of their own.


@pytest.mark.thorough
def test_the_installed_script(run, tmp_path):
    """The current directory is found, though a script's own directory is what Python searches first."""
    script = Path(sysconfig.get_path("scripts")) / "brainevent"
    if not script.exists():
        pytest.skip("the package is not installed, so there is no script")
    finished = subprocess.run(
        [sys.executable, script, *OURS, "--output", "run.json"],
        env=program_environment(BRAINEVENT_CACHE_DIR=str(tmp_path / "cache")),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (finished.returncode, measured(finished.stdout)) == (0, ["one", "two"]), finished.stderr
    assert finished.stderr == "1 operator skipped; --verbose says why\n"
    assert len(Run.read(tmp_path / "run.json").results) == 2


@pytest.mark.thorough
def test_the_help_loads_nothing_that_measures():
    program = """
        import contextlib, io, sys
        import brainevent
        before = set(sys.modules)
        from brainevent.cli import main
        for words in ([], ["benchmark", "--help"], ["list", "--help"]):
            with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
                main(words)
            assert "usage: brainevent" in out.getvalue()
        print(*sorted(set(sys.modules) - before))
    """
    loaded = run_program(program).split()
    assert "brainevent.cli" in loaded
    heavy = {"numba", "matplotlib", "warp", "tqdm", "brainevent.bench.measure", "brainevent.bench.result"}
    assert heavy.isdisjoint(loaded)
