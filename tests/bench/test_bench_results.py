# SPDX-License-Identifier: Apache-2.0
"""Results print in every mode, and come back from files as they were; what is no such file is told in words."""

import dataclasses
import json
import math
import os
import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from brainevent import BenchmarkRecord, BenchmarkResult
from brainevent.bench.expression import condition
from brainevent.bench.runs import Run
from brainevent.bench.whole_files import write_whole
from brainevent.bench.words import columns, time_text

NAN = math.nan


def record(backend, n, mean, **more):
    return BenchmarkRecord("cpu", backend, f"n={n}", mean, 0.01, mean - 0.05, None, True, None, {}, {"n": n}, **more)


FAILED = BenchmarkRecord("cpu", "warp", "n=9", NAN, NAN, NAN, None, False, "KeyError: 'x'\nmore", {}, {"n": 9})
RESULT = BenchmarkResult(
    [record("numba", 9, 0.4), record("cpp", 9, 0.2), FAILED, record("numba", 80, 1.5), record("cpp", 80, 3.0)], "op"
)
FAILS = "\nfailed: [cpu|warp] n=9: KeyError: 'x'\n"

PRINTED = {
    "plain": (
        {},
        """\
platform | backend |  n | label | mean_ms | std_ms | min_ms
---------+---------+----+-------+---------+--------+-------
cpu      | numba   |  9 | n=9   |  0.4000 | 0.0100 | 0.3500
cpu      | cpp     |  9 | n=9   |  0.2000 | 0.0100 | 0.1500
cpu      | warp    |  9 | n=9   |  FAILED |        |
cpu      | numba   | 80 | n=80  |  1.5000 | 0.0100 | 1.4500
cpu      | cpp     | 80 | n=80  |  3.0000 | 0.0100 | 2.9500
""",
    ),
    "sort_by": (
        {"sort_by": "mean_ms"},
        """\
platform | backend |  n | label | mean_ms | std_ms | min_ms
---------+---------+----+-------+---------+--------+-------
cpu      | cpp     |  9 | n=9   |  0.2000 | 0.0100 | 0.1500
cpu      | numba   |  9 | n=9   |  0.4000 | 0.0100 | 0.3500
cpu      | numba   | 80 | n=80  |  1.5000 | 0.0100 | 1.4500
cpu      | cpp     | 80 | n=80  |  3.0000 | 0.0100 | 2.9500
cpu      | warp    |  9 | n=9   |  FAILED |        |
""",
    ),
    "group_by": (
        {"group_by": "label"},
        """\
platform | backend |  n | label | mean_ms | std_ms | min_ms
---------+---------+----+-------+---------+--------+-------
cpu      | numba   |  9 | n=9   |  0.4000 | 0.0100 | 0.3500
cpu      | cpp     |  9 | n=9   |  0.2000 | 0.0100 | 0.1500  *
cpu      | warp    |  9 | n=9   |  FAILED |        |
cpu      | numba   | 80 | n=80  |  1.5000 | 0.0100 | 1.4500  *
cpu      | cpp     | 80 | n=80  |  3.0000 | 0.0100 | 2.9500
""",
    ),
    "group_by several, none highlighted": (
        {"group_by": ["backend", "platform"], "highlight_best": False},
        """\
platform | backend |  n | label | mean_ms | std_ms | min_ms
---------+---------+----+-------+---------+--------+-------
cpu      | numba   |  9 | n=9   |  0.4000 | 0.0100 | 0.3500
cpu      | numba   | 80 | n=80  |  1.5000 | 0.0100 | 1.4500
cpu      | cpp     |  9 | n=9   |  0.2000 | 0.0100 | 0.1500
cpu      | cpp     | 80 | n=80  |  3.0000 | 0.0100 | 2.9500
cpu      | warp    |  9 | n=9   |  FAILED |        |
""",
    ),
    "compare_by": (
        {"compare_by": "backend == 'numba'"},
        """\
platform | backend |  n | label | mean_ms | std_ms | min_ms | speedup
---------+---------+----+-------+---------+--------+--------+--------
cpu      | numba   |  9 | n=9   |  0.4000 | 0.0100 | 0.3500 |    1.00
cpu      | cpp     |  9 | n=9   |  0.2000 | 0.0100 | 0.1500 |    2.00
cpu      | warp    |  9 | n=9   |  FAILED |        |        |
cpu      | numba   | 80 | n=80  |  1.5000 | 0.0100 | 1.4500 |    1.00
cpu      | cpp     | 80 | n=80  |  3.0000 | 0.0100 | 2.9500 |    0.50
""",
    ),
    "compare_by one row": (
        {"compare_by": lambda row: row["backend"] == "cpp" and row["n"] == 80, "group_by": "n"},
        """\
platform | backend |  n | label | mean_ms | std_ms | min_ms | speedup
---------+---------+----+-------+---------+--------+--------+--------
cpu      | numba   |  9 | n=9   |  0.4000 | 0.0100 | 0.3500 |    7.50
cpu      | cpp     |  9 | n=9   |  0.2000 | 0.0100 | 0.1500 |   15.00  *
cpu      | warp    |  9 | n=9   |  FAILED |        |        |
cpu      | numba   | 80 | n=80  |  1.5000 | 0.0100 | 1.4500 |    2.00  *
cpu      | cpp     | 80 | n=80  |  3.0000 | 0.0100 | 2.9500 |    1.00
""",
    ),
    "order_by": (
        {"order_by": ["n", "nothing", "backend"], "sort_by": "ignored"},
        """\
 n | backend | mean_ms | std_ms | min_ms
---+---------+---------+--------+-------
 9 | cpp     |  0.2000 | 0.0100 | 0.1500  *
   | numba   |  0.4000 | 0.0100 | 0.3500
   | warp    |  FAILED |        |
---+---------+---------+--------+-------
80 | cpp     |  3.0000 | 0.0100 | 2.9500
   | numba   |  1.5000 | 0.0100 | 1.4500  *

order_by: there is no column 'nothing', so it is left out
""",
    ),
    "order_by with speedup_vs": (
        {"order_by": ["n", "backend"], "speedup_vs": "numba", "highlight_best": False},
        """\
 n | backend | mean_ms | std_ms | min_ms | vs_numba
---+---------+---------+--------+--------+---------
 9 | cpp     |  0.2000 | 0.0100 | 0.1500 |    2.00x
   | numba   |  0.4000 | 0.0100 | 0.3500 |    1.00x
   | warp    |  FAILED |        |        |
---+---------+---------+--------+--------+---------
80 | cpp     |  3.0000 | 0.0100 | 2.9500 |    0.50x
   | numba   |  1.5000 | 0.0100 | 1.4500 |    1.00x
""",
    ),
    "vary_by": (
        {"vary_by": "backend", "speedup_vs": "cpp"},
        """\
platform |  n | label | backend | mean_ms | std_ms | min_ms | vs_cpp
---------+----+-------+---------+---------+--------+--------+-------
cpu      |  9 | n=9   | cpp     |  0.2000 | 0.0100 | 0.1500 |  1.00x  *
         |    |       | numba   |  0.4000 | 0.0100 | 0.3500 |  0.50x
         |    |       | warp    |  FAILED |        |        |
---------+----+-------+---------+---------+--------+--------+-------
cpu      | 80 | n=80  | cpp     |  3.0000 | 0.0100 | 2.9500 |  1.00x
         |    |       | numba   |  1.5000 | 0.0100 | 1.4500 |  2.00x  *
""",
    ),
    "vary_by what the label tells too": (
        {"vary_by": ["n"], "speedup_vs": "9"},
        """\
platform | backend |  n | mean_ms | std_ms | min_ms |  vs_9
---------+---------+----+---------+--------+--------+------
cpu      | cpp     |  9 |  0.2000 | 0.0100 | 0.1500 | 1.00x  *
         |         | 80 |  3.0000 | 0.0100 | 2.9500 | 0.07x
---------+---------+----+---------+--------+--------+------
cpu      | numba   |  9 |  0.4000 | 0.0100 | 0.3500 | 1.00x  *
         |         | 80 |  1.5000 | 0.0100 | 1.4500 | 0.27x
---------+---------+----+---------+--------+--------+------
cpu      | warp    |  9 |  FAILED |        |        |
""",
    ),
}


