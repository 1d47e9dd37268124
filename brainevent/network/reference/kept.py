# SPDX-License-Identifier: Apache-2.0
"""Programs of calls of `simulate` that no program of JAX contains: kept by engine, and compiled once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import jax
import jax.numpy as jnp

from ..._compat import runs_at_once
from ..plan.plan import Plan
from ..state import NetworkState
from ..surrogate import SpikeTimes, Surrogate
from .passes import Fixed, fixed_of

__all__ = ["KeptProgram", "kept_program"]

Array = Any
Results = tuple[NetworkState, dict[str, Array]]
Run = Callable[[NetworkState, Any, Fixed, Any], Results]
_MOST = 16  # programs of an engine: those that were called last
_kept: WeakKeyDictionary[Any, OrderedDict[Hashable, KeptProgram]] = WeakKeyDictionary()


class KeptProgram:
    """A call as a program, whose weights and quanta are operands: others need no compilation."""

    def __init__(self, run: Run) -> None:
        self._run = jax.jit(run)
        self._last: tuple[Plan, Fixed] | None = None

    def __call__(self, plan: Plan, state: NetworkState, own: Any, fine: Array | None) -> Results:
        """Run it with the weights of a plan that are not among those given."""
        _, weights, *_ = own
        if self._last is None or self._last[0] is not plan:
            self._last = plan, jax.tree.map(jnp.asarray, fixed_of(plan, weights))
        without = replace(state, quanta=None)  # they are static: other ones would compile it again
        after, out = self._run(without, own, self._last[1], fine)
        return replace(after, quanta=state.quanta), out


def kept_program(engine: Any, key: Hashable, surrogate: Any, run: Run) -> KeptProgram | None:
    """Return the program of calls of a kind, that of `run` if there is none yet; None if JAX traces the call.

    A surrogate of the user is not known by its content, so calls with one are traced each time.
    """
    if not runs_at_once() or not isinstance(surrogate, Surrogate | SpikeTimes | None):
        return None
    programs = _kept.setdefault(engine, OrderedDict())
    program = programs.pop((key, surrogate), None) or KeptProgram(run)
    programs[key, surrogate] = program  # the last one
    while len(programs) > _MOST:
        programs.popitem(last=False)
    return program
