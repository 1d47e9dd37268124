# SPDX-License-Identifier: Apache-2.0
"""Spikes times a sparse matrix in a compiled loop: seconds per product, net of the empty loop, in several ways.

This runs in any package of this interface: the matrix is `brainevent.CSR`, the spikes are a `brainevent.BinaryArray`.
"""

import functools
import gc
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.clocks import VECTORS, Clock, InStream, Made, Product
from benchmarks.probes.progress import tell
from benchmarks.probes.ways import tell_of

_SEED = 1
_PART = 2**22  # numbers that are drawn together


@dataclass(frozen=True)
class Problem:
    """Connections drawn at random, the same number from each of n neurons to all of them, with one weight or many."""

    n: int
    indices: np.ndarray  # (n * fan_out,)
    weights: np.ndarray

    @property
    def fan_out(self) -> int:
        """Connections of a neuron."""
        return self.indices.size // self.n

    @property
    def indptr(self) -> np.ndarray:
        """Where each row begins: (n + 1,)."""
        kind = np.int32 if self.indices.size < 2**31 else np.int64
        return np.arange(self.n + 1, dtype=kind) * kind(self.fan_out)

    def expected(self, spikes: np.ndarray) -> np.ndarray:
        """The product in float64."""
        sums = np.zeros(self.n)
        for rows in np.array_split(np.flatnonzero(spikes), 1 + int(spikes.sum()) * self.fan_out // 2**26):
            columns = self.indices.reshape(self.n, -1)[rows].ravel()
            one = self.weights.size == 1
            each = None if one else self.weights.reshape(self.n, -1)[rows].ravel().astype(np.float64)
            sums += np.bincount(columns, each, minlength=self.n) * (float(self.weights[0]) if one else 1)
        return sums


def measure(
    ways: list[str], n: int, fan_out: int, kinds: list[str], shares: list[float], rounds: int, **how: Any
) -> dict[str, Any]:
    """Seconds per product as `KIND SHARE WAY`, one for each round; `synapses` of a product; what failed, and why.

    `bytes` are those of the operands but spikes, as `KIND WAY`.

    A GPU runs `turns` products, a multiple of 16, in a loop of known length, a CPU so many that they take `seconds`.
    """
    if n * fan_out >= 2**31:
        jax.config.update("jax_enable_x64", True)  # where a row begins is a number of 64 bits
    indices, random = draw_columns(n, fan_out), np.random.default_rng(_SEED)
    vectors = {share: random.random((VECTORS, n)) < share for share in shares}
    answer: dict[str, Any] = {"samples": {}, "bytes": {}, "failed": {}}
    answer["synapses"] = {f"{share:g}": float(v.sum()) / VECTORS * fan_out for share, v in vectors.items()}
    for kind in kinds:
        weights = draw_weights(1 if kind == "one" else indices.size)
        problem = Problem(n, indices, weights)
        for way in ways:
            tell(f"{kind} {way}")
            made = clock = None  # two matrices may be more than the memory holds
            gc.collect()
            try:
                made = WAYS[way](problem)
                if isinstance(made, tuple):
                    answer["bytes"][f"{kind} {way}"] = sum(map(_held, made[1]))
                clock = Clock.of(made, n, **how)
                for share, spikes in vectors.items():
                    clock.prepare(spikes, problem)
                    answer["samples"][f"{kind} {share:g} {way}"] = [clock.seconds() for _ in range(rounds)]
            except Exception as error:  # noqa: BLE001 - whatever it is, the other ways are measured
                answer["failed"][f"{kind} {way}"] = tell_of(error)
    return answer


def draw_columns(n: int, fan_out: int) -> np.ndarray:
    """Draw the columns of each of n rows, sorted: (n * fan_out,)."""
    columns = np.empty((n, fan_out), np.int32)

    def draw(part: slice, random: np.random.Generator) -> None:
        columns[part] = random.integers(0, n, columns[part].shape, dtype=np.int32)
        columns[part].sort(axis=1)

    _in_parts(n, max(1, _PART // fan_out), draw)
    return columns.ravel()


def draw_weights(size: int) -> np.ndarray:
    """Draw numbers from 0.5 to 1.5."""
    weights = np.empty(size, np.float32)

    def draw(part: slice, random: np.random.Generator) -> None:
        random.random(out=weights[part], dtype=np.float32)
        weights[part] += np.float32(0.5)

    _in_parts(size, _PART, draw)
    return weights


def _in_parts(size: int, each: int, draw: Callable[[slice, np.random.Generator], None]) -> None:
    """Draw parts in threads, each from a stream of its own: four billion numbers take minutes otherwise."""
    parts = [slice(start, min(start + each, size)) for start in range(0, size, each)]
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda part: draw(part, np.random.default_rng((_SEED, part.start))), parts))


def _held(operand: Any) -> int:
    """Return the bytes of a matrix; not every package has its indices among the leaves of a pytree."""
    arrays = [*jax.tree.leaves(operand), getattr(operand, "indices", None), getattr(operand, "indptr", None)]
    return sum({id(array): getattr(array, "nbytes", 0) for array in arrays}.values())


def _csr(problem: Problem) -> Made:
    import brainevent

    parts = jax.device_put((problem.weights, problem.indices, problem.indptr))  # on a CPU, nothing is copied
    matrix = brainevent.CSR(tuple(parts), shape=(problem.n, problem.n))
    return lambda spikes, before, matrix: brainevent.BinaryArray(spikes) @ matrix, (matrix,)


def _fixed(problem: Problem) -> Made:
    import brainevent

    rows = problem.n, problem.fan_out
    weights = problem.weights if problem.weights.size == 1 else problem.weights.reshape(rows)
    parts = jax.device_put((weights, problem.indices.reshape(rows)))
    matrix = brainevent.FixedNumPerPre(parts, shape=(problem.n, problem.n))
    return lambda spikes, before, matrix: brainevent.BinaryArray(spikes) @ matrix, (matrix,)


def _each(problem: Problem) -> np.ndarray:
    return np.broadcast_to(problem.weights, problem.indices.shape).astype(np.float32)


def _bcsr(problem: Problem) -> Made:
    from jax.experimental import sparse

    by_target = _scipy_matrix(problem).T.tocsr()  # JAX has no product of a vector with a BCSR, only the other way round
    parts = [jnp.asarray(part) for part in (by_target.data, by_target.indices, by_target.indptr)]
    matrix = sparse.BCSR(tuple(parts), shape=(problem.n, problem.n))
    return lambda spikes, before, matrix: matrix @ spikes.astype(jnp.float32), (matrix,)


def _bcoo(problem: Problem) -> Made:
    from jax.experimental import sparse

    rows = np.repeat(np.arange(problem.n, dtype=np.int32), problem.fan_out)
    places = jnp.stack([jnp.asarray(rows), jnp.asarray(problem.indices)], axis=1)
    matrix = sparse.BCOO((jnp.asarray(_each(problem)), places), shape=(problem.n, problem.n), indices_sorted=True)
    return lambda spikes, before, matrix: spikes.astype(jnp.float32) @ matrix, (matrix,)


def _cusparse(problem: Problem) -> Made:
    """cuSPARSE, as JAX calls it: a CSR matrix of which the transposed is multiplied."""
    from jax.experimental.sparse import CSR

    parts = [jnp.asarray(part) for part in (_each(problem), problem.indices, problem.indptr)]
    matrix = CSR(tuple(parts), shape=(problem.n, problem.n))
    return lambda spikes, before, matrix: matrix.T @ spikes.astype(jnp.float32), (matrix,)


def _cupy(problem: Problem) -> Clock:
    """cuSPARSE, as CuPy calls it: a CSR matrix by target, so that nothing is transposed in a product."""
    import cupy
    from cupyx.scipy import sparse

    by_target = _scipy_matrix(problem).T.tocsr()
    parts = tuple(cupy.asarray(part) for part in (by_target.data, by_target.indices, by_target.indptr))
    matrix = sparse.csr_matrix(parts, shape=by_target.shape)
    return InStream(lambda spikes: matrix @ spikes.astype(np.float32))


def _dense(problem: Problem) -> Made:
    matrix = np.zeros((problem.n, problem.n), np.float32)
    np.add.at(matrix, (np.repeat(np.arange(problem.n), problem.fan_out), problem.indices), problem.weights)
    exact = functools.partial(jnp.matmul, precision="highest")  # GPUs would round float32 to 10 bits
    return lambda spikes, before, matrix: exact(spikes.astype(jnp.float32), matrix), (jnp.asarray(matrix),)


def _scipy_matrix(problem: Problem) -> Any:
    from scipy import sparse

    return sparse.csr_array((_each(problem), problem.indices, problem.indptr), shape=(problem.n, problem.n))


def _scipy(problem: Problem) -> Product:
    transposed = _scipy_matrix(problem).T
    return lambda spikes: transposed @ spikes.astype(np.float32)


def _scipy_rows(problem: Problem) -> Product:
    """Take out the rows of who spikes, and sum them."""
    matrix = _scipy_matrix(problem)
    return lambda spikes: matrix[np.flatnonzero(spikes)].sum(axis=0)


WAYS: Mapping[str, Callable[[Problem], Any]] = {
    "csr": _csr,
    "fixed": _fixed,
    "bcsr": _bcsr,
    "bcoo": _bcoo,
    "cusparse": _cusparse,
    "cupy": _cupy,
    "dense": _dense,
    "scipy": _scipy,
    "scipy_rows": _scipy_rows,
}
