# SPDX-License-Identifier: Apache-2.0
"""What differs between platforms while a body is read: calls, kernels of operators, loops and branches within."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..backends.numba.kernel import handlers_when_lowered
from .calls import CALLED
from .values import Call, Texts, Tools
from .within import BranchesWithin, LoopWithin, branches_call, loop_call

__all__ = ["Tables", "tables_of"]


@dataclass(frozen=True)
class Tables:
    """Functions of equations by the names of primitives; and the chosen kernel of an operator as a function of arrays.

    `boxed` makes an array without axes of a scalar. `adds_narrow`: numbers of 8 and 16 bits are added at indices.
    """

    called: Mapping[str, Callable[[Any], Call]]
    boxed: Call
    kernel: Callable[[Any, Sequence[Any], Sequence[Any]], Callable[..., Any]]
    loop: Callable[[LoopWithin], Call]
    branches: Callable[[BranchesWithin], Call]
    adds_narrow: bool = True


@functools.cache
def tables_of(platform: str) -> Tables:
    """Return those of a platform."""
    if platform == "cpu":
        boxed = Call("a scalar", _write_boxed, scalars=frozenset((0,)))
        return Tables(CALLED, boxed, _chosen, loop_call, branches_call)
    from .gpu.calls import BOXED
    from .gpu.calls import CALLED as ON_GPU
    from .gpu.kernels import fitting_kernel
    from .gpu.within import branches_call as branches_on_gpu
    from .gpu.within import loop_call as loop_on_gpu

    return Tables(ON_GPU, BOXED, fitting_kernel, loop_on_gpu, branches_on_gpu, adds_narrow=False)


def _write_boxed(x: Sequence[str], out: Sequence[str], tools: Tools) -> Texts:
    return [f"{out[0]}[()] = {x[0]}"]


def _chosen(kernel: Any, outs: Sequence[Any], operands: Sequence[Any]) -> Callable[..., Any]:
    build: Callable[..., Any] = kernel.build(outs, kernel.carried.levels)

    def traced(*x: Any) -> Any:
        with handlers_when_lowered():  # the loop calls the kernel, and XLA does not
            return build(*x)

    return traced
