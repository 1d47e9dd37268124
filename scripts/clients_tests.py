# SPDX-License-Identifier: Apache-2.0
"""Print the test files of a package that touch brainevent: those that name it, or what is defined by means of it.

A function, class or variable at the top of a module touches it if its text names brainevent, or what the module imports
from there, or another that touches it. A test file does if it names one of these, or brainevent. Names are compared as
they are written, without the module that they come from: so some files are listed that touch it not.
"""

import ast
import sys
from pathlib import Path

ROOT = "brainevent"


def names(node: ast.AST) -> set[str]:
    """Collect what a piece of code names: variables, attributes, and what it imports."""
    found = set()
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found.add(part.id)
        elif isinstance(part, ast.Attribute):
            found.add(part.attr)
        elif isinstance(part, ast.Import):
            found |= {alias.name.split(".")[0] for alias in part.names}
        elif isinstance(part, ast.ImportFrom):
            found |= {(part.module or "").split(".")[0], *(alias.name for alias in part.names)}
    return found


def imported(module: ast.Module) -> set[str]:
    """Collect the names by which a module knows brainevent and what it imports from there."""
    froms = (part for part in ast.walk(module) if isinstance(part, ast.ImportFrom))
    mine = (alias for part in froms if (part.module or "").split(".")[0] == ROOT for alias in part.names)
    return {ROOT, *(alias.asname or alias.name for alias in mine)}


def definitions(module: ast.Module) -> dict[str, set[str]]:
    """Collect what each definition at the top of a module names; brainevent, for what comes from there."""
    theirs = imported(module)
    found: dict[str, set[str]] = {}
    for part in module.body:
        match part:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined = [name]
            case ast.Assign(targets=targets):
                defined = [target.id for target in targets if isinstance(target, ast.Name) and target.id != "__all__"]
            case _:
                continue
        for name in defined:
            named = names(part) - {name}
            found.setdefault(name, set()).update(named | ({ROOT} if named & theirs else set()))
    return found


def touching(package: Path) -> list[Path]:
    """List the test files of a package that touch brainevent."""
    modules = {path: ast.parse(path.read_text()) for path in sorted(package.rglob("*.py"))}
    tests = {path: names(module) for path, module in modules.items() if path.stem.endswith("_test")}
    rest = [definitions(module) for path, module in modules.items() if path not in tests]
    touched = {ROOT}
    while more := {name for module in rest for name, named in module.items() if named & touched} - touched:
        touched |= more
    return [path.relative_to(package) for path, named in tests.items() if named & touched]


if __name__ == "__main__":
    print(*touching(Path(sys.argv[1])), sep="\n")
