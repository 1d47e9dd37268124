# SPDX-License-Identifier: Apache-2.0
"""Find the entry points of a C++ text: their annotations and their signatures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..errors import KernelError, did_you_mean
from .parameters import read_parameters, spelled
from .scan import Lexeme, Macro, Places, Scanned, Source, closing_brackets, scan
from .tokens import (
    ATTRIBUTE_TYPES,
    FunctionSpec,
    Parameter,
    Signature,
    checked_name,
    described,
    inferred,
    normalize_tokens,
    strings,
)

__all__ = [
    "ATTRIBUTE_TYPES",
    "Declarator",
    "FunctionSpec",
    "Parameter",
    "declarators",
    "normalize_tokens",
    "resolve_functions",
]

_MARKS = frozenset({"=", "typedef", "using", "template", "__global__", "__device__", "__host__"})
_NESTED = 8  # macros within macros
_EXPANSION_LIMIT = 2_000_000  # the most characters to which all macros of a source together may expand

_ANNOTATION = re.compile(r"@BE(?:[\s,:]++|$)(?P<name>[^\s,:]*+):?(?P<tokens>.*)", re.DOTALL)


class Declarator(NamedTuple):
    """A name before a pair of parentheses, at file scope or in a namespace."""

    name: str
    line: int
    before: tuple[str, ...]
    marks: frozenset[str]
    words: list[str]
    namespace: str


def resolve_functions(
    source: str | Sequence[Source], functions: Mapping[str, Sequence[str]] | Sequence[str] | None, where: str
) -> tuple[FunctionSpec, ...]:
    """Describe the entry points of a C++ or CUDA text: those of `functions`, or those that it annotates.

    Several sources are read as one text; errors name the source, and the line within it.
    """
    places = Places([Source("", source)] if isinstance(source, str) else source)
    scanned = scan(places.text)
    annotations = list(_annotations(scanned.comments))
    if functions is None:
        entries = [(name, tokens, f"{where}, {places(line)}") for _, line, name, tokens in annotations]
    else:
        entries = _requested(functions, where)
    if not entries:
        advice = "annotate the entry points, or pass functions"
        raise KernelError(f"No '// @BE <function> <tokens>' in the source of {where}; {advice}")
    seen: set[str] = set()
    for name, _, at in entries:
        if checked_name(name, "the function's name", at) in seen:
            raise KernelError(f"{at}: Duplicate entry for function {name!r}; keep one")
        seen.add(name)
    lookup = _Lookup(scanned, places, {name: index for index, _, name, _ in annotations})
    return tuple(_resolve(lookup, *entry) for entry in entries)


def _requested(functions: object, where: str) -> list[tuple[str, list[str], str]]:
    if isinstance(functions, str):
        raise KernelError(f"{where}: functions is the string {functions!r}; pass [{functions!r}]")
    if isinstance(functions, Mapping):
        names = strings(list(functions), "functions", where)
        entries = [(name, strings(functions[name], f"the value of {name!r}", where), where) for name in names]
    elif isinstance(functions, (list, tuple)):
        entries = [(name, [], where) for name in strings(functions, "functions", where)]
    else:
        raise KernelError(f"{where}: functions is {functions!r}; pass a dict, a list of names, or None")
    if not entries:
        raise KernelError(f"{where}: functions is empty; name an entry point, or pass None to find annotations")
    return entries


def _annotations(comments: Iterable[tuple[int, Lexeme]]) -> Iterator[tuple[int, int, str, list[str]]]:
    """Yield the index of the code that follows, the line, the name and the tokens of each annotation."""
    for index, comment in comments:
        text = comment.text.partition("\n")[0].lstrip("/").partition("//")[0].strip()
        if match := _ANNOTATION.fullmatch(text):
            yield index, comment.line, match["name"], match["tokens"].replace(",", " ").split()


def _resolve(lookup: _Lookup, name: str, tokens: list[str], at: str) -> FunctionSpec:
    signature = lookup.find(name, at)
    if tokens:
        return FunctionSpec(name, described(name, tokens, signature, at))
    if signature:
        return FunctionSpec(name, inferred(name, signature, at))
    raise KernelError(
        f"{at}: function {name!r} not found: there is no 'void {name}(...)' at file scope"
        f"{did_you_mean(name, lookup.entry_points())}{lookup.unclosed()}; define it, or give its tokens"
    )


class _Lookup:
    """The functions of a source, those that annotated macros generate included."""

    def __init__(self, source: Scanned, places: Places, annotated: Mapping[str, int]):
        self._places = places
        self._code, self._macros, self._annotated = source.code, source.macros, annotated
        self._closings = closing_brackets(source.code)
        self._declarators: dict[str, list[Declarator]] = {}
        self._expanded = 0
        for declarator in declarators(source.code):
            self._declarators.setdefault(declarator.name, []).append(declarator)

    def find(self, name: str, at: str) -> Signature | None:
        """Return the signature of an entry point, or None if its text cannot be found."""
        written = _signature(name, self._declarators.get(name, []), at, self._places)
        return written or _signature(name, self._generated(name, at), at, self._places)

    def entry_points(self) -> list[str]:
        """Return the names of the functions that can be entry points."""
        return [name for name, found in self._declarators.items() if any(_refusal(each) == "" for each in found)]

    def unclosed(self) -> str:
        """Return a note on a parenthesis that hides the rest of the text."""
        pairs = enumerate(self._code)
        lines = [lexeme.line for i, lexeme in pairs if lexeme.text == "(" and i not in self._closings]
        return f"; the parenthesis of {self._places(lines[0])} is never closed" if lines else ""

    def _generated(self, name: str, at: str) -> list[Declarator]:
        """Expand the macro that is called after the annotation of a function."""
        index = self._annotated.get(name, len(self._code))
        closing = self._closings.get(index + 1)
        if closing is None or self._code[index].text not in self._macros:
            return []
        expanded = self._expand(self._code[index : closing + 1], 0, at)
        return [declarator for declarator in declarators(expanded) if declarator.name == name]

    def _expand(self, code: list[Lexeme], depth: int, at: str) -> list[Lexeme]:
        self._spend(code, at)
        closings, expanded, index = closing_brackets(code), [], 0
        while index < len(code):
            lexeme, closing = code[index], closings.get(index + 1)
            macro = self._macros.get(lexeme.text) if depth < _NESTED and closing else None
            if macro and closing and code[index + 1].text == "(":
                body = self._substitute(macro, code[index + 2 : closing], lexeme.line, at)
                expanded += self._expand(body, depth + 1, at)
                index = closing
            else:
                expanded.append(lexeme)
            index += 1
        return expanded

    def _substitute(self, macro: Macro, call: list[Lexeme], line: int, at: str) -> list[Lexeme]:
        """Replace parameters by arguments, and join at `##`."""
        given = zip(macro.parameters, _arguments(call, len(macro.parameters)), strict=False)
        values: dict[str, list[Lexeme]] = {name: [] for name in macro.parameters} | dict(given)
        texts: list[list[str]] = []
        pasting = False
        for lexeme in macro.body:
            if lexeme.text == "##":
                pasting = bool(texts)
                continue
            value = values.get(lexeme.text, [lexeme])
            self._spend(value, at)
            words = [word.text for word in value] or [""]
            if pasting and lexeme.text == macro.rest and texts[-1] == [","]:
                if not value:  # GNU: without further arguments, the comma before them is removed
                    texts.pop()
            elif pasting:
                texts[-1].append(words.pop(0))
            texts += [[word] for word in words]
            pasting = False
        return [Lexeme("mark", text, line) for parts in texts if (text := "".join(parts))]

    def _spend(self, code: list[Lexeme], at: str) -> None:
        self._expanded += sum(len(lexeme.text) for lexeme in code)
        if self._expanded > _EXPANSION_LIMIT:
            raise KernelError(f"{at}: macros expand to over {_EXPANSION_LIMIT} characters; write the functions out")


def _arguments(call: list[Lexeme], count: int) -> list[list[Lexeme]]:
    """Split the arguments of a macro's call; the last one takes the rest."""
    arguments: list[list[Lexeme]] = [[]]
    depth = 0
    for lexeme in call:
        depth += (lexeme.text == "(") - (lexeme.text == ")")
        if lexeme.text == "," and depth == 0 and len(arguments) < count:
            arguments.append([])
        else:
            arguments[-1].append(lexeme)
    return arguments