@pytest.mark.parametrize("mode", PRINTED)
def test_print(mode, capsys):
    arguments, expected = PRINTED[mode]
    RESULT.print(**arguments)
    assert capsys.readouterr().out == expected + FAILS


def test_a_hierarchy_of_unknown_columns_is_a_plain_table(capsys):
    RESULT.print(order_by=["nothing"])
    said = "\norder_by: there is no column 'nothing', so it is left out\n"
    assert capsys.readouterr().out == PRINTED["plain"][1] + said + FAILS


def test_omitted_columns_are_named_in_one_line(capsys):
    RESULT.print(vary_by=["lable", "nothing"], speedup_vs="cpp")
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:-2] == [
        "vary_by: there is no column 'lable'; did you mean 'label'? or 'nothing', so they are left out",
        "speedup_vs has no effect here: it needs a column in order_by or vary_by",
    ]


def test_labels_split_groups_if_nothing_else_tells_them(capsys):
    """Labels that no other column tells are data of their own."""
    same = [record(b, 3, mean) for b, mean in (("a", 1.0), ("b", 2.0))]
    other = [dataclasses.replace(one, label="another", mean_ms=10 * one.mean_ms) for one in same]
    BenchmarkResult([*same, *other]).print(vary_by="backend", speedup_vs="a")
    assert re.findall(r"\d\.\d\dx", capsys.readouterr().out) == ["1.00x", "0.50x", "1.00x", "0.50x"]


