# SPDX-License-Identifier: Apache-2.0
"""Every test asserts something: itself, or by a function or fixture of the tests that it names."""

import ast
import functools
from pathlib import Path

TESTS = Path(__file__).parent
# What raises if something is wrong, besides `assert` and functions of NumPy named `assert_...`.
RAISING = {"AssertionError", "raises", "warns", "fail", "check_grads", "check_returncode", "raise_if_failed"}


class Read(ast.NodeVisitor):
    """The functions of a file by name: whether each asserts, and which names it uses; and what the file imports."""

    def __init__(self, text):
        self.asserting, self.named, self.imported, self.modules, self._within = set(), {}, {}, {}, []
        self.visit(ast.parse(text))

    def visit_FunctionDef(self, node):
        self.named.setdefault(node.name, set())
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()

    def visit_Assert(self, node):
        self.asserting.update(self._within)

    def visit_Name(self, node):
        self._name(node.id)

    def visit_arg(self, node):
        self._name(node.arg)

    def visit_Attribute(self, node):
        self._name(node.attr)
        if isinstance(node.value, ast.Name) and node.value.id in self.modules:
            self.imported[node.attr] = self.modules[node.value.id], node.attr
        self.generic_visit(node)

    def visit_Constant(self, node):
        if isinstance(node.value, str) and "assert " in node.value:  # a program for another process
            self.asserting.update(self._within)

    def visit_Import(self, node):
        self.modules |= {alias.asname or alias.name: alias.name for alias in node.names}

    def visit_ImportFrom(self, node):
        self.imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}

    def _name(self, name):
        if name in RAISING or name.startswith("assert_"):
            self.asserting.update(self._within)
        for function in self._within:
            self.named[function].add(name)


def reader(folder):
    """Return a function that reads a file of a folder, by its name or by that of its module."""
    files = {path.stem: path for path in folder.rglob("*.py")}
    return functools.cache(lambda name: Read(files[name].read_text()) if name in files else None)


def asserts(read, file, function, seen):
    """Say whether a function of a file asserts something, or names one that does, there or where it is imported."""
    here = read(file)
    if here is None or (file, function) in seen:
        return False
    seen.add((file, function))
    if function in here.asserting:
        return True
    if any(asserts(read, file, name, seen) for name in here.named.get(function, ())):
        return True
    module, original = here.imported.get(function, ("", ""))
    return asserts(read, module.rpartition(".")[2], original, seen)


def without_assertions(folder):
    """Return the tests of a folder that assert nothing, as `file::test`."""
    read = reader(folder)
    files = sorted(path.stem for path in folder.rglob("test_*.py"))
    tests = ((file, name) for file in files for name in read(file).named if name.startswith("test_"))
    return [f"{file}::{name}" for file, name in tests if not asserts(read, file, name, set())]


def test_every_test_asserts_something():
    assert without_assertions(TESTS) == []


def test_tests_that_assert_nothing_are_found(tmp_path):
    (tmp_path / "helper.py").write_text("def same(x):\n    assert x\n\ndef shown(x):\n    print(x)\n")
    (tmp_path / "test_one.py").write_text(
        "import helper\nfrom helper import same as equal, shown\nimport numpy as np\nimport pytest\n"
        "def test_by_itself():\n    assert 1\n"
        "def test_by_a_helper():\n    equal(1)\n"
        "def test_by_a_module():\n    helper.same(1)\n"
        "def test_by_numpy():\n    np.testing.assert_array_equal(1, 1)\n"
        "def test_by_an_error():\n    with pytest.raises(ValueError):\n        shown(1)\n"
        "def fixture():\n    yield\n    assert 1\n"
        "def test_by_a_fixture(fixture):\n    shown(1)\n"
        "def test_of_nothing():\n    shown(1)\n    helper.shown(2)\n"
        "def test_of_a_loop():\n    test_of_a_loop()\n"
    )
    assert without_assertions(tmp_path) == ["test_one::test_of_nothing", "test_one::test_of_a_loop"]
