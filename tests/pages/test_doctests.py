# SPDX-License-Identifier: Apache-2.0
"""Every example in a docstring is one that pytest collects, and so runs."""

import ast
import re
import subprocess
import sys

import pytest
from programs import ROOT


def examples(node, name):
    """Yield the name of each module, class and function whose docstring has an example."""
    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ">>>" in (ast.get_docstring(node) or ""):
        yield name
    for child in getattr(node, "body", ()):
        yield from examples(child, f"{name}.{getattr(child, 'name', '')}".rstrip("."))


def written_in(folder):
    for path in (ROOT / folder).rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        yield from examples(ast.parse(path.read_text()), module)


MADE = "brainevent.event.functions.drawn."  # six functions of each of three families, whose docstrings are filled in


def collected_in(folder):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--collect-only", "--doctest-modules"]
    done = subprocess.run([*command, folder], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return re.findall(r"^\S+\.py::(\S+)$", done.stdout, re.MULTILINE)


# Of classes that call the package their module, some are in these folders, and one has a method with an example.
@pytest.mark.thorough
@pytest.mark.parametrize("folder", ["brainevent", "brainevent/bench"])
def test_every_example_is_collected_once(folder):
    collected = collected_in(folder)
    assert len(collected) == len(set(collected))
    made = {name for name in collected if name.startswith(MADE)}
    assert set(collected) - made == set(written_in(folder))
    assert len(made) in (0, 18)
    assert "brainevent.bench.result.BenchmarkResult.plot" in collected
