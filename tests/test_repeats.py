# SPDX-License-Identifier: Apache-2.0
"""No code of the package is there twice with other names and other constants.

A repeat is a run of statements in one block, of ten lines of code or more, whose syntax trees equal those of another
run once names and constants are blanked. Lines of code begin an expression or a statement. Those of docstrings, of
signatures, of the heads and fields of classes, of imports, of `__all__`, of tables of constants and within texts do not
count: an interface is written where it is. So public functions may take the same arguments and describe them; what they
do must be one function.
"""

import ast
from pathlib import Path

import brainevent

PACKAGE = Path(brainevent.__file__).parent
LEAST = 10


_numbers = {}  # of shapes: those of equal shapes are equal


def shape(node):
    """Return a number for the syntax tree of a node, without names, constants and docstrings."""
    if not isinstance(node, ast.AST):
        found = tuple(map(shape, node)) if isinstance(node, list) else None
    elif isinstance(node, (ast.Constant, ast.JoinedStr)):
        found = "constant"
    elif hasattr(node, "shape"):
        return node.shape
    else:
        found = (type(node).__name__, *(shape(value) for _, value in parts(node)))
    number = _numbers.setdefault(found, len(_numbers))
    if isinstance(node, ast.AST):
        node.shape = number
    return number


def parts(node):
    """Yield (name, value) for the fields of a node; a body begins behind its docstring."""
    documented = isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and ast.get_docstring(node) is not None
    for name, value in ast.iter_fields(node):
        yield name, value[1:] if name == "body" and documented else value


def code_lines(statement):
    """Return the lines of a statement on which something begins that counts."""
    if hasattr(statement, "lines"):
        return statement.lines
    lines, nodes = set(), [statement]
    while nodes:
        node = nodes.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)) or is_field(node):
            continue
        if isinstance(node, ast.stmt) and node is not statement:
            lines |= code_lines(node)
            continue
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            nodes += dict(parts(node))["body"]
            continue
        if hasattr(node, "lineno"):
            lines.add(node.lineno)
        if not (isinstance(node, ast.JoinedStr) or is_constant(node)):
            children = (value if isinstance(value, list) else [value] for _, value in parts(node))
            nodes += (child for values in children for child in values if isinstance(child, ast.AST))
    statement.lines = lines
    return lines


def is_constant(node):
    """Say whether a node is a constant, or a table of such."""
    if isinstance(node, (ast.Dict, ast.Tuple, ast.List, ast.Set)):
        return all(is_constant(each) for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr_context))
    return isinstance(node, ast.Constant)


def is_field(node):
    """Say whether a statement declares a name and its type, with a constant as its value or none."""
    return isinstance(node, ast.AnnAssign) and (node.value is None or is_constant(node.value))


def is_list_of_names(statement):
    """Say whether a statement is the list of public names of a file."""
    target = getattr(statement, "target", None) or (getattr(statement, "targets", None) or [None])[0]
    return isinstance(target, ast.Name) and target.id == "__all__"


def runs(path, least=LEAST):
    """Yield (shape, first line, last line) of the shortest run of enough lines that begins with each statement."""
    for node in ast.walk(ast.parse(path.read_text())):
        for name, value in parts(node):
            if name not in ("body", "orelse", "finalbody", "handlers") or not isinstance(value, list):
                continue
            block = [
                each for each in value if not (isinstance(each, (ast.Import, ast.ImportFrom)) or is_list_of_names(each))
            ]
            shapes, lengths = [shape(each) for each in block], [len(code_lines(each)) for each in block]
            for first, statement in enumerate(block):
                for last in range(first, len(block)):
                    if sum(lengths[first : last + 1]) >= least:
                        yield tuple(shapes[first : last + 1]), statement.lineno, block[last].end_lineno
                        break


def repeats(paths, least=LEAST):
    """Return the places of each run that is there more than once."""
    found = {}
    for path in paths:
        ends = {}
        for run, first, last in runs(path, least):
            if first > ends.get(run, 0):  # else it overlaps with the one before
                found.setdefault(run, []).append(f"{path.relative_to(path.parents[1])}:{first}")
                ends[run] = last
    return [places for places in found.values() if len(places) > 1]


def test_no_code_is_repeated():
    assert repeats(sorted(PACKAGE.rglob("*.py"))) == []


def test_repeats_are_found(tmp_path):
    """The test above can fail: between files and within one, and not for what declares an interface."""
    code = "    {0} = f({1})\n    for {0} in g({0}):\n        h({0})\n"
    first, second, third = (tmp_path / name for name in ("first.py", "second.py", "third.py"))
    first.write_text("def a(x):\n    z = 3\n" + code.format("p", 1) * 2)
    second.write_text("def b(y, *, z):\n" + code.format("q", "'x'") * 2 + "    return q\n")
    places = [f"{tmp_path.name}/{name}" for name in ("first.py:3", "first.py:6", "second.py:2", "second.py:5")]
    assert repeats([first, second], least=6) == [[places[0], places[2]]]
    assert repeats([first, second], least=7) == []
    assert repeats([first], least=3) == [places[:2]]
    interface = 'def {}(\n    x,\n    y,\n):\n    """Say\n    {}.\n    """\n    from z import f\n\n    return f(x)\n'
    third.write_text(interface.format("a", "this") + interface.format("b", "that"))
    assert len(repeats([third], least=1)) == 2
    assert repeats([third], least=2) == []
    fields = "class A:\n    a: int\n    b: str = 'x'\n    c = {\n        'd': 1,\n        'e': (2, 3),\n    }\n"
    third.write_text(fields * 2)
    assert repeats([third], least=2) == []
