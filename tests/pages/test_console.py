# SPDX-License-Identifier: Apache-2.0
"""The console examples of the pages: how they are run, and that all commands on pages exist."""

import re
import warnings

import pytest
from programs import ROOT

from brainevent import cli
from brainevent.cli.parsing import main_parser
from docs.console import Console, commands, is_run, named_files

PAGE = """
```python
# ours.py
import brainevent

op = brainevent.XLACustomKernel("op_of_a_console")
op.def_reference(lambda x: x)
```
"""


@pytest.fixture
def console(tmp_path):
    return Console(tmp_path, named_files(PAGE))


def test_commands_and_their_outputs_are_found():
    block = "$ brainevent list \\\n    --json  # for programs\nsome\noutput\n$ echo $?\n0\n"
    assert is_run(block)
    assert not is_run("$ make demo\nbrainevent list\n")
    assert list(commands(block)) == [("brainevent list --json", "some\noutput\n"), ("echo $?", "0\n")]


def test_what_a_command_prints_is_compared(console):
    said = "operator             platform  backend\nop_of_a_console      cpu       reference *\n  no benchmark data\n"
    assert console.failures(f"$ brainevent list --import ours\n{said}$ echo $?\n0\n") == []
    [failure] = console.failures("$ brainevent list --import ours\noperator ... numba\n")
    assert failure.startswith("$ brainevent list --import ours\nExpected:\n    operator ... numba\nGot:\n")


def test_commands_run_as_in_a_process_of_their_own(console):
    """Each finds the module anew, also where a process has an operator of this name, and fails by its status."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            assert console.failures("$ brainevent list --import ours --json > ours.json\n") == []
    assert '"op_of_a_console"' in (console.folder / "ours.json").read_text()
    [failure] = console.failures("$ brainevent list --import absent\n")
    assert "exit status 1: brainevent: --import absent" in failure


def test_all_commands_on_pages_are_accepted():
    """Those of console blocks, and those that sentences name: all options and subcommands exist."""
    parser, found, refused = main_parser("", cli._FAMILIES), 0, []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for command in re.findall(r"^\$ (brainevent .*)|`(brainevent [a-z][^`\n]*)`", page.read_text(), re.MULTILINE):
            words = max(command).partition("  #")[0].partition(" > ")[0].rstrip("\\").split()[1:]
            try:
                parser.parse_args(words)
                found += 1
            except SystemExit:
                refused.append((page.name, *words))
    assert refused == [("command-line.md", "doctr")]  # which is shown as a mistake
    assert found > 30
