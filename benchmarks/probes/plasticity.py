# SPDX-License-Identifier: Apache-2.0
"""A step that multiplies by spikes and then changes the weights, in a compiled loop: seconds a step."""

import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.progress import tell

PLUS, MINUS = 1e-3, -1e-3


def measure(n: int, connections: int, share: float, steps: int, rounds: int) -> dict[str, list[float]]:
    """Samples of a static product, and of a product with each kind of update after it."""
    import brainevent

    random = np.random.default_rng(1)
    apart = n // connections  # no element is stored twice
    indices = np.arange(connections, dtype=np.int32) * apart + random.integers(0, apart, (n, connections), np.int32)
    indptr = np.arange(n + 1, dtype=np.int32) * connections
    trains = [jnp.asarray(random.random((steps, n)) < share) for _ in range(2)]
    traces = [jnp.asarray(random.random(n), jnp.float32) for _ in range(2)]

    def drawn() -> Any:
        weights = jnp.asarray(random.random(n * connections), jnp.float32)
        made = brainevent.CSR((weights, jnp.asarray(indices.reshape(-1)), jnp.asarray(indptr)), shape=(n, n))
        return made.precompute_weight_indices()

    loops: dict[str, tuple[Callable[..., Any], list[Any]]] = {}
    for name, update in _updates(traces).items():
        tell(name)
        matrix = drawn()
        loop = jax.jit(functools.partial(_loop, update), donate_argnums=0)
        _check(loop, update, drawn(), trains)
        loops[name] = loop, [matrix]
    samples: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(rounds + 1):  # the first is left out; in turns: a machine is not as fast all the time
        for name, (loop, held) in loops.items():
            start = time.perf_counter()
            held[0] = jax.block_until_ready(loop(held[0], *trains))[0]
            samples[name].append((time.perf_counter() - start) / steps)
    return {name: found[1:] for name, found in samples.items()}


def _updates(traces: list[jax.Array]) -> dict[str, Callable[..., Any]]:
    """Return functions of a matrix, spikes of both sides, and what comes before."""
    of_pre, of_post = traces

    def pre(matrix: Any, spikes: Any, fired: Any, after: Any, *bounds: Any, **how: Any) -> Any:
        return matrix.update_on_pre(spikes, MINUS * of_post, *bounds, after=after, **how)

    def post(matrix: Any, spikes: Any, fired: Any, after: Any, *bounds: Any, **how: Any) -> Any:
        return matrix.update_on_post(PLUS * of_pre, fired, *bounds, after=after, **how)

    def both(matrix: Any, spikes: Any, fired: Any, after: Any, *bounds: Any, **how: Any) -> Any:
        return post(pre(matrix, spikes, fired, after, **how), spikes, fired, after, *bounds, **how)

    return {
        "static product": lambda matrix, *_: matrix,
        "update_on_pre": pre,
        "update_on_post": post,
        "both": both,
        "both, with bounds": lambda *given: both(*given, 0.0, 1.0),
    }


def _loop(update: Callable[..., Any], matrix: Any, trains: Any, of_post: Any) -> Any:
    import brainevent

    def step(carried: Any, spikes: Any) -> Any:
        matrix, total = carried
        found = brainevent.BinaryArray(spikes[0]) @ matrix
        return (update(matrix, *spikes, found), total + found), None

    return jax.lax.scan(step, (matrix, jnp.zeros(matrix.shape[1])), (trains, of_post))[0]


def _check(loop: Callable[..., Any], update: Callable[..., Any], matrix: Any, trains: Any) -> None:
    """Compare a loop of two steps with the reference."""
    import brainevent

    short = [train[:2] for train in trains]
    with brainevent.use_backend(jax.default_backend(), "reference"):
        wanted = jax.jit(functools.partial(_loop, update))(matrix, *short)
    found = loop(matrix, *short)
    np.testing.assert_allclose(found[0].data, wanted[0].data, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-3)
