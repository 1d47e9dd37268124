# SPDX-License-Identifier: Apache-2.0
"""Name all that decides a network by a hash, in checkpoints."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..rule.trace import TracedRule
from .plan import PopulationPlan
from .wiring import Wiring

__all__ = ["fingerprint"]


def fingerprint(populations: Sequence[PopulationPlan], wirings: Sequence[Wiring], *others: Any) -> str:
    """Return a hash of populations, of descriptions of synapses, and of numbers such as step and seed.

    It does not depend on lines of the user's files, nor on the number of parts.
    """
    digest = hashlib.sha256()
    for wiring in wirings:
        ends = wiring.projection.source.name, wiring.projection.target.name, wiring.projection.into
        described = {key: getattr(wiring, key) for key in _fields(wiring) if key != "projection"}
        _add(digest, (ends, described))
    _add(digest, (tuple(populations), others))
    return digest.hexdigest()


def _fields(value: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(value) if field.compare]


def _add(digest: Any, value: Any) -> None:
    """Add a value and all that it consists of."""
    if isinstance(value, (np.ndarray, np.generic)):
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).data)
    elif isinstance(value, TracedRule):
        _add(digest, value.form)
    elif dataclasses.is_dataclass(value):
        _add(digest, (type(value).__name__, [getattr(value, name) for name in _fields(value)]))
    elif isinstance(value, Mapping):
        _add(digest, list(value.items()))
    elif isinstance(value, (tuple, list)):
        digest.update(f"({len(value)}".encode())
        for part in value:
            _add(digest, part)
    else:
        digest.update(f"{value!r};".encode())
