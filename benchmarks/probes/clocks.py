# SPDX-License-Identifier: Apache-2.0
"""Clocks of a product with spikes: in a compiled loop net of the empty loop, in a graph, and called from Python."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

VECTORS = 16  # of spikes, which take turns
_FEW, _MOST = VECTORS, 4_000  # products in one run of the loop: fewer would find their rows in caches
_NOISE = 0.05  # of the time of the empty loop

Product = Callable[..., Any]  # (spikes, sums of the turn before, *operands) -> sums
Made = tuple[Product, tuple[Any, ...]]  # and the operands


class Clock:
    """Times a way by `seconds()` of one product, once it is prepared for spikes."""

    @staticmethod
    def of(made: Any, n: int, *, seconds: float = 0, turns: int = 0) -> "Clock":
        if isinstance(made, Clock):
            return made
        if callable(made):
            return _InPython(made, seconds or 0.01)
        return _InGraph(*made, n, turns) if turns else _InLoop(*made, n, seconds)

    def prepare(self, spikes: np.ndarray, problem: Any) -> None:
        """Take spikes, and check the product of some of them."""
        raise NotImplementedError

    def seconds(self) -> float:
        """Time one product."""
        raise NotImplementedError


class _InLoop(Clock):
    """In a compiled loop, net of one that does the same without a product."""

    def __init__(self, product: Product, operands: tuple[Any, ...], n: int, seconds: float):
        self.wanted, self.turns, self.operands = seconds, _FEW, operands
        self.product, self.nothing = _loop(product, n), _loop(_nothing, n)

    def prepare(self, spikes: np.ndarray, problem: Any) -> None:
        self.spikes, self.turns = jnp.asarray(spikes), _FEW
        _, last = self._run(self.product, *self.operands)
        _check(last, problem.expected(spikes[(self.turns - 1) % VECTORS]))
        self.turns = int(np.clip(self.wanted / self._run(self.product, *self.operands)[0], _FEW, _MOST))
        self.seconds()

    def seconds(self) -> float:
        return _net(self._run(self.product, *self.operands)[0], self._run(self.nothing)[0])

    def _run(self, loop: Product, *operands: Any) -> tuple[float, Any]:
        start = time.perf_counter()
        last = jax.block_until_ready(loop(self.turns, self.spikes, *operands))
        return (time.perf_counter() - start) / self.turns, last


def _loop(product: Product, n: int) -> Product:
    @jax.jit
    def loop(turns: Any, vectors: Any, *operands: Any) -> Any:
        def turn(i: Any, before: Any) -> Any:
            spikes = jax.lax.dynamic_index_in_dim(vectors, i % VECTORS, keepdims=False)
            return product(spikes, before, *operands)

        return jax.lax.fori_loop(0, turns, turn, jnp.zeros(n, jnp.float32))

    return loop


class _InGraph(Clock):
    """In a loop as that of a network is on a GPU: of known length, with so many calls a turn that XLA makes a graph."""

    def __init__(self, product: Product, operands: tuple[Any, ...], n: int, turns: int):
        self.turns, self.operands = turns, operands
        self.product = _graph_loop(lambda vectors, *more: _chain(product, vectors, *more), n, turns)
        self.nothing = _graph_loop(lambda vectors, results: [_nothing(vectors[0], one) for one in results], n, turns)

    def prepare(self, spikes: np.ndarray, problem: Any) -> None:
        self.spikes = [jnp.asarray(one) for one in spikes]
        _check(self._run(self.product, *self.operands)[1], problem.expected(spikes[-1]))
        for _ in range(2):  # the graph is recorded in one of the first runs
            self.seconds()

    def seconds(self) -> float:
        return _net(self._run(self.product, *self.operands)[0], self._run(self.nothing)[0])

    def _run(self, loop: Product, *operands: Any) -> tuple[float, Any]:
        start = time.perf_counter()
        *_, last = jax.block_until_ready(loop(self.spikes, *operands))
        return (time.perf_counter() - start) / self.turns, last


def _graph_loop(body: Callable[..., Any], n: int, turns: int) -> Product:
    @jax.jit
    def loop(vectors: Any, *operands: Any) -> Any:
        zeros = [jnp.zeros(n, jnp.float32)] * VECTORS
        return jax.lax.fori_loop(0, turns // VECTORS, lambda _, results: body(vectors, results, *operands), zeros)

    return loop


def _chain(product: Product, vectors: Any, results: Any, *operands: Any) -> Any:
    """Return a product for each vector, one after another; all are results, or XLA would leave them out."""
    found, before = [], results[-1]
    for vector in vectors:
        spikes, before = jax.lax.optimization_barrier((vector, before))
        before = product(spikes, before, *operands)
        found.append(before)
    return found


def _net(seconds: float, idle: float) -> float:
    """Return what a product takes; less than the loop's own noise is told as that, and not as less than nothing."""
    return max(seconds - idle, _NOISE * idle)


def _nothing(spikes: Any, before: Any) -> Any:
    """Do what the loop does without a product: look at a vector of spikes, and write a result."""
    return jnp.where(spikes[0], before + 1, before - 1)


class _InPython(Clock):
    """As a call from Python."""

    def __init__(self, product: Product, seconds: float):
        self.product, self.wanted = product, seconds

    def prepare(self, spikes: np.ndarray, problem: Any) -> None:
        self.spikes = spikes
        _check(self.product(spikes[0]), problem.expected(spikes[0]))

    def seconds(self) -> float:
        start, calls = time.perf_counter(), 0
        while time.perf_counter() - start < self.wanted:
            self.product(self.spikes[calls % VECTORS])
            calls += 1
        return (time.perf_counter() - start) / calls


class InStream(Clock):
    """As calls of CuPy from Python, which are waited for together."""

    def __init__(self, product: Product):
        self.product = product

    def prepare(self, spikes: np.ndarray, problem: Any) -> None:
        import cupy

        self.spikes, self.wait = [cupy.asarray(one) for one in spikes], cupy.cuda.get_current_stream().synchronize
        _check(self.product(self.spikes[0]).get(), problem.expected(spikes[0]))
        self.seconds()

    def seconds(self) -> float:
        start = time.perf_counter()
        for one in self.spikes:
            self.product(one)
        self.wait()
        return (time.perf_counter() - start) / VECTORS


def _check(found: Any, wanted: np.ndarray) -> None:
    wrong = float(np.abs(np.asarray(found, np.float64) - wanted).max() / (1 + np.abs(wanted).max()))
    if not wrong < 1e-4:
        raise ValueError(f"the product is wrong by {wrong:.2g} of its largest sum")
