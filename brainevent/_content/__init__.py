# SPDX-License-Identifier: Apache-2.0
"""Name a function by what it computes: the same in every process, another when any part of it changes."""

from __future__ import annotations

import hashlib
import sys
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import jax

from .walk import OpaqueError, Walk

__all__ = ["Content", "content_name", "content_of"]


@dataclass(frozen=True)
class Content:
    """What values compute, and where their code stands, in hexadecimal digits; and what of them has no content.

    A name that is `fleeting` is met in this process alone. `large` are arrays that compiled code points to.
    """

    name: str
    places: str
    opaque: str | None
    fleeting: bool = False
    large: tuple[Any, ...] = field(default=(), compare=False, repr=False)


def content_of(*values: Any) -> Content:
    """Return the content of values: the name is random if something in them is opaque."""
    walk = Walk()
    try:
        name = _digest(walk.parts((sys.version_info[:2], jax.__version__, values)))
    except OpaqueError as error:
        return Content(uuid.uuid4().hex, "", str(error))
    except Exception as error:  # noqa: BLE001 - whatever users' objects raise, or how deep they are
        return Content(uuid.uuid4().hex, "", f"what cannot be looked at ({type(error).__name__}: {error})")
    return Content(name, _digest(walk.places), None, walk.fleeting, tuple(walk.large))


def content_name(*values: Any) -> str:
    """Return 32 hex digits that are the same for the same content; random if something in it is opaque."""
    return content_of(*values).name


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:32]
