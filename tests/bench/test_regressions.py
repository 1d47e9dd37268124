# SPDX-License-Identifier: Apache-2.0
"""What counts as slower, failed or wrong since a saved run, and what such a file must be."""

import json
import math

import pytest

from brainevent import BenchmarkRecord, BenchmarkResult
from brainevent.bench.regressions import changes, differences, other_settings
from brainevent.bench.runs import ForeignFileError, Run, best_backend

NAN = math.nan


def record(median=1.0, spread=0.01, *, backend="numba", label="n=3", error=None, n=3, **more):
    """A record with quartiles `spread` beside its median; its mean is far off, as one slow run can make it."""
    success, mean = error is None, NAN if error else 5 * median
    times = {} if median is None or error else {"median_ms": median, "low_ms": median - spread}
    if times:
        times["high_ms"] = median + spread
    return BenchmarkRecord(
        "cpu", backend, label, mean, 0.0, mean, None, success, error, {}, {"n": n}, **{**times, **more}
    )


def verdict(before, now, tolerance=0.1):
    old = [] if before is None else [before]
    [change] = changes(BenchmarkResult(old), BenchmarkResult([] if now is None else [now]), tolerance)
    return change.verdict, change.is_regression


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (record(1.0), record(1.0), ("same", False)),
        (record(1.0), record(1.09), ("same", False)),
        (record(1.0), record(1.11), ("slower", True)),
        (record(1.0), record(0.92), ("same", False)),
        (record(1.0), record(0.5), ("faster", False)),
        (record(1.0, 0.3), record(1.2, 0.01), ("same", False)),  # the quartiles overlap
        (record(1.0, 0.01), record(1.2, 0.3), ("same", False)),
        (record(1.0, 0.01), record(0.5, 0.5), ("same", False)),
        (None, record(), ("new", False)),
        (record(), None, ("gone", False)),
        (record(), record(error="E: x"), ("failed", True)),
        (record(error="E: x"), record(error="E: x"), ("failed", False)),
        (None, record(error="E: x"), ("failed", False)),
        (record(error="E: x"), record(), ("new", False)),
        (record(), record(0.1, mismatch="differs"), ("wrong", True)),
        (None, record(0.1, mismatch="differs"), ("wrong", True)),
        (record(error="E: x"), record(mismatch="differs"), ("wrong", True)),
        (record(mismatch="differs"), record(mismatch="differs"), ("wrong", False)),
        (record(0.1, mismatch="differs"), record(), ("new", False)),
        (record(0.0), record(), ("same", False)),
    ],
)
def test_verdicts(before, now, expected):
    assert verdict(before, now) == expected


def test_the_tolerance():
    assert verdict(record(1.0), record(1.4), 0.5) == ("same", False)
    assert verdict(record(1.0), record(1.6), 0.5) == ("slower", True)
    assert verdict(record(1.0), record(1.05), 0) == ("slower", True)


def test_records_without_quartiles_are_compared_by_their_means():
    def bare(mean):
        return BenchmarkRecord("cpu", "numba", "n=3", mean, 0.0, mean, None, True, None, {}, {})

    assert verdict(bare(1.0), bare(1.2)) == ("slower", True)
    assert verdict(bare(1.0), bare(1.05)) == ("same", False)
    [change] = changes(BenchmarkResult([bare(1.0)]), BenchmarkResult([bare(1.2)]))
    assert change.ratio == pytest.approx(1.2)


def test_records_are_paired_by_backend_label_and_keywords():
    """And those that share all of these, by their order."""
    before = [record(1.0), record(2.0, backend="cpp")]
    before += [record(3.0, n=4), record(7.0), record(9.0, label="old")]
    now = [record(3.0, n=4), record(2.0, backend="cpp"), record(1.0), record(7.0), record(8.0, label="new")]
    found = changes(BenchmarkResult(before), BenchmarkResult(now))
    assert [(c.label, c.backend, c.verdict) for c in found] == [
        ("n=3", "numba", "same"), ("n=3", "cpp", "same"), ("n=3", "numba", "same"), ("n=3", "numba", "same"),
        ("new", "numba", "new"), ("old", "numba", "gone"),
    ]  # fmt: skip


def test_keywords_are_compared_as_a_file_keeps_them(tmp_path):
    now = BenchmarkResult([record(n=(2, 3))], "op")
    now.save(tmp_path / "op.json")
    [change] = changes(BenchmarkResult.load(tmp_path / "op.json"), now)
    assert change.verdict == "same"


