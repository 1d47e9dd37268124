# SPDX-License-Identifier: Apache-2.0
"""Settings: whether loops of `jax.lax.scan` are compiled as one native call each, and show their progress."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from .switch import Switch

__all__ = ["FUSE_LOOPS", "LOOP_PROGRESS", "fuse_loops", "is_fusing_loops", "loop_progress_cell", "show_loop_progress"]

FUSE_LOOPS = "BRAINEVENT_FUSE_LOOPS"
LOOP_PROGRESS = "BRAINEVENT_LOOP_PROGRESS"
_switch = Switch(FUSE_LOOPS)
loop_progress_cell = ctypes.c_int64(0)  # compiled code reads it


def fuse_loops(on: bool = True) -> AbstractContextManager[None]:
    """Compile each loop of `jax.lax.scan` as one native call, where this is possible and faster.

    It does so on the CPU, and on NVIDIA GPUs, where a loop is one kernel that runs all steps. Programs need no change:
    JAX transforms a loop (`grad`, `vmap`) before it is compiled. Loops that cannot be compiled in this way, or would
    not be faster, are compiled by JAX as always; `brainevent.explain_loops` says which, and why. The environment
    variable `BRAINEVENT_FUSE_LOOPS=1` does the same. Functions that are already jitted use the setting from their next
    call. To compile a loop takes a second or more; the code is kept for later processes.

    Results may differ in their last bits: XLA contracts `a * b + c` to one rounding, and a native loop does not; it has
    functions of its own, such as `exp`, with the errors of those in rules; sums have another order; and of zeros of
    both signs, `max` and `min` may return the other one.

    Args:
        on: Whether to do so.

    Returns:
        A context manager. The choice holds for the whole process, or, in a `with` statement, for the block and this
        thread.

    Raises:
        TypeError: If `on` is not a boolean.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> def decay(v):
        ...     return jax.lax.scan(lambda v, _: (v * 0.5, None), v, None, length=64)[0]
        >>> with brainevent.config.fuse_loops():
        ...     decay(jnp.array([2.0**64, 0.0]))
        Array([1., 0.], dtype=float32)
    """
    return _switch.choose("fuse_loops", on)


def is_fusing_loops() -> bool:
    """Return whether loops are compiled as native calls where this is possible.

    Returns:
        What `fuse_loops` chose.

    Examples:
        >>> import brainevent
        >>> brainevent.config.is_fusing_loops()
        False
    """
    return _switch.is_on()


def show_loop_progress(on: bool = True) -> AbstractContextManager[None]:
    """Show on stderr how far loops are that run as native calls, on a GPU those of several launches.

    A loop that takes longer than half a second writes a line, which it replaces twice a second; in a file, it writes a
    line for each tenth of its steps. Programs that are compiled need not be compiled again. The environment variable
    `BRAINEVENT_LOOP_PROGRESS=1` does the same.

    Args:
        on: Whether to do so.

    Returns:
        A context manager: the choice holds for the whole process, and in a `with` statement until the end of the block.

    Raises:
        TypeError: If `on` is not a boolean.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> def decay(v):
        ...     return jax.lax.scan(lambda v, _: (v * 0.5, None), v, None, length=64)[0]
        >>> with brainevent.config.fuse_loops(), brainevent.config.show_loop_progress():
        ...     decay(jnp.array([2.0**64, 0.0]))
        Array([1., 0.], dtype=float32)
    """
    if not isinstance(on, bool):
        raise TypeError(f"config.show_loop_progress: on must be True or False, found {on!r}")
    before = loop_progress_cell.value
    loop_progress_cell.value = int(on)
    return _restored(before)


@contextmanager
def _restored(before: int) -> Iterator[None]:
    try:
        yield
    finally:
        loop_progress_cell.value = before
