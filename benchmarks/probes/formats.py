# SPDX-License-Identifier: Apache-2.0
"""Equally sparse matrices in every format, times spikes from either side: seconds per product in a loop, and bytes."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.clocks import VECTORS, Clock
from benchmarks.probes.progress import tell


@dataclass(frozen=True)
class _Side:
    """A product with a matrix as SciPy has it, from the left or from the right."""

    matrix: Any
    left: bool
    n: int

    def expected(self, spikes: np.ndarray) -> np.ndarray:
        """The product in float64."""
        found = self.matrix.T @ spikes if self.left else self.matrix @ spikes
        return np.asarray(found, np.float64)


def measure(n: int, fan_out: int, share: float, rounds: int, **how: Any) -> dict[str, Any]:
    """Samples by `FORMAT left` (`spikes @ matrix`) and `FORMAT right`; and the `bytes` of each format."""
    from scipy import sparse

    import brainevent

    random = np.random.default_rng(1)
    apart = n // fan_out  # no element is stored twice
    indices = np.arange(fan_out, dtype=np.int32) * apart + random.integers(0, apart, (n, fan_out), dtype=np.int32)
    weights = random.random((n, fan_out), dtype=np.float32) + np.float32(0.5)
    indptr = np.arange(n + 1, dtype=np.int32) * fan_out
    known = sparse.csr_array((weights.ravel(), indices.ravel(), indptr), shape=(n, n))
    arrays = (jnp.asarray(weights.ravel()), jnp.asarray(indices.ravel()), jnp.asarray(indptr))
    csr = brainevent.CSR(arrays, shape=(n, n))
    unchecked = brainevent.CSR(arrays, shape=(n, n), check_structure=False)
    fixed = brainevent.FixedNumPerPre((jnp.asarray(weights), jnp.asarray(indices)), shape=(n, n))
    matrices = {
        "CSR": (csr, known),
        "CSR, unchecked": (unchecked, known),
        "CSC": (csr.tocsc(), known),
        "FixedNumPerPre": (fixed, known),
        "FixedNumPerPost": (fixed.T, known.T),
        "COO": (csr.tocoo(), known),
        "Dense": (brainevent.Dense(csr.todense()), known),
    }
    spikes = random.random((VECTORS, n)) < share
    clocks = {}
    for name, (matrix, dense) in matrices.items():
        tell(name)
        for side, product in (("left", _from_left), ("right", _from_right)):
            clock = clocks[f"{name} {side}"] = Clock.of((product, (matrix,)), n, **how)
            clock.prepare(spikes, _Side(dense.astype(np.float64), side == "left", n))
    samples: dict[str, list[float]] = {name: [] for name in clocks}
    for _ in range(rounds):  # in turns: a machine is not as fast all the time
        for name, clock in clocks.items():
            samples[name].append(clock.seconds())
    held = {name: sum(array.nbytes for array in _arrays(matrix)) for name, (matrix, _) in matrices.items()}
    return {"samples": samples, "bytes": held}


def _from_left(spikes: Any, before: Any, matrix: Any) -> Any:
    import brainevent

    return brainevent.BinaryArray(spikes) @ matrix


def _from_right(spikes: Any, before: Any, matrix: Any) -> Any:
    import brainevent

    return matrix @ brainevent.BinaryArray(spikes)


def _arrays(matrix: Any) -> list[Any]:
    """Return the arrays of a matrix: its weights, and those of its indices that the format has."""
    names = ("indices", "indptr", "row", "col", "drawn")
    return [*jax.tree.leaves(matrix.data), *(getattr(matrix, name) for name in names if hasattr(matrix, name))]
