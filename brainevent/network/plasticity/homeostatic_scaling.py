# SPDX-License-Identifier: Apache-2.0
"""Scaling of all weights of a neuron towards a rate (Turrigiano et al. 1998, van Rossum et al. 2000)."""

from __future__ import annotations

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, positive
from .entries import makes_plasticity, rule

__all__ = ["homeostatic_scaling", "homeostatic_scaling_every"]


@rule
def homeostatic_scaling_every(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Scale a weight by how far the rate of its target is from the goal.

    Examples:
        >>> import brainevent as be
        >>> [(ms, rule)] = be.plasticity.homeostatic_scaling().every
        >>> ms, rule is be.plasticity.homeostatic_scaling_every
        (100.0, True)
    """
    return w * (1 + p.eta * (1 - post.rate))


@makes_plasticity
def homeostatic_scaling(
    *,
    eta: Value = 0.01,
    rate: Value = 5.0,
    tau: Value = 1000.0,
    interval: Value = 100.0,
    w_max: Value = 1.0,
    w_min: Value = 0.0,
    delay_at: str = "axon",
) -> Plasticity:
    """Return a scaling of excitatory weights with which each target approaches a rate.

    Each `interval`, all weights of a neuron are multiplied by `1 + eta (1 - r)`, where r is its rate over `tau`, in
    units of `rate`: the ratios of its weights stay. To have it beside another rule, add its parts to that:
    `dataclasses.replace(stdp, every=..., post=..., params=...)`, as the page on plasticity rules shows.

    Args:
        eta: By which share a silent neuron's weights grow in an interval.
        rate: The rate that targets approach (Hz).
        tau: Over which time their rate is taken (ms).
        interval: How often weights are scaled (ms), a multiple of the time step.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.homeostatic_scaling(rate=10.0).post
        {'rate': trace(1000, add=0.1)}
    """
    rate, tau = positive("homeostatic_scaling", "rate", rate, "Hz"), positive("homeostatic_scaling", "tau", tau, "ms")
    return Plasticity(
        every=(interval, homeostatic_scaling_every),
        post={"rate": trace(tau, add=1000 / (rate * tau))},
        params={"eta": eta},
        low=w_min,
        high=w_max,
        delay_at=delay_at,
    )
