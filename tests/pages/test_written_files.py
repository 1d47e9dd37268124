# SPDX-License-Identifier: Apache-2.0
"""Programs of pages write into temporary folders, not into the folder in which they are run."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"""Path\("[^/"]*"\)\.(?:write_|mkdir|touch)|\bopen\("[^/"]*", "[wax]""")


def test_pages_write_into_temporary_folders():
    blocks = {page.name: BLOCK.findall(page.read_text()) for page in DOCS.glob("*.md")}
    assert len(blocks["tvm-ffi.md"]) == 5
    assert {
        name: found for name, own in blocks.items() if (found := [x for block in own for x in NAMED.findall(block)])
    } == {}


@pytest.mark.parametrize("line", ['Path("leak.cc").write_text(text)', 'with open("x.csv", "w") as file:'])
def test_what_is_written_here_is_found(line):
    assert NAMED.search(line)
