# SPDX-License-Identifier: Apache-2.0
"""`explain_loops`: which loops of a program are compiled as native calls, and what stands in the way of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

from .._compat import jaxprs_of, scan_lowering_missing
from .body import users_line
from .lowering import check_written, planned
from .plan import Plan
from .values import UnfitError

__all__ = ["ExplainedLoop", "ExplainedLoops", "explain_loops"]


@dataclass(frozen=True)
class ExplainedLoop:
    """A loop of a program.

    Attributes:
        where: The user's line that it comes from, "file:line", or an empty string.
        steps: The number of steps; None if it is known only when the program runs.
        is_fused: Whether it becomes one native call.
        reason: What it becomes, or what stands in the way.
        obstacle: The user's line of what stands in the way, or an empty string.
    """

    where: str
    steps: int | None
    is_fused: bool
    reason: str
    obstacle: str = ""

    def __str__(self) -> str:
        steps = "an unknown number of steps" if self.steps is None else f"{self.steps} steps"
        verdict = "one native call" if self.is_fused else "compiled by JAX"
        at = f" ({self.obstacle})" if self.obstacle else ""
        return f"{self.where or 'unknown line'}: {steps}, {verdict}: {self.reason}{at}"


class ExplainedLoops(tuple[ExplainedLoop, ...]):
    """The loops of a program, in their order; its text has a line for each."""

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no loops"

    __repr__ = __str__


def explain_loops(function: Callable[..., Any] | object, *args: Any, **kwargs: Any) -> ExplainedLoops:
    """Say for each loop of a program whether `config.fuse_loops` makes it one native call, and else why not.

    It says so for JAX's default device: the CPU or an NVIDIA GPU.

    The program is traced, and neither compiled nor run. Loops are those that are left after `grad`, `vmap` and other
    transformations within `function`.

    Args:
        function: A function of arrays; or a program that was traced, as `jax.make_jaxpr` returns it, without arguments.
        *args: Its arguments: arrays, or their types.
        **kwargs: Its keyword arguments.

    Returns:
        The loops: a tuple of objects with the attributes `where`, `steps`, `is_fused`, `reason` and `obstacle`, which
        is printed as one line for each loop.

    Raises:
        TypeError: If `function` is neither.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> def rank(v):
        ...     return jax.lax.scan(lambda v, _: (jnp.sort(v) * 0.5, None), v, None, length=64)[0]
        >>> [loop] = brainevent.explain_loops(rank, jnp.ones(3))
        >>> loop.is_fused, loop.steps, loop.reason
        (False, 64, 'the JAX primitive sort')
    """
    closed = jax.make_jaxpr(function)(*args, **kwargs) if callable(function) else function
    if not hasattr(closed, "jaxpr"):
        raise TypeError(
            f"explain_loops: function is {type(function).__name__}; pass a function of arrays, or what "
            "jax.make_jaxpr(function)(*args) returns"
        )
    return ExplainedLoops(_loops(closed.jaxpr, ""))


def _loops(jaxpr: Any, around: str) -> Iterator[ExplainedLoop]:
    """Explain the loops of a jaxpr; `around` is the user's line of what calls it, such as `record`."""
    for eqn in jaxpr.eqns:
        name, where = eqn.primitive.name, users_line(eqn) or around
        if name == "while":
            yield ExplainedLoop(
                where, None, False, "a jax.lax.while_loop; only jax.lax.scan has a known number of steps"
            )
        if name == "scan":
            explained = _explained(eqn, where)
            yield explained
            if explained.is_fused:
                continue
        for inner in jaxprs_of(eqn):
            yield from _loops(inner, where)


def _explained(eqn: Any, where: str) -> ExplainedLoop:
    steps = eqn.params["length"]
    if (missing := scan_lowering_missing()) is not None:
        return ExplainedLoop(where, steps, False, missing)
    platform = "cuda" if jax.default_backend() == "gpu" else "cpu"
    try:
        plan = planned(eqn.params, platform)
        check_written(plan, platform)
    except UnfitError as problem:
        return ExplainedLoop(where, steps, False, problem.problem, problem.where)
    return ExplainedLoop(where, steps, True, _described(plan))


def _described(plan: Plan) -> str:
    loops = sum(len(stage.loops) for stage in plan.step)
    calls = Counter(node.call.name for stage in plan.step for node in stage.calls if node.call is not None)
    parts = [f"{loops} loop{'s' * (loops != 1)} over elements"]
    parts += [name if count == 1 else f"{count} times {name}" for name, count in calls.items()]
    return ", ".join(parts)
