# SPDX-License-Identifier: Apache-2.0
"""`run_layer`: all steps of a layer as a function that JAX differentiates, by two kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .calls import Kernels, as_words, of_words
from .device import Device
from .layer import Layer
from .weights import backward_weights, forward_weights, power_of_two, product, quantum_of

__all__ = ["Inputs", "Outputs", "Saved", "backward", "forward", "run_layer"]

Array = Any

_ROOM = 2.0**4  # the largest cotangent that comes from outside is scaled to this: 2^12 below the largest float16


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Inputs:
    """What a layer runs with, by the places of its rule.

    `currents` (batch, steps, neurons) arrive at the receptors that are fed; `weights` (neurons, neurons), by source and
    target, are those of its own projection, None if it has none; `states` are (batch, neurons); `params` () or
    (neurons,). `random` (batch, 3) are the first step and the two keys of random numbers, as uint32; None if the rule
    draws none. Weights are rounded to whole numbers of `quantum` (), or of one that suits them if it is None.
    """

    currents: Sequence[Array]
    weights: Array | None
    states: Sequence[Array]
    params: Sequence[Array]
    random: Array | None = None
    quantum: Array | None = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Outputs:
    """What steps result in: spikes and recorded states (batch, steps, neurons), and the last states.

    Of cotangents, those of spikes are None if the layer is not answered.
    """

    spikes: Array
    shown: Sequence[Array]
    states: Sequence[Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Saved:
    """What the way back reads."""

    kept: Sequence[Array]
    flags: Sequence[Array]
    weights: Array | None
    params: Sequence[Array]
    random: Array | None
    quantum: Array | None


def _quantum(weights: Array, quantum: Array | None) -> Array:
    return quantum_of(weights) if quantum is None else quantum


def forward(layer: Layer, device: Device, inputs: Inputs) -> tuple[Outputs, Saved]:
    """Run all steps."""
    c = layer
    batch, steps, _ = inputs.currents[0].shape
    kernels = Kernels(c, batch, device)
    operands: dict[tuple[str, int], Array] = {
        **{("current", k): x.astype(np.float32) for k, x in enumerate(inputs.currents)},
        **{("begin", k): as_words(x) for k, x in enumerate(inputs.states)},
        **{("param", k): as_words(x).reshape(-1) for k, x in enumerate(inputs.params)},
    }
    if inputs.random is not None:
        operands["random", 0] = inputs.random
    if c.has_product:
        quantum = _quantum(inputs.weights, inputs.quantum)
        operands["weights", 0] = forward_weights(inputs.weights, quantum, kernels.shape("forward"))
        operands["quantum", 0] = quantum.reshape(1)
    found = kernels.forward(steps, operands)
    states = [of_words(found["end", k], name.dtype) for k, name in enumerate(c.states)]
    shown = [of_words(found["shown", k], c.states[place].dtype) for k, place in enumerate(c.shown)]
    flags = [found["flags", k] for k in range(len(c.flags))]
    kept = [found["kept", k] for k in range(len(c.kept))]
    outputs = Outputs(found["spikes", 0], shown, states)
    return outputs, Saved(kept, flags, inputs.weights, inputs.params, inputs.random, inputs.quantum)


def backward(layer: Layer, device: Device, saved: Saved, cotangents: Outputs, steps: int) -> Inputs:
    """Return the cotangents of inputs for those of outputs: of weights none, of parameters (batch, neurons)."""
    c = layer
    batch = len(saved.flags[0])
    kernels = Kernels(c, batch, device)
    of_shown = [d for d, place in zip(cotangents.shown, c.shown, strict=True) if place in c.float_states]
    of_spikes = [cotangents.spikes] if c.has_answer else []
    of_states = [cotangents.states[place] for place in c.float_states]
    scale, of_weights = jnp.float32(1), jnp.float32(1)
    operands: dict[tuple[str, int], Array] = {
        **{("kept", k): x for k, x in enumerate(saved.kept)},
        **{("flags", k): saved.flags[place] for k, place in enumerate(c.flags_back)},
        **{("param", k): as_words(x).reshape(-1) for k, x in enumerate(saved.params)},
        **{("shown", k): x for k, x in enumerate(of_shown)},
        **{("end", k): x for k, x in enumerate(of_states)},
    }
    if saved.random is not None:
        operands["random", 0] = saved.random
    if c.has_answer:
        operands["spikes", 0] = cotangents.spikes
    if c.into is not None:
        largest = [jnp.max(jnp.abs(x)) for x in (*of_spikes, *of_shown, *of_states, jnp.float32(0))]
        scale = _ROOM / power_of_two(jnp.max(jnp.stack(largest)))
        of_weights = power_of_two(jnp.max(jnp.abs(jnp.asarray(saved.weights))))
        quantum, shape = _quantum(saved.weights, saved.quantum), kernels.shape("backward")
        operands["weights", 0] = backward_weights(saved.weights, quantum, 1 / of_weights, shape)
    operands["scales", 0] = jnp.stack([scale, 1 / scale, of_weights])
    found = kernels.backward(steps, operands)
    currents = {k: found["current", k] for k in range(len(c.receptors))}
    begin = [found["begin", c.float_states.index(k)] if k in c.float_states else None for k in range(len(c.states))]
    params = [found["param_sums", c.wanted.index(k)] if k in c.wanted else None for k in range(len(c.params))]
    return Inputs([currents[k] for k in c.fed], None, begin, params)


def _of_weights(layer: Layer, spikes: Array, arriving: Array) -> Array:
    """Return the cotangent of weights: a product of spikes, and of what arrives `delay` steps later.

    Both have few enough bits that products of tensor cores are exact.
    """
    before = spikes[:, : max(0, arriving.shape[1] - layer.delay)]
    return product(before, arriving[:, layer.delay :])


def _run_forward(layer: Layer, device: Device, inputs: Inputs) -> tuple[Outputs, tuple[Saved, Array]]:
    outputs, saved = forward(layer, device, inputs)
    return outputs, (saved, outputs.spikes)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def run_layer(layer: Layer, device: Device, inputs: Inputs) -> Outputs:
    """Return what all steps of a layer result in."""
    return forward(layer, device, inputs)[0]


def _run_backward(layer: Layer, device: Device, stored: tuple[Saved, Array], cotangents: Outputs) -> tuple[Inputs]:
    saved, spikes = stored
    found = backward(layer, device, saved, cotangents, cotangents.spikes.shape[1])
    weights = None
    if layer.into is not None:
        [arriving] = [x for k, x in zip(layer.fed, found.currents, strict=True) if k == layer.into]
        weights = _of_weights(layer, spikes, arriving)
    params = [
        None if sums is None else sums.sum((0,) if own else (0, 1)).reshape(jnp.shape(x))
        for sums, x, own in zip(found.params, saved.params, layer.per_neuron, strict=True)
    ]
    return (replace(found, weights=weights, params=params),)


run_layer.defvjp(_run_forward, _run_backward)
