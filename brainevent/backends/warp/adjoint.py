# SPDX-License-Identifier: Apache-2.0
"""Reverse-mode derivatives by the adjoint that Warp makes of a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import ShapedArray
from ...errors import UnsupportedOperationError
from ...ffi.arguments import check_operands
from ...ffi.call import native_call
from .arguments import Array
from .call import BoundCall, WarpCall, whole
from .plan import WarpTarget

__all__ = ["differentiable"]


def differentiable(description: WarpCall, tree: Any, operands: Sequence[Any]) -> Any:
    """Run a kernel so that JAX can differentiate it in reverse mode."""
    arrays, bound = description.bind(operands)
    check_operands(description.where, arrays)

    @jax.custom_vjp
    def run(*arrays: Any) -> list[Any]:
        return bound.run(arrays)

    def forward(*arrays: Any) -> tuple[list[Any], Any]:
        results = run(*arrays)  # not the launch, so that a second derivative reaches the error
        return results, (arrays, results)

    def backward(kept: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
        gradients = iter(_once(bound)(*kept, [x for x in cotangents if _is_float(x.dtype)]))
        return tuple(next(gradients) if _is_float(x.dtype) else _no_gradient(x) for x in kept[0])

    run.defvjp(forward, backward)
    return tree.unflatten(run(*map(jnp.asarray, arrays)))


def _is_float(dtype: Any) -> bool:
    return bool(jnp.issubdtype(dtype, jnp.floating))


def _no_gradient(x: Any) -> np.ndarray:
    return np.zeros(x.shape, jax.dtypes.float0)


def _once(bound: BoundCall) -> Any:
    """Return the launch of the adjoint, which cannot be differentiated."""

    @jax.custom_jvp
    def launch(arrays: Sequence[Any], results: Sequence[Any], cotangents: Sequence[Any]) -> list[Any]:
        return _launch_adjoint(bound, arrays, results, cotangents)

    @launch.defjvp
    def refuse(*_: Any) -> Any:
        raise UnsupportedOperationError(
            f"{bound.call.where}: Warp differentiates a kernel, but not its adjoint: there are only first "
            "derivatives. Make it the kernel of an XLACustomKernel, and give that a jax.numpy implementation "
            "(def_reference)"
        )

    return launch


def _launch_adjoint(
    bound: BoundCall, arrays: Sequence[Any], results: Sequence[Any], cotangents: Sequence[Any]
) -> list[Any]:
    """Return the gradient of each float input.

    Operands are the inputs, the results, and the adjoints of float results; these are overwritten, and are results
    again. Before them come the gradients of inputs, which start as zeros.
    """
    call, starts = bound.call, {out: operand for operand, out in bound.aliases}
    floats = [i for i, x in enumerate(arrays) if _is_float(x.dtype) and i not in starts.values()]
    float_outs = [i for i, aval in enumerate(bound.outs) if _is_float(aval.dtype)]
    operands = [*arrays, *results, *cotangents]
    outs = [ShapedArray(x.shape, x.dtype) for x in (*(arrays[i] for i in floats), *cotangents)]
    adjoint_of = {operand: len(operands) + i for i, operand in enumerate(floats)}
    adjoint_of |= {len(arrays) + out: len(operands) + len(floats) + i for i, out in enumerate(float_outs)}
    # The adjoint reads the initial content of an output: it repeats the kernel's reads, but not its writes.
    primal = {len(arrays) + out: operand for out, operand in starts.items()}
    arguments = tuple(
        replace(a, buffer=primal.get(a.buffer, a.buffer)) if isinstance(a, Array) else a for a in bound.arguments
    )
    target = WarpTarget(
        where=call.where,
        kernel=call.kernel,
        arguments=arguments,
        buffers=len(operands) + len(outs),
        dims=call.dims,
        block_dim=call.block_dim,
        zeroed=whole(len(operands), outs, range(len(floats))),
        gradients=tuple(adjoint_of.get(a.buffer) if isinstance(a, Array) else None for a in bound.arguments),
    )
    aliases = [(len(arrays) + len(results) + i, len(floats) + i) for i in range(len(cotangents))]
    found = native_call(target, operands, outs, aliases)
    gradients = dict(zip(floats, found, strict=False))
    gradients |= {starts[out]: found[len(floats) + i] for i, out in enumerate(float_outs) if out in starts}
    return [gradients[i] for i in sorted(gradients)]
