# SPDX-License-Identifier: Apache-2.0
"""A number of threads for native code on the CPU."""

import contextlib

from brainevent import config

__all__ = ["threads_of"]


@contextlib.contextmanager
def threads_of(count):
    """Let kernels use some threads."""
    before = config.get_numba_parallel()
    config.set_numba_parallel(True, num_threads=count)
    try:
        yield
    finally:
        config.set_numba_parallel(before)
