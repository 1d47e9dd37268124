# SPDX-License-Identifier: Apache-2.0
"""In a notebook, objects show tables: what users name is escaped, and no colour is of one theme alone."""

import copy
import pickle
import re
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from quantities import u

import brainevent
from brainevent import _html
from brainevent.bench.tune import Trial
from brainevent.doctor import Line, Report, Section
from brainevent.operator.check.report import CheckRow

EVIL = "<script>alert('x')</script> & \"y\""
VOID = {"br", "hr", "img"}


class Page(HTMLParser):
    """Reads HTML; fails where a tag is not closed, and gathers cells and styles."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.styles, self.cells, self.words = [], [], [], [], ""
        self.marked, self.cell = [], None
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        self.styles.append(attrs.get("style", ""))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cell = ""
        if tag == "tr":
            self.marked.append("background" in attrs.get("style", ""))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th"):
            self.cells.append(self.cell)
            self.cell = None

    def handle_data(self, data):
        self.words += data
        if self.cell is not None:
            self.cell += data


def shown(value):
    page = Page(value._repr_html_())
    assert "script" not in page.tags
    for style in page.styles:  # grey that lets the page through, or the page's own colour
        assert set(re.findall(r"(?:^|; )color: ([^;]+)", style)) <= {"inherit"}
        assert "#" not in style
        assert set(re.findall(r"rgba?\([^)]*\)", style)) <= {f"rgba(128, 128, 128, {a})" for a in (0.35, 0.18)}
    return page


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=8), st.text(max_size=8)), max_size=4), st.text(max_size=8))
def test_cells_of_any_text_are_read_back(rows, caption):
    plain = [[cell.replace("\r", "").replace("\0", "") for cell in row] for row in rows]
    page = Page(_html.document("t", _html.table(("a", "<b>"), plain, caption=caption.replace("\0", ""))))
    assert page.cells == ["a", "<b>", *(cell for row in plain for cell in row)]


def test_a_long_table_says_how_much_more_there_is():
    page = Page(_html.table(("n",), [(i,) for i in range(_html.LIMIT + 7)]))
    assert page.cells[-1] == "7 more rows"
    assert len(page.cells) == _html.LIMIT + 2


# ---- matrices --------------------------------------------------------------------------------------------------------


def test_a_matrix_says_what_it_holds():
    csr = brainevent.CSR((jnp.ones(3), jnp.array([0, 2, 1]), jnp.array([0, 1, 2, 3])), shape=(3, 4))
    page = shown(csr)
    found = dict(zip(page.cells[::2], page.cells[1::2], strict=True))
    assert page.words.startswith("CSR")
    assert found["shape"] == "3 x 4"
    assert found["data"] == "float32[3]"
    assert (found["stored elements"], found["density"]) == ("3", "0.25")
    assert found["indices"] == "indices int32[3], indptr int32[4]"
    assert found["memory"] == f"{12 + 12 + 16} bytes"
    assert "unit" not in found
    assert "mV" in shown(csr.with_data(jnp.ones(3) * u.mV)).words


@pytest.mark.parametrize("kind", ["COO", "CSC", "Dense", "FixedNumPerPre", "JITCScalarR", "empty"])
def test_every_matrix_shows_itself(kind):
    dense = jnp.eye(3)
    matrix = {
        "COO": lambda: brainevent.COO.fromdense(dense),
        "CSC": lambda: brainevent.CSC.fromdense(dense),
        "Dense": lambda: brainevent.Dense(dense),
        "FixedNumPerPre": lambda: brainevent.FixedNumPerPre((jnp.ones((3, 1)), jnp.arange(3)[:, None]), shape=(3, 3)),
        "JITCScalarR": lambda: brainevent.JITCScalarR((1.0, 0.5, 1), shape=(3, 3)),
        "empty": lambda: brainevent.CSR.fromdense(jnp.zeros((0, 3))),
    }[kind]()
    words = shown(matrix).words
    assert words.startswith(type(matrix).__name__)
    assert f"{matrix.shape[0]} x 3" in words


def test_a_matrix_in_a_trace_shows_itself():
    seen = []

    @jax.jit
    def show(matrix):
        seen.append(shown(matrix).words)
        return matrix.data

    show(brainevent.CSR.fromdense(jnp.eye(3)))
    assert "float32[3]" in seen[0]


# ---- operators, results and reports ----------------------------------------------------------------------------------


def test_an_operator_shows_kernels_and_rules(unique_name):
    op = brainevent.XLACustomKernel(unique_name("shown"))
    assert "none" in shown(op).words
    op.def_reference(lambda x: x)
    op.def_kernel("one", "cpu", lambda *, outs: lambda x: x)
    op.def_kernel("two", "cpu", lambda *, outs, n: lambda x: x, variants={"n": (1, 2)}, asdefault=True)
    op.def_tags(EVIL)
    page = shown(op)
    assert page.cells[:5] == ["platform", "backend", "language", "variants", ""]
    assert page.cells[5:15] == ["cpu", "one", "one", "", "", "cpu", "two", "two", "n=1; n=2", "default"]
    assert page.marked[:3] == [False, False, True]
    assert "reference" in page.words
    assert EVIL in page.words


def record(backend, ms, **kwargs):
    made = brainevent.BenchmarkRecord("cpu", backend, EVIL, ms, 0.01, ms, None, True, None, {}, {})
    for name, value in kwargs.items():
        setattr(made, name, value)
    return made


def test_a_benchmark_marks_the_fastest_that_is_right():
    records = [record("slow", 3.0), record("fast", 1.0), record("wrong", 0.5, mismatch="1 of 3 elements")]
    page = shown(brainevent.BenchmarkResult(records, EVIL))
    assert page.marked == [False, False, True, False]
    assert EVIL in page.cells
    assert "mismatch: [cpu|wrong]" in page.words
    assert "no records" in shown(brainevent.BenchmarkResult([], "none")).words


def test_reports_print_as_tables_and_mark_what_is_broken():
    rows = (CheckRow("numba", "values", "ok"), CheckRow("cpp", "values", "failed", EVIL))
    report = brainevent.CheckReport("double", "cpu", rows)
    assert repr(report) == str(report)
    assert "backend  promise  status  detail" in repr(report)
    page = shown(report)
    assert page.marked == [False, False, True]
    assert EVIL in page.cells
    tuned = brainevent.TuneResult(
        "double", "cpu", "cpu", "float32[3]", (Trial("numba", "n=1", 1e-6, 1e-6, 2e-6),), True
    )
    assert repr(tuned) == str(tuned)
    assert shown(tuned).cells[-4:] == ["numba", "n=1", "1 us", "1 us to 2 us"]


def test_what_the_doctor_finds_is_a_table_a_section():
    lines = (Line("jax", "1.0"), Line("nvcc", f"ERROR: {EVIL}\nmore", fault=True))
    report = Report((Section("Versions", lines), Section("Cache", (Line("entries", "3"),), "said")))
    assert repr(report) == str(report)
    page = shown(report)
    assert page.words.startswith("brainevent doctor: 1 fault, marked with !Versions: 1 fault")
    assert "Cache: said" in page.words
    assert page.marked == [False, False, True, False, False]
    assert page.cells == [
        "what",
        "found",
        "jax",
        "1.0",
        "nvcc",
        f"ERROR: {EVIL}\nmore",
        "what",
        "found",
        "entries",
        "3",
    ]


# ---- networks --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network():
    def rule(s, arriving, p):
        v = s.v * p.decay + arriving.syn
        return s.replace(v=v), v > 1

    cells = brainevent.Population("a<b", 5, rule, state={"v": 0.0}, params={"decay": 0.5})
    matrix = brainevent.CSR.fromdense(jnp.eye(5))
    links = [
        brainevent.Projection(cells, cells, matrix, into="syn", name="<i>one</i>"),
        brainevent.Projection(cells, cells, np.eye(5), into="syn", delay=1.0),
    ]
    return brainevent.Network([cells], links, dt=0.1)


def test_a_network_and_its_simulation_show_tables(network):
    page = shown(network)
    assert page.words.startswith("network of 5 neurons, dt 0.1 ms")
    assert page.cells[5:10] == ["a<b", "5", "rule", "v", "decay"]
    assert page.cells[-12:] == [
        "<i>one</i>", "a<b", "a<b", "syn", "CSR (5, 5)", "one step",
        "a<b->a<b.syn", "a<b", "a<b", "syn", "ndarray (5, 5)", "1.0",
    ]  # fmt: skip
    sim = network.build(seed=1, backend="interpreted")
    report = sim.report()
    assert repr(report) == str(report)
    assert shown(sim).words == shown(report).words
    page = shown(report)
    assert [cell for cell in page.cells if cell in ("population", "projection", "receptor")] == [
        "population", "projection", "receptor",
    ]  # fmt: skip
    assert "<i>one</i>" in page.cells
    assert "v float32" in page.cells
    assert "i" not in page.tags
    for again in (copy.copy(report), pickle.loads(pickle.dumps(report))):
        assert again == report
        assert again._repr_html_() == report._repr_html_()
    assert shown(sim.explain()).tags == ["pre"]
    result = sim.run(2, record=["a<b.rate"])
    assert shown(result).cells == ["label", "recorded", "a<b.rate", "int32 (2,)"]
    assert "nothing was recorded" in shown(sim.run(1)).words
