# SPDX-License-Identifier: Apache-2.0
"""Where arrays lie on a mesh with explicit axes: XLA chooses within a run, and its results lie as the state does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

from ..run.recorded import Wanted
from ..state import NetworkState

__all__ = ["placed"]

Array = Any
Run = Callable[..., tuple[NetworkState, dict[str, Array]]]


def placed(run: Run, wanted: Wanted, state: NetworkState) -> Run:
    """Return a run from a state, which works on a mesh with explicit axes if the state lies on one."""
    shardings = jax.tree.map(lambda x: jax.typeof(jnp.asarray(x)).sharding, state)
    meshes = (sharding.mesh for sharding in jax.tree.leaves(shardings))
    explicit = next((mesh for mesh in meshes if AxisType.Explicit in mesh.axis_types), None)
    if explicit is None:
        return run

    def on_mesh(*axes: Any) -> NamedSharding:
        return NamedSharding(explicit, PartitionSpec(*axes))

    of = {
        name: next((sharding.spec[0] for sharding in states.values()), None)
        for name, states in shardings.neurons.items()
    }
    results = {
        **{f"{name}.spikes": on_mesh(None, of[name]) for name in wanted.spikes},
        **{f"{name}.counts": on_mesh(of[name]) for name in wanted.counts},
        **{f"{name}.rate": on_mesh(None) for name in wanted.rates},
        **{label: on_mesh(None, None) for label in wanted.samples},
    }
    places = jax.tree.map(lambda sharding: on_mesh(*sharding.spec), shardings)
    return jax.sharding.auto_axes(run, out_sharding=(places, results))
