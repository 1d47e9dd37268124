# SPDX-License-Identifier: Apache-2.0
"""Print forms as the text of a language: what all languages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from .form import Assign, Form, Line, Loop, Name, Operand

__all__ = ["ARITHMETIC", "COMPARE", "Language", "all_functions", "printed"]

# Operators that all languages write alike.
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
ARITHMETIC = {"add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "div": "{0} / {1}"}


class Language(Protocol):
    """How a language writes a line; operands come as text."""

    def operand(self, operand: Operand) -> str:
        """Return a name, or a constant with its dtype."""

    def operation(self, line: Assign) -> str:
        """Return the expression of a primitive."""

    def begin(self, form: Form) -> str:
        """Return the head of a function."""

    def end(self, outputs: Sequence[Operand]) -> list[str]:
        """Return the last lines of a function."""

    def define(self, target: Name, expression: str) -> str:
        """Return the definition of a name that does not change."""

    def declare(self, target: Name, start: str | None) -> list[str]:
        """Return the definition of a name that changes."""

    def assign(self, targets: Sequence[Name], values: Sequence[str]) -> list[str]:
        """Return the assignment of all values at once."""

    def opening(self, words: str, condition: str) -> str:
        """Return the head of a block: words are "while", "if" or "else"."""

    def leave_unless(self, condition: str) -> str:
        """Return the line that leaves a loop unless a condition holds."""

    closing: tuple[str, ...]  # lines that close a block
    separator: str  # after what a block needs


def all_functions(forms: Iterable[Form]) -> list[Form]:
    """Return each function that forms call once, callees first."""
    return list({function.name: function for form in forms for function in form.functions}.values())


def printed(form: Form, language: Language) -> str:
    """Return one form as a function of its name, without the functions that it calls."""
    printer = _Printer(language, {function.name for function in form.functions})
    body = [*printer.lines(form.lines), *language.end(form.outputs)]
    return "\n".join([language.begin(form), *_indented(body), *language.closing]) + "\n"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


class _Printer:
    def __init__(self, language: Language, functions: set[str]):
        self.language, self.functions = language, functions

    def lines(self, lines: Iterable[Line]) -> list[str]:
        return [text for line in lines for text in self.line(line)]

    def line(self, line: Line) -> list[str]:
        if isinstance(line, Assign):
            return [self.language.define(line.target, self.expression(line))]
        if isinstance(line, Loop):
            return self.loop(line)
        language = self.language
        declared = [text for target in line.targets for text in language.declare(target, None)]
        sides = ((line.then, line.then_results), (line.otherwise, line.otherwise_results))
        then, otherwise = (
            _indented([*self.lines(lines), *language.assign(line.targets, self.texts(results))])
            for lines, results in sides
        )
        condition = language.operand(line.condition)
        return [
            *declared,
            *(language.opening("if", condition), *(then or _indented([language.separator])), *language.closing),
            *(language.opening("else", ""), *(otherwise or _indented([language.separator])), *language.closing),
        ]

    def loop(self, loop: Loop) -> list[str]:
        language = self.language
        starts = zip(loop.carries, self.texts(loop.starts), strict=True)
        body = [
            *self.lines(loop.head),
            language.leave_unless(language.operand(loop.go)),
            *self.lines(loop.body),
            *language.assign(loop.carries, self.texts(loop.results)),
        ]
        declared = [text for name, start in starts for text in language.declare(name, start)]
        return [*declared, language.opening("while", ""), *_indented(body), *language.closing]

    def texts(self, operands: Iterable[Operand]) -> list[str]:
        return [self.language.operand(operand) for operand in operands]

    def expression(self, line: Assign) -> str:
        if line.op in self.functions:
            return f"be_{line.op}({', '.join(self.texts(line.operands))})"
        return self.language.operation(line)
