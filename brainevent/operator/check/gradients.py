# SPDX-License-Identifier: Apache-2.0
"""Promises about derivatives with vmap and sharding, compared with the gradients of single calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compare import assert_close, during, to_host
from .derivatives import cotangents_of, floating, moving_operands
from .sharding import BATCH, factors_of_operands, mesh_of_batch, need_devices, rule_of, run_sharded, size_of
from .subject import ELEMENTS, Choice, Subject

__all__ = ["check_grad_of_vmap", "check_sharded_grad_of_vmap", "check_vmap_of_grad"]

Axes = list[int | None]


def check_vmap_of_grad(subject: Subject) -> str:
    """Give a gradient for each element of a batch."""
    moving, note = moving_operands(subject)
    gradient = jax.grad(_loss(subject), argnums=tuple(moving))
    for axes in _mappings(subject):
        wanted = [np.stack(grads) for grads in _each(subject, axes, moving)]
        with during(_named(axes)):
            found = jax.jit(jax.vmap(gradient, in_axes=tuple(axes)))(*subject.stacked(ELEMENTS, axes))
            _assert_gradients(subject, found, wanted, moving)
    return note


def check_grad_of_vmap(subject: Subject) -> str:
    """Give the gradient of a sum over a batch; an operand that is not mapped gets the sum of its cotangents."""
    moving, note = moving_operands(subject)
    for axes in _mappings(subject):
        with during(_named(axes)):
            found = jax.jit(_gradient_of_batch(subject, axes, moving))(*subject.stacked(ELEMENTS, axes))
            _assert_gradients(subject, found, _of_batch(subject, axes, moving), moving)
    return note


def check_sharded_grad_of_vmap(subject: Subject) -> str:
    """Give the same gradient of a batch if the batch, and a factor of the sharding rule, is split over devices."""
    need_devices()
    moving, note = moving_operands(subject)
    alone: Axes = [0 if i == 0 else None for i in range(subject.count)]
    every: Axes = [0] * subject.count
    for axes, factor in ((every, None), (alone, _factor(subject))):
        mesh, specs = mesh_of_batch(subject, axes, factor)
        elements = mesh.shape[BATCH]
        split = "split" if factor is None else f"split, and factor {factor!r}"
        with during(f"{_named(axes)}, the batch {split}"):
            gradient = _gradient_of_batch(subject, axes, moving)
            found, _ = run_sharded(gradient, subject.stacked(elements, axes), specs, mesh)
            _assert_gradients(subject, found, _of_batch(subject, axes, moving, elements), moving)
    return note


def _factor(subject: Subject) -> str | None:
    """Return a factor of the sharding rule that two devices can share, if there are two more for the batch."""
    rule = rule_of(subject)
    if rule is None or len(jax.devices()) < 4:
        return None
    cut = (name for name in factors_of_operands(rule) if name not in rule.replicated)
    return next((name for name in cut if (size := size_of(subject, rule, name)) and size % 2 == 0), None)


def _gradient_of_batch(subject: Subject, axes: Axes, moving: Sequence[int]) -> Callable[..., Any]:
    batched = jax.vmap(_loss(subject), in_axes=tuple(axes))
    return jax.grad(lambda *operands: batched(*operands).sum(), argnums=tuple(moving))


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


def _each(subject: Subject, axes: Axes, moving: Sequence[int], elements: int = ELEMENTS) -> list[list[np.ndarray]]:
    """Return, for each moving operand, the gradients of the single elements of a batch."""
    mapped = [i for i, axis in enumerate(axes) if axis is not None]
    gradient = subject.once("gradient", lambda: jax.jit(jax.grad(_loss(subject), argnums=tuple(moving))))

    def of(choice: Choice) -> list[np.ndarray]:
        found: list[np.ndarray] = subject.once(
            ("gradient", choice), lambda: to_host(gradient(*subject.operands(choice)))
        )
        return found

    return [list(grads) for grads in zip(*(of(subject.choice(b, mapped)) for b in range(elements)), strict=True)]


def _of_batch(subject: Subject, axes: Axes, moving: Sequence[int], elements: int = ELEMENTS) -> list[np.ndarray]:
    """Return the gradient of the sum over a batch: operands that are not mapped get the sum of their cotangents."""
    each = zip(moving, _each(subject, axes, moving, elements), strict=True)
    return [np.stack(grads) if axes[i] is not None else np.asarray(sum(grads[1:], grads[0])) for i, grads in each]


def _named(axes: Axes) -> str:
    mapped = [str(i) for i, axis in enumerate(axes) if axis is not None]
    return f"operand{'s' * (len(mapped) > 1)} {', '.join(mapped)} mapped"


def _assert_gradients(subject: Subject, found: Sequence[Any], wanted: Sequence[Any], moving: Sequence[int]) -> None:
    for i, x, y in zip(moving, found, wanted, strict=True):
        with during(f"the gradient for operand {i}"):
            assert_close([x], [y], subject.loose([y]), "array")
