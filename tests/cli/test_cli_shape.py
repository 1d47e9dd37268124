# SPDX-License-Identifier: Apache-2.0
"""What all commands share: they fit the terminal, print JSON, use `-`, give advice, and exit with a known status."""

import argparse
import io
import json
import re
import sys
from pathlib import Path

import jax
import pytest
from command_line import CommandLine
from programs import ROOT

from brainevent import BenchmarkResult, XLACustomKernel, cli
from brainevent.bench import progress, tuning_store
from brainevent.bench.fitting import fitted
from brainevent.cli.parsing import STATUSES, main_parser
from brainevent.toolchain import cache

MEASURE = ("benchmark", "--platform", "cpu", "--import", "ours", "--n-warmup", "0", "--n-runs", "2")
LONG = "a_rather_long_name_of_an_operator"
OURS = f"""
    def labelled(*, platform):
        kinds = {{"transpose": True, "active": 0.01, "kind": "one weight"}}
        return [BenchmarkConfig(f"{{n}} x 80, a label of several words that says all of it again",
                                (jnp.ones(n),), data_kwargs={{"n": n, **kinds}}, bytes=8 * n) for n in (4, 12)]

    one = operator("{LONG}", "dense", "binary", fast=twice, data=labelled)
    one.def_kernel("rows", "gpu", twice, variants={{"block": (64, 128), "clustered": (True, False), "wide": (True,)}})
    two = operator("two", "sparse", fast=twice)
"""


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    command = CommandLine(tmp_path, capsys, monkeypatch)
    command.module("ours", OURS)
    return command


@pytest.fixture
def tuned(run):
    """Remember two choices, one for many operands that was made elsewhere."""
    shapes = ", ".join(["float32[1000,1000]"] * 6)
    for device in ("here", "an accelerator of another kind"):
        fields = (LONG, "cpu", device, shapes, "jax 0.1", "", "", "numba", (("numba", "block=64"),), 2e-6)
        tuning_store.remember(tuning_store.TunedChoice(*fields))
    return tuning_store.tuned_choices()


def fill_cache(name):
    def build(folder):
        (folder / "built.so").write_bytes(b"x" * 1536)
        return folder / "built.so"

    cache.get_or_build(name, "a" * 64, build)


def parsers(parser):
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in dict.fromkeys(action.choices.values()):  # a command may have two names
                yield from parsers(each)


# Lines that fit.


