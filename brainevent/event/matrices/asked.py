# SPDX-License-Identifier: Apache-2.0
"""Is it `jax.grad` that takes a matrix apart? Then its indices would be the trouble, and JAX would name no matrix."""

from __future__ import annotations

import sys

__all__ = ["refuse_jax_grad"]

_ASKING = "value_and_grad_f"  # as JAX calls the function that `jax.grad` and `jax.value_and_grad` return


def refuse_jax_grad(kind: str) -> None:
    """Raise if leaves are asked for by `jax.grad` of what has integer leaves; called by what takes a matrix apart.

    JAX gives no way to say so but to look at who is asking. Where it is called otherwise, JAX's own error remains.
    """
    of_jax = sys._getframe(1).f_back  # what called the matrix's own method: a function that takes trees apart
    asking = of_jax and of_jax.f_back
    if asking and asking.f_code.co_name == _ASKING and not asking.f_locals.get("allow_int", True):
        raise TypeError(
            f"jax.grad: a {kind} has indices, which are integers and have no gradient; call brainevent.grad or "
            "brainevent.value_and_grad, or differentiate by the data: "
            "jax.grad(lambda data: loss(matrix.with_data(data)))(matrix.data)"
        )
