# SPDX-License-Identifier: Apache-2.0
"""What lines of a form read and define, which of them results need, and lines without repetitions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from .form import Assign, Branch, Constant, Form, Line, Loop, Name, Operand, constant

__all__ = ["defined", "names_in", "needed", "read", "uses_of", "without_repetitions"]

_COMMUTES = ("add", "mul", "and", "or", "xor", "eq", "ne")


def defined(line: Line) -> tuple[Name, ...]:
    """Return the names that a line defines for the lines after it."""
    if isinstance(line, Assign):
        return (line.target,)
    return line.carries if isinstance(line, Loop) else line.targets


def read(line: Line) -> set[Name]:
    """Return the names that a line reads and does not define itself."""
    if isinstance(line, Assign):
        return names_in(line.operands)
    if isinstance(line, Loop):
        inside = _read_by((*line.head, *line.body), (line.go, *line.results))
        return names_in(line.starts) | inside - set(line.carries)
    then, otherwise = (
        _read_by(lines, results)
        for lines, results in ((line.then, line.then_results), (line.otherwise, line.otherwise_results))
    )
    return names_in((line.condition,)) | then | otherwise


def uses_of(form: Form) -> Iterator[tuple[Name, str, str]]:
    """Yield each name that is read, with the operation and the dtype of its result; with "" where there is none."""
    for line in form.all_lines():
        operation, dtype = (line.op, line.target.dtype) if isinstance(line, Assign) else ("", "")
        if isinstance(line, Assign):
            operands: tuple[Operand, ...] = line.operands
        elif isinstance(line, Loop):
            operands = (*line.starts, line.go, *line.results)
        else:
            operands = (line.condition, *line.then_results, *line.otherwise_results)
        yield from ((one, operation, dtype) for one in operands if isinstance(one, Name))
    yield from ((one, "", "") for one in form.outputs if isinstance(one, Name))


def _read_by(lines: Sequence[Line], results: Iterable[Operand]) -> set[Name]:
    """Return the names that a block reads and does not define."""
    inside = {name for line in lines for name in defined(line)}
    return (names_in(results) | {name for line in lines for name in read(line)}) - inside


def names_in(operands: Iterable[Operand]) -> set[Name]:
    """Return the names among operands."""
    return {operand for operand in operands if isinstance(operand, Name)}


def needed(lines: Sequence[Line], outputs: Iterable[Operand], known: Collection[Name]) -> list[Line]:
    """Return the lines that outputs need, in their order, where some names are known already."""
    wanted, kept = names_in(outputs) - set(known), list[Line]()
    for line in reversed(lines):
        if not wanted.isdisjoint(defined(line)):
            kept.append(line)
            wanted |= read(line) - set(known)
    return kept[::-1]


def without_repetitions(lines: Iterable[Line], outputs: Iterable[Operand]) -> tuple[list[Line], list[Operand]]:
    """Return lines of which each operation stands once, and the outputs; no bit of any result changes."""
    names: dict[Name, Operand] = {}
    known: dict[tuple[str, str, tuple[Operand, ...]], Name] = {}
    kept: list[Line] = []
    for line in lines:
        new = _renamed(line, names)
        if isinstance(new, Assign):
            operands = tuple(sorted(new.operands, key=repr)) if new.op in _COMMUTES else new.operands
            same = _simpler(new) or known.setdefault((new.op, new.target.dtype, operands), new.target)
            if same != new.target:
                names[new.target] = same
                continue
        kept.append(new)
    return kept, [_of(output, names) for output in outputs]


_ONE, _YES, _NO = constant(1, "float32"), constant(True, "bool"), constant(False, "bool")
# By primitive: the operand that changes nothing.
_NEUTRAL: dict[str, Constant] = {"mul": _ONE, "and": _YES, "or": _NO}


def _simpler(line: Assign) -> Operand | None:
    """Return the operand that is the result of an operation, bit for bit, or None."""
    if line.op == "select" and line.operands[1] == line.operands[2]:
        return line.operands[1]
    neutral = _NEUTRAL.get(line.op)
    if neutral in line.operands:
        return line.operands[1 - line.operands.index(neutral)]
    return None


def _of(operand: Operand, names: Mapping[Name, Operand]) -> Operand:
    return names.get(operand, operand) if isinstance(operand, Name) else operand


def _renamed(line: Line, names: Mapping[Name, Operand]) -> Line:
    """Return a line that reads other operands instead of some names."""

    def of(operands: Iterable[Operand]) -> tuple[Operand, ...]:
        return tuple(_of(operand, names) for operand in operands)

    def all_of(lines: Iterable[Line]) -> tuple[Line, ...]:
        return tuple(_renamed(line, names) for line in lines)

    if isinstance(line, Assign):
        return replace(line, operands=of(line.operands))
    if isinstance(line, Loop):
        head, body = all_of(line.head), all_of(line.body)
        return Loop(line.carries, of(line.starts), head, _of(line.go, names), body, of(line.results))
    return Branch(
        _of(line.condition, names),
        line.targets,
        all_of(line.then),
        of(line.then_results),
        all_of(line.otherwise),
        of(line.otherwise_results),
    )
