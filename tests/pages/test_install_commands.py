# SPDX-License-Identifier: Apache-2.0
"""No page or message gives a command that would install the different package `brainevent` of PyPI."""

import re

import pytest
from programs import ROOT

FILES = [
    path
    for folder, pattern in ((".", "*.md"), ("docs", "**/*.md"), ("examples", "**/*.py"), ("brainevent", "**/*.py"))
    for path in sorted((ROOT / folder).glob(pattern))
]
WARNING = "Do not run `pip install brainevent`"
BY_NAME = re.compile(r"pip install\b[^`#\n]*[ '\"]brainevent\b(?!\.)")


def found(text):
    return BY_NAME.findall(text.replace(WARNING, ""))


@pytest.mark.parametrize("end", ["brainevent", "'brainevent[plot]'", "-U brainevent", "numpy brainevent==0.4.0"])
def test_the_search_finds_commands_that_install_from_pypi(end):
    assert len(found(f"Run `pip install {end}`.")) == 1


@pytest.mark.parametrize("end", ["matplotlib", "'.[plot]'", "brainpy` after `brainevent"])
def test_other_commands_are_not(end):
    assert found(f"Run `pip install {end}`.") == []


def test_no_page_or_message_installs_the_package_of_pypi():
    assert {"README.md", "plots.md", "result.py"} <= {path.name for path in FILES}
    assert {str(path.relative_to(ROOT)): found(path.read_text()) for path in FILES if found(path.read_text())} == {}