@pytest.mark.parametrize("records", [RESULT.records, RESULT.records[:2]], ids=["two", "one"])
def test_speedup_vs_alone_compares_backends(records, capsys):
    result = BenchmarkResult(records, "op")
    result.print(vary_by="backend", speedup_vs="cpp")
    expected = capsys.readouterr().out
    result.print(speedup_vs="cpp")
    assert capsys.readouterr().out == expected
    assert re.findall(r"\S+x", expected)[:2] == ["1.00x", "0.50x"]


def test_speedup_vs_of_a_backend_that_was_not_measured():
    words = "is not a value of the column 'backend'; values: cpp, numba, warp; benchmark(backends=[...]) measures"
    with pytest.raises(ValueError, match=re.escape(words)):
        RESULT.print(speedup_vs="reference")


def test_speedup_vs_beside_a_plain_table_is_reported(capsys):
    RESULT.print(speedup_vs="cpp", sort_by="mean_ms")
    assert "speedup_vs has no effect here: it needs a column in order_by or vary_by" in capsys.readouterr().out


def test_what_was_measured_besides_is_shown():
    shown = record(
        "a", 3, 0.2, median_ms=0.19, low_ms=0.1, high_ms=0.3, loop_ms=0.01, unit="GB/s", peak_fraction=0.5, nans=2
    )
    shown.throughput = 12.345
    shown.kernel_kwargs = {"label": (2, 3)}
    shown.mismatch = "differs"
    assert str(BenchmarkResult([shown])) == (
        "platform | backend | kernel_kwargs.label | n | label | mean_ms | std_ms | min_ms | median_ms | loop_ms | "
        "throughput | peak_fraction\n"
        "---------+---------+---------------------+---+-------+---------+--------+--------+-----------+---------+-"
        "-----------+--------------\n"
        "cpu      | a       | (2, 3)              | 3 | n=3   |  0.2000 | 0.0100 | 0.1500 |    0.1900 |  0.0100 | "
        "12.35 GB/s |           0.5\n"
        "\n"
        "mismatch: [cpu|a] n=3: differs\n"
        "NaN: [cpu|a] n=3: 2 in the results"
    )


@pytest.mark.parametrize(
    ("mean", "title", "cell"),
    [(3e-4, "us", "0.300"), (2.5e-3, "us", "2.500"), (4e-6, "ns", "4.00"), (0.02, "ms", "0.0200")],
)
def test_times_have_a_unit_in_which_they_have_digits(mean, title, cell):
    """The longest time is 12.5 ms in each table."""
    short, long = (
        dataclasses.replace(record(name, 3, time), std_ms=0.0, min_ms=time) for name, time in (("a", mean), ("b", 12.5))
    )
    result = BenchmarkResult([long, short, FAILED], "op")
    lines = str(result).splitlines()
    assert [name.strip() for name in lines[0].split("|")][-3:] == [f"mean_{title}", f"std_{title}", f"min_{title}"]
    assert lines[3].split("|")[-1].strip() == cell
    assert f"mean_{title}" in result._repr_html_()
    assert f">{cell}<" in result._repr_html_()


