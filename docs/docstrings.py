# SPDX-License-Identifier: Apache-2.0
"""Read a docstring with Google sections: its summary, its text, its arguments and its example."""

import doctest
import inspect
import re
import textwrap
from dataclasses import dataclass, field

__all__ = ["Docstring", "read"]

_SECTION = re.compile(r"^(Args|Returns|Raises|Examples?):$", re.MULTILINE)
_ENTRY = re.compile(r"^([\w*.]+(?:, [\w*.]+)*): ", re.MULTILINE)


@dataclass(frozen=True)
class Docstring:
    """The parts of a docstring; arguments and errors by their names."""

    summary: str
    text: str = ""
    arguments: dict[str, str] = field(default_factory=dict)
    returns: str = ""
    raises: dict[str, str] = field(default_factory=dict)
    example: str = ""


def read(doc: str) -> Docstring:
    """Return the parts of a docstring; an example may also stand without a section of its own."""
    before, *rest = _SECTION.split(inspect.cleandoc(doc))
    parts = {name.rstrip("s"): textwrap.dedent(text).strip() for name, text in zip(rest[::2], rest[1::2], strict=True)}
    before, example = _without_example(before)
    summary, _, text = before.partition("\n\n")
    return Docstring(
        " ".join(summary.split()),
        text.strip(),
        _entries(parts.get("Arg", "")),
        " ".join(parts.get("Return", "").split()),
        _entries(parts.get("Raise", "")),
        parts.get("Example", example),
    )


def _entries(text: str) -> dict[str, str]:
    _, *rest = _ENTRY.split(text)
    return {name: " ".join(said.split()) for name, said in zip(rest[::2], rest[1::2], strict=True)}


def _without_example(text: str) -> tuple[str, str]:
    examples = doctest.DocTestParser().get_examples(text)
    if not examples:
        return text, ""
    lines = text.splitlines()
    start = examples[0].lineno
    return "\n".join(lines[:start]).rstrip(), "\n".join(lines[start:]).rstrip()
