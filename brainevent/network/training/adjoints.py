# SPDX-License-Identifier: Apache-2.0
"""The adjoints of rules: made once for a component, and found again by the content of the rule, in later processes too.

To trace a rule and its derivative takes longer than all else that a kept program of training has to do. What is found
again depends on nothing but its key: the code of the rule and of the surrogate with all that they call and hold, what
the rule was when the network was built, JAX's settings and release, and our own code. Rules that may read something
else, such as the environment, or that hold what has no content, are traced anew each time.
"""

from __future__ import annotations

import functools
import hashlib
import pickle
import re
from collections.abc import Collection
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from ..._compat import tracing_settings
from ..._content import content_of
from ...errors import KernelToolchainError
from ...scalar.adjoint import Adjoint, adjoint_of
from ...scalar.trace import TracedRule
from ...toolchain import cache
from ..plan.plan import PopulationPlan
from ..reference.components import Component
from ..surrogate import Surrogate

__all__ = ["adjoint_in"]

_FORMAT = 1  # of what is kept
_PACKAGE = Path(__file__).parents[2]
# Our own code that determines an adjoint.
_MACHINERY = ("_compat.py", "_content", "_units.py", "network/surrogate.py", "network/training/adjoints.py", "scalar")
_MOST = 256  # adjoints that a process remembers
_found: dict[str, Adjoint] = {}


def adjoint_in(
    component: Component,
    place: int,
    population: PopulationPlan,
    trained: Collection[str] | None = None,
    *,
    rounded: bool = False,
) -> Adjoint:
    """Return the adjoint of the rule of a population at some place of a component; see `adjoint_of`."""
    rule = population.rule
    floats = [name.text[2:] for name in rule.params if name.dtype == "float32"]
    wanted = tuple(name for name in floats if trained is None or name in trained)
    key = place, wanted, rounded
    if key not in component.adjoints:
        found = _found_again(rule, component.surrogate, wanted, rounded)
        forms = {way: replace(getattr(found, way), name=f"p{place}_{way}") for way in ("forward", "backward")}
        component.adjoints[key] = replace(found, **forms)
    return component.adjoints[key]


def _found_again(rule: TracedRule, surrogate: Any, wanted: tuple[str, ...], rounded: bool) -> Adjoint:
    """Return an adjoint that is known in this process, kept by another one, or made and kept now."""
    key = _key_of(rule, surrogate, wanted, rounded)
    if key is None:
        return adjoint_of(rule, surrogate, wanted, rounded=rounded)
    found = _found.get(key)
    if found is None:
        if len(_found) >= _MOST:
            _found.clear()
        found = _found[key] = _kept(rule, key, surrogate, wanted, rounded)
    return found


def _kept(rule: TracedRule, key: str, surrogate: Any, wanted: tuple[str, ...], rounded: bool) -> Adjoint:
    """Return an adjoint from the cache, or make it and keep it there; one that cannot be made raises."""
    made: list[Adjoint] = []

    def build(folder: Path) -> Path:
        made.append(adjoint_of(rule, surrogate, wanted, rounded=rounded))
        (folder / "forms").write_bytes(pickle.dumps(made[0], protocol=5))
        return folder / "forms"

    try:
        kept = cache.read("adjoint_" + re.sub("[^A-Za-z0-9_]+", "", rule.name)[:80], key, build, suffix=".forms")
    except KernelToolchainError:  # the cache cannot be used, and says so itself
        return made[0] if made else adjoint_of(rule, surrogate, wanted, rounded=rounded)
    found: Adjoint = made[0] if made else pickle.loads(kept)
    return found


def _key_of(rule: TracedRule, surrogate: Any, wanted: tuple[str, ...], rounded: bool) -> str | None:
    """Return the hash of all that an adjoint depends on; None if that cannot be known."""
    own = (surrogate.name, surrogate.slope) if type(surrogate) is Surrogate else surrogate
    content = content_of(rule.function, own, closed=True)
    if content.opaque or content.fleeting:
        return None
    at_build = [getattr(rule, one.name) for one in fields(rule) if one.compare]
    parts = _FORMAT, content.name, content.places, at_build, wanted, rounded, tracing_settings(), _ours()
    return hashlib.sha256(repr(parts).encode(errors="surrogatepass")).hexdigest()


@functools.cache
def _ours() -> str:
    """Return the hash of our own code."""
    digest = hashlib.sha256()
    for path in map(_PACKAGE.joinpath, _MACHINERY):
        for file in sorted(path.glob("*.py")) if path.is_dir() else (path,):
            digest.update(file.read_bytes())
    return digest.hexdigest()
