# SPDX-License-Identifier: Apache-2.0
"""Operators on several devices: meshes, cut arrays, and what a compiled program sends between devices."""

import re

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P
from zoo import dot_rows, multiply, numba_generator, ramp

from brainevent import XLACustomKernel

COLLECTIVES = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
AUTO = AxisType.Auto


def mesh(kind=AUTO, **sizes):
    """Return a mesh of four fake devices, `d` if no axes are named."""
    sizes = sizes or {"d": 4}
    return jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(kind,) * len(sizes))


def cut(m, x, *spec):
    return jax.device_put(x, NamedSharding(m, P(*spec)))


def sent(f, *operands):
    """Return how often a compiled function uses each collective."""
    text = jax.jit(f).lower(*operands).compile().as_text()
    found = {name: len(re.findall(rf"= \S.* {name}(?:-start)?\(", text)) for name in COLLECTIVES}
    return {name: count for name, count in found.items() if count}


@numba.njit
def largest(x, out):
    for i in range(x.shape[0]):
        out[i] = x[i, 0]
        for j in range(1, x.shape[1]):
            out[i] = max(out[i], x[i, j])


@numba.njit
def outer_product(x, y, out):
    for i in range(x.size):
        for j in range(y.size):
            out[i, j] = x[i] * y[j]


class Watched:
    """An operator whose kernel notes the shapes it is built for."""

    def __init__(self, name, kernel, shape_of, rule=None, dtype=None, **factors):
        self.built = []
        self.op = XLACustomKernel(name)
        generator = numba_generator(kernel) if hasattr(kernel, "py_func") else lambda *, outs: kernel
        self.op.def_kernel(
            "watched", "cpu", lambda *, outs: self.built.append(tuple(o.shape for o in outs)) or generator(outs=outs)
        )
        self.shape_of, self.dtype = shape_of, dtype
        if rule is not None:
            self.op.def_sharding_rule(rule, **factors)

    def __call__(self, *operands):
        shape = self.shape_of(*operands)
        return self.op(*operands, outs=jax.ShapeDtypeStruct(shape, self.dtype or operands[0].dtype))


def elementwise(name, rule="..., ... -> ..."):
    @numba.njit
    def flat(x, y, out):
        for i in range(out.size):
            out.flat[i] = x.flat[i] * y.flat[i]

    return Watched(name, multiply if rule == "i, i -> i" else flat, lambda x, y: x.shape, rule)


def matvec(name, rule="m k, k -> m", **factors):
    factors = factors or ({"reduction_factors": ("k",)} if rule else {})
    watched = Watched(name, dot_rows, lambda w, x: w.shape[:1], rule, **factors)
    watched.op.def_jvp_rule2(lambda t, w, x, **_: watched(t, x), lambda t, w, x, **_: watched(w, t))

    def transpose(cts, w, x, **_):
        if jax.interpreters.ad.is_undefined_primal(w):
            return jnp.outer(cts[0], x), x
        return w, watched(w.T, cts[0])

    watched.op.def_transpose_rule(transpose)
    return watched


W, X, Y = ramp(8, 12), ramp(12), ramp(8, start=1.0)


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=1e-4, atol=1e-4)


__all__ = [
    "AUTO", "AxisType", "P", "W", "Watched", "X", "Y", "close", "cut", "dot_rows", "elementwise", "largest", "matvec",
    "mesh", "outer_product", "ramp", "sent",
]  # fmt: skip
