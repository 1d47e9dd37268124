# SPDX-License-Identifier: Apache-2.0
"""What docstrings of ready plasticity share: entries by the names of arguments, and of errors."""

from __future__ import annotations

from ..._documented import documented

__all__ = ["PARTS", "makes_plasticity", "rule"]

_ARGUMENTS = {
    "a_plus": "What a pair of spikes with no time between adds, where the source is first.",
    "a_minus": "What such a pair takes away, where the target is first.",
    "tau_plus": "Time constant of the trace of the source, so of potentiation (ms).",
    "tau_minus": "Time constant of the trace of the target, so of depression (ms).",
    "w_max": "The largest weight. `Simulation.set` does not change where weights are clipped.",
    "w_min": "The smallest weight.",
    "pairs": 'Which pairs count: "all", or "nearest" for the last spike of the other side alone.',
    "delay_at": 'Where the delay of the projection is, "axon" or "dendrite", as `Plasticity` says.',
}
_RAISES = {"NetworkError": "An argument is not of these kinds, or out of its range."}
PARTS = {
    "w": "The weight.",
    "s": "The states of the synapse, by name, and `replace`.",
    "pre": "What is declared for the source, by name.",
    "post": "The states and the traces of the target, by name.",
    "p": "The parameters, by name.",
}

makes_plasticity = documented(_ARGUMENTS, _RAISES, "What `Projection` takes as `plasticity`.")
rule = documented(PARTS, None, "The new weight.")
