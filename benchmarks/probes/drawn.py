# SPDX-License-Identifier: Apache-2.0
"""Events times matrices that are drawn each time, by this package or by the one on PyPI: seconds a product."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.progress import tell

_FAMILIES = {"one weight": ("jits", (1.5,)), "normal": ("jitn", (1.0, 0.1)), "uniform": ("jitu", (0.5, 1.5))}


def measure(n: int, prob: float, share: float, rounds: int, all_rows: bool) -> dict[str, list[float]]:
    """Samples of each distribution of weights, and of one that draws all rows if asked for."""
    import brainevent

    events = jnp.asarray(np.random.default_rng(1).random(n) < share)
    ways = [(name, False) for name in _FAMILIES] + [("one weight", True)] * all_rows
    samples = {}
    for name, corder in ways:
        family, weights = _FAMILIES[name]
        label = f"{name}{', all rows' * corder}"
        tell(label)
        product = getattr(brainevent, f"binary_{family}mv")

        def call(x: Any, product: Callable[..., Any] = product, weights: Any = weights, corder: Any = corder) -> Any:
            return product(*weights, prob, x, 3, shape=(n, n), corder=corder)

        _check(jax.jit(call)(events), float(events.sum()) * n * prob * (1.5 if name == "one weight" else 1.0))
        samples[label] = _times(jax.jit(call), events, rounds if not corder else 3, 10 if not corder else 1)
    return samples


def _check(found: Any, wanted: float) -> None:
    """Raise unless about so much was added in all."""
    total = float(np.asarray(found, np.float64).sum())
    if abs(total / wanted - 1) > 0.02:
        raise ValueError(f"a product adds up to {total}, not to about {wanted}")


def _times(call: Callable[..., Any], x: Any, rounds: int, calls: int) -> list[float]:
    samples = []
    for _ in range(rounds + 1):  # the first is left out
        start = time.perf_counter()
        for _ in range(calls):
            call(x).block_until_ready()
        samples.append((time.perf_counter() - start) / calls)
    return samples[1:]
