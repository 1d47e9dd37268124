# SPDX-License-Identifier: Apache-2.0
"""Let pytest run the Python and console blocks of a Markdown page, and compare what they print with what it shows."""

import atexit
import functools
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

from docs.blocks import KINDS, difference, printed_by
from docs.console import Console, is_run, named_files


def python_blocks(document: Document) -> Iterator[Region]:
    """Find the Python blocks of a page, each with the output block that comes next, if one does."""
    code = None
    for block in FencedCodeBlockLexer("|".join(KINDS))(document):
        if block.lexemes["language"] != "output":
            code = Region(block.start, block.end, block.lexemes["source"], run)
            code.lexemes = {"expected": None, "language": block.lexemes["language"]}
            yield code
        elif code is None:
            raise ValueError(f"{document.path}, {document.line_column(block.start)}: output without a Python block")
        else:
            code.lexemes["expected"], code = block.lexemes["source"], None


def run(example: Example) -> str | None:
    """Run one block; return None, or how its output differs from what the page shows."""
    language, expected = (example.region.lexemes[name] for name in ("language", "expected"))
    if language == "python gpu" and (missing := no_cuda()):
        raise SkipTest(f"on a GPU alone: {missing}")
    try:
        return difference(expected, printed_by(lambda: PythonEvaluator()(example), expected))
    except ModuleNotFoundError as error:
        if language != "python optional":
            raise
        raise SkipTest(str(error)) from error


def console_blocks(document: Document) -> Iterator[Region]:
    """Find the console blocks of a page that show the command `brainevent`."""
    blocks = [block for block in FencedCodeBlockLexer("console")(document) if is_run(block.lexemes["source"])]
    if blocks:
        folder = Path(tempfile.mkdtemp(prefix="brainevent-page-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        console = Console(folder, named_files(document.text))
        for block in blocks:
            yield Region(block.start, block.end, (console, block.lexemes["source"]), run_console)


def run_console(example: Example) -> str | None:
    """Run one console block; return None, or how what it prints differs from what the page shows."""
    console, source = example.parsed
    return "\n".join(console.failures(source)) or None


@functools.cache
def no_cuda() -> str | None:
    """Return why blocks for a GPU cannot run here, or None."""
    from brainevent.languages import language

    return language("cuda_raw").why_missing()


collect_page = Sybil(
    parsers=[python_blocks, console_blocks],
    path=str(Path(__file__).resolve().parents[1]),  # or Sybil takes no page outside of docs/, such as the README
    pattern="*.md",
    setup=lambda namespace: namespace.update(__name__="__main__"),  # a page is a program
    fixtures=["kernels_of_the_run"],
).pytest()
