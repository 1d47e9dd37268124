# SPDX-License-Identifier: Apache-2.0
"""Check couplings against the rules of their populations, and draw their synapses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import NetworkError
from ...event.room import check_room
from ...scalar.trace import TracedRule
from ..description.coupling import Coupling
from .couplings import CouplingPlan
from .distribution import Distribution
from .drawing import placed_synapses
from .rules import check_receptor, receptors_of
from .wiring import Wiring, carrying, check_whole

__all__ = ["coupling_wirings", "drawn_couplings"]

_BITS = 30  # of a drawn weight

Array = Any


def coupling_wirings(
    named: Sequence[tuple[str, Coupling]], dt: float, rules: dict[str, TracedRule] | None = None, dtype: str = ""
) -> list[Wiring]:
    """Return the wiring of each coupling by name; given rules and the dtype of floats, raise if these do not suit it.

    Receptors must be there, states floats, and weights that are integers must not be rounded.
    """
    for name, coupling in named if rules is not None else ():
        assert rules is not None
        (source, target), where = coupling.populations, f"coupling {name}"
        check_receptor(where, target.name, coupling.into, receptors_of(rules[target.name]))
        check_whole(where, coupling, dtype)
        ends = (source, target) if coupling.difference else (source,)
        for population in ends:
            _check_floats(where, population.name, coupling.of, rules[population.name])
    return [carrying(name, coupling, dt) for name, coupling in named]


def _check_floats(where: str, population: str, state: str, rule: TracedRule) -> None:
    """Raise unless a state has floats."""
    floats = [name.text.removeprefix("s_") for name in rule.states if name.dtype.startswith("float")]
    if state not in floats:
        dtype = next(name.dtype for name in rule.states if name.text == f"s_{state}")
        raise NetworkError(
            f"{where}: the state {state} of {population} is {dtype}, and couplings carry floats; let the rule return a "
            f"float for it, such as s.{state} * 1.0, or carry another one: {', '.join(floats) or 'there is none'}"
        )


def drawn_couplings(wirings: Sequence[Wiring], seed: int, dtype: str) -> tuple[CouplingPlan, ...]:
    """Draw the synapses of all couplings: the same for any number of threads."""
    return tuple(_drawn(wiring, seed, dtype) for wiring in wirings)


def _drawn(wiring: Wiring, seed: int, dtype: str) -> CouplingPlan:
    what = 12 * int(wiring.expected)  # bytes
    check_room(f"coupling {wiring.name}", f"{wiring.expected:.3g} synapses", what, on_host=True)
    listed = wiring.listed
    if listed is not None:
        order = np.lexsort((listed.targets, listed.sources))  # stable
        ends = listed.sources[order], listed.targets[order]
        weights = wiring.weights if wiring.weights.size == 1 else wiring.weights[order]
    else:
        quantum = _quantum(wiring)
        synapses: Any = placed_synapses(wiring, quantum, seed, 1).synapses
        sources = np.repeat(np.arange(wiring.whole_shape[0], dtype=np.int32), np.diff(synapses.starts))
        ends = sources, synapses.targets.astype(np.int32)
        drawn = isinstance(wiring.weights, Distribution)
        weights = synapses.weights * np.float64(quantum) if drawn else wiring.weights
    link: Any = wiring.projection
    source, target = link.populations
    names = wiring.name, source.name, target.name, link.into
    return CouplingPlan(*names, link.of, link.difference, *ends, weights.astype(dtype), target.size)


def _quantum(wiring: Wiring) -> Any:
    """Return the power of two of which drawn weights are multiples: of integers, they are then exact."""
    largest = wiring.largest_weight
    return np.float64(2.0 ** (np.frexp(largest)[1] - _BITS)) if largest else np.float64(1)