def _signature(name: str, found: Iterable[Declarator], at: str, places: Places) -> Signature | None:
    functions = [declarator for declarator in found if _refusal(declarator) is not None]
    functions = [declarator for declarator in functions if not declarator.namespace] or functions
    for declarator in functions:
        if refusal := _refusal(declarator):
            raise KernelError(f"{at}: {name!r}, {places(declarator.line)}, {refusal}")
    signatures = [Signature(places(declarator.line), read_parameters(declarator.words)) for declarator in functions]
    if len({tuple(cpp.identity for cpp in signature.parameters) for signature in signatures}) > 1:
        both = " and ".join(f"{signature.place}: {name}{signature}" for signature in signatures[:2])
        raise KernelError(f"{at}: {name!r} is overloaded ({both}); give each entry point its own name")
    return max(signatures, key=lambda each: sum(bool(cpp.name) for cpp in each.parameters), default=None)


def _refusal(declarator: Declarator) -> str | None:
    """Return why this is not an entry point, "" if it is one, None if it is not a function."""
    before, marks = list(declarator.before), declarator.marks
    start = len(before) - before[::-1].index("void") if "void" in before else len(before) + 1
    returns_void = start <= len(before) and all(word.isidentifier() or word in ("()", "[]") for word in before[start:])
    while before[-1:] == ["()"]:
        del before[-2:]
    initializer = "=" in marks and not ("template" in marks and returns_void)
    if not before or initializer or marks & {"typedef", "using"}:
        return None
    if before[-1] == "::" or declarator.namespace:
        scope = declarator.namespace or "".join(before[-2:-1])
        return f"is in namespace {scope!r}, but is called by its plain name; define it at file scope"
    if not (before[-1].isidentifier() or before[-1] in ("*", "&", ">", "[]")):
        return None
    if "template" in marks:
        return "is a template; write a plain void function that calls an instance of it, and name that"
    if "__global__" in marks:
        return "is a __global__ kernel, not an entry point; write a void function that launches it, and name that"
    if "__device__" in marks and "__host__" not in marks:
        return "is a __device__ function; write a void function for the host, and name that"
    return "" if returns_void else f"returns {spelled(before)!r}; entry points return void and write to BE::Tensors"


