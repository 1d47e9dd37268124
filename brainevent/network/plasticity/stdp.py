# SPDX-License-Identifier: Apache-2.0
"""Additive plasticity of pairs of spikes: what a pair changes does not depend on the weight."""

from __future__ import annotations

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, has_nearest
from .entries import makes_plasticity, rule

__all__ = ["stdp", "stdp_on_post", "stdp_on_pre"]


@rule
def stdp_on_pre(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Depress a synapse when a spike of its source follows spikes of the target.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.stdp().on_pre is be.plasticity.stdp_on_pre
        True
    """
    return w - p.a_minus * post.y


@rule
def stdp_on_post(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Potentiate a synapse when a spike of its target follows spikes of the source.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.stdp().on_post
        {'spike': <function stdp_on_post at ...>}
    """
    return w + p.a_plus * pre.x


@makes_plasticity
def stdp(
    *,
    a_plus: Value = 0.005,
    a_minus: Value = 0.00525,
    tau_plus: Value = 20.0,
    tau_minus: Value = 20.0,
    w_max: Value = 1.0,
    w_min: Value = 0.0,
    pairs: str = "all",
    delay_at: str = "axon",
) -> Plasticity:
    """Return additive spike-timing-dependent plasticity, which makes weights compete.

    A pair of spikes, t ms apart, adds `a_plus exp(-t / tau_plus)` to the weight if the source is first, and takes away
    `a_minus exp(-t / tau_minus)` if the target is. Both are in the units of the weight. The defaults are those of Song,
    Miller and Abbott (2000), whose largest weight is 1 here.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.stdp(a_plus=0.01, tau_plus=15.0).pre
        {'x': trace(15)}
    """
    nearest = has_nearest("stdp", pairs)
    return Plasticity(
        on_pre=stdp_on_pre,
        on_post=stdp_on_post,
        pre={"x": trace(tau_plus, nearest=nearest)},
        post={"y": trace(tau_minus, nearest=nearest)},
        params={"a_plus": a_plus, "a_minus": a_minus},
        low=w_min,
        high=w_max,
        delay_at=delay_at,
    )
