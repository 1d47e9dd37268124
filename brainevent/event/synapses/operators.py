# SPDX-License-Identifier: Apache-2.0
"""The operators that multiply values of synapses with values of neurons, in compressed sparse rows.

They are called as `operator(y, w, indices, indptr, shape=(m, k), transpose=...)`: each element of w is multiplied with
the value in y of its row, or if `transpose` of its column. A column that is out of range gives zero, and so does an
element of no row. Only the structure that is needed is looked at: row pointers, or columns. In `csrmm_dt2t` both y and
w are matrices with a row for each entry of a batch; where one of them has a single row, that serves all entries.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ..._compat import is_undefined_primal
from ...backends.numba import numba_kernel
from ...operator.custom_kernel import XLACustomKernel
from ..csr.operators import csrmv_p, of_elements
from ..csr.reference import row_of_each
from ..linear import has_kernel_for
from ..operands import promises
from ..precision import precise
from .reference import times

__all__ = ["csrmm_dt2t_p", "csrmv_dt2t_p"]


def _reference(y: Any, w: Any, indices: Any, indptr: Any, *, transpose: bool, **_: Any) -> list[Any]:
    places, sums = indices if transpose else row_of_each(indptr, indices.shape[0]), precise(w.dtype)
    return [times(w.astype(sums), y.astype(sums), places).astype(w.dtype)]


def _numba(*, outs: Sequence[Any], shape: tuple[int, int], transpose: bool, **how: Any) -> Callable[..., Any]:
    from . import on_cpu

    within = how.get("indices_within", False)
    kernel = on_cpu.of_columns(within=within) if transpose else on_cpu.of_rows(within=within)

    def multiply(y: Any, w: Any, structure: Any, out: Any) -> Any:
        return numba_kernel(kernel, out)(y, w, structure)

    return _with_batch(multiply, outs, transpose)


def _cuda(*, outs: Sequence[Any], shape: tuple[int, int], transpose: bool, **_: Any) -> Callable[..., Any]:
    from .on_gpu import multiplied

    return _with_batch(functools.partial(multiplied, of_columns=transpose), outs, transpose)


def _with_batch(multiply: Callable[..., Any], outs: Sequence[Any], transpose: bool) -> Callable[..., Any]:
    """Return a kernel that is given matrices, of numbers that it can multiply, and the structure that it needs."""
    (out,) = outs
    sums = precise(out.dtype)
    wanted = jax.ShapeDtypeStruct((math.prod(out.shape[:-1]), out.shape[-1]), sums)

    def run(y: Any, w: Any, indices: Any, indptr: Any) -> list[Any]:
        y, w = (jnp.atleast_2d(x.astype(sums)) for x in (y, w))
        found = multiply(y, w, indices if transpose else indptr, wanted)
        return [found.reshape(out.shape).astype(out.dtype)]

    return run


def _cut(y: Any, w: Any, *_: Any, **__: Any) -> str:
    """Write the sharding rule: devices share the elements `e`, and entries of the batch."""
    if w.ndim == 1:
        return "m, e, e, p -> e"
    of_y, of_w = ("one" if x.shape[0] == 1 != other.shape[0] else "b" for x, other in ((y, w), (w, y)))
    return f"{of_y} m, {of_w} e, e, p -> b e"


# ---- derivatives: each product is linear in y and in w


def _by_y(operator: XLACustomKernel, tangent: Any, y: Any, *rest: Any, **params: Any) -> Any:
    return operator(tangent, *rest, **params)


def _by_w(operator: XLACustomKernel, tangent: Any, y: Any, w: Any, *rest: Any, **params: Any) -> Any:
    return operator(y, tangent, *rest, **params)


def _transposed(operator: XLACustomKernel, cotangents: Any, y: Any, w: Any, *rest: Any, **params: Any) -> list[Any]:
    (cotangent,) = cotangents
    if is_undefined_primal(w):
        out = jax.ShapeDtypeStruct(cotangent.shape, w.aval.dtype)
        (found,) = operator(y, cotangent, *rest, **{**params, "outs": [out]})
        return [None, _summed(found, w.aval), None, None]
    indices, indptr = rest

    def sum_up(each: Any) -> jax.Array:
        return _sum_of_each(indices, indptr, each, size=y.aval.shape[-1], **params)

    sums = precise(w.dtype)
    terms = cotangent.astype(sums) * w.astype(sums)
    found = sum_up(terms) if terms.ndim == 1 else jax.vmap(sum_up)(terms)
    return [_summed(found, y.aval), None, None, None]


def _sum_of_each(
    indices: Any, indptr: Any, terms: Any, *, size: int, transpose: bool, indices_within: bool = False, **_: Any
) -> jax.Array:
    """Sum terms of elements for each row, or for each column; the other structure is not looked at here, either."""
    out = jax.ShapeDtypeStruct((size,), terms.dtype)
    how: dict[str, Any] = {"transpose": transpose, "outs": [out], **promises(indices_within=indices_within)}
    one = jnp.ones(1, terms.dtype)
    if transpose:
        whole = jnp.array([0, terms.size], indptr.dtype)
        (found,) = csrmv_p(terms, indices, whole, one, shape=(1, size), **how)
    else:
        (found,) = csrmv_p(terms, jnp.zeros_like(indices), indptr, one, shape=(size, 1), **how)
    return found


def _summed(found: jax.Array, wanted: Any) -> jax.Array:
    """Sum over the entries that a single row served."""
    return (found if found.shape == wanted.shape else found.sum(0, keepdims=True)).astype(wanted.dtype)


# ---- batches: of vectors, a matrix; of matrices, one with more rows


def _batch(args: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
    if any(axis is not None for axis in axes[2:]) or not has_kernel_for(csrmm_dt2t_p, params):
        return NotImplemented  # the kernel goes through the batch
    (out,), (y, w, *rest) = params["outs"], args
    number = next(x.shape[axis] for x, axis in zip(args, axes, strict=True) if axis is not None)
    y, w = (_as_rows(x, axis, number, out.shape[:-1]) for x, axis in zip((y, w), axes, strict=False))
    flat = jax.ShapeDtypeStruct((number * math.prod(out.shape[:-1]), out.shape[-1]), out.dtype)
    (found,) = csrmm_dt2t_p(y, w, *rest, **{**params, "outs": [flat]})
    return [found.reshape(number, *out.shape)], [0]


def _as_rows(x: Any, axis: int | None, number: int, batch: tuple[int, ...]) -> jax.Array:
    """Return a row for each entry of a batch and of another one within, or a single row."""
    if axis is None:
        if math.prod(x.shape[:-1]) == 1:
            return x.reshape(1, -1)
        x = x[None]
    else:
        x = jnp.moveaxis(x, axis, 0)
    return jnp.broadcast_to(x, (number, *batch, x.shape[-1])).reshape(-1, x.shape[-1])


def _define(name: str, doc: str) -> XLACustomKernel:
    operator = XLACustomKernel(name, doc)
    operator.def_numba_kernel(_numba)
    operator.def_cuda_raw_kernel(_cuda, language="nvrtc")
    operator.def_reference(_reference)
    operator.def_tags("csr", "float")
    operator.def_sharding_rule(_cut, of_part=functools.partial(of_elements, pointers=3))
    operator.def_jvp_rule2(functools.partial(_by_y, operator), functools.partial(_by_w, operator), None, None)
    operator.def_transpose_rule(functools.partial(_transposed, operator))
    operator.def_batching_rule(_batch)
    return operator


csrmv_dt2t_p = _define(
    "csrmv_dt2t",
    """Multiply each value of w with that of its row in y, or if `transpose` of its column.

    Operands: y, w, and the indices and row pointers of a matrix in compressed sparse rows.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> y, w = jnp.array([10.0, 100.0]), jnp.array([1.0, 2.0, 4.0])
    >>> brainevent.csrmv_dt2t_p(y, w, indices, indptr, shape=(2, 3), transpose=False)
    [Array([ 10.,  20., 400.], dtype=float32)]
    """,
)
csrmm_dt2t_p = _define(
    "csrmm_dt2t",
    """Do what `csrmv_dt2t` does for each entry of a batch: y and w are matrices with a row for each, or with one row.

    >>> import jax.numpy as jnp, brainevent
    >>> indices, indptr = jnp.array([0, 2, 2]), jnp.array([0, 2, 3])
    >>> y, w = jnp.array([[10.0, 100.0], [1.0, 2.0]]), jnp.array([[1.0, 2.0, 4.0]])
    >>> brainevent.csrmm_dt2t_p(y, w, indices, indptr, shape=(2, 3), transpose=False)
    [Array([[ 10.,  20., 400.],
           [  1.,   2.,   8.]], dtype=float32)]
    """,
)
