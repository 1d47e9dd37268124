# SPDX-License-Identifier: Apache-2.0
"""Promises about derivatives together with vmap, held to the gradients of single calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .compare import assert_close, during, to_host
from .derivatives import cotangents_of, floating, moving_operands
from .subject import ELEMENTS, Subject

__all__ = ["check_grad_of_vmap", "check_vmap_of_grad"]

Axes = list[int | None]


def check_vmap_of_grad(subject: Subject) -> str:
    """Give a gradient for each element of a batch."""
    moving, note = moving_operands(subject)
    gradient = jax.grad(_loss(subject), argnums=tuple(moving))
    one = jax.jit(gradient)
    for axes in _mappings(subject):
        wanted = [np.stack(grads) for grads in _each(subject, one, axes)]
        with during(_named(axes)):
            found = jax.jit(jax.vmap(gradient, in_axes=tuple(axes)))(*subject.stacked(ELEMENTS, axes))
            _assert_gradients(subject, found, wanted, moving)
    return note


def check_grad_of_vmap(subject: Subject) -> str:
    """Give the gradient of a sum over a batch; an operand that is not mapped gets the sum of its cotangents."""
    moving, note = moving_operands(subject)
    one = jax.jit(jax.grad(_loss(subject), argnums=tuple(moving)))
    for axes in _mappings(subject):
        each = zip(moving, _each(subject, one, axes), strict=True)
        wanted = [np.stack(grads) if axes[i] is not None else sum(grads[1:], grads[0]) for i, grads in each]
        with during(_named(axes)):
            batched = jax.vmap(_loss(subject), in_axes=tuple(axes))
            gradient = jax.grad(lambda *xs, f=batched: f(*xs).sum(), argnums=tuple(moving))
            found = jax.jit(gradient)(*subject.stacked(ELEMENTS, axes))
            _assert_gradients(subject, found, wanted, moving)
    return note


def _mappings(subject: Subject) -> list[Axes]:
    """Map all operands, each alone, and all but one."""
    operands = range(subject.count)
    mappings: list[Axes] = [[0 for _ in operands]]
    mappings += [[0 if k == i else None for k in operands] for i in operands if subject.count > 1]
    mappings += [[None if k == i else 0 for k in operands] for i in operands if subject.count > 2]
    return mappings


def _loss(subject: Subject) -> Callable[..., Any]:
    cotangents = cotangents_of(subject)

    def loss(*operands: Any) -> Any:
        results = floating(subject.call(*operands))
        return sum(jnp.real(ct * x).sum() for ct, x in zip(cotangents, results, strict=True))

    return loss


def _each(subject: Subject, gradient: Callable[..., Any], axes: Axes) -> list[tuple[np.ndarray, ...]]:
    """Return, for each moving operand, the gradients of the single elements of a batch."""
    mapped = [i for i, axis in enumerate(axes) if axis is not None]
    choices = [subject.choice(b, mapped) for b in range(ELEMENTS)]
    return list(zip(*(to_host(gradient(*subject.operands(choice))) for choice in choices), strict=True))


def _named(axes: Axes) -> str:
    mapped = [str(i) for i, axis in enumerate(axes) if axis is not None]
    return f"operand{'s' * (len(mapped) > 1)} {', '.join(mapped)} mapped"


def _assert_gradients(subject: Subject, found: Sequence[Any], wanted: Sequence[Any], moving: Sequence[int]) -> None:
    for i, x, y in zip(moving, found, wanted, strict=True):
        with during(f"the gradient for operand {i}"):
            assert_close([x], [y], subject.loose([y]), "array")
