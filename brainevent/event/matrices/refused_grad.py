# SPDX-License-Identifier: Apache-2.0
"""Raise a helpful error if `jax.grad` is applied to a matrix: JAX's own error names an int32, and not the matrix."""

from __future__ import annotations

import sys

__all__ = ["refuse_jax_grad"]

_ASKING = "value_and_grad_f"  # the name in JAX of the function that `jax.grad` and `jax.value_and_grad` return


def refuse_jax_grad(kind: str) -> None:
    """Raise if `jax.grad` is flattening a matrix, whose indices are integers; `tree_flatten` calls this.

    JAX has no hook for this, so the calling frames are inspected. If JAX renames its function, its own error remains.
    """
    of_jax = sys._getframe(1).f_back  # what called the matrix's own method: a function that takes trees apart
    asking = of_jax and of_jax.f_back
    if asking and asking.f_code.co_name == _ASKING and not asking.f_locals.get("allow_int", True):
        raise TypeError(
            f"jax.grad: a {kind} has indices, which are integers and have no gradient; call brainevent.grad or "
            "brainevent.value_and_grad, or differentiate by the data: "
            "jax.grad(lambda data: loss(matrix.with_data(data)))(matrix.data)"
        )
