# SPDX-License-Identifier: Apache-2.0
"""Time the first result of a kernel in a new process, beyond the imports that it needs."""

import importlib
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.gpu_contenders import WAYS, operands
from benchmarks.probes.progress import tell
from benchmarks.probes.ways import tell_of

_SIZE = 1024


def measure(way: str) -> dict[str, float | str]:
    """Seconds: `imports`, and from there to the `first` result; or why it is `missing`, or `failed`."""
    tell(way)
    a, b = operands(_SIZE)
    np.testing.assert_array_equal(jnp.sqrt(b), 1)  # starts the client
    start = time.perf_counter()
    try:
        for package in WAYS[way].packages:
            importlib.import_module(package)
    except ImportError as error:
        return {"missing": f"not here: {error}"}
    imported = time.perf_counter()
    try:
        total = jax.jit(WAYS[way].make())(a, b).block_until_ready()
        first = time.perf_counter()
        np.testing.assert_array_equal(total, np.asarray(a) + np.asarray(b))
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return {"failed": tell_of(error)}
    return {"imports": imported - start, "first": first - imported}