def test_a_table_is_sorted_by_the_title_of_a_column(capsys):
    result = BenchmarkResult([record("a", 3, 2e-3), record("b", 3, 1e-3)], "op")
    for name in ("mean_us", "mean_ms"):
        result.print(sort_by=name)
        assert [line[11] for line in capsys.readouterr().out.splitlines()[2:4]] == ["b", "a"]


def test_no_records(capsys):
    empty = BenchmarkResult([], "op")
    assert str(empty) == repr(empty) == "BenchmarkResult(primitive='op', 0 records)"
    empty.print(group_by="label")
    assert capsys.readouterr().out == "BenchmarkResult(primitive='op', 0 records)\n"
    assert empty.fastest() is None


def test_fastest():
    assert RESULT.fastest().backend == "cpp"
    assert RESULT.fastest("n=80").backend == "numba"
    assert RESULT.fastest("unknown") is None
    assert BenchmarkResult([FAILED, record("a", 1, NAN)]).fastest() is None
    wrong = dataclasses.replace(record("hasty", 1, 0.001), mismatch="differs")
    assert BenchmarkResult([wrong, record("a", 1, 2.0)]).fastest().backend == "a"


def test_how_long_a_call_takes_is_one_notion(capsys):
    """It is the median, and the mean where there is none: for what is fastest, marked and compared."""
    outlier, steady = record("outlier", 3, 9.0, median_ms=1.0), record("steady", 3, 2.0, median_ms=2.0)
    bare = record("bare", 3, 4.0)
    assert [one.typical_ms for one in (outlier, steady, bare)] == [1.0, 2.0, 4.0]
    both = BenchmarkResult([outlier, steady, bare], "op")
    assert both.fastest().backend == "outlier"
    assert Run("cpu", [both]).optimal_defaults() == {"op": {"cpu": "outlier"}}
    both.print(group_by="label", compare_by="backend == 'steady'")
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines if line.endswith("*")] == ["*"]
    assert [re.search(r"(\d\.\d\d)(  \*)?$", line)[1] for line in lines[2:5]] == ["2.00", "1.00", "0.50"]
    both.print(order_by="backend", speedup_vs="steady")
    lines = capsys.readouterr().out.splitlines()
    assert [(line.split()[0], line.endswith("*")) for line in lines[2:5]] == [
        ("bare", False), ("outlier", True), ("steady", False),
    ]  # fmt: skip
    assert [re.search(r"(\d\.\d\dx)", line)[1] for line in lines[2:5]] == ["0.50x", "2.00x", "1.00x"]


def test_numbers_of_numpy_sort_as_numbers(capsys):
    BenchmarkResult([record("a", np.int64(n), 0.1) for n in (100, 20)]).print(sort_by="n")
    assert [line.split()[4] for line in capsys.readouterr().out.splitlines()[2:]] == ["20", "100"]


