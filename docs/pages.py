# SPDX-License-Identifier: Apache-2.0
"""Run the Python blocks of a Markdown page, and compare what they print with the output blocks that follow them."""

import contextlib
import doctest
import io
import traceback
from collections.abc import Iterator
from pathlib import Path

from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def python_blocks(document: Document) -> Iterator[Region]:
    """Find the Python blocks of a page, each with the output block that comes next, if one does."""
    code = None
    for block in FencedCodeBlockLexer("python|output")(document):
        if block.lexemes["language"] == "python":
            code = Region(block.start, block.end, block.lexemes["source"], run)
            code.lexemes = {"expected": None}
            yield code
        elif code is None:
            raise ValueError(f"{document.path}, {document.line_column(block.start)}: output without a Python block")
        else:
            code.lexemes, code = {"expected": block.lexemes["source"]}, None


def run(example: Example) -> str | None:
    """Run one block; return None, or how its output differs from what the page shows."""
    expected = example.region.lexemes["expected"]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            PythonEvaluator()(example)
        except Exception as error:
            if expected is None:
                raise
            printed.write("".join(traceback.format_exception_only(error)))
    if expected is None or doctest.OutputChecker().check_output(expected, printed.getvalue(), OPTIONS):
        return None
    return doctest.OutputChecker().output_difference(doctest.Example("", expected), printed.getvalue(), OPTIONS)


collect_page = Sybil(
    parsers=[python_blocks],
    path=str(Path(__file__).resolve().parents[1]),  # or Sybil takes no page outside of docs/, such as the README
    pattern="*.md",
    setup=lambda namespace: namespace.update(__name__="__main__"),  # a page is a program
).pytest()
