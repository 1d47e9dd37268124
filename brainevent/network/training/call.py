# SPDX-License-Identifier: Apache-2.0
"""The call of a native runner with its derivative, and batches of it: nested `vmap`s become one axis of samples."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import jax.numpy as jnp
from jax.custom_batching import custom_vmap

from .cells import Cells

__all__ = ["Engine", "batched_call"]

Array = Any
Arrays = Mapping[str, Array]


class Engine(Protocol):
    """What runs components natively: forward and backward, each as one call for all samples."""

    title: str

    def refusal(self, cells: Cells) -> str:
        """Say what it cannot run; nothing if it can run it."""

    def forward(self, cells: Cells, steps: int, size: int, given: Arrays, batched: Collection[str]) -> dict[str, Array]:
        """Run all steps; arrays in `batched`, and all results, have samples as their first axis."""

    def backward(
        self, cells: Cells, steps: int, size: int, given: Arrays, batched: Collection[str]
    ) -> dict[str, Array]:
        """Run all steps back."""


Native = Callable[[int, Arrays, Collection[str]], dict[str, Array]]  # samples, arrays, which of them have samples


def batched_call(native: Native, alone: Collection[str], given: Arrays) -> dict[str, Array]:
    """Call native code for one sample, or for all of a batch at once where `jax.vmap` maps the call.

    Arrays in `alone` have samples in every call: they are repeated where `vmap` does not map them.
    """
    return _Level(native, frozenset(alone), None, frozenset()).called(given)


@dataclass(frozen=True)
class _Level:
    """A call with the samples that the maps around it have made: None at first."""

    native: Native
    alone: frozenset[str]
    size: int | None
    batched: frozenset[str]

    def called(self, given: Arrays) -> dict[str, Array]:
        """Call native code, in a way that `vmap` batches."""
        call = custom_vmap(self._now)
        call.def_vmap(self._mapped)
        return call(dict(given))

    def _now(self, given: dict[str, Array]) -> dict[str, Array]:
        if self.size is not None:
            return self.native(self.size, given, self.batched)
        given = {label: x[None] if label in self.alone else x for label, x in given.items()}
        results = self.native(1, given, self.alone & given.keys())
        return {label: x[0] for label, x in results.items()}

    def _mapped(self, axis_size: int, in_batched: Sequence[Any], given: dict[str, Array]) -> tuple[Any, Any]:
        """Merge a new axis with the samples so far."""
        (mapped,) = in_batched
        inner = 1 if self.size is None else self.size
        new = {label for label in given if mapped[label] or label in self.batched or label in self.alone}
        merged = {
            label: _merged(x, mapped[label], label in self.batched, axis_size, inner) if label in new else x
            for label, x in given.items()
        }
        results = _Level(self.native, self.alone, axis_size * inner, frozenset(new)).called(merged)
        parts = (axis_size,) if self.size is None else (axis_size, inner)
        results = {label: x.reshape(*parts, *x.shape[1:]) for label, x in results.items()}
        return results, dict.fromkeys(results, True)


def _merged(x: Array, mapped: bool, sampled: bool, outer: int, inner: int) -> Array:
    """Return an array with one axis of samples; axes that it lacks are repeated."""
    x = x if mapped else jnp.broadcast_to(x, (outer, *x.shape))
    x = x if sampled else jnp.broadcast_to(x[:, None], (outer, inner, *x.shape[1:]))
    return x.reshape(outer * inner, *x.shape[2:])
