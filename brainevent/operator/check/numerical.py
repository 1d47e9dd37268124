# SPDX-License-Identifier: Apache-2.0
"""Derivatives along a direction by central differences, with an estimate of their error."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..compare import Broken, Skipped, to_host

__all__ = ["Derivative", "central_differences", "directions", "inner"]


@dataclass(frozen=True)
class Derivative:
    """The derivative of one result along a direction; errors are relative to `size`."""

    value: np.ndarray
    error: float
    size: float

    def check(self, found: np.ndarray, what: str, source: str = "central differences give") -> None:
        """Compare with the result of a rule."""
        if not self.error <= 0.05 * self.size:
            raise Skipped(f"{what}: central differences do not settle near these operands")
        far = ~(np.abs(found - self.value) <= self.error)
        if far.any():
            index = tuple(int(i) for i in np.argwhere(far)[0])
            place = f"element {list(index)} of {what}" if index else what
            raise Broken(f"{place} is {found[index]:.6g}, but {source} {self.value[index]:.6g}")


def directions(values: Sequence[Any], seed: int) -> list[jax.Array]:
    """Draw a direction for each array, of the size of its elements."""
    random = np.random.default_rng(seed)
    return [jnp.array(_direction(np.asarray(x), random), x.dtype) for x in values]


def _direction(x: np.ndarray, random: np.random.Generator) -> np.ndarray:
    size = np.nan_to_num(np.abs(x).astype(np.float64), posinf=0)
    drawn = random.uniform(0.5, 1.5, x.shape) * random.choice([-1.0, 1.0], x.shape)
    if np.iscomplexobj(x):
        drawn = drawn * np.exp(2j * np.pi * random.uniform(size=x.shape))
    return np.asarray(drawn * (size + 0.1 * (size.max(initial=0) or 10.0)))


def central_differences(
    function: Callable[..., Sequence[Any]], values: Sequence[jax.Array], tangents: Sequence[jax.Array]
) -> list[Derivative]:
    """Differentiate each result of `function(*values)`, with the step of the smallest estimated error."""
    eps = max(float(jnp.finfo(x.dtype).eps) for x in values)
    steps = 2.0 ** -np.arange(1, 5 if eps > 1e-4 else 10 if eps > 1e-10 else 18)
    size = [max(np.abs(x).max(initial=0), 1e-30) for x in _wide(function(*values))]
    with np.errstate(all="ignore"):
        slopes = [_slope(function, values, tangents, step) for step in steps]
        pairs = [_refined(*pair, size, eps) for pair in zip(steps, slopes, slopes[1:], strict=False)]
    return [min(of_result, key=lambda d: np.nan_to_num(d.error, nan=np.inf)) for of_result in zip(*pairs, strict=True)]


def _slope(function: Any, values: Sequence[Any], tangents: Sequence[Any], step: float) -> list[np.ndarray]:
    ahead, behind = (
        _wide(function(*((x + sign * step * t).astype(x.dtype) for x, t in zip(values, tangents, strict=True))))
        for sign in (1, -1)
    )
    return [(a - b) / (2 * step) for a, b in zip(ahead, behind, strict=True)]


def _wide(results: Sequence[Any]) -> list[np.ndarray]:
    return [x.astype(np.complex128 if np.iscomplexobj(x) else np.float64) for x in to_host(results)]


def _refined(
    step: float, coarse: Sequence[np.ndarray], fine: Sequence[np.ndarray], size: Sequence[float], eps: float
) -> list[Derivative]:
    """Extrapolate from a step and half of it; their difference and the noise of rounding bound the error."""
    refined = []
    for a, b, largest in zip(coarse, fine, size, strict=True):
        value = (4 * b - a) / 3
        scale = max(np.abs(value).max(initial=0), largest)
        noise = (4 * eps / step + 2 * eps**0.5) * scale
        refined.append(Derivative(value, float(3 * np.abs(a - b).max(initial=0) + noise), float(scale)))
    return refined


def inner(a: Sequence[Any], b: Sequence[Any]) -> np.ndarray:
    """Return the real inner product of two lists of arrays, as JAX pairs cotangents with tangents."""
    total = sum((x * y).sum().real for x, y in zip(_wide(a), _wide(b), strict=True))
    return np.asarray(total, np.float64)
