# SPDX-License-Identifier: Apache-2.0
"""The operator that takes rows out of a matrix in compressed sparse rows, and its transpose: each is linear.

`csr_slice_rows_p(data, indices, indptr, chosen, shape=(m, k))` gives chosen rows (r,) as dense ones (r, k).
`csr_add_rows_p(indices, indptr, chosen, dense, shape=(m, k))` gives, for each stored element, the sum of what is in its
column in the dense rows (r, k) that stand for its row. A row that there is not is zeros, and adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from ...backends.numba import numba_kernel
from ...operator.custom_kernel import XLACustomKernel
from ..operands import is_within
from ..precision import precise
from .reference import row_of_each

__all__ = ["csr_add_rows_p", "csr_slice_rows_p"]


def _in_sums(kernel: Any, out: Any) -> Callable[..., list[Any]]:
    """Return a Numba kernel that adds in numbers that it can add in."""
    call = numba_kernel(kernel, outs=jax.ShapeDtypeStruct(out.shape, precise(out.dtype)))
    return lambda *operands: [call(*operands).astype(out.dtype)]


def _numba_slice(*, outs: Sequence[Any], shape: tuple[int, int]) -> Callable[..., Any]:
    from .on_cpu import slice_rows

    def sliced(data: Any, *structure: Any) -> list[Any]:
        call = _in_sums(slice_rows(data.dtype.name, homogeneous=data.size == 1), outs[0])
        return call(data.reshape(-1), *structure)

    return sliced


def _numba_add(*, outs: Sequence[Any], shape: tuple[int, int]) -> Callable[..., Any]:
    from .on_cpu import add_rows

    call = _in_sums(add_rows, outs[0])
    return lambda *operands: call(*operands[:-1], operands[-1].astype(precise(outs[0].dtype)))


def _cuda_slice(*, outs: Sequence[Any], shape: tuple[int, int]) -> Callable[..., Any]:
    from .on_gpu import cuda_slice_rows

    return cuda_slice_rows(outs, shape=shape)


def _cuda_add(*, outs: Sequence[Any], shape: tuple[int, int]) -> Callable[..., Any]:
    from .on_gpu import cuda_add_rows

    return cuda_add_rows(outs, shape=shape)


def _slice(data: Any, indices: Any, indptr: Any, chosen: Any, *, shape: tuple[int, int]) -> list[jax.Array]:
    found = jnp.zeros((chosen.shape[0], shape[1]), precise(data.dtype))
    rows = row_of_each(indptr, indices.shape[0])
    there = (chosen[:, None] == rows) & (rows < shape[0]) & is_within(indices, shape[1])
    here = jnp.where(there, data.astype(found.dtype), 0)
    return [found.at[:, jnp.where(is_within(indices, shape[1]), indices, 0)].add(here).astype(data.dtype)]


def _add(indices: Any, indptr: Any, chosen: Any, dense: Any, *, shape: tuple[int, int]) -> list[jax.Array]:
    rows = row_of_each(indptr, indices.shape[0])
    there = (chosen[:, None] == rows) & (rows < shape[0]) & is_within(indices, shape[1])
    here = jnp.where(there, dense[:, indices].astype(precise(dense.dtype)), 0)
    return [here.sum(0).astype(dense.dtype)]


csr_slice_rows_p = XLACustomKernel("csr_slice_rows")
csr_slice_rows_p.def_numba_kernel(_numba_slice)
csr_slice_rows_p.def_cuda_raw_kernel(_cuda_slice, language="nvrtc")
csr_slice_rows_p.def_reference(_slice)
csr_slice_rows_p.def_tags("csr", "slice")
csr_slice_rows_p.def_sharding_rule("w, e, p, r -> r k")

csr_add_rows_p = XLACustomKernel(
    "csr_slice_rows_grad",
    """Sum, for each stored element, what is in its column in the dense rows that stand for its row.

    So the weights of a matrix get their gradient from rows that were taken out of it.

    >>> import jax.numpy as jnp, brainevent
    >>> operator = brainevent.get_registry()["csr_slice_rows_grad"]
    >>> indices, indptr, chosen = jnp.array([0, 2, 2]), jnp.array([0, 2, 3]), jnp.array([1, 1])
    >>> operator(indices, indptr, chosen, jnp.array([[1.0, 2.0, 3.0], [10.0, 20.0, 30.0]]), shape=(2, 3))
    [Array([ 0.,  0., 33.], dtype=float32)]
    """,
)
csr_add_rows_p.def_numba_kernel(_numba_add)
csr_add_rows_p.def_cuda_raw_kernel(_cuda_add, language="nvrtc")
csr_add_rows_p.def_reference(_add)
csr_add_rows_p.def_tags("csr", "grad", "slice")
csr_add_rows_p.def_sharding_rule("e, p, r, r k -> e", reduction_factors=("r",), need_replication_factors=("e", "k"))


def _of_data(cotangents: Any, data: Any, indices: Any, indptr: Any, chosen: Any, **params: Any) -> Any:
    (cotangent,), weights = cotangents, data.aval
    if weights.size == 1:
        ones = jnp.ones(weights.shape, cotangent.dtype)
        (counts,) = csr_slice_rows_p(ones, indices, indptr, chosen, **params)
        found = jnp.vdot(counts, cotangent).reshape(weights.shape)
    else:
        outs = [jax.ShapeDtypeStruct(weights.shape, weights.dtype)]
        (found,) = csr_add_rows_p(indices, indptr, chosen, cotangent, **{**params, "outs": outs})
    return [found, None, None, None]


def _of_dense(cotangents: Any, indices: Any, indptr: Any, chosen: Any, dense: Any, **params: Any) -> Any:
    (cotangent,) = cotangents
    outs = [jax.ShapeDtypeStruct(dense.aval.shape, dense.aval.dtype)]
    (found,) = csr_slice_rows_p(cotangent, indices, indptr, chosen, **{**params, "outs": outs})
    return [None, None, None, found]


csr_slice_rows_p.def_jvp_rule2(
    lambda tangent, data, *structure, **params: csr_slice_rows_p(tangent, *structure, **params), None, None, None
)
csr_slice_rows_p.def_transpose_rule(_of_data)
csr_add_rows_p.def_jvp_rule2(
    None,
    None,
    None,
    lambda tangent, indices, indptr, chosen, dense, **params: csr_add_rows_p(
        indices, indptr, chosen, tangent, **params
    ),
)
csr_add_rows_p.def_transpose_rule(_of_dense)
