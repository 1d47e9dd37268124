# SPDX-License-Identifier: Apache-2.0
"""Plasticity with a threshold that slides (Bienenstock, Cooper and Munro 1982), for spikes."""

from __future__ import annotations

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, positive
from .entries import makes_plasticity, rule

__all__ = ["bcm", "bcm_on_pre"]


@rule
def bcm_on_pre(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Potentiate a synapse where the rate of its target is above the threshold, and depress it below.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.bcm().on_pre is be.plasticity.bcm_on_pre
        True
    """
    return w + p.eta * post.y * (post.y - post.y_slow * post.y_slow)


@makes_plasticity
def bcm(
    *,
    eta: Value = 0.001,
    rate: Value = 10.0,
    tau: Value = 50.0,
    tau_slow: Value = 5000.0,
    w_max: Value = 1.0,
    w_min: Value = 0.0,
    delay_at: str = "axon",
) -> Plasticity:
    """Return plasticity with which each target becomes selective, and keeps its rate.

    Each spike of the source adds `eta y (y - theta)` to the weight: y is the rate of the target of now, over `tau`, and
    theta the square of its mean over `tau_slow`, both in units of `rate`. So synapses that drive the target grow, and
    the threshold rises with its rate until the mean is `rate`.

    Args:
        eta: How fast weights change.
        rate: The mean rate that targets approach (Hz).
        tau: Over which time the rate of now is taken (ms).
        tau_slow: Over which time its mean is taken (ms).

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.bcm(rate=20.0).post
        {'y': trace(50), 'y_slow': trace(5000, add=0.01)}
    """
    rate, tau, tau_slow = (
        positive("bcm", *one) for one in (("rate", rate, "Hz"), ("tau", tau, "ms"), ("tau_slow", tau_slow, "ms"))
    )
    return Plasticity(
        on_pre=bcm_on_pre,
        post={"y": trace(tau, add=1000 / (rate * tau)), "y_slow": trace(tau_slow, add=1000 / (rate * tau_slow))},
        params={"eta": eta},
        low=w_min,
        high=w_max,
        delay_at=delay_at,
    )
