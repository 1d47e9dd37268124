# SPDX-License-Identifier: Apache-2.0
"""A user's module that defines operators; other processes import it, or only what it exported."""

import jax
import numba

import brainevent


@numba.njit
def affine(x, w, out):
    if x[0] < 0:
        raise ValueError("negative", x[0])
    scaled = x * w
    for i in range(out.size):
        out[i] = scaled[i] + 1


@numba.njit(parallel=True)
def double(x, out):
    for i in numba.prange(x.size):
        out[i] = 2 * x[i]


affine_op = brainevent.XLACustomKernel("portable_affine")
affine_op.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(affine, outs=outs))
affine_op.def_reference(lambda x, w: x * w + 1)
affine_op.def_sharding_rule("i, i -> i")
double_op = brainevent.XLACustomKernel("portable_double")
double_op.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(double, outs=outs))


def model(x, w):
    y = affine_op(x, w)
    return double_op(y, outs=jax.ShapeDtypeStruct(y.shape, y.dtype))
