# SPDX-License-Identifier: Apache-2.0
"""`swept`: a function of weights that `jax.vmap` maps over, called with the weights of all elements.

`jax.vmap` gives a primitive's batching rule the arrays themselves, so it is known which weights these are. Where `jit`,
`scan` or a derivative traces them, they are not known, and the primitive raises.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import Primitive, Tracer, primitive_batchers, primitive_jvps
from ...errors import NetworkError
from ..state import NetworkState

__all__ = ["swept"]

Array = Any
Results = tuple[NetworkState, dict[str, Array]]
RunAll = Callable[[Sequence[tuple[Mapping[str, Array], Any]]], Sequence[Results]]


class _Sweep:
    """A function of weights by projection and of other arguments, as one of the leaves of both that are traced.

    `run` is given what it is called with for all elements. `results` is the tree of what it returned last. `quanta` are
    those in which states of several weights are.
    """

    def __init__(self, run: RunAll, weights: Mapping[str, Array], arguments: Any, quanta: Any, backend: str):
        self._run, self._quanta, self.backend = run, quanta, backend
        self.names = ", ".join(name for name, one in weights.items() if isinstance(one, Tracer))
        self._leaves, self._tree = jax.tree.flatten((dict(weights), arguments))
        self.traced = [k for k, one in enumerate(self._leaves) if isinstance(one, Tracer)]
        self.results: Any = None

    @property
    def operands(self) -> list[Array]:
        """The leaves that are traced; JAX would round others, such as weights in float64."""
        return [self._leaves[k] for k in self.traced]

    def of_each(self, args: Sequence[Array], axes: Sequence[int | None]) -> list[Array]:
        """Return the leaves of the results, stacked, for each element of arguments on their axes."""
        size = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
        asked = []
        for k in range(size):
            leaves = [*self._leaves]
            for place, x, axis in zip(self.traced, args, axes, strict=True):
                leaves[place] = x if axis is None else _taken(x, axis, k)
            asked.append(jax.tree.unflatten(self._tree, leaves))
        found = self._run(asked)
        if any(_kinds(state) != _kinds(found[0][0]) for state, _ in found):
            found = [(_in_floats(state, self._quanta), out) for state, out in found]
        leaves, self.results = jax.tree.flatten(jax.tree.map(lambda *x: jnp.stack(x), *found))
        return leaves


def swept(run: RunAll, weights: Mapping[str, Array], arguments: Any, quanta: Any, backend: str) -> Results:
    """Return what a function of weights and arguments returns for each of the traced weights; or raise.

    States, whose quanta may differ, then have floats in the given quanta.
    """
    sweep = _Sweep(run, weights, arguments, quanta, backend)
    leaves = _sweep.bind(*sweep.operands, sweep=sweep)
    results: Results = jax.tree.unflatten(sweep.results, leaves)
    return results


def _taken(x: Array, axis: int, k: int) -> Array:
    """Return an element; of known numbers known ones, also where all that JAX computes is traced."""
    if isinstance(x, Tracer):
        return jax.lax.index_in_dim(x, k, axis, keepdims=False)
    return np.take(np.asarray(x), k, axis)


def _kinds(state: NetworkState) -> Any:
    return state.quanta, [x.dtype for x in jax.tree.leaves(state.arriving)]


def _in_floats(state: NetworkState, quanta: Any) -> NetworkState:
    """Return a state with sums as floats, in other quanta."""
    arriving = {name: dict(sums) for name, sums in state.arriving.items()}
    for (name, receptor, before), (_, _, now) in zip(state.quanta or quanta, quanta, strict=True):
        arriving[name][receptor] = arriving[name][receptor].astype(np.float32) * np.float32(before / now)
    return dataclasses.replace(state, arriving=arriving, quanta=quanta)


def _refused(*_: Any, sweep: _Sweep, **__: Any) -> Any:
    raise NetworkError(
        f"simulate: params has weights of {sweep.names} that JAX traces, but with backend={sweep.backend!r} the "
        "network is built anew for other weights, in Python; call simulate outside of jax.jit, jax.grad and loops of "
        "JAX (jax.vmap over weights alone is a call for each), call sim.set(..., weights=...) and pass sim.state, or "
        'build the network with backend="jax"'
    )


_sweep = Primitive("network_sweep")
_sweep.multiple_results = True
_sweep.def_impl(_refused)
_sweep.def_abstract_eval(_refused)
primitive_batchers[_sweep] = lambda args, axes, sweep: ((leaves := sweep.of_each(args, axes)), [0] * len(leaves))
primitive_jvps[_sweep] = lambda _, __, sweep: _refused(sweep=sweep)
