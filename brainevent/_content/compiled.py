# SPDX-License-Identifier: Apache-2.0
"""Find whether code that Numba compiled earlier is still that of its function.

Numba compiles a function once for each signature, and reuses this code even if globals and closures have changed. The
content of the function is noted when Numba compiles it, if this package sees that; otherwise Numba's own notes show it.
"""

from __future__ import annotations

import types
import uuid
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np

from .named import KINDS, bytes_of, is_found, is_library, names_in

__all__ = ["is_current", "is_unchanged", "mark_of", "needs_nothing_else", "note"]

# The content of a function and of extensions of Numba, by the library that holds the code.
_sources: weakref.WeakKeyDictionary[Any, tuple[bytes, bytes]] = weakref.WeakKeyDictionary()
_marks: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()
# The content of overloads when they were last seen before Numba called them; "" if they changed since.
_overloads: weakref.WeakKeyDictionary[Any, bytes] = weakref.WeakKeyDictionary()
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, np.ufunc)


def note(overload: Any, content: bytes, taught: bytes) -> None:
    """Store the content of a function, and of extensions of Numba, when Numba compiled this overload."""
    _sources[_library(overload)] = content, taught


def mark_of(compiled: Any) -> bytes:
    """Return a name of this compiled code that is unique over all processes."""
    return _marks.setdefault(_library(compiled), uuid.uuid4().bytes)


def is_current(overload: Any, content: bytes, taught: bytes | None, function: types.FunctionType) -> bool:
    """Return whether an overload holds this content; where `taught` is None, it is compared elsewhere.

    For code that was compiled unseen, before this package listened or by a previous process, only Numba's own notes are
    reliable.
    """
    known = _sources.get(_library(overload))
    if known is not None:
        return known[0] == content and taught in (known[1], None)
    if is_library(str(function.__module__)):
        return True
    return not taught and all(_holds(overload, name, value) for name, value in _named(function))


def is_unchanged(template: Any, content: bytes) -> bool:
    """Return whether an overload had this content at each call by Numba, which reuses what it returned."""
    if not template._impl_cache:
        _overloads[template] = content
    elif _overloads.get(template) != content:
        _overloads[template] = b""
    return _overloads[template] == content


def needs_nothing_else(function: types.FunctionType) -> bool:
    """Return whether a function uses only names of libraries, so that its source determines its content."""
    return is_library(str(function.__module__)) or all(_is_of_library(value) for _, value in _named(function))


def _library(compiled: Any) -> Any:
    """Return an object that lives as long as compiled code, and can be weakly referenced."""
    return getattr(compiled, "library", None) or compiled


def _named(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the globals and the closure of a function."""
    for name in names_in(function.__code__):
        if name in function.__globals__:
            yield name, function.__globals__[name]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            yield name, None


def _is_of_library(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return is_library(value.__name__)
    if isinstance(value, type):
        return is_library(value.__module__) and is_found(value)
    if isinstance(value, _FUNCTIONS) or hasattr(value, "py_func"):
        return is_library(str(getattr(value, "__module__", None) or type(value).__module__))
    return False


def _holds(overload: Any, name: str, value: Any) -> bool:
    """Return whether code certainly contains the current value of a name."""
    if _is_of_library(value):
        return True
    noted = [known for known_name, known in _noted(overload) if known_name == name]
    if not noted or not all(_is_same(known, value) for known in noted):
        return False
    if not hasattr(value, "overloads"):
        return True
    linked = getattr(overload.library, "_linking_libraries", ())  # including functions compiled again since
    return any(inner.library in linked for inner in list(value.overloads.values()))


def _noted(overload: Any) -> Iterator[tuple[str, Any]]:
    """Yield the globals and free variables that Numba found when it compiled; some may have been optimized away."""
    blocks = getattr(getattr(overload, "type_annotation", None), "blocks", {})
    for block in blocks.values():
        for statement in block.body:
            found: Any = getattr(statement, "value", None)
            if type(found).__name__ in ("Global", "FreeVar"):
                yield found.name, found.value


def _is_same(known: Any, value: Any) -> bool:
    """Return whether two values are the same: functions that Numba compiled, its types, and plain values."""
    if known is value and (hasattr(value, "py_func") or type(value).__module__.startswith("numba.core.types")):
        return True
    plain = type(value) in KINDS or isinstance(value, np.generic)
    return plain and type(known) is type(value) and bytes_of(known) == bytes_of(value)
