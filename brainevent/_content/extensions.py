# SPDX-License-Identifier: Apache-2.0
"""Find the extensions of Numba that programs define: overloads, typing rules, code for methods and operators.

Numba stores these in registries, so they are not visible in the functions that use them.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
import sysconfig
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Taught", "installed_file", "is_intrinsic"]

_Entry = tuple[Any, Any, Iterable[Any]]  # the key, what is known about it besides code, and what holds the code
_Rank = tuple[int, ...]  # where an entry stands: it does not depend on when it was found
_SITE = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})


@dataclass
class Taught:
    """The code of others in Numba's registries, read as far as they have grown."""

    is_library: Callable[[str], bool]
    by_function: dict[int, dict[_Rank, list[Any]]] = field(default_factory=dict)
    everywhere: dict[_Rank, list[Any]] = field(default_factory=dict)  # code that a kernel can use without naming it
    _templates: dict[int, list[Any]] = field(default_factory=dict)  # that Numba makes of overloads, by their function
    _watched: _Watched | None = None
    _keys: list[Any] = field(default_factory=list)  # kept, so that no other object has their identity
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def of(self, function: Any) -> Sequence[Any]:
        """Return what was registered for a function: other functions, classes and plain values."""
        self._look()
        return _in_order(self.by_function.get(id(function), {}))

    def templates(self, function: Any) -> Sequence[Any]:
        """Return what holds the code that overloads of a function have returned."""
        return self._templates.get(id(function), ())

    def by_no_name(self) -> Sequence[Any]:
        """Return what was registered for methods, attributes, operators and the like."""
        self._look()
        return _in_order(self.everywhere)

    def _look(self) -> None:
        with self._lock:
            self._watched = self._watched or _Watched()
            for rank, item, entry in self._watched.new():
                self._note(rank, item, *entry)

    def _note(self, rank: _Rank, item: Any, key: Any, plain: Any, code: Iterable[Any]) -> None:
        found = [part for function in code for part in self._of_users(function)]
        if not found:
            return
        if isinstance(key, types.FunctionType) and not self.is_library(key.__module__):
            self._keys.append(key)
            self.by_function.setdefault(id(key), {})[rank] = [str(plain), *found]
            if hasattr(item, "_impl_cache"):
                self._templates.setdefault(id(key), []).append(item)
        else:  # of a library's function, or of one in a wrapper: a kernel may use it without a visible name
            self.everywhere[rank] = [_named(key), str(plain), *found]

    def _of_users(self, code: Any) -> list[Any]:
        """Return entries with code that no library defines, with their arguments."""
        if isinstance(code, functools.partial) or (callable(code) and not isinstance(code, _FUNCTIONS)):
            function = code.func if isinstance(code, functools.partial) else type(code)
            return [code] if self._of_users(function) or isinstance(code, functools.partial) else []
        if not isinstance(code, _FUNCTIONS):
            return []
        module = code.__module__ or getattr(code, "__globals__", {}).get("__name__")
        if not self.is_library(module or ""):
            return [code]
        if isinstance(code, type) or code.__closure__ is None:
            return []
        cells = [_contents(cell) for cell in code.__closure__]
        found = [part for cell in cells if cell is not code for part in self._of_users(cell)]
        return [*found, *(cell for cell in cells if isinstance(cell, (str, int)))] if found else []


def _in_order(entries: dict[_Rank, list[Any]]) -> list[Any]:
    """Return entries in the order of registration, list by list: they may have been found in another."""
    return [part for rank in sorted(entries) for part in entries[rank]]


@functools.cache
def installed_file(module: str) -> str | None:
    """Return a value that identifies the installation of a module's package, or None if none is installed."""
    try:
        spec = importlib.util.find_spec(module) if module in sys.modules else None
    except (ImportError, ValueError):
        return None
    path = spec.origin if spec else None
    if not path or not path.startswith(_SITE):
        return None
    site = next(site for site in _SITE if path.startswith(site))
    first = path[len(site) :].split(os.sep)[0]
    digest = hashlib.sha256()
    for file in sorted(_files(site + first)):
        status = os.stat(file)
        digest.update(f"{file} {status.st_mtime_ns} {status.st_size}\n".encode())
    return f"{module} {digest.hexdigest()}"


def _files(path: str) -> Iterator[str]:
    """Yield the files with code in a package, or a file itself."""
    if os.path.isfile(path):
        yield path
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names if name.endswith((".py", ".so", ".json", ".txt")))


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _named(key: Any) -> str:
    return f"{getattr(key, '__module__', '')} {getattr(key, '__qualname__', key)}"


