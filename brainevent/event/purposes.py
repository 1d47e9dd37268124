# SPDX-License-Identifier: Apache-2.0
"""For which purpose JAX takes a tree apart, where it has no hook and the purpose decides what leaves are.

The functions of JAX below are found by name when the first matrix is taken apart, and recognized by their code in the
frames that called us. Nothing that is computed depends on it: if a function is not recognized, its purpose cannot be
served, and JAX raises an error (or awaits only the weights). A function that JAX no longer has is reported once.
"""

from __future__ import annotations

import functools
import sys
import warnings
from types import CodeType, FrameType

import jax

from .._compat import code_of

__all__ = ["AWAITED", "BATCH", "CALLBACK", "COTANGENT", "TANGENT", "missing", "purpose"]

AWAITED, BATCH, CALLBACK = "awaited", "results of a batch", "operands of a callback"
COTANGENT, TANGENT = "cotangents", "tangents"
_PRIMALS_FIRST = "api._jvp"  # takes both apart
_FUNCTIONS = {
    "api.block_until_ready": AWAITED,
    "api.copy_to_host_async": AWAITED,
    "api._lift_linearized": TANGENT,
    "api._vjp3_bwd": COTANGENT,
    _PRIMALS_FIRST: TANGENT,
    "callback.io_callback": CALLBACK,
    "callback.pure_callback": CALLBACK,
    "debugging._split_callback_args": CALLBACK,
    "interpreters.batching.flatten_fun_for_vmap": BATCH,
}
_BETWEEN = {"jax._src.tree_util", "jax._src.flattree", __name__.replace("purposes", "saved")}
_FRAMES = 6  # at most, from a matrix to the function of JAX


def purpose() -> str | None:
    """Return for which of these purposes JAX takes apart the matrix whose method called this function, or None."""
    frame: FrameType | None = sys._getframe(1)
    own = frame.f_globals["__name__"] if frame else None
    for _ in range(_FRAMES):
        frame = frame.f_back if frame else None
        if frame is None:
            return None
        found = _codes().get(frame.f_code)
        if found:
            is_primal = frame.f_code is code_of(_PRIMALS_FIRST) and len(frame.f_locals) == frame.f_code.co_argcount
            return None if is_primal else found
        if frame.f_globals.get("__name__") not in (*_BETWEEN, own):
            return None
    return None


def missing() -> list[str]:
    """Return the functions that this JAX does not have."""
    return [name for name in _FUNCTIONS if code_of(name) is None]


@functools.cache
def _codes() -> dict[CodeType | None, str]:
    if unknown := missing():
        warnings.warn(
            f"brainevent: JAX {jax.__version__} has no {', '.join(unknown)}, by which matrices know what their leaves "
            "are for; matrices as tangents, in callbacks, or made in jax.vmap may raise errors; use JAX 0.10 to 0.12",
            RuntimeWarning,
            stacklevel=2,
        )
    return {code_of(name): use for name, use in _FUNCTIONS.items()}
