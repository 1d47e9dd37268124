# SPDX-License-Identifier: Apache-2.0
"""Name a function by its content: the same name in every process, another one when any part changes."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax

from .compiled import needs_nothing_else, note
from .named import OpaqueError, add_libraries, digest_of, importing_nothing
from .of_numba import dispatcher_parts
from .walk import Walk

__all__ = ["Content", "add_libraries", "content_name", "content_of", "needs_nothing_else", "note_before"]


@dataclass(frozen=True)
class Content:
    """The content of values and the place of their code, as hexadecimal digits; and a part without content, if any.

    A `fleeting` name is valid in this process only. `large` are arrays that compiled code points to.
    """

    name: str
    places: str
    opaque: str | None
    fleeting: bool = False
    large: tuple[Any, ...] = field(default=(), compare=False, repr=False)


def content_of(*values: Any, anew: Any = None, as_written: bool = False, closed: bool = False) -> Content:
    """Return the content of values: the name is random if something in them is opaque.

    `anew` is a function for Numba that is compiled again, even if it was compiled before. The content of functions
    `as_written` does not depend on earlier compilations. `closed` is for functions that run once, when something is
    made of them: then the name is also fleeting if they may read something else, such as the environment.
    """
    walk = Walk(anew, as_written)
    walk.extending += closed
    try:
        name = digest_of(walk.all_parts((sys.version_info[:2], jax.__version__, values)))
    except OpaqueError as error:
        return Content(uuid.uuid4().hex, "", str(error))
    except Exception as error:  # noqa: BLE001 - whatever users' objects raise, or how deep they are
        return Content(uuid.uuid4().hex, "", f"an object that cannot be read ({type(error).__name__}: {error})")
    return Content(name.hex()[:32], digest_of(walk.places).hex()[:32], None, walk.fleeting, tuple(walk.large))


def content_name(*values: Any, as_written: bool = False) -> str:
    """Return 32 hex digits that are the same for the same content; random if something in it is opaque."""
    return content_of(*values, as_written=as_written).name


def note_before(dispatcher: Any) -> Callable[[Any], None]:
    """Note the content of a function before Numba compiles it; return a function to call with the compiled code."""
    walk = Walk(dispatcher)
    try:
        with importing_nothing():
            content, *_ = dispatcher_parts(walk, dispatcher)
            taught = walk.taught() or b""
    except Exception:  # noqa: BLE001 - as above: what was compiled is unknown then
        return lambda overload: None
    return lambda overload: note(overload, content, taught)