def test_backends_that_were_not_measured_are_not_gone():
    before = BenchmarkResult([record(backend="numba"), record(backend="cpp"), record(backend="warp")])
    found = changes(before, BenchmarkResult([record(backend="cpp")]), backends=["cpp", "warp"])
    assert [(change.backend, change.verdict) for change in found] == [("cpp", "same"), ("warp", "gone")]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({}, []),
        ({"platform": "gpu"}, ["platform: gpu before, cpu now"]),
        ({"machine": "old"}, ["machine: old before, new now"]),
        ({"machine": ""}, []),
        ({"versions": {"jax": "0.9", "numba": "1"}}, ["jax: 0.9 before, 0.10 now"]),
        ({"settings": {"n_batch_per_run": 9, "cold": True, "n_runs": 5}}, []),
        ({"platform": "", "results": [BenchmarkResult([record()])]}, []),
        ({"platform": "", "results": [BenchmarkResult([record(), record()])], "machine": ""}, []),
    ],
)
def test_how_runs_differ(changed, said):
    settings = {"n_batch_per_run": 1, "cold": False, "n_runs": 20}
    now = {"platform": "cpu", "results": [], "machine": "new", "versions": {"jax": "0.10"}, "settings": settings}
    assert differences(Run(**{**now, **changed}), Run(**now)) == said


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"n_batch_per_run": 1, "cold": False, "n_runs": 5, "n_warmup": 0}, []),
        ({"n_batch_per_run": 9, "cold": True}, ["n_batch_per_run: 9 before, 1 now", "cold: True before, False now"]),
        ({}, []),
    ],
)
def test_settings_that_make_times_incomparable(settings, said):
    now = {"n_batch_per_run": 1, "cold": False, "n_runs": 20, "n_warmup": 5}
    assert other_settings(Run("cpu", [], settings=settings), Run("cpu", [], settings=now)) == said


def test_results_alone_tell_their_platform():
    gpu = BenchmarkRecord("gpu", "numba", "n=3", 1.0, 0.0, 1.0, None, True, None, {}, {})
    assert differences(Run("", [BenchmarkResult([gpu])]), Run("cpu", [])) == ["platform: gpu before, cpu now"]


# The best backend.


def test_the_best_backend_wins_most_labels():
    """By medians, among those that succeed and are right; of several, the one measured first."""
    rows = [("a", "numba", 2.0), ("a", "cpp", 1.0), ("b", "numba", 1.0), ("b", "cpp", 2.0)]
    records = [record(median, label=label, backend=backend) for label, backend, median in rows]
    assert best_backend(BenchmarkResult(records)) == "numba"
    records += [record(0.1, label="a", backend="hasty", mismatch="differs"), record(1.0, label="c", backend="cpp")]
    records.append(record(label="c", backend="numba", error="E: x"))
    assert best_backend(BenchmarkResult(records)) == "cpp"
    assert best_backend(BenchmarkResult([record(error="E: x")])) is None
    assert Run("cpu", [BenchmarkResult(records, "op"), BenchmarkResult([], "none")]).optimal_defaults() == {
        "op": {"cpu": "cpp"}
    }


# Files.

RUN = Run(
    "cpu",
    [BenchmarkResult([record(), record(error="E: x")], "one"), BenchmarkResult([], "two")],
    "a machine",
    {"jax": "0.10"},
    {"n_runs": 3},
    "2025-01-01T00:00:00+00:00",
)


def test_a_run_comes_back_from_its_file(tmp_path):
    RUN.write(tmp_path / "new" / "run.json")
    again = Run.read(tmp_path / "new" / "run.json")
    assert [one.primitive_name for one in again.results] == ["one", "two"]
    assert repr(again.results[0].records) == repr(RUN.results[0].records)
    for name in ("platform", "machine", "versions", "settings", "date"):
        assert getattr(again, name) == getattr(RUN, name)
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["run.json"]


def test_the_file_of_one_result_is_a_run(tmp_path):
    RUN.results[0].save(tmp_path / "one.json")
    again = Run.read(tmp_path / "one.json")
    assert [one.primitive_name for one in again.results] == ["one"]
    assert (again.platform, again.machine, again.date) == ("", "", "")


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda text: text[: len(text) // 2], "is not JSON, or is incomplete"),
        (lambda text: "", "is not JSON, or is incomplete"),
        (lambda text: "\x80", "is not JSON, or is incomplete"),
        (lambda text: "[1, 2]", "holds no benchmark results"),
        (lambda text: '{"benchmarks": []}', "holds no benchmark results"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "is of version 2, and this brainevent reads"),
        (lambda text: text.replace('"platform": "cpu",\n "machine"', '"platform": 3,\n "machine"'), "platform is 3"),
        (lambda text: text.replace('"settings"', '"set"'), "is not a complete run: settings is None"),
        (lambda text: text.replace('"backend"', '"kernel"'), "has a record 0 without backend"),
        (lambda text: json.dumps({**json.loads(text), "results": [3]}), "holds no benchmark results"),
    ],
)
def test_damaged_files_are_refused(tmp_path, damage, why):
    RUN.write(tmp_path / "run.json")
    text = damage((tmp_path / "run.json").read_text())
    (tmp_path / "run.json").write_text(text, encoding="latin-1")
    with pytest.raises(ForeignFileError) as caught:
        Run.read(tmp_path / "run.json")
    assert why in caught.value.why
