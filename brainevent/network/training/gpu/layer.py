# SPDX-License-Identifier: Apache-2.0
"""`Layers`: populations that project to each other or to themselves, as the kernels of training are made for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ....scalar.adjoint import Adjoint
from ....scalar.form import Name
from ....scalar.trace import TracedRule

__all__ = ["Layer", "Layers", "Link", "Piece"]


@dataclass(frozen=True)
class Link:
    """All synapses with one delay from a population to a receptor of one: places of layers, and of the receptor."""

    source: int
    target: int
    into: int
    delay: int


@dataclass(frozen=True, order=True)
class Piece:
    """A part of the products of a kernel: what all blocks multiply their weights with.

    Forward, what adds to the sum of number `sum` of a neuron: the spikes of layer `of`, `delay` steps before. Backward,
    the cotangents of the sum of number `sum` of the neurons of layer `of`, `delay` steps later.
    """

    sum: int
    of: int
    delay: int


@dataclass(frozen=True)
class Layer:
    """A population: what the text of both kernels depends on.

    `neurons` are those of the population. `fed` are the receptors that currents arrive at, by place, and `into` those
    that spikes of the kernel arrive at. `shown` are the states that are recorded in each step, by place. `per_neuron`
    says of each parameter whether each neuron has its own. Way back, `shown` are those with cotangents, and `answered`
    says whether spikes have any. `rounded` says that the adjoint allows residuals to be rounded: then the margin has 16
    bits.
    """

    traced: TracedRule
    adjoint: Adjoint
    neurons: int
    fed: tuple[int, ...]
    into: tuple[int, ...]
    shown: tuple[int, ...]
    per_neuron: tuple[bool, ...]
    answered: bool = True
    rounded: bool = False

    @property
    def saved(self) -> int:
        """How many neurons there are with those that fill the last word of bits."""
        return -(-self.neurons // 32) * 32

    @property
    def states(self) -> tuple[Name, ...]:
        """The states of a neuron."""
        return self.traced.states

    @property
    def float_states(self) -> tuple[int, ...]:
        """The states with a derivative, by place."""
        return tuple(place for place, name in enumerate(self.states) if name.dtype == "float32")

    @property
    def shown_floats(self) -> tuple[int, ...]:
        """The recorded states with a derivative, by place."""
        return tuple(place for place in self.shown if place in self.float_states)

    @property
    def receptors(self) -> tuple[Name, ...]:
        """What arrives."""
        return self.traced.arriving

    @property
    def params(self) -> tuple[Name, ...]:
        """The parameters of the rule."""
        return self.traced.params

    @property
    def has_answer(self) -> bool:
        """Whether cotangents of spikes are read."""
        return self.answered and self.adjoint.spiking

    @property
    def wanted(self) -> tuple[int, ...]:
        """The parameters with a derivative, by place."""
        return tuple(self.params.index(name) for name in self.adjoint.params)

    @cached_property
    def kept(self) -> tuple[Name, ...]:
        """The residuals of 32 bits, each an array of its own."""
        return tuple(name for name in self.adjoint.residuals if name.dtype != "bool")

    @property
    def halves(self) -> tuple[bool, ...]:
        """Which of these have 16 bits."""
        return tuple(self.rounded and name == self.adjoint.margin for name in self.kept)

    @cached_property
    def flags(self) -> tuple[Name, ...]:
        """What is stored as bits: whether neurons spiked, and residuals that are bools."""
        return (self.adjoint.spike, *(name for name in self.adjoint.residuals if name.dtype == "bool"))

    @cached_property
    def flags_back(self) -> tuple[int, ...]:
        """The bits that the step back reads, by place."""
        return tuple(place for place, name in enumerate(self.flags) if place > 0 or name in self.adjoint.reads)


@dataclass(frozen=True)
class Layers:
    """Populations that run together: what the text of both kernels depends on, besides the shape.

    If they are `precise`, products have more bits: see `Shape.planes`. If they are `doubted`, some samples may get NaN
    instead of their spikes.
    """

    layers: tuple[Layer, ...]
    links: tuple[Link, ...] = ()
    precise: bool = False
    doubted: bool = False

    @property
    def has_product(self) -> bool:
        """Whether spikes of the populations return to them."""
        return bool(self.links)

    @property
    def planes(self) -> int:
        """Of how many numbers of 8 bits a weight is the sum forward."""
        return 2 + self.precise

    @property
    def delay(self) -> int:
        """The largest delay."""
        return max((link.delay for link in self.links), default=1)

    @property
    def sums(self) -> int:
        """How many sums a neuron has at most: one for each receptor."""
        return max(1, *(len(layer.into) for layer in self.layers))

    def sum_of(self, link: Link) -> int:
        """Return the number of the sum that a link adds to."""
        return self.layers[link.target].into.index(link.into)

    @cached_property
    def pieces(self) -> dict[str, tuple[Piece, ...]]:
        """The parts of the products forward and backward, in the order of weights."""
        forward = {Piece(self.sum_of(link), link.source, link.delay) for link in self.links}
        backward = {Piece(self.sum_of(link), link.target, link.delay) for link in self.links}
        return {"forward": tuple(sorted(forward)), "backward": tuple(sorted(backward))}

    @property
    def names(self) -> str:
        """The names of the rules."""
        return ", ".join(dict.fromkeys(layer.traced.name for layer in self.layers))
