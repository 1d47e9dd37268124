# SPDX-License-Identifier: Apache-2.0
"""Plasticity of pairs of spikes whose potentiation is a power of the weight."""

from __future__ import annotations

import jax.numpy as jnp

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, has_nearest, number, positive
from .entries import makes_plasticity, rule

__all__ = ["power_law_stdp", "power_law_stdp_on_post", "power_law_stdp_on_pre"]


@rule
def power_law_stdp_on_pre(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Depress a synapse by a share of its weight.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.power_law_stdp(w_max=100.0).on_pre is be.plasticity.power_law_stdp_on_pre
        True
    """
    return w - p.a_minus * w * post.y


@rule
def power_law_stdp_on_post(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Potentiate a synapse by a power of its weight.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.power_law_stdp(w_max=100.0).on_post
        {'spike': <function power_law_stdp_on_post at ...>}
    """
    return w + p.a_plus * jnp.power(w / p.w_0, p.mu) * pre.x


@makes_plasticity
def power_law_stdp(
    *,
    w_max: Value,
    rate: Value = 0.1,
    alpha: Value = 0.0513,
    mu: Value = 0.4,
    w_0: Value = 1.0,
    tau_plus: Value = 15.0,
    tau_minus: Value = 30.0,
    pairs: str = "all",
    delay_at: str = "axon",
) -> Plasticity:
    """Return spike-timing-dependent plasticity after Morrison, Aertsen and Diesmann (2007).

    A pair of spikes, t ms apart, adds `rate w_0 (w / w_0)^mu exp(-t / tau_plus)` to the weight if the source is first,
    and takes away `rate alpha w exp(-t / tau_minus)` if the target is. Nothing in the rule bounds a weight, except that
    one of 0 stays 0: choose `w_max` several times what you expect. The defaults are those of a benchmark with in-degree
    11 250 and weights in pA.

    Args:
        w_max: The largest weight, which bounds the sums of a neuron.
        rate: How fast weights change.
        alpha: How strong depression is, beside potentiation.
        mu: Exponent of potentiation.
        w_0: The weight that the model takes as its unit.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.power_law_stdp(w_max=200.0).params["mu"]
        0.4
    """
    nearest = has_nearest("power_law_stdp", pairs)
    rate, alpha, mu = (number("power_law_stdp", *one) for one in (("rate", rate), ("alpha", alpha), ("mu", mu)))
    w_0 = positive("power_law_stdp", "w_0", w_0)
    return Plasticity(
        on_pre=power_law_stdp_on_pre,
        on_post=power_law_stdp_on_post,
        pre={"x": trace(tau_plus, nearest=nearest)},
        post={"y": trace(tau_minus, nearest=nearest)},
        params={"a_plus": rate * w_0, "a_minus": rate * alpha, "mu": mu, "w_0": w_0},
        high=w_max,
        delay_at=delay_at,
    )
