# SPDX-License-Identifier: Apache-2.0
"""Find lines that two functions have in common, whatever things are called in them."""

import ast
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

__all__ = ["repeated"]

_PARTS = ("body", "orelse", "finalbody")
_OFTEN = 200  # functions with a statement, from which on it is no sign that they are alike


class _Blank(ast.NodeTransformer):
    """Blanks names and constants."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Name("_", node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Attribute(self.visit(node.value), "_", node.ctx)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        return ast.arg("_")

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        return ast.keyword(node.arg and "_", self.visit(node.value))

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant(0)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant(0)


def repeated(paths: Sequence[Path], lines: int) -> list[str]:
    """Return where two functions have so many lines in a row whose syntax trees are equal but for names."""
    functions = [(f"{path.name}:{node.name}", list(_statements(node))) for path in paths for node in _functions(path)]
    places = defaultdict(list)
    for number, (_, statements) in enumerate(functions):
        for at, (tree, _) in enumerate(statements):
            places[tree].append((number, at))
    found = set()
    for alike in places.values():
        for (one, i), (other, j) in itertools.combinations(alike if len(alike) < _OFTEN else [], 2):
            pairs = zip(functions[one][1][i:], functions[other][1][j:], strict=False)
            common = list(itertools.takewhile(lambda pair: pair[0][0] == pair[1][0], pairs))
            count = min(sum(pair[side][1] for pair in common) for side in (0, 1))
            if one != other and count >= lines:
                found.add(f"{functions[one][0]} and {functions[other][0]}")
    return sorted(found)


def _functions(path: Path) -> Iterator[ast.FunctionDef]:
    for node in ast.parse(path.read_text()).body:
        for inner in node.body if isinstance(node, ast.ClassDef) else [node]:
            if isinstance(inner, ast.FunctionDef):
                yield inner


def _statements(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield each statement of a function, blanked, and its lines; of one with a body, what comes before that."""
    for statement in itertools.chain.from_iterable(getattr(node, part, []) for part in _PARTS):
        if isinstance(statement, (ast.Import, ast.ImportFrom)) or isinstance(
            getattr(statement, "value", 0), ast.Constant
        ):
            continue
        inner = [part for part in _PARTS if getattr(statement, part, None)]
        if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            yield type(statement).__name__, 1
        elif inner:
            bodies = {part: getattr(statement, part) for part in inner}
            for part in inner:
                setattr(statement, part, [ast.Pass()])
            tree = ast.dump(_Blank().visit(statement))
            for part, body in bodies.items():
                setattr(statement, part, body)
            yield tree, 1
        else:
            lines = statement.end_lineno - statement.lineno + 1
            yield ast.dump(_Blank().visit(statement)), lines
        if inner:
            yield from _statements(statement)
