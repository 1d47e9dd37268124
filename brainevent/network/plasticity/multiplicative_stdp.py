# SPDX-License-Identifier: Apache-2.0
"""Multiplicative plasticity of pairs of spikes: what a pair changes is a share of what is left."""

from __future__ import annotations

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, has_nearest, positive
from .entries import makes_plasticity, rule

__all__ = ["multiplicative_stdp", "multiplicative_stdp_on_post", "multiplicative_stdp_on_pre"]


@rule
def multiplicative_stdp_on_pre(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Depress a synapse by a share of its weight.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.multiplicative_stdp().on_pre is be.plasticity.multiplicative_stdp_on_pre
        True
    """
    return w - p.a_minus * w * post.y


@rule
def multiplicative_stdp_on_post(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Potentiate a synapse by a share of what is missing to the largest weight.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.multiplicative_stdp().on_post
        {'spike': <function multiplicative_stdp_on_post at ...>}
    """
    return w + p.a_plus * (p.w_max - w) * pre.x


@makes_plasticity
def multiplicative_stdp(
    *,
    a_plus: Value = 0.005,
    a_minus: Value = 0.00525,
    tau_plus: Value = 20.0,
    tau_minus: Value = 20.0,
    w_max: Value = 1.0,
    pairs: str = "all",
    delay_at: str = "axon",
) -> Plasticity:
    """Return multiplicative spike-timing-dependent plasticity, whose weights do not reach their bounds.

    A pair of spikes, t ms apart, adds `a_plus (w_max - w) exp(-t / tau_plus)` to the weight if the source is first, and
    takes away `a_minus w exp(-t / tau_minus)` if the target is: `a_plus` and `a_minus` are shares. So weights stay
    around a value between (Rubin, Lee and Sompolinsky 2001).

    Args:
        a_plus: The share of `w_max - w` that a pair with no time between adds, where the source is first.
        a_minus: The share of w that such a pair takes away, where the target is first.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.multiplicative_stdp(w_max=2.0).high
        2.0
    """
    nearest = has_nearest("multiplicative_stdp", pairs)
    w_max = positive("multiplicative_stdp", "w_max", w_max)
    return Plasticity(
        on_pre=multiplicative_stdp_on_pre,
        on_post=multiplicative_stdp_on_post,
        pre={"x": trace(tau_plus, nearest=nearest)},
        post={"y": trace(tau_minus, nearest=nearest)},
        params={"a_plus": a_plus, "a_minus": a_minus, "w_max": w_max},
        high=w_max,
        delay_at=delay_at,
    )