def test_records_are_a_copy():
    RESULT.records.clear()
    assert len(RESULT.records) == 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"sort_by": "mean"}, "BenchmarkResult.print: there is no column 'mean'; did you mean 'mean_ms'?; columns: p"),
        ({"group_by": "lable"}, "there is no column 'lable'; did you mean 'label'?"),
        ({"compare_by": "backend == 'x'"}, "is true for no row, so there is no baseline; change the condition"),
        ({"compare_by": "bakend == 'x'"}, "there is no column 'bakend'; did you mean 'backend'?; columns: platform, "),
        ({"compare_by": "n < 'x'"}, "\"n < 'x'\" compares values that cannot be compared: '<' not supported"),
        ({"compare_by": "backend =="}, "'backend ==' is not a condition (invalid syntax"),
        ({"compare_by": "(" * 2000}, "is not a condition (it has more than 1000 characters)"),
        ({"compare_by": "__import__('os')"}, "Call is not allowed in a condition; use comparisons of columns"),
        ({"compare_by": "backend.__class__ == 1"}, "Attribute is not allowed in a condition"),
        ({"compare_by": "n + 1 == 2"}, "BinOp is not allowed in a condition"),
        ({"compare_by": "backend is None"}, "Is is not allowed in a condition"),
        (
            {"order_by": ["n", "backend"], "speedup_vs": "cp"},
            "speedup_vs='cp' is not a value of the column 'backend'; did",
        ),
    ],
)
def test_bad_arguments_of_print(arguments, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        RESULT.print(**arguments)


def test_compare_by_takes_conditions_only():
    with pytest.raises(TypeError, match="compare_by must be a string or a function, found int"):
        RESULT.print(compare_by=3)


NUMBERS = st.integers(-3, 3)


@given(a=NUMBERS, b=NUMBERS, data=st.data())
def test_conditions_mean_what_python_means(a, b, data):
    atoms = st.sampled_from(["a < b", "a == -1", "a != b", "b in (1, 2)", "b not in [a]", "0 <= a < 3", "not a", "b"])
    text = data.draw(
        st.recursive(
            atoms,
            lambda part: st.one_of(
                st.tuples(part, st.sampled_from(["and", "or"]), part).map(lambda parts: f"({' '.join(parts)})"),
                part.map(lambda inner: f"not ({inner})"),
            ),
            max_leaves=5,
        )
    )
    holds = condition(text, ["a", "b"], "here")
    assert holds({"a": a, "b": b}) == bool(eval(text, {"a": a, "b": b}))


# ---- files -----------------------------------------------------------------------------------------------------------


def same(a, b):
    """Say whether two values are equal, NaN being equal to NaN."""
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), lambda part: st.lists(part), max_leaves=4
)
KWARGS = st.dictionaries(st.text(), JSON, max_size=3)
FIELDS = {
    "float": st.floats(),
    "float | None": st.none() | st.floats(),
    "str": st.text(),
    "str | None": st.none() | st.text(),
    "bool": st.booleans(),
    "int": st.integers(),
    "dict[str, Any]": KWARGS,
}
RECORDS = st.builds(
    BenchmarkRecord, **{field.name: FIELDS[field.type] for field in dataclasses.fields(BenchmarkRecord)}
)


@pytest.mark.parametrize("kind", ["json", "pkl"])
@given(records=st.lists(RECORDS, max_size=3), name=st.text())
def test_results_come_back_as_they_were(tmp_path_factory, kind, records, name):
    path = tmp_path_factory.mktemp("results") / "deep" / f"file.{kind}"
    result = BenchmarkResult(records, name)
    result.save(path, kind)
    found = BenchmarkResult.load(str(path), allow_pickle=True)
    assert found.primitive_name == name
    assert same(found.to_dict(), result.to_dict())
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_scalars_of_numpy_come_back_as_numbers(tmp_path):
    shown = record("a", np.int64(3), 0.1, bytes=np.int64(12), flops=np.float32(6), nans=np.int32(1))
    shown.data_kwargs |= {"p": np.float32(0.5), "sorted": np.bool_(True), "shape": (np.int64(2), 3)}
    shown.kernel_kwargs = {"block": np.int16(64), "list": [np.float64(1.5), {"k": np.uint8(7)}]}
    BenchmarkResult([shown]).save(tmp_path / "a.json")
    [found] = BenchmarkResult.load(tmp_path / "a.json").records
    assert found.data_kwargs == {"n": 3, "p": 0.5, "sorted": True, "shape": "(2, 3)"}
    assert found.data_kwargs["sorted"] is True
    assert found.kernel_kwargs == {"block": 64, "list": [1.5, {"k": 7}]}
    assert (found.bytes, found.flops, found.nans) == (12, 6.0, 1)
    assert {type(value) for value in (found.bytes, found.data_kwargs["n"], found.nans)} == {int}


@pytest.mark.parametrize(
    ("name", "start"), [("a.csv", b"platform,"), ("a.json", b"{"), ("a.pkl", b"\x80"), ("a", b"{")]
)
def test_the_end_of_a_name_says_which_format(tmp_path, name, start):
    RESULT.save(tmp_path / name)
    assert (tmp_path / name).read_bytes().startswith(start)
    assert len(BenchmarkResult.load(tmp_path / name, allow_pickle=True).records) == 5
    RESULT.save(tmp_path / "a.txt", format="csv")
    assert (tmp_path / "a.txt").read_bytes().startswith(b"platform,")


