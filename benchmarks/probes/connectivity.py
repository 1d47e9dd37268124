# SPDX-License-Identifier: Apache-2.0
"""Make a matrix of random connections: seconds, and bytes."""

import resource
import time
from typing import Any

import jax


def measure(way: str, neurons: int, synapses: int) -> dict[str, Any]:
    """Return the seconds, the bytes that the matrix keeps, and by how much memory grew at most meanwhile."""
    import brainevent

    def made(neurons: int, synapses: int) -> Any:
        number = synapses / neurons**2 if way == "prob" else synapses // neurons
        return jax.block_until_ready(brainevent.CSR.random((neurons, neurons), seed=1, **{way: number}))

    made(1000, 10_000)  # compiles
    before, start = _most_memory(), time.perf_counter()
    matrix = made(neurons, synapses)
    seconds = time.perf_counter() - start
    kept = sum(array.nbytes for array in _arrays(matrix))
    return {"seconds": seconds, "kept": kept, "peak": _most_memory() - before}


def _most_memory() -> int:
    """Return the most bytes that the process had so far."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _arrays(matrix: Any) -> list[Any]:
    """Return the arrays of a matrix: its weights, and those of its indices that the format has."""
    names = ("indices", "indptr", "row", "col", "drawn")
    return [*jax.tree.leaves(matrix.data), *(getattr(matrix, name) for name in names if hasattr(matrix, name))]