@pytest.mark.parametrize("width", [60, 100])
def test_the_help_of_each_command_fits(monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    found = list(parsers(main_parser("1.0", cli._FAMILIES)))
    assert len(found) == 14
    too_long = [line for parser in found for line in parser.format_help().splitlines() if len(line) > width]
    assert too_long == []


@pytest.mark.parametrize("width", [60, pytest.param(100, marks=pytest.mark.thorough)])
def test_reports_fit(run, tuned, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", str(width))
    fill_cache("a_library_of_a_rather_long_name")
    run(*MEASURE, "--output", "before.json")
    lines = []
    for words in (
        ("doctor",), ("list", "--import", "ours"), ("tune", "list"), ("cache", "list"),
        (*MEASURE, "--compare", "before.json", "--tolerance", "1e9"),
    ):  # fmt: skip
        status, out, err = run(*words)
        assert status == 0
        lines += [line for line in [*out.splitlines(), *err.splitlines()] if "/" not in line]  # but for paths
    assert [line for line in lines if len(line) > width] == []


def test_what_is_left_out_is_named_and_wide_shows_it(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, out, err = run("list", "--import", "ours")
    assert "variants" not in out
    assert err == "left out: variants (--wide shows all)\n"
    assert "" not in out.splitlines()
    _, out, err = run("list", "--import", "ours", "--wide")
    assert "block=64, clustered=True, wide=True" in out
    assert err == ""


def test_tables_of_benchmarks_leave_out_what_tells_nothing_apart(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, out, err = run(*MEASURE, "--operators", LONG)
    [head] = [line for line in out.splitlines() if "backend" in line]
    assert [re.sub("_[un]s$", "_ms", name.strip()) for name in head.split("|")] == [
        "n",
        "backend",
        "mean_ms",
        "median_ms",
        "throughput",
    ]
    assert err == "some columns are left out to fit (--wide shows all)\n"
    assert "peak_fraction" in run(*MEASURE, "--operators", LONG, "--wide")[1]


def test_where_no_column_can_be_spared_groups_have_titles(run, monkeypatch):
    run.module("ours", """
        def many(*, platform):
            return [BenchmarkConfig(f"a case that takes more words than fit beside numbers: {i}", (jnp.ones(i),))
                    for i in (9, 30)]

        operator("many", fast=twice, data=many)
    """)  # fmt: skip
    monkeypatch.setenv("COLUMNS", "60")
    out = run(*MEASURE)[1]
    lines = [line for line in out.splitlines() if "a case" in line or " | " in line]
    assert [line.split(" |")[0] for line in lines] == [
        "backend",
        "a case that takes more words than fit beside numbers: 9",
        "fast   ",
        "a case that takes more words than fit beside numbers: 30",
        "fast   ",
    ]
    assert max(map(len, out.splitlines())) <= 60


def test_a_table_is_wrapped_before_columns_are_left_out():
    rows = [("a", "some words that are long enough to be wrapped", "x"), ("b", "short", "y")]
    text, left_out = fitted(("name", "words", "z"), rows, 36, wrap=["words"], drop=["z"])
    assert left_out == []
    assert text.splitlines() == [
        "name  words                     z",
        "a     some words that are long  x",
        "      enough to be wrapped",
        "b     short                     y",
    ]
    assert fitted(("name", "words", "z"), rows, 20, wrap=["words"], drop=["z", "words"])[1] == ["z", "words"]
    assert fitted(("name", "empty"), [("a", "")], None)[0] == "name\na"


# JSON, and `-`.


def test_what_is_kept_as_json(run, tuned, tmp_path):
    fill_cache("alpha")
    where = str(tmp_path / "cache")
    assert json.loads(run("cache", "dir", "--json")[1]) == {"directory": where}
    [entry] = json.loads(run("cache", "list", "--json")[1])["entries"]
    assert (entry["name"], entry["key"], entry["bytes"]) == ("alpha", "a" * 64, 1536)
    assert json.loads(run("cache", "clear", "--json")[1]) == {"directory": where, "removed": 1, "bytes": 1536}
    here, elsewhere = json.loads(run("tune", "list", "--json")[1])["choices"]
    assert (here["operator"], here["seconds"]) == (LONG, 2e-6)
    assert "accelerator" in here["unlike_here"] + elsewhere["unlike_here"]
    assert json.loads(run("tune", "clear", "--json")[1])["removed"] == 2
    assert json.loads(run("tune", "list", "--json")[1])["choices"] == []


def test_errors_are_no_json(run):
    status, out, err = run("tune", "list", "absent", "--json")
    assert (status, out) == (1, "")
    assert err.startswith("brainevent: ")
    assert "has no choice for operator 'absent'" in err


@pytest.mark.parametrize("words", [["--json"], ["--output", "-"]], ids=" ".join)
def test_results_as_json_are_all_that_is_on_stdout(run, words):
    status, out, err = run(*MEASURE, *words)
    assert status == 0
    assert [one["primitive_name"] for one in json.loads(out)["results"]] == [LONG, "two"]
    assert err.splitlines() == [f"{LONG} (1 of 2)", "two (2 of 2)"]
    Path("run.json").write_text(out)
    assert len(BenchmarkResult.load_run("run.json")) == 2


def test_json_tells_errors_and_regressions_too(run):
    run(*MEASURE, "--output", "before.json")
    run.module("ours", 'operator("two", fast=broken)\noperator("bad", data=lambda *, platform: 1 / 0)')
    status, out, _ = run(*MEASURE, "--json", "--compare", "before.json")
    found = json.loads(out)
    assert (status, found["errors"]["bad"]) == (1, "ZeroDivisionError: division by zero")
    assert found["errors"]["two"].endswith(
        "failed while its kernel was built: RuntimeError: this kernel cannot be built"
    )
    assert found["comparison"]["regressions"] == ["two, n=4, fast: failed", "two, n=12, fast: failed"]
    [change, _] = found["comparison"]["changes"]["two"]
    assert (change["verdict"], change["regression"], change["now_ms"]) == ("failed", True, None)
    assert change["before_ms"] > 0


def test_an_interruption_leaves_valid_json(run, monkeypatch):
    measure = XLACustomKernel.benchmark

    def once(self, **kwargs):
        if self.name == "two":
            raise KeyboardInterrupt
        return measure(self, **kwargs)

    monkeypatch.setattr(XLACustomKernel, "benchmark", once)
    status, out, _ = run(*MEASURE, "--json")
    assert status == 130
    assert [one["primitive_name"] for one in json.loads(out)["results"]] == [LONG]


def test_tuned_choices_go_through_pipes(run, tuned, monkeypatch):
    status, out, err = run("tune", "export", "-")
    assert (status, err) == (0, "")
    run("tune", "clear")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(out.encode())))
    assert run("tune", "import", "-") == (0, "added 2 choices from stdin\n", "")
    assert tuning_store.tuned_choices() == tuned


def test_verbose_does_not_spoil_json(run):
    with pytest.raises(SystemExit) as caught:
        run(*MEASURE, "--json", "--verbose")
    assert caught.value.code == 2
    assert "--verbose prints to stdout, where the JSON goes" in run.capsys.readouterr().err


# Defaults.


def test_the_platform_is_that_of_jax(run, monkeypatch):
    status, out, _ = run("benchmark", "--import", "ours", "--quick", "--operators", "two")
    assert (status, out.split(":")[0]) == (0, jax.default_backend())
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    status, _, err = run("benchmark", "--import", "ours", "--backends", "no")
    assert err.endswith("--backends: no operator has a backend 'no' for tpu; backends: reference\n")


def test_quick_is_the_first_configuration_in_few_runs(run, monkeypatch):
    seen = {}
    measure = XLACustomKernel.benchmark
    monkeypatch.setattr(XLACustomKernel, "benchmark", lambda self, **how: seen.update(how) or measure(self, **how))
    words = ("benchmark", "--import", "ours", "--operators", "two", "--quick", "--json")
    [result] = json.loads(run(*words)[1])["results"]
    assert [record["label"] for record in result["records"]] == ["n=4"]
    assert (seen["n_warmup"], seen["n_runs"]) == (1, 3)
    run(*words, "--n-runs", "2")
    assert (seen["n_warmup"], seen["n_runs"]) == (1, 2)


def test_a_number_of_configurations_below_one_is_refused(run):
    with pytest.raises(ValueError, match="n_configs must be an integer of at least 1, found 0"):
        run("list", "--import", "ours") and sys.modules["ours"].two.benchmark(platform="cpu", n_configs=0)


# Progress.


@pytest.mark.parametrize("tqdm", [True, False])
def test_progress_is_over_all_operators(run, monkeypatch, tqdm):
    if tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
    screen.isatty = lambda: True
    assert run(*MEASURE, "--quick")[0] == 0
    shown = screen.getvalue()
    assert f"{LONG} (1 of 2)" in shown
    assert re.search(r"two \(2 of 2\):? +100 ?%", shown)
    assert shown.index("two (2 of 2)") > shown.index(LONG)
    last = re.split(r"\r(?:\x1b\[K)?", shown)[-1]
    assert not last.strip(), "a bar is left behind"


def test_a_part_of_a_run_counts(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setattr(sys, "stderr", screen := io.StringIO())
    screen.isatty = lambda: True
    with progress.overall(["a", "b"]) as whole:
        whole.begin("b")
        assert list(progress.shown(range(4), "ignored", quiet=True)) == [0, 1, 2, 3]
    assert re.findall(r"b \(2 of 2\): (\d+) %", screen.getvalue()) == ["50", "62", "75", "88", "100"]


# Advice.


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("doctr", "unknown command 'doctr'; did you mean 'doctor'?; commands: doctor, list, check, benchmark, "),
        ("bench", "unknown command 'bench'; did you mean 'benchmark'?; commands: "),
        ("tune lst", "unknown command 'lst'; did you mean 'list'?; commands: list, clear, export, import"),
        ("nonsense", "unknown command 'nonsense'; commands: "),
        ("list --jsno", "unrecognized arguments: --jsno; did you mean '--json'?"),
        ("benchmark --platform cpuu", "invalid choice: 'cpuu'; did you mean 'cpu'?; choose from: cpu, gpu"),
    ],
)
def test_advice_on_words_that_are_not_known(run, words, said):
    with pytest.raises(SystemExit) as caught:
        run(*words.split())
    err = run.capsys.readouterr().err
    assert caught.value.code == 2
    assert said in err
    first = words.split()[0]
    assert err.startswith(
        f"usage: brainevent {first}" if f"commands: {first}" in " ".join(STATUSES.values()) else "usage"
    )


# Exit statuses.


def test_the_help_and_the_page_list_all_exit_statuses(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        run("--help")
    shown = run.capsys.readouterr().out
    page = (ROOT / "docs" / "command-line.md").read_text()
    for status, words in STATUSES.items():
        assert f"\n  {status:<3}  {words}\n" in shown
        assert f"\n| {status} | " in page
    assert re.findall(r"^\| (\d+) \|", page, re.MULTILINE) == list(map(str, STATUSES))
