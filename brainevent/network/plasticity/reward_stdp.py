# SPDX-License-Identifier: Apache-2.0
"""Plasticity of pairs of spikes that a reward, which may come later, turns into weights (Izhikevich 2007)."""

from __future__ import annotations

import math

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, has_nearest, number, positive
from .entries import makes_plasticity, rule

__all__ = ["reward_stdp", "reward_stdp_every", "reward_stdp_on_post", "reward_stdp_on_pre"]


@rule
def reward_stdp_on_pre(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> tuple[ArrayLike, PyTree]:
    """Make a synapse eligible for depression when a spike of its source follows spikes of the target.

    Returns:
        The weight, and the new states.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.reward_stdp().on_pre is be.plasticity.reward_stdp_on_pre
        True
    """
    return w, s.replace(c=s.c - p.a_minus * post.y)


@rule
def reward_stdp_on_post(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> tuple[ArrayLike, PyTree]:
    """Make a synapse eligible for potentiation when a spike of its target follows spikes of the source.

    Returns:
        The weight, and the new states.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.reward_stdp().on_post
        {'spike': <function reward_stdp_on_post at ...>}
    """
    return w, s.replace(c=s.c + p.a_plus * pre.x)


@rule
def reward_stdp_every(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> tuple[ArrayLike, PyTree]:
    """Add to the weight what eligibility and dopamine make of it until the next time.

    Returns:
        The weight, and the new states.

    Examples:
        >>> import brainevent as be
        >>> [(ms, rule)] = be.plasticity.reward_stdp(interval=10.0).every
        >>> ms, rule is be.plasticity.reward_stdp_every
        (10.0, True)
    """
    return w + s.c * (post.dopamine * p.gain - p.lost), s.replace(c=s.c * p.fall)


@makes_plasticity
def reward_stdp(
    *,
    a_plus: Value = 0.001,
    a_minus: Value = 0.0015,
    tau_plus: Value = 20.0,
    tau_minus: Value = 20.0,
    tau_c: Value = 1000.0,
    tau_dopamine: Value = 200.0,
    baseline: Value = 0.0,
    interval: Value = 1.0,
    w_max: Value = 1.0,
    w_min: Value = 0.0,
    pairs: str = "all",
    delay_at: str = "axon",
) -> Plasticity:
    """Return plasticity whose pairs of spikes act on weights if dopamine follows, seconds later too.

    Pairs of spikes change the eligibility c of a synapse as `stdp` changes weights, and c decays with `tau_c`. The
    weight follows `dw/dt = c (dopamine - baseline)`, with t in ms (Izhikevich 2007). Dopamine is a state of that name
    of the target: `models.dopamine` adds it to any neurons, with a receptor for rewards.

    Each `interval`, all weights take what c and dopamine of then make until the next time: exact where neither jumps
    between. So, with the time step as the interval, weights are those of the equation, and 10 ms take a tenth of the
    time of 1 ms.

    Args:
        a_plus: What a pair with no time between adds to the eligibility, where the source is first.
        a_minus: What such a pair takes away, where the target is first.
        tau_c: Time constant of the eligibility (ms).
        tau_dopamine: Time constant of dopamine in the target (ms); None where it stays as it is.
        baseline: Dopamine with which eligibility changes no weight.
        interval: How often weights and eligibilities are updated (ms), a multiple of the time step.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.reward_stdp(tau_c=500.0).state
        {'c': 0.0}
    """
    name = "reward_stdp"
    nearest, baseline = has_nearest(name, pairs), number(name, "baseline", baseline)
    tau_c, interval = positive(name, "tau_c", tau_c, "ms"), positive(name, "interval", interval, "ms")
    together = tau_c
    if tau_dopamine is not None:
        together = 1 / (1 / tau_c + 1 / positive(name, "tau_dopamine", tau_dopamine, "ms"))
    return Plasticity(
        on_pre=reward_stdp_on_pre,
        on_post=reward_stdp_on_post,
        every=(interval, reward_stdp_every),
        state={"c": 0.0},
        pre={"x": trace(tau_plus, nearest=nearest)},
        post={"y": trace(tau_minus, nearest=nearest)},
        params={
            "a_plus": a_plus,
            "a_minus": a_minus,
            "gain": -together * math.expm1(-interval / together),
            "lost": -baseline * tau_c * math.expm1(-interval / tau_c),
            "fall": math.exp(-interval / tau_c),
        },
        low=w_min,
        high=w_max,
        delay_at=delay_at,
    )
