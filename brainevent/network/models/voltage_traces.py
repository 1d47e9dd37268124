# SPDX-License-Identifier: Apache-2.0
"""Potentials of neurons, filtered and above thresholds, for plasticity that reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from ...errors import NetworkError, did_you_mean
from ..description.populations import Population
from .drive import step_of
from .physical import Physical, Value, by_name, rise
from .watch import Watch, watched

__all__ = ["voltage_traces"]

_UNITS = by_name(
    {
        "mV": "v_minus v_plus above_minus above_plus above theta_minus theta_plus trace_peak",
        "1": "trace_minus trace_plus trace_width peak_steps",
    }
)


def voltage_traces(
    population: Population,
    *,
    tau_minus: Value = 10.0,
    tau_plus: Value = 7.0,
    theta_minus: Value = -70.6,
    theta_plus: Value = -45.3,
    peak: Value = 33.0,
    width: Value = 2.0,
    v: str = "v",
    start: Value = None,
    dt: Value = None,
) -> Population:
    """Return a population whose neurons filter their potential, as `plasticity.clopath` needs it.

    The potential u is `v`, or `peak` from a spike on for `width`: rules reset `v` in the step of the spike. In each
    step, v_minus and v_plus follow u with `tau_minus` and `tau_plus`. The state `above_minus` is how far v_minus is
    above `theta_minus`, `above_plus` how far v_plus is, and `above` how far u is above `theta_plus`; they are 0 below.
    Where `above` and `above_plus` are not 0, the neuron has the event "upstate". The defaults are those of Clopath et
    al. (2010), for `adex`.

    Args:
        population: Neurons of any rule with a potential.
        tau_minus: Time constant of v_minus (ms).
        tau_plus: Time constant of v_plus (ms).
        theta_minus: Threshold of both (mV).
        theta_plus: Threshold of the potential (mV).
        peak: The potential that counts from a spike on (mV).
        width: How long it counts (ms), rounded to whole steps; with 0, not at all.
        v: Name of the state that is the potential.
        start: v_minus and v_plus at the start (mV); by default theta_minus.
        dt: Time step of the network (ms); by default the parameter dt of the population.

    Returns:
        A population of the same name and size, with the event "upstate".

    Raises:
        NetworkError: A time constant is not above 0, or the population has no such potential, or a state of a name that
            is added.

    Examples:
        >>> import brainevent as be
        >>> exc = be.models.voltage_traces(be.models.adex("exc", 10), tau_plus=5.0)
        >>> sorted(set(exc.state) - set(be.models.adex("exc", 10).state))
        ['above', 'above_minus', 'above_plus', 'peak_steps', 'v_minus', 'v_plus']
    """
    if v not in population.state:
        raise NetworkError(
            f"population {population.name} has no state {v!r}{did_you_mean(v, population.state)}; pass v= one of "
            f"{', '.join(population.state) or 'its states, of which there are none'}"
        )
    read = Physical(population.name, step_of(population, dt))
    tau_minus, tau_plus = read.positive("ms", tau_minus=tau_minus, tau_plus=tau_plus)
    (width,) = read.steps(width=width)

    first = theta_minus if start is None else start
    return watched(
        population,
        _watch(v),
        state={"v_minus": first, "v_plus": first, "above_minus": 0.0, "above_plus": 0.0, "above": 0.0, "peak_steps": 0},
        params={
            "trace_minus": rise(read.dt, tau_minus),
            "trace_plus": rise(read.dt, tau_plus),
            "theta_minus": theta_minus,
            "theta_plus": theta_plus,
            "trace_peak": peak,
            "trace_width": width,
        },
        units=_UNITS,
    )


def _watch(v: str) -> Watch:
    """Return what filters the potential `v` in a step."""

    def watch(new: Any, spike: Any, arriving: Any, p: Any) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        left = jnp.where(spike, p.trace_width, new.peak_steps)
        u = jnp.where(left > 0, p.trace_peak, getattr(new, v))
        v_minus = new.v_minus + (u - new.v_minus) * p.trace_minus
        v_plus = new.v_plus + (u - new.v_plus) * p.trace_plus
        above = jnp.maximum(u - p.theta_plus, 0.0)
        above_plus = jnp.maximum(v_plus - p.theta_minus, 0.0)
        changed = {
            "v_minus": v_minus,
            "v_plus": v_plus,
            "above_minus": jnp.maximum(v_minus - p.theta_minus, 0.0),
            "above_plus": above_plus,
            "above": above,
            "peak_steps": jnp.maximum(left - 1, 0),
        }
        return changed, {"upstate": (above > 0) & (above_plus > 0)}

    return watch
