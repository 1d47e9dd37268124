# SPDX-License-Identifier: Apache-2.0
"""Weights that a user gives to a simulation, and the state with which it goes on with them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from ..description.units import unit_of
from ..plan.build import wirings_of
from ..plan.pending import check_pending
from ..plan.plan import Plan
from ..plan.replaced import Weights, weights_as_built
from ..state import NetworkState
from .given import weights_to_set
from .requests import found_projection

__all__ = ["first_weights", "given_weights", "going_on"]

Array = Any


def first_weights(plan: Plan, network: Any) -> Weights:
    """Return the weights of a build, from a description or None."""
    return weights_as_built(plan, None if network is None else functools.cache(lambda: wirings_of(network, plan)))


def given_weights(weights: Weights, name: str, values: Mapping[str, Any]) -> dict[str, Array]:
    """Return the new weights of a projection, checked, by its name; nothing if they are those of now."""
    about = found_projection(weights.plan, "set", name)
    unit = unit_of(about.target, weights.plan.population(about.target).units, about.receptor)
    given = weights_to_set(about, values, unit)
    return {} if weights.has(name, given) else {name: given}


def going_on(
    what: str, weights: Weights, state: NetworkState, quanta: Any, replaced: Mapping[str, Array]
) -> tuple[Weights, NetworkState]:
    """Return weights, of which some are replaced, and a state in their quanta, in which pending input has its value.

    `quanta` are those of a state that does not have any; errors begin with `what`.
    """
    given = quanta if state.quanta is None else state.quanta
    weights, arriving = weights.with_(replaced, state.arriving, given, what, same=what != "set")
    if replaced:
        weights.warn()
    if what == "set":
        check_pending(what, weights.plan, arriving, "pass smaller weights, or set them when no spikes are on their way")
    else:
        check_pending(what, weights.plan, arriving)
    return weights, dataclasses.replace(state, arriving=arriving, quanta=weights.plan.quanta)