def test_whole_runs_are_read_by_a_method_of_their_own(tmp_path):
    path = tmp_path / "run.json"
    Run("cpu", [RESULT, BenchmarkResult([], "two")]).write(path)
    with pytest.raises(
        ValueError, match=r"run\.json is a complete run, which BenchmarkResult\.load_run reads; pass a file"
    ):
        BenchmarkResult.load(path)
    assert [one.primitive_name for one in BenchmarkResult.load_run(path)] == ["op", "two"]
    assert same(BenchmarkResult.load_run(str(path))[0].to_dict(), RESULT.to_dict())
    RESULT.save(tmp_path / "one.json")
    assert [one.primitive_name for one in BenchmarkResult.load_run(tmp_path / "one.json")] == ["op"]
    path.write_text("[")
    with pytest.raises(ValueError, match=r"BenchmarkResult\.load_run: .*run\.json is not JSON.* --output or "):
        BenchmarkResult.load_run(path)
    with pytest.raises(FileNotFoundError, match=r"BenchmarkResult\.load_run: there is no file"):
        BenchmarkResult.load_run(tmp_path / "none")


def test_files_are_replaced_whole_by_any_number_of_threads(tmp_path):
    path, wrong = tmp_path / "a", []
    texts = [bytes([65 + i]) * 100_000 for i in range(6)]

    def write(text):
        for _ in range(10):
            write_whole(path, text)
            if path.read_bytes() not in texts:
                wrong.append(text[:1])

    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert os.listdir(tmp_path) == ["a"]


def test_a_write_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    write_whole(tmp_path / "a", b"before")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "a", b"after")
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"before"


def test_what_is_no_plain_file_is_not_replaced(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "a")
    write_whole(tmp_path / "link", b"1")
    assert (tmp_path / "a").read_bytes() == b"1"
    assert (tmp_path / "link").is_symlink()
    write_whole(Path("/dev/null"), b"1")
    assert not Path("/dev/null").is_file()


