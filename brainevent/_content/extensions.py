# SPDX-License-Identifier: Apache-2.0
"""Find what programs have taught Numba: overloads, typing rules, code for methods and operators.

Numba keeps these in registries of its own, so that the functions which rely on them do not show them.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Taught", "installed_file"]

_Entry = tuple[Any, Any, Iterable[Any]]  # the key, what is known about it besides code, and what holds the code
_SITE = tuple({sysconfig.get_path(name) + os.sep for name in ("purelib", "platlib")})


@dataclass
class Taught:
    """What Numba's registries hold of others' code, looked through as far as they have grown."""

    is_library: Callable[[str], bool]
    by_function: dict[int, list[Any]] = field(default_factory=dict)
    everywhere: list[Any] = field(default_factory=list)  # what a kernel may use without naming it
    _done: dict[tuple[str, str], int] = field(default_factory=dict)
    _keys: list[Any] = field(default_factory=list)  # kept, so that no other object has their identity

    def of(self, function: Any) -> Sequence[Any]:
        """Return what was registered for a function: other functions, classes and plain values."""
        self._look()
        return self.by_function.get(id(function), ())

    def by_no_name(self) -> Sequence[Any]:
        """Return what was registered for methods, attributes, operators and the like."""
        self._look()
        return self.everywhere

    def _look(self) -> None:
        for module, lists in _REGISTRIES.items():
            registry = getattr(sys.modules.get(module), "builtin_registry", None)
            for name, entry in lists.items() if registry is not None else ():
                items = getattr(registry, name)
                first = self._done.get((module, name), 0)
                self._done[module, name] = len(items)
                for item in items[first:]:
                    self._note(*entry(item))

    def _note(self, key: Any, plain: Any, code: Iterable[Any]) -> None:
        found = [part for function in code for part in self._of_users(function)]
        if not found:
            return
        if isinstance(key, types.FunctionType) and not self.is_library(key.__module__):
            self._keys.append(key)
            self.by_function.setdefault(id(key), []).extend([str(plain), *found])
        else:
            self.everywhere.extend([_named(key), str(plain), *found])

    def _of_users(self, code: Any) -> list[Any]:
        """Return the functions and classes that hold code and that no library defines, with what they are told."""
        if not isinstance(code, (types.FunctionType, type)):
            return []
        module = code.__module__ or getattr(code, "__globals__", {}).get("__name__")
        if not self.is_library(module or ""):
            return [code]
        if isinstance(code, type) or code.__closure__ is None:
            return []
        cells = [_contents(cell) for cell in code.__closure__]
        found = [part for cell in cells if cell is not code for part in self._of_users(cell)]
        return [*found, *(cell for cell in cells if isinstance(cell, (str, int)))] if found else []


@functools.cache
def installed_file(module: str) -> str | None:
    """Return what tells one installation of a module from another, or None if it is not among the installed ones."""
    try:
        spec = importlib.util.find_spec(module) if module in sys.modules else None
    except (ImportError, ValueError):
        return None
    path = spec.origin if spec else None
    if not path or not path.startswith(_SITE):
        return None
    status = os.stat(path)
    return f"{path} {status.st_mtime_ns} {status.st_size}"


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return None


def _named(key: Any) -> str:
    return f"{getattr(key, '__module__', '')} {getattr(key, '__qualname__', key)}"


def _of_template(template: Any) -> _Entry:
    options = (getattr(template, "_attr", ""), getattr(template, "prefer_literal", ""))
    if hasattr(template.key, "__wrapped__"):  # an intrinsic: who uses it holds it, with its definition
        return None, options, ()
    function = getattr(template, "_overload_func", None) or getattr(template, "_definition_func", None)
    if function is not None:
        return template.key, options, (function,)
    if str(template.__module__).startswith("numba.") and template.__module__ != "numba.core.extending":
        return None, options, ()
    return template.key, options, vars(template).values()


def _of_global(item: tuple[Any, Any]) -> _Entry:
    key, known = item
    return (
        key,
        type(known),
        [part for template in getattr(known, "templates", ()) for part in _of_template(template)[2]],
    )


_REGISTRIES: dict[str, dict[str, Callable[[Any], _Entry]]] = {
    "numba.core.typing.templates": {
        "functions": _of_template,
        "attributes": _of_template,
        "globals": _of_global,
    },
    "numba.core.imputils": {
        "functions": lambda item: (item[1], item[2], (item[0],)),
        "getattrs": lambda item: (item[1], item[2], (item[0],)),
        "setattrs": lambda item: (item[1], item[2], (item[0],)),
        "casts": lambda item: ("cast", item[1], (item[0],)),
        "constants": lambda item: ("constant", item[1], (item[0],)),
    },
}