def _of_template(template: Any) -> _Entry:
    inline = getattr(getattr(template, "_inline", None), "value", "")  # a word, or a function that decides
    names = ("_attr", "prefer_literal", "_jit_options", "_strict", "metadata")
    options = (*(getattr(template, name, "") for name in names), "" if callable(inline) else inline)
    code = (inline,) if callable(inline) else ()
    if is_intrinsic(template.key):  # a user of it references it, with its definition
        return None, options, ()
    function = getattr(template, "_overload_func", None) or getattr(template, "_definition_func", None)
    if function is not None:
        return template.key, options, (function, *code)
    if str(template.__module__).startswith("numba.") and template.__module__ != "numba.core.extending":
        return None, options, ()
    return template.key, options, vars(template).values()


def is_intrinsic(key: Any) -> bool:
    """Return whether this is what `numba.extending.intrinsic` returns."""
    return type(key).__module__ == "numba.core.extending" and type(key).__name__ == "_Intrinsic"


def _of_global(item: tuple[Any, Any]) -> _Entry:
    key, known = item
    return (
        key,
        type(known),
        [part for template in getattr(known, "templates", ()) for part in _of_template(template)[2]],
    )


class _Watched:
    """The registries by which Numba compiles for this processor, looked through as far as they have grown."""

    def __init__(self) -> None:
        self._lists: list[tuple[_Rank, list[Any], Callable[[Any], _Entry]]] = []
        self._done: list[int] = []  # of each list
        self._known: set[int] = set()  # registries, which live as long as what they are held by
        self._held: list[Any] = []
        self._counts: list[int] = []
        self._others: dict[str, int] = {}

    def new(self) -> Iterator[tuple[_Rank, Any, _Entry]]:
        """Yield the new entries since the last call."""
        self._find()
        for number, (rank, items, entry) in enumerate(self._lists):
            while self._done[number] < len(items):
                self._done[number] += 1
                item = items[self._done[number] - 1]
                yield (*rank, self._done[number]), item, entry(item)
        for number, (kind, known) in enumerate(sorted(_others().items())):
            done = self._others.get(kind, 0)
            if len(known) > done:
                self._others[kind] = len(known)
                for index, item in enumerate(list(known.items() if isinstance(known, dict) else known)[done:], done):
                    yield (_LAST, number, index), item, (kind, "", item if isinstance(item, tuple) else (item,))

    def _find(self) -> None:
        groups = list(_registries())
        counts = [len(group) for group in groups]
        if counts == self._counts:
            return
        self._counts = counts
        places = ((place, x) for place, group in enumerate(groups) for x in enumerate(list(group)))
        found = [(place, *item) for place, item in places if id(item[1]) not in self._known]
        builtin = [id(registry) for registry in _builtin()]
        of_numba = _of_numba() if any(id(registry) not in builtin for *_, registry in found) else set()
        for group, number, registry in found:
            self._known.add(id(registry))
            self._held.append(registry)
            if id(registry) in builtin or id(registry) not in of_numba:
                for index, (name, entry) in enumerate(_LISTS.items()):
                    if hasattr(registry, name):
                        self._lists.append(((group, number, index), getattr(registry, name), entry))
                        self._done.append(0)


def _builtin() -> list[Any]:
    """Return the registries that `numba.extending` writes to, as far as they are there."""
    modules = ("numba.core.typing.templates", "numba.core.imputils")
    found = (getattr(sys.modules.get(name), "builtin_registry", None) for name in modules)
    return [registry for registry in found if registry is not None]


def _registries() -> Iterator[Any]:
    """Yield groups of registries: the two of `numba.extending`, and those that were installed since Numba began."""
    yield _builtin()
    target = vars(getattr(sys.modules.get("numba.core.registry"), "cpu_target", _Watched))
    for name in ("_toplevel_typing_context", "_toplevel_target_context"):
        if name in target:
            yield target[name]._registries


def _others() -> dict[str, Any]:
    """Return how values are laid out in memory, by their types, and what is done to code before and after types."""
    models = getattr(sys.modules.get("numba.core.datamodel.registry"), "default_manager", None)
    rewrites = getattr(sys.modules.get("numba.core.rewrites.registry"), "rewrite_registry", None)
    return {"model": getattr(models, "_handlers", ()), **getattr(rewrites, "rewrites", {})}


def _of_numba() -> set[int]:
    """Return which registries modules of Numba hold: what others add goes to those of `numba.extending`."""
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("numba.")]
    return {id(x) for module in modules for name, x in list(vars(module).items()) if name.endswith("registry")}


def _of_function(item: Any) -> _Entry:
    return (item[1], item[2], (item[0],)) if isinstance(item, tuple) else _of_template(item)


_FUNCTIONS = (types.FunctionType, type)
_LAST = 9  # after all registries
_LISTS: dict[str, Callable[[Any], _Entry]] = {
    "attributes": _of_template,
    "casts": lambda item: ("cast", item[1], (item[0],)),
    "constants": lambda item: ("constant", item[1], (item[0],)),
    "functions": _of_function,
    "getattrs": lambda item: (item[1], item[2], (item[0],)),
    "globals": _of_global,
    "setattrs": lambda item: (item[1], item[2], (item[0],)),
}
