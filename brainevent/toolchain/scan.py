# SPDX-License-Identifier: Apache-2.0
"""The code, comments and macros of C++ texts, without dead branches, with their lines."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Lexeme", "Macro", "Places", "Scanned", "Source", "closing_brackets", "scan"]

_CONDITIONALS = frozenset({"if", "ifdef", "ifndef", "elif", "elifdef", "elifndef", "else", "endif"})

# Possessive (`*+`), so that no text causes backtracking.
_LEXEME = re.compile(
    r"""
    (?P<blank>   [^\S\n]++ | \\\n | /\*.*?(?:\*/|\Z) )
  | (?P<newline> \n )
  | (?P<comment> //(?: [^\\\n] | \\\n | \\ )*+ )
  | (?P<literal> (?:u8|[uUL])?R"(?P<fence>[^()\\\s"]{0,16})\(.*?(?:\)(?P=fence)"|\Z)
               | (?:u8|[uUL])?"(?: [^"\\\n] | \\. )*+"?
               | '(?: [^'\\\n] | \\. )*+'? )
  | (?P<number>  \.?[0-9](?: [eEpP][+-] | '?\w | \. )*+ )
  | (?P<word>    (?: [^\W0-9] | \$ )[\w$]*+ )
  | (?P<mark>    :: | \#\# | . )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True)
class Source:
    """A text of a user, and the file name for compilers' messages."""

    title: str
    text: str


class Places:
    """Texts that are read as one, and the names of their lines: "line 3", or "kernels_1.cpp:3" of several."""

    def __init__(self, sources: Sequence[Source]):
        self._titles = [source.title for source in sources]
        self.text = "\n\n".join(source.text for source in sources)
        lengths = [source.text.count("\n") + 2 for source in sources]
        self._starts = [0, *itertools.accumulate(lengths)][: len(sources)]

    def __call__(self, line: int) -> str:
        """Return the name of a line of the whole text."""
        if len(self._titles) < 2:
            return f"line {line}"
        number = bisect.bisect_left(self._starts, line) - 1
        return f"{self._titles[number]}:{line - self._starts[number]}"


class Lexeme(NamedTuple):
    """A word, mark, literal or comment."""

    kind: str  # of the groups above, or "directive"
    text: str
    line: int
    start: int = 0


class Macro(NamedTuple):
    """A macro with parameters; `rest` is the one that takes all further arguments."""

    parameters: list[str]
    body: list[Lexeme]
    rest: str = ""


@dataclass(frozen=True)
class Scanned:
    """A text without blanks, comments and dead branches; each comment has the index of the code after it."""

    code: list[Lexeme] = field(default_factory=list)
    comments: list[tuple[int, Lexeme]] = field(default_factory=list)
    macros: dict[str, Macro] = field(default_factory=dict)


def scan(source: str) -> Scanned:
    """Read any text."""
    scanned = Scanned()
    dead = [False]  # for each open #if, whether its current branch is `#if 0`
    for lexemes in _lines(source.replace("\r\n", "\n")):
        words = [lexeme for lexeme in lexemes if lexeme.kind != "comment"]
        directive = len(words) > 1 and words[0].text == "#"
        if directive and words[1].text in _CONDITIONALS:
            scanned.code.append(Lexeme("directive", words[1].text, words[1].line))
            _enter_branch([word.text for word in words[1:]], dead)
        if dead[-1]:
            continue
        if directive:
            _define(words, scanned.macros)
        else:
            scanned.code.extend(words)
        scanned.comments.extend((len(scanned.code), comment) for comment in lexemes[len(words) :])
    return scanned


def _enter_branch(words: list[str], dead: list[bool]) -> None:
    if words[0].startswith("if"):
        dead.append(dead[-1] or words in (["if", "0"], ["if", "false"]))
    elif len(dead) > 1:
        dead.pop()
        if words[0] != "endif":
            dead.append(dead[-1])


def _lines(source: str) -> Iterator[list[Lexeme]]:
    """Yield the parts of each logical line: code first, a comment last."""
    number = 1
    lexemes: list[Lexeme] = []
    for match in _LEXEME.finditer(source):
        kind, text = match.lastgroup or "", match[0]
        if kind == "newline":
            yield lexemes
            lexemes = []
        elif kind != "blank":
            lexemes.append(Lexeme(kind, text, number, match.start()))
        number += text.count("\n")
    yield lexemes


def _define(words: list[Lexeme], macros: dict[str, Macro]) -> None:
    """Store `#define NAME(A, B) body`; other directives define no macro."""
    if [word.text for word in words[1:4:2]] != ["define", "("] or words[3].start != words[2].start + len(words[2].text):
        return
    end = next((index for index, word in enumerate(words) if word.text == ")"), len(words))
    parameters = [word.text for word in words[4:end] if word.kind == "word"]
    rest = ""
    if words[end - 1].text == "." and words[end - 2].text == ".":
        if words[end - 4].kind != "word":  # a name would be that of the rest, as in GNU C
            parameters.append("__VA_ARGS__")
        rest = parameters[-1]
    macros[words[2].text] = Macro(parameters, words[end + 1 :], rest)


def closing_brackets(code: list[Lexeme]) -> dict[int, int]:
    """Return the index of the closing bracket for that of each opening one."""
    opened, closings = [], {}
    for index, lexeme in enumerate(code):
        if lexeme.text in ("(", "[", "{"):
            opened.append(index)
        elif lexeme.text in (")", "]", "}") and opened:
            closings[opened.pop()] = index
    return closings
