# SPDX-License-Identifier: Apache-2.0
"""All steps of layers forward, and all steps back: what two kernels are given, and what they return."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...._compat import directly
from .calls import Kernels, as_words, of_words
from .device import Device
from .layer import Layer, Layers
from .weights import backward_weights, forward_weights, in_quanta, largest, power_of_two

__all__ = ["Given", "Outputs", "Saved", "Weights", "backward", "forward"]

Array = Any
Operands = dict[tuple[int, str, int], Array]

_ROOM = 2.0**4  # the largest cotangent that comes from outside is scaled to this: 2^12 below the largest float16


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Given:
    """What a layer runs with, by the places of its rule.

    `currents` (batch, steps, neurons) arrive at the receptors that are fed; `states` are (batch, neurons); `params` ()
    or (neurons,). `random` (batch, 3) are the first step and the two keys of random numbers, as uint32; None if the
    rule draws none. `fine` (batch,) says whose spikes are not to become NaN, as bools, if layers are doubted.
    """

    currents: Sequence[Array]
    states: Sequence[Array]
    params: Sequence[Array]
    random: Array | None = None
    fine: Array | None = None


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Weights:
    """The weights of each link, (sources, neurons), and what they are whole numbers of: those into a receptor the same.

    Weights are whole numbers of their quantum (), or, if it is None, rounded to those of one that suits them.
    """

    matrices: Sequence[Array]
    quanta: Sequence[Array | None]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Outputs:
    """What steps of a layer result in: spikes and recorded states (batch, steps, neurons), and the last states.

    Of cotangents, those of spikes are None if the layer is not answered.
    """

    spikes: Array
    shown: Sequence[Array]
    states: Sequence[Array]


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Saved:
    """What the way back reads of a layer."""

    kept: Sequence[Array]
    flags: Sequence[Array]
    params: Sequence[Array]
    random: Array | None


@directly
def forward(
    layers: Layers, device: Device, given: Sequence[Given], weights: Weights
) -> tuple[list[Outputs], list[Saved]]:
    """Run all steps."""
    batch, steps, _ = given[0].currents[0].shape
    kernels = Kernels(layers, batch, device)
    operands: Operands = {}
    for place, one in enumerate(given):
        operands |= {
            **{(place, "current", k): x.astype(np.float32) for k, x in enumerate(one.currents)},
            **{(place, "begin", k): as_words(x) for k, x in enumerate(one.states)},
        }
        operands |= _always(place, one)
        operands |= {} if one.fine is None else {(place, "fine", 0): as_words(one.fine)}
    if layers.has_product:
        whole, quanta = in_quanta(layers, weights.matrices, weights.quanta)
        operands[0, "weights", 0] = forward_weights(layers, whole, kernels.shape("forward"))
        operands |= {(place, "quantum", 0): x for place, x in enumerate(_of_sums(layers, quanta))}
    found = kernels.forward(steps, operands)
    outputs, saved = [], []
    for place, (c, one) in enumerate(zip(layers.layers, given, strict=True)):
        states = [of_words(found[place, "end", k], name.dtype) for k, name in enumerate(c.states)]
        shown = [of_words(found[place, "shown", k], c.states[of].dtype) for k, of in enumerate(c.shown)]
        kept, flags = (
            [found[place, name, k] for k in range(len(some))] for name, some in (("kept", c.kept), ("flags", c.flags))
        )
        outputs.append(Outputs(found[place, "spikes", 0], shown, states))
        saved.append(Saved(kept, flags, one.params, one.random))
    return outputs, saved


@directly
def backward(
    layers: Layers,
    device: Device,
    saved: Sequence[Saved],
    weights: Weights,
    cotangents: Sequence[Outputs],
    steps: int,
) -> list[Given]:
    """Return the cotangents of what is given for those of outputs: of parameters (batch, neurons)."""
    kernels = Kernels(layers, len(saved[0].flags[0]), device)
    operands, outer = dict[tuple[int, str, int], Array](), list[Array]()
    for place, (c, one, d) in enumerate(zip(layers.layers, saved, cotangents, strict=True)):
        from_outside = _from_outside(place, c, d)
        outer += from_outside.values()
        operands |= {
            **{(place, "kept", k): x for k, x in enumerate(one.kept)},
            **{(place, "flags", k): one.flags[of] for k, of in enumerate(c.flags_back)},
            **from_outside,
            **_always(place, one),
        }
    scales = [jnp.ones(3, np.float32)] * len(saved)
    if layers.has_product:
        scale = _ROOM / power_of_two(largest(outer or [jnp.float32(0)]))
        whole, quanta = in_quanta(layers, weights.matrices, weights.quanta)
        of_weights, of_sums = _scales(layers, [x * q for x, q in zip(whole, quanta, strict=True)])
        each = [1 / of_sums[link.target][layers.sum_of(link)] / of_weights for link in layers.links]
        operands[0, "weights", 0] = backward_weights(layers, whole, quanta, each, kernels.shape("backward"))
        first = jnp.stack([scale, 1 / scale, of_weights])
        scales = [jnp.concatenate([first, x]) for x in of_sums]
    operands |= {(place, "scales", 0): x for place, x in enumerate(scales)}
    found = kernels.backward(steps, operands)
    return [_cotangents(place, c, found) for place, c in enumerate(layers.layers)]


def _always(place: int, one: Given | Saved) -> Operands:
    """Return the operands that both ways have."""
    params: Operands = {(place, "param", k): as_words(x).reshape(-1) for k, x in enumerate(one.params)}
    return params if one.random is None else params | {(place, "random", 0): one.random}


def _of_sums(layers: Layers, of_links: Sequence[Array]) -> list[Array]:
    """Return numbers of links as those of the sums of each layer, (sums,): 1 where there is no link."""
    found = [[jnp.float32(1)] * layers.sums for _ in layers.layers]
    for link, x in zip(layers.links, of_links, strict=True):
        found[link.target][layers.sum_of(link)] = jnp.asarray(x, np.float32)
    return [jnp.stack(x) for x in found]


def _scales(layers: Layers, weights: Sequence[Array]) -> tuple[Array, list[Array]]:
    """Return a power of two above all weights, and by which those of each sum have to be divided to be close to it."""
    places = [(link.target, link.into) for link in layers.links]
    of = {
        place: largest([x for x, other in zip(weights, places, strict=True) if other == place])
        for place in dict.fromkeys(places)
    }
    most = functools.reduce(jnp.maximum, of.values())
    above = power_of_two(most)
    if len(of) == 1:  # not even 1 if it is NaN
        return above, _of_sums(layers, [above / above] * len(places))
    each = {place: power_of_two(jnp.where(x == 0, most, x)) / above for place, x in of.items()}
    return above, _of_sums(layers, [each[place] for place in places])


def _from_outside(place: int, layer: Layer, cotangents: Outputs) -> Operands:
    """Return the cotangents that come from outside of the kernel."""
    shown = [d for d, of in zip(cotangents.shown, layer.shown, strict=True) if of in layer.float_states]
    found: Operands = {
        **{(place, "shown", k): x for k, x in enumerate(shown)},
        **{(place, "end", k): cotangents.states[of] for k, of in enumerate(layer.float_states)},
    }
    return found | {(place, "spikes", 0): cotangents.spikes} if layer.has_answer else found


def _cotangents(place: int, layer: Layer, found: Mapping[tuple[int, str, int], Array]) -> Given:
    """Return the cotangents of what a layer is given: None for what has none."""
    states, wanted = layer.float_states, layer.wanted
    begin = [found[place, "begin", states.index(k)] if k in states else None for k in range(len(layer.states))]
    params = [found[place, "param_sums", wanted.index(k)] if k in wanted else None for k in range(len(layer.params))]
    return Given([found[place, "current", k] for k in layer.fed], begin, params)
