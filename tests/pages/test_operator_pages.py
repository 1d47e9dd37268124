# SPDX-License-Identifier: Apache-2.0
"""Every operator of the library has a page, made from what is registered, and what it says is so."""

import doctest
import re

import jax.numpy as jnp
import pytest
from programs import ROOT

import brainevent
from brainevent.event.examples import EXAMPLES
from brainevent.event.library import OPERATORS
from docs import operator_pages, rows_drawing
from docs.docstrings import read
from docs.operator_facts import Facts


def rows(page, heading):
    """Return the rows of the first table after a heading, as lists of cells without quotes and links."""
    lines = page.partition(f"\n## {heading}\n")[2].strip().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("|"))
    plain = [re.sub(r"\[(.*?)\]\(.*?\)", r"\1", line).replace("`", "") for line in lines[start:]]
    table = plain[: next((i for i, line in enumerate(plain) if not line.startswith("|")), len(plain))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def failed_examples(page):
    """Run the examples of a page, and return what differs."""
    said = []
    for block in re.findall(r"^```pycon\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        test = doctest.DocTestParser().get_doctest(block, {}, "example", None, 0)
        assert test.examples
        doctest.DocTestRunner().run(test, out=said.append)
    return said


@pytest.mark.thorough
def test_every_operator_has_a_page():
    """All that takes the library's own data, which are large, in one test: they are made once."""
    pages = operator_pages.pages()
    assert pages.keys() == {"index", *OPERATORS}
    for name, operator in OPERATORS.items():
        page = pages[name]
        assert page.startswith(f"# {name}\n\n{Facts(operator).doc.splitlines()[0]}")
        assert f"({name}.md)" in pages["index"]
        registered = [
            [platform.upper(), backend]
            for platform in operator.definition.kernels
            for backend in operator.definition.kernels[platform]
        ]
        kernels = rows(page, "Kernels")
        assert sorted(row[:2] for row in kernels) == sorted([*registered, ["any", "reference"]])
        assert {row[0].lower(): row[1] for row in kernels if row[3] == "yes"} == operator.defaults
        assert f"--operators {name}" in page
        assert "\n## Example\n" in page or not (hasattr(brainevent, f"{name}_p") or name in EXAMPLES)
        assert "def product" in page or "reference" in page
        for link in re.findall(r"\]\(([^)]*)\)", page):
            assert link.removesuffix(".md") in pages or (ROOT / "docs" / "operators" / link).resolve().exists(), link
    assert failed_examples(pages["csr_per_element"] + pages["csr_slice_rows_grad"]) == []
    binary = pages["binary_csrmv"]
    assert "{py:func}`brainevent.binary_csrmv`" in binary
    assert [row[:3] for row in rows(binary, "Operands and result")[-2:]] == [
        ["v", "bool, any integer or any real float", "(k,)"], ["result", "that of data", "(m,)"],
    ]  # fmt: skip
    assert [row[2] for row in rows(binary, "Operands and result")[1:3]] == ["(nse,)", "(m + 1,)"]
    by_column = rows(pages["csr2csc_on_post"], "Operands and result")
    assert [row[2] for row in by_column[1:4]] == ["(nse,)", "(k + 1,)", "(nse,)"]
    assert rows(pages["fcnmv"], "Operands and result")[1][2] == "(m, c)"
    assert rows(binary, "Operands and result")[-2][3].startswith("The spikes: booleans, or real numbers")
    assert "out[i] = Σⱼ A[i, j] · [v[j] ≠ 0]" in binary
    assert binary.count(".svg") == 2
    assert rows(binary, "Derivatives") == [
        ["data", "binary_csrmv", "binary_csrmv, binary_csr_per_element"],
        ["indices, indptr", "no derivative", ""],
        ["v", "csrmv", "csrmv"],
    ]
    assert rows(binary, "Batches")[-1] == ["v", "one call of binary_csrmm"]
    assert "Serves derivatives of [`binary_csrmv`]" in pages["csrmv"]
    assert "Serves batches of [`binary_csrmv`]" in pages["binary_csrmm"]
    assert "devices may share `nse`, and add up their results" in pages["coomv"]


@pytest.fixture
def shift(monkeypatch, unique_name):
    """An operator of the library for as long as the test runs, with little but a reference."""
    operator = brainevent.XLACustomKernel(unique_name("shift"), "Add a number.\n\nNo more.\n\n>>> 1 + 1\n2")
    operator.def_reference(lambda x, places, *, by: x + by)
    operator.def_call(operator)
    data = brainevent.BenchmarkConfig("n=3", (jnp.ones(3), jnp.arange(3)), {"by": 2})
    operator.def_benchmark_data(lambda *, platform: [data])
    operator.def_tags("shifts")
    monkeypatch.setattr(operator_pages, "OPERATORS", {operator.name: operator})
    monkeypatch.setitem(OPERATORS, operator.name, operator)
    return operator


def test_a_page_says_what_is_registered_and_no_more(shift):
    page = operator_pages.pages()[shift.name]
    assert page.startswith(f"# {shift.name}\n\nAdd a number.\n\n## Operands and result\n\n")
    assert "\n## Notes\n\nNo more.\n\n" in page
    assert "Formula" not in page
    assert "```pycon\n>>> 1 + 1\n2\n```" in page
    assert rows(page, "Operands and result") == [
        ["x", "float32", "(3,)", ""], ["places", "int32", "(3,)", ""], ["result", "that of x", "(3,)", ""],
    ]  # fmt: skip
    assert "| `by` | | must be given | `2` | |" in page
    assert rows(page, "Kernels") == [["any", "reference", "jax.numpy", "", ""]]
    assert rows(page, "Derivatives")[1] == ["places", "no derivative", ""]
    assert "There is no sharding rule" in page
    assert "lambda x, places, *, by: x + by" in page

    shift.def_kernel("native", "gpu", lambda *, outs, **_: None, variants={"block": (64, 128)})
    shift.def_sharding_rule("n, n -> n")
    page = operator_pages.pages()[shift.name]
    assert rows(page, "Kernels")[0] == ["GPU", "native", "JAX", "yes", "block=64<br>block=128"]
    assert "`n, n -> n`: devices may share `n`, without a word between them." in page


def test_an_operator_without_data_cannot_be_shown(shift):
    shift.definition.benchmark_data = None
    with pytest.raises(
        ValueError, match=f"{shift.name!r}: its page needs benchmark data; store some with def_benchmark_data"
    ):
        operator_pages.pages()


def test_pages_are_written_anew_only_where_they_change(shift, tmp_path):
    folder = tmp_path / "operators"
    operator_pages.write(folder)
    page, stale = folder / f"{shift.name}.md", folder / "gone.md"
    stale.write_text("")
    before = page.stat().st_mtime_ns
    operator_pages.write(folder)
    drawings = [f"{rows_drawing.NAME}-{theme}.svg" for theme in rows_drawing.THEMES]
    assert sorted(path.name for path in folder.iterdir()) == sorted(["index.md", page.name, *drawings])
    assert page.stat().st_mtime_ns == before
    shift.def_tags("others")
    operator_pages.write(folder)
    assert "Tags: `others`" in page.read_text()


def test_the_drawing_is_of_what_the_operator_computes():
    indptr, indices = jnp.array(rows_drawing.INDPTR), jnp.array(rows_drawing.INDICES)
    shape = (len(rows_drawing.SPIKED), rows_drawing.COLUMNS)
    weights, spikes = jnp.array(rows_drawing.DATA, float), jnp.array(rows_drawing.SPIKED)
    sums = brainevent.binary_csrmv(weights, indices, indptr, spikes, shape=shape, transpose=True, backend="reference")
    assert sums.tolist() == rows_drawing.sums()
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", rows_drawing.drawn("dark"))
    assert [text for text in texts if text.isdigit()].count("0") == 6
    assert not re.search("@(ink|soft|line|mark|fill)", rows_drawing.drawn("light"))


def test_a_docstring_is_read_by_its_sections():
    doc = read(brainevent.csrmv.__doc__)
    assert doc.summary.startswith("Multiply a matrix in compressed sparse rows")
    assert list(doc.arguments)[:4] == ["data", "indices", "indptr", "v"]
    assert doc.raises["MathError"] == "If an operand has the wrong number of dimensions."
    assert doc.returns.startswith("The product, (m,)")
    assert doc.example.startswith(">>> import jax.numpy as jnp, brainevent")
    assert read("Add.\n\nMore.\n\n>>> 1 + 1\n2").example == ">>> 1 + 1\n2"
