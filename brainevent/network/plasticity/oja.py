# SPDX-License-Identifier: Apache-2.0
"""Plasticity that keeps the sum of squared weights (Oja 1982), for spikes."""

from __future__ import annotations

from ...typing import ArrayLike, PyTree
from ..description.plasticity import Plasticity, trace
from .arguments import Value
from .entries import makes_plasticity, rule

__all__ = ["oja", "oja_on_post"]


@rule
def oja_on_post(w: ArrayLike, s: PyTree, pre: PyTree, post: PyTree, p: PyTree) -> ArrayLike:
    """Let a weight follow the activity of its source, and forget in proportion to that of its target.

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.oja().on_post
        {'spike': <function oja_on_post at ...>}
    """
    return w + p.eta * (pre.x - post.y * w)


@makes_plasticity
def oja(
    *,
    eta: Value = 0.001,
    tau: Value = 20.0,
    w_max: Value = 1.0,
    w_min: Value = 0.0,
    delay_at: str = "axon",
) -> Plasticity:
    """Return plasticity with which weights find the direction in which sources vary most, without growing.

    Each spike of the target adds `eta (x - y w)` to the weight, with traces x of the source and y of the target. Where
    the rate of the target is the sum of weights times rates of the sources, the sum of squared weights approaches 1.

    Args:
        eta: How fast weights change.
        tau: Time constant of both traces (ms).

    Examples:
        >>> import brainevent as be
        >>> be.plasticity.oja(tau=50.0).pre
        {'x': trace(50)}
    """
    return Plasticity(
        on_post=oja_on_post,
        pre={"x": trace(tau)},
        post={"y": trace(tau)},
        params={"eta": eta},
        low=w_min,
        high=w_max,
        delay_at=delay_at,
    )
