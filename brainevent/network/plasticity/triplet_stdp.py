# SPDX-License-Identifier: Apache-2.0
"""Plasticity of triplets of spikes (Pfister and Gerstner 2006)."""

from __future__ import annotations

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, has_nearest
from .entries import makes_plasticity, rule

__all__ = ["triplet_stdp", "triplet_stdp_on_post", "triplet_stdp_on_pre"]


@rule
def triplet_stdp_on_pre(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Depress a synapse after spikes of the target, the more of the source are before them.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.triplet_stdp().on_pre is be.plasticity.triplet_stdp_on_pre
        True
    """
    return w - post.y * (p.a2_minus + p.a3_minus * pre.x_slow)


@rule
def triplet_stdp_on_post(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Potentiate a synapse after spikes of the source, the more of the target are before them.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.triplet_stdp().on_post
        {'spike': <function triplet_stdp_on_post at ...>}
    """
    return w + pre.x * (p.a2_plus + p.a3_plus * post.y_slow)


@makes_plasticity
def triplet_stdp(
    *,
    a2_plus: Value = 5e-10,
    a2_minus: Value = 7e-3,
    a3_plus: Value = 6.2e-3,
    a3_minus: Value = 2.3e-4,
    tau_plus: Value = 16.8,
    tau_minus: Value = 33.7,
    tau_x: Value = 101.0,
    tau_y: Value = 125.0,
    w_max: Value = 1.0,
    w_min: Value = 0.0,
    pairs: str = "all",
    delay_at: str = "axon",
) -> Plasticity:
    """Return spike-timing-dependent plasticity of pairs and triplets, which depends on rates as synapses do.

    A spike of the source takes `y (a2_minus + a3_minus x_slow)` from the weight, and one of the target adds
    `x (a2_plus + a3_plus y_slow)`: x and y are traces of source and target with `tau_plus` and `tau_minus`, x_slow and
    y_slow slower ones. None of them has the spike that reads it. The defaults are those that Pfister and Gerstner
    (2006) fitted to visual cortex with all spikes.

    Args:
        a2_plus: What a pair with no time between adds, where the source is first.
        a2_minus: What such a pair takes away, where the target is first.
        a3_plus: What a triplet of target, source, target adds.
        a3_minus: What a triplet of source, target, source takes away.
        tau_x: Time constant of the slow trace of the source (ms).
        tau_y: Time constant of the slow trace of the target (ms).

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.triplet_stdp().post
        {'y': trace(33.7), 'y_slow': trace(125)}
    """
    nearest = has_nearest("triplet_stdp", pairs)
    return Plasticity(
        on_pre=triplet_stdp_on_pre,
        on_post=triplet_stdp_on_post,
        pre={"x": trace(tau_plus, nearest=nearest), "x_slow": trace(tau_x, nearest=nearest)},
        post={"y": trace(tau_minus, nearest=nearest), "y_slow": trace(tau_y, nearest=nearest)},
        params={"a2_plus": a2_plus, "a2_minus": a2_minus, "a3_plus": a3_plus, "a3_minus": a3_minus},
        low=w_min,
        high=w_max,
        delay_at=delay_at,
    )
