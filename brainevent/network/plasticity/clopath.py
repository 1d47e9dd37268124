# SPDX-License-Identifier: Apache-2.0
"""Plasticity by the potential of the target (Clopath et al. 2010)."""

from __future__ import annotations

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value, positive
from .entries import makes_plasticity, rule

__all__ = ["clopath", "clopath_on_pre", "clopath_on_upstate"]


@rule
def clopath_on_pre(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Depress a synapse by how far the potential of the target has been above a threshold.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.clopath().on_pre is be.plasticity.clopath_on_pre
        True
    """
    return w - p.a_minus * post.above_minus


@rule
def clopath_on_upstate(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Potentiate a synapse in a step in which the potential of the target is high, and was high before.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.clopath().on_post
        {'upstate': <function clopath_on_upstate at ...>}
    """
    return w + p.a_plus * p.dt * pre.x * (post.above * post.above_plus)


@makes_plasticity
def clopath(
    *,
    a_plus: Value = 8e-5,
    a_minus: Value = 1.4e-4,
    tau_x: Value = 15.0,
    w_max: Value = 1.0,
    w_min: Value = 0.0,
) -> Plasticity:
    """Return plasticity by the potential of the target, for targets made by `models.voltage_traces`.

    A spike of the source takes `a_minus (v_minus - theta_minus)` from the weight, where v_minus is the potential of the
    target, filtered, and above theta_minus. While the potential is above theta_plus, and v_plus, filtered likewise,
    above theta_minus, the weight grows by `a_plus x (v - theta_plus) (v_plus - theta_minus)` per ms, where x is the
    trace of the source. The filters and both thresholds are those of the target, which announces such steps as the
    event "upstate"; only in them, its synapses are visited. The delay of the projection is that of the axon, because
    rules read the potential of now: at a dendrite they would be called a delay after the step whose potential counts.
    The defaults are those of Clopath et al. (2010) for visual cortex.

    Args:
        a_plus: Amplitude of potentiation (1 / (ms mV mV)).
        a_minus: Amplitude of depression (1 / mV).
        tau_x: Time constant of the trace of the source (ms), to which each spike adds 1 / tau_x.

    Examples:
        >>> import brainevent as be
        >>> neurons = be.models.voltage_traces(be.models.adex("neurons", 10))
        >>> be.plasticity.clopath().pre
        {'x': trace(15, add=0.0666667)}
    """
    tau_x = positive("clopath", "tau_x", tau_x, "ms")
    return Plasticity(
        on_pre=clopath_on_pre,
        on_post={"upstate": clopath_on_upstate},
        pre={"x": trace(tau_x, add=1 / tau_x)},
        params={"a_plus": a_plus, "a_minus": a_minus},
        low=w_min,
        high=w_max,
    )
