# SPDX-License-Identifier: Apache-2.0
"""Which random numbers of a rule depend on values through which gradients pass: these have no adjoint."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._compat import scan_counts, source_line
from ..errors import RuleError
from .control import CALLS, inner_jaxpr
from .trace import TracedRule

__all__ = ["check_draws"]

# Functions of `random.py` that return whole numbers or bools, of which the probabilities are operands.
_OF_CHANCE = {"be_happens": "bernoulli", "be_is_below": "bernoulli", "be_poisson_of": "poisson"}
_HERE = str(Path(__file__).parent)


def check_draws(traced: TracedRule, closed: Any) -> None:
    """Raise if a probability or a mean depends on states or on what arrives, given the jaxpr of a rule.

    One that depends on parameters alone is allowed: as in the reference, it has no derivative with respect to them.
    """
    places = len(traced.states) + len(traced.arriving)
    names = (*traced.states, *traced.arriving, *traced.params, *traced.random)
    moving = [place < places and name.dtype == "float32" for place, name in enumerate(names)]
    _followed(traced.name, closed.jaxpr, moving)


def _followed(rule: str, jaxpr: Any, moving: Sequence[bool]) -> list[bool]:
    """Return which outputs of a jaxpr depend on inputs that are `moving`."""
    known = dict(zip(jaxpr.invars, moving, strict=True))
    for eqn in jaxpr.eqns:
        given = [known.get(atom, False) if not hasattr(atom, "val") else False for atom in eqn.invars]
        known.update(zip(eqn.outvars, _equation(rule, eqn, given), strict=True))
    return [known.get(atom, False) if not hasattr(atom, "val") else False for atom in jaxpr.outvars]


def _equation(rule: str, eqn: Any, given: list[bool]) -> list[bool]:
    name = eqn.primitive.name
    if name in CALLS:
        drawn = _OF_CHANCE.get(str(eqn.params.get("name")))
        if drawn and any(given):
            raise RuleError(
                f"rule {rule}, {source_line(eqn, _HERE) or 'unknown line'}: random.{drawn} depends on a state or on "
                "what arrives, and a number that is drawn has no derivative with respect to its probability, so the "
                "rule has no adjoint; let it depend on parameters alone"
            )
        return _followed(rule, inner_jaxpr(eqn).jaxpr, given)
    if name == "cond":
        sides = [_followed(rule, branch.jaxpr, given[1:]) for branch in eqn.params["branches"]]
        return [any(side) or given[0] for side in zip(*sides, strict=True)]
    if name in ("scan", "while"):
        return _repeated(rule, eqn, given)
    return [any(given)] * len(eqn.outvars)


def _repeated(rule: str, eqn: Any, given: list[bool]) -> list[bool]:
    """Follow the body of a loop, whose carried values are moving if anything is."""
    moving = any(given)
    if eqn.primitive.name == "scan":
        body, (consts, carried) = eqn.params["jaxpr"], scan_counts(eqn.params)
    else:
        given = given[eqn.params["cond_nconsts"] :]
        body, consts = eqn.params["body_jaxpr"], eqn.params["body_nconsts"]
        carried = len(given) - consts
    inside = [*given[:consts], *[moving] * carried, *given[consts + carried :]]
    _followed(rule, body.jaxpr, inside)
    return [moving] * len(eqn.outvars)
