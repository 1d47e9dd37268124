# SPDX-License-Identifier: Apache-2.0
"""Plasticity of pairs of spikes between additive and multiplicative, by an exponent."""

from __future__ import annotations

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, has_nearest, positive
from .entries import makes_plasticity, rule

__all__ = ["nonlinear_stdp", "nonlinear_stdp_on_post", "nonlinear_stdp_on_pre"]


@rule
def nonlinear_stdp_on_pre(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Depress a synapse by a power of its weight.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.nonlinear_stdp().on_pre is be.plasticity.nonlinear_stdp_on_pre
        True
    """
    return w - p.a_minus * p.w_max * jnp.power(w / p.w_max, p.mu_minus) * post.y


@rule
def nonlinear_stdp_on_post(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Potentiate a synapse by a power of what is missing to the largest weight.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.nonlinear_stdp().on_post
        {'spike': <function nonlinear_stdp_on_post at ...>}
    """
    return w + p.a_plus * p.w_max * jnp.power(1 - w / p.w_max, p.mu_plus) * pre.x


@makes_plasticity
def nonlinear_stdp(
    *,
    a_plus: Value = 0.005,
    a_minus: Value = 0.00525,
    mu_plus: Value = 0.1,
    mu_minus: Value = 0.1,
    tau_plus: Value = 20.0,
    tau_minus: Value = 20.0,
    w_max: Value = 1.0,
    pairs: str = "all",
    delay_at: str = "axon",
) -> Plasticity:
    """Return spike-timing-dependent plasticity whose exponents lead from additive, 0, to multiplicative, 1.

    With u = w / w_max, a pair of spikes, t ms apart, adds `a_plus w_max (1 - u)^mu_plus exp(-t / tau_plus)` to the
    weight if the source is first, and takes away `a_minus w_max u^mu_minus exp(-t / tau_minus)` if the target is
    (Guetig et al. 2003). Powers take time: with 0 and 1, `stdp` and `multiplicative_stdp` are faster.

    Args:
        a_plus: What a pair with no time between adds to a weight of 0, where the source is first: a share of w_max.
        a_minus: What such a pair takes from a weight of w_max, where the target is first: a share of w_max.
        mu_plus: Exponent of potentiation.
        mu_minus: Exponent of depression.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.nonlinear_stdp(mu_plus=0.02, mu_minus=0.02).params["mu_plus"]
        0.02
    """
    nearest = has_nearest("nonlinear_stdp", pairs)
    w_max = positive("nonlinear_stdp", "w_max", w_max)
    return Plasticity(
        on_pre=nonlinear_stdp_on_pre,
        on_post=nonlinear_stdp_on_post,
        pre={"x": trace(tau_plus, nearest=nearest)},
        post={"y": trace(tau_minus, nearest=nearest)},
        params={"a_plus": a_plus, "a_minus": a_minus, "mu_plus": mu_plus, "mu_minus": mu_minus, "w_max": w_max},
        high=w_max,
        delay_at=delay_at,
    )
