# SPDX-License-Identifier: Apache-2.0
"""The words of a plastic projection, of which native code is given a table, and the dtypes of its numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...scalar.form import Form
from ..plan.plastic import SPIKE, PlasticPlan
from ..plan.plasticity import TracePlan
from .tables import EVENTS, PLASTIC

__all__ = ["Small", "decays_in", "inputs_of", "late_dtypes", "read_of_target", "small_of", "words_of_plastic"]

_DECAYED = {"float32": 104.0, "float64": 746.0}  # exp of minus this is 0
_MOST_STEPS = 2**17  # of which the factors of a trace are in a table
_SLOWEST = 1e-30


@dataclass(frozen=True)
class Small:
    """The smallest dtypes that hold the numbers of a projection.

    Attributes:
        targets: Of targets.
        entries: Of the places of synapses.
        which: Of the places of their delays among the different ones; None if there is one at most.
    """

    targets: Any
    entries: Any
    which: Any


def small_of(plastic: PlasticPlan) -> Small:
    """Return the smallest dtypes for a projection."""
    entries = np.int32 if plastic.entries < 2**31 else np.int64
    many = plastic.distinct.size
    return Small(plastic.target_dtype, entries, None if many < 2 else np.uint8 if many <= 2**8 else np.uint16)


def decays_in(one: TracePlan, dtype: str) -> int | None:
    """Return a number of steps in which a trace decays to 0; None if there is no such number that is small."""
    steps = np.ceil(_DECAYED[dtype] / max(float(one.rate), _SLOWEST)) + 1
    return int(steps) if steps <= _MOST_STEPS else None


def late_dtypes(plastic: PlasticPlan, states: Mapping[str, str], dtype: str, *, watched: bool) -> dict[str, str] | None:
    """Return the dtypes of what waits with an event of a target; None if all events act at once.

    Events wait for spikes of the source if there is one rule for events, and nothing but these spikes reads synapses;
    and if 32 bits hold the places of all that wait.
    """
    rules = plastic.rules
    fits = EVENTS * plastic.sizes[1] < 2**31
    if watched or not plastic.at_axon or len(rules.on_post) != 1 or rules.every or not fits:
        return None
    traces = {one.name for one in rules.post}
    ((_, rule),) = rules.on_post
    return {name: dtype if name in traces else states[name] for name in inputs_of(rule.form, "post_")}


def words_of_plastic(plastic: PlasticPlan, late: Mapping[str, str] | None) -> tuple[str, ...]:
    """Return the words of the table of a plastic projection, of which `late` waits: a name, or a kind and a name."""
    rules = plastic.rules
    words = [
        *PLASTIC._fields,
        "found",
        "what",
        *(f"state:{name}" for name in rules.states),
        *(f"param:{name}" for name in rules.params),
    ]
    for side, traces in (("pre", rules.pre), ("post", rules.post)):
        words.append(f"last:{side}")
        words += [f"{kind}:{side}.{one.name}" for one in traces for kind in ("trace", "factors", "count", "constants")]
    for name, state in rules.carried:
        words += [f"carried:{name}", f"kept:{state}"]
    words += ["values"] * plastic.graded
    words += [f"target:{name}" for name in read_of_target(plastic)]
    if late:
        words += [f"late:{name}" for name in late]
    events = dict.fromkeys([*(event for event, _ in rules.on_post), *[SPIKE] * bool(rules.post)])
    words += [f"event:{event}" for event in events]
    return tuple(dict.fromkeys(words))


def read_of_target(plastic: PlasticPlan) -> list[str]:
    """Return the states of the target that rules read."""
    traces = {one.name for one in plastic.rules.post}
    read = {name for _, rule in plastic.rules.all for name in inputs_of(rule.form, "post_") if name not in traces}
    return sorted(read)


def inputs_of(form: Form, prefix: str) -> list[str]:
    """Return the names of the inputs of a form that begin with a prefix, without it."""
    return [one.text.removeprefix(prefix) for one in form.inputs if one.text.startswith(prefix)]
