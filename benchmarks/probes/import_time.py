# SPDX-License-Identifier: Apache-2.0
"""Time `import brainevent` after `import jax`, and the import of Numba that its first use brings."""

import sys
import time


def measure() -> dict[str, float]:
    """Seconds, once: a process imports a module only once."""
    import jax  # noqa: F401

    start = time.perf_counter()
    import brainevent  # noqa: F401

    imported = time.perf_counter()
    numba_came_along = "numba" in sys.modules
    import numba  # noqa: F401

    return {
        "brainevent": imported - start,
        "numba_afterwards": time.perf_counter() - imported,
        "numba_came_along": float(numba_came_along),
    }