def declarators(code: list[Lexeme]) -> Iterator[Declarator]:
    """Yield possible functions, in linear time; a parenthesis that is never closed ends the search."""
    closings, scopes = closing_brackets(code), _Scopes()
    before: list[str] = []
    marks: frozenset[str] = frozenset()
    index = 0
    while index < len(code):
        kind, text, line, _ = code[index]
        if kind == "directive":
            scopes.branch(text)
        elif text in ("{", "}", ";"):
            scopes.step(text, before)
            before, marks = [], frozenset()
        elif scopes.namespace is not None and text in ("(", "["):
            if index not in closings:
                return
            if text == "(" and before and before[-1].isidentifier():
                words = [each.text for each in code[index + 1 : closings[index]] if each.kind != "directive"]
                yield Declarator(before[-1], line, tuple(before[-9:-1]), marks, words, scopes.namespace)
            before.append("()" if text == "(" else "[]")
            index = closings[index]
        elif scopes.namespace is not None:
            before.append(text)
            marks |= _MARKS & {text}
        index += 1


class _Scope(NamedTuple):
    outer: _Scope | None
    namespace: str | None  # empty at file scope, None in a body


class _Scopes:
    """The position in nested braces, for every branch of an #if."""

    def __init__(self) -> None:
        self._now = _Scope(None, "")
        self._branches: list[_Scope] = []

    @property
    def namespace(self) -> str | None:
        """The innermost namespace."""
        return self._now.namespace

    def branch(self, directive: str) -> None:
        """Go back to the scope of the #if at its #else."""
        if directive.startswith("if"):
            self._branches.append(self._now)
        elif self._branches and directive == "endif":
            self._branches.pop()
        elif self._branches:
            self._now = self._branches[-1]

    def step(self, mark: str, before: list[str]) -> None:
        """Pass a brace."""
        if mark == "{":
            self._now = _Scope(self._now, self._opened(before))
        elif mark == "}":
            self._now = self._now.outer or self._now

    def _opened(self, before: list[str]) -> str | None:
        linkage = before[-2:-1] == ["extern"] and before[-1].startswith('"')
        if self.namespace is None or linkage:
            return self.namespace
        if "namespace" not in before:
            return None
        start = before.index("namespace")
        transparent = before[start - 1 : start] == ["inline"] or start == len(before) - 1
        return self.namespace if transparent else "".join(before[start + 1 :])
