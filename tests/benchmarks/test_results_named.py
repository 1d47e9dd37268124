# SPDX-License-Identifier: Apache-2.0
"""Each file of results is named where its figures are, and each name is that of a file."""

import re

from programs import ROOT

RESULTS = ROOT / "benchmarks" / "results"
INDEX = RESULTS / "README.md"
NAME = re.compile(r"\b2\d{3}-\d\d-\d\d-[\w-]+\.(?:json|txt)\b")


def named_in(*files):
    return {name for file in files for name in NAME.findall(file.read_text(encoding="utf-8"))}


def test_results_are_named_by_pages():
    programs = (ROOT / "docs").glob("*.py")  # which draw pictures of results
    pages = [ROOT / "README.md", ROOT / "benchmarks" / "README.md", INDEX, *(ROOT / "docs").glob("*.md")]
    files = {file.name for file in RESULTS.iterdir()} - {INDEX.name}
    unnamed = files - named_in(*pages, *programs)
    assert not unnamed, "name them on the page of their figures, or in benchmarks/results/README.md"
    assert named_in(*pages) <= files
