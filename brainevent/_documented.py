# SPDX-License-Identifier: Apache-2.0
"""Docstrings of families of functions: what they share is written once, by parameter and by error."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["documented"]

T = TypeVar("T", bound=Callable[..., Any])

_SECTIONS = ("Args", "Attributes", "Returns", "Raises", "Examples")
_SECTION = re.compile(rf"^({'|'.join(_SECTIONS)}):\n", re.MULTILINE)
_ENTRY = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*):", re.MULTILINE)


def documented(
    arguments: Mapping[str, str], raises: Mapping[str, str] | None = None, returns: str | None = None
) -> Callable[[T], T]:
    """Return a decorator that adds to docstrings what they do not say themselves.

    An argument without an entry gets that of its name in `arguments`; entries are in the order of the signature. Errors
    are those that the docstring alone describes, and then those of `raises`, for which it may have other words.

    >>> @documented({"size": "Number of neurons.", "seed": "An integer."}, {"ValueError": "If `size` is negative."})
    ... def draw(size, rate, seed):
    ...     '''Draw numbers.
    ...
    ...     Args:
    ...         rate: Their mean.
    ...     '''
    >>> print(draw.__doc__)
    Draw numbers.
    <BLANKLINE>
    Args:
        size: Number of neurons.
        rate: Their mean.
        seed: An integer.
    <BLANKLINE>
    Raises:
        ValueError: If `size` is negative.
    """

    def decorate(function: T) -> T:
        if function.__doc__:  # python -OO has none
            function.__doc__ = _complete(function.__doc__, _parameters(function), arguments, raises or {}, returns)
        return function

    return decorate


def _parameters(function: Any) -> list[str]:
    """Return the names of the parameters, without the first one if it is the instance or the class."""
    code = (function.__init__ if inspect.isclass(function) else function).__code__
    first, keywords = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    rest = keywords + bool(code.co_flags & inspect.CO_VARARGS)  # *args precede keywords, and follow them here
    names = [*code.co_varnames[:first], *code.co_varnames[keywords:rest], *code.co_varnames[first:keywords]]
    return [name for name in names if name not in ("self", "cls")]


def _complete(
    doc: str, parameters: list[str], arguments: Mapping[str, str], raises: Mapping[str, str], returns: str | None
) -> str:
    text, *rest = _SECTION.split(inspect.cleandoc(doc))
    parts = {name: part.strip("\n") for name, part in zip(rest[::2], rest[1::2], strict=True)}
    own = _entries(parts.get("Args", ""))
    shared = {name: _entry(name, arguments[name]) if name in arguments else None for name in parameters}
    parts["Args"] = _joined({**shared, **own})
    own = _entries(parts.get("Raises", ""))
    others = {name: entry for name, entry in own.items() if name not in raises}
    parts["Raises"] = _joined({**others, **{name: own.get(name, _entry(name, raises[name])) for name in raises}})
    if returns is not None:
        parts.setdefault("Returns", f"    {returns}")
    sections = [f"{name}:\n{parts[name]}" for name in _SECTIONS if parts.get(name)]
    return "\n\n".join([text.strip(), *sections])


def _entries(text: str) -> dict[str, str]:
    """Return the entries of a section by their names, each with its name and its indentation."""
    _, *rest = _ENTRY.split(text)
    return {name.strip("*"): f"    {name}:{words}" for name, words in zip(rest[::2], rest[1::2], strict=True)}


@functools.cache
def _entry(name: str, words: str) -> str:
    return textwrap.fill(f"{name}: {words}", 116, initial_indent=" " * 4, subsequent_indent=" " * 8)


def _joined(entries: Mapping[str, str | None]) -> str:
    return "\n".join(entry.rstrip("\n") for entry in entries.values() if entry)
