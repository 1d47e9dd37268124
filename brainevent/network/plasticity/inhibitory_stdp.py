# SPDX-License-Identifier: Apache-2.0
"""Plasticity of inhibitory synapses that gives neurons a rate (Vogels, Sprekeler et al. 2011)."""

from __future__ import annotations

import math

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, number, positive
from .entries import makes_plasticity, rule

__all__ = ["inhibitory_stdp", "inhibitory_stdp_on_post", "inhibitory_stdp_on_pre"]


@rule
def inhibitory_stdp_on_pre(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Strengthen a synapse near spikes of its target, and weaken it without them.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.inhibitory_stdp().on_pre is be.plasticity.inhibitory_stdp_on_pre
        True
    """
    return w + p.eta * (post.y - p.alpha)


@rule
def inhibitory_stdp_on_post(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Strengthen a synapse after spikes of its source.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.inhibitory_stdp().on_post
        {'spike': <function inhibitory_stdp_on_post at ...>}
    """
    return w + p.eta * pre.x


@makes_plasticity
def inhibitory_stdp(
    *,
    eta: Value = 0.005,
    rate: Value = 3.0,
    tau: Value = 20.0,
    w_max: Value = 1.0,
    delay_at: str = "axon",
) -> Plasticity:
    """Return plasticity of inhibitory synapses with which each target approaches a rate.

    A pair of spikes, t ms apart, makes the synapse stronger by `eta exp(-t / tau)`, whichever is first, and each spike
    of the source makes it weaker by `eta alpha`, where alpha is twice `rate` times `tau`. So inhibition grows where the
    target spikes faster than `rate`, and falls where it spikes more slowly (Vogels, Sprekeler et al. 2011).

    Args:
        eta: What a pair with no time between changes.
        rate: The rate that targets approach (Hz).
        tau: Time constant of the traces of source and target (ms).
        w_max: The strongest weight; below 0 where inhibitory weights are negative. The weakest is 0.

    Examples:
        >>> import brainevent as be
        >>> negative = be.plasticity.inhibitory_stdp(eta=0.01, w_max=-2.0)
        >>> negative.low, negative.high, negative.params["eta"]
        (-2.0, 0.0, -0.01)
    """
    name = "inhibitory_stdp"
    rate, tau = number(name, "rate", rate, "Hz"), positive(name, "tau", tau, "ms")
    eta, w_max = number(name, "eta", eta), number(name, "w_max", w_max)
    return Plasticity(
        on_pre=inhibitory_stdp_on_pre,
        on_post=inhibitory_stdp_on_post,
        pre={"x": trace(tau)},
        post={"y": trace(tau)},
        params={"eta": math.copysign(1.0, w_max) * eta, "alpha": 2e-3 * rate * tau},
        low=min(0.0, w_max),
        high=max(0.0, w_max),
        delay_at=delay_at,
    )
