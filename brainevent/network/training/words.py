# SPDX-License-Identifier: Apache-2.0
"""How `simulate` trains each part of a network, and `eprop` all of it: in native code or in plain JAX, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..plan.plan import Plan
from ..reference.components import Component
from ..reference.outputs import Outputs
from ..reference.passes import parts_of
from ..reference.products import products
from ..run.recorded import Wanted
from ..surrogate import fast_sigmoid
from .cells import cells_of, named
from .runner import NativeRunner

__all__ = ["training_in_words"]


def training_in_words(plan: Plan, runner: Any) -> str:
    """Return a line for each way in which populations are trained; `runner` is that of the engine, None in plain JAX.

    No synapses are made or drawn for it.
    """
    if not isinstance(runner, NativeRunner):
        return "training: all in plain JAX"
    if plan.plastic:
        all_else = "" if runner.engine.title == "numba" else ", and all else of simulate"
        return f"training{all_else}: in plain JAX, because synapses are plastic"
    lines: dict[str, list[str]] = {}
    refused: dict[str, list[str]] = {}
    for component in _parts(plan):
        names, why = [p.name for p in component.populations], runner.refusal(component, drawn=False)
        lines.setdefault(_said(runner, component, why), []).extend(names)
        if why:
            refused.setdefault(why, []).extend(names)
    said = [f"training: {named(populations)} in {text}" for text, populations in lines.items()]
    return "\n".join([*said, *_of_eprop(plan, refused)])


def _of_eprop(plan: Plan, refused: Mapping[str, Sequence[str]]) -> list[str]:
    """Say where `eprop` runs, given which populations native code does not have, by the reason; nothing if nowhere."""
    if plan.couplings or any(p.rule.value for p in plan.populations):
        return []
    if not refused:
        return ["e-prop: in native code, block by block"]
    how = "e-prop: in plain JAX, step by step, if synapses into"
    return [f"{how} {named(names)} learn, because {why}" for why, names in refused.items()]


def _parts(plan: Plan) -> list[Component]:
    """Return components of which all weights are given, and of which nothing is recorded."""
    of_plan = products(plan, [about.name for about in plan.projections], dict.fromkeys(plan.receptors(), "int32"))
    return parts_of(plan, of_plan, Outputs(plan, Wanted(), 1, np.uint32(0)), fast_sigmoid())


def _said(runner: NativeRunner, component: Component, why: str) -> str:
    """Say how a component is trained, which native code does not have if there is a reason why."""
    if component.timeless:
        return "plain JAX, for all steps at once, since no step depends on another one"
    if why:
        alike = all(one.delayed_alike for one in component.products)
        return f"plain JAX, because {why}" + ("" if alike else "; in native code if few of these delays occur")
    rounding = runner.engine.as_asked().rounding(cells_of(component, None))
    return f"native code; {rounding}" if rounding else "native code"