PRINTABLE = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    records=st.lists(
        st.builds(
            record,
            backend=PRINTABLE,
            n=PRINTABLE,
            mean=st.floats(0, 1e6),
            mismatch=st.none() | PRINTABLE.filter(bool),
            nans=st.integers(0, 5),
        ),
        max_size=3,
    )
)
def test_csv_keeps_rows(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("results") / "file.csv"
    BenchmarkResult([*records, FAILED], "op").save(path, "csv")
    found = BenchmarkResult.load(path)
    assert found.primitive_name == ""
    for old, new in zip(records, found.records, strict=False):
        kept = ("platform", "backend", "label", "success", "error", "mismatch", "nans")
        assert [getattr(old, name) for name in kept] == [getattr(new, name) for name in kept]
        assert new.mean_ms == pytest.approx(old.mean_ms, rel=1e-8)
        assert new.data_kwargs == {}
    last = found.records[-1]
    assert (last.backend, last.success, last.error) == ("warp", False, FAILED.error)
    assert math.isnan(last.mean_ms)


def test_csv_is_flat_rows(tmp_path):
    RESULT.save(tmp_path / "a.csv", format="csv")
    assert (tmp_path / "a.csv").read_text().splitlines()[:2] == [
        "platform,backend,n,label,mean_ms,std_ms,min_ms,error",
        "cpu,numba,9,n=9,0.4,0.01,0.35,",
    ]


def test_to_dict_is_what_json_holds():
    shown = record("a", 3, NAN)
    shown.kernel_kwargs = {"shape": (2, 3), "list": [1, {"a": None}], "type": float}
    fields = BenchmarkResult([shown], "op").to_dict()
    assert fields["primitive_name"] == "op"
    assert fields["records"][0]["kernel_kwargs"] == {
        "shape": "(2, 3)",
        "list": [1, {"a": None}],
        "type": "<class 'float'>",
    }
    assert set(fields["records"][0]) == {field.name for field in dataclasses.fields(BenchmarkRecord)}
    assert '"mean_ms": NaN' in json.dumps(fields)


def test_json_of_to_dict_is_read(tmp_path):
    """A file with the documented keys and fields alone, as other programs write it, is a file of results."""
    required = {
        field.name: getattr(RESULT.records[0], field.name)
        for field in dataclasses.fields(BenchmarkRecord)
        if field.default is dataclasses.MISSING
    }
    (tmp_path / "a").write_text(json.dumps({"primitive_name": "op", "records": [required]}))
    assert same(BenchmarkResult.load(tmp_path / "a").to_dict(), BenchmarkResult(RESULT.records[:1], "op").to_dict())


HEAD = '"format": "brainevent benchmark", "version": 1, "primitive_name": "op", "records"'
GOOD = RESULT.to_dict()["records"][0]
CSV_HEAD = "platform,backend,label,mean_ms,std_ms,min_ms\n"


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.json", '{"primitive_name": "op", "rec', "is not JSON, or is incomplete (Unterminated string"),
        ("a.json", "", "is not JSON, or is incomplete (Expecting value"),
        ("a.json", b"\x80\x04\xff", "is not JSON, or is incomplete"),
        ("a.json", "[" * 100_000, "is not JSON, or is incomplete"),
        ("a.json", "[1, 2]", "holds no benchmark results; pass a file that BenchmarkResult.save wrote"),
        ("a.json", '{"format": "other", "records": []}', "holds no benchmark results"),
        ("a.json", '{"records": {}}', "holds no benchmark results"),
        ("a.json", f"{{{HEAD.replace('1', '2')}: []}}", "is of version 2, and this brainevent reads version 1"),
        ("a.json", f"{{{HEAD}: [3]}}", "has a record 0 that is a int"),
        ("a.json", f'{{{HEAD}: [{{"platform": "cpu"}}]}}', "has a record 0 without backend, label, mean_ms"),
        (
            "a.json",
            f"{{{HEAD}: [{json.dumps({**GOOD, 'new': 1})}]}}",
            "has a record 0 with new, which this version does not know",
        ),
        ("a.json", f"{{{HEAD}: [{json.dumps({**GOOD, 'label': 3})}]}}", "has a record 0 whose label is 3"),
        ("a.csv", "a,b\n1,2\n", "lacks the columns platform, backend, label, mean_ms, std_ms, min_ms"),
        ("a.csv", "", "lacks the columns platform"),
        ("a.csv", f"{CSV_HEAD}cpu,numba,n=3,0.1234,0.1,0.1", "does not end with a newline, so it is incomplete"),
        ("a.csv", CSV_HEAD.strip(), "does not end with a newline, so it is incomplete"),
        ("a.csv", f"{CSV_HEAD}cpu,numba,n=3,0.1\n", "has 4 cells in row 2 instead of 6, so it may be incomplete"),
        ("a.csv", f"{CSV_HEAD}cpu,numba,n=3,0.1,1,1,1\n", "has 7 cells in row 2 instead of 6"),
        ("a.csv", f'{CSV_HEAD}cpu,numba,n=3,0.1,1,"1\n', "is not CSV (unexpected end of data)"),
        (
            "a.csv",
            f"{CSV_HEAD}cpu,numba,n=3,x,1,1\n",
            "has a row 2 with a cell that is not a number (could not convert",
        ),
        ("a.csv", b"\xff\xfe\n", "is not CSV ("),
        ("a.pkl", pickle.dumps(RESULT)[:-20], "is not a pickle, or is incomplete ("),
        ("a.pkl", pickle.dumps([1]), "holds a list, not a BenchmarkResult"),
    ],
)
def test_files_that_hold_no_results(tmp_path, name, text, words):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=re.escape(words)):
        BenchmarkResult.load(path, allow_pickle=True)


class Trap:
    def __reduce__(self):
        return Path.touch, (Path("sprung"),)


def test_pickles_are_read_only_if_that_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.pkl").write_bytes(pickle.dumps(Trap()))
    with pytest.raises(ValueError, match=r"a\.pkl is a pickle, .* runs the code in it; pass allow_pickle=True if you"):
        BenchmarkResult.load("a.pkl")
    assert not Path("sprung").exists()


def test_a_missing_file_and_an_unknown_format(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"BenchmarkResult\.load: there is no file"):
        BenchmarkResult.load(tmp_path / "a.json")
    with pytest.raises(ValueError, match="unknown format 'xml'; use one of json, csv, pkl"):
        RESULT.save(tmp_path / "deep" / "a.xml", "xml")
    assert not (tmp_path / "deep").exists()


# ---- words -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.5 s"), (0.9999, "1000 ms"), (25e-3, "25 ms"), (1.234e-6, "1.23 us"), (2e-8, "20 ns"), (0, "0 ns")],
)
def test_times_have_the_unit_that_suits_them(seconds, text):
    assert time_text(seconds) == text


def test_columns_stand_in_line():
    rows = [("name", "age"), ("a", "10 h"), ("longer", "")]
    assert columns(rows, right=[1]) == "name     age\na       10 h\nlonger"
