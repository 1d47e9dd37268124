# SPDX-License-Identifier: Apache-2.0
"""Operators of every kind, each with its jax.numpy twin: the tests transform both alike."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax.experimental import pallas as pl

import brainevent
from brainevent import XLACustomKernel


def like(*arrays):
    """Return the types of arrays."""
    return [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays]


def numba_generator(function):
    """Return the kernel generator of a Numba function."""
    return lambda *, outs, **_: brainevent.numba_kernel(function, outs=outs)


@dataclass(frozen=True)
class Animal:
    """An operator as a function of arrays, its twin in jax.numpy, and operands of length n."""

    name: str
    call: Callable[..., Any]
    twin: Callable[..., Any]
    operands: Callable[[int], tuple[Any, ...]]
    moving: tuple[int, ...]  # the operands with derivatives
    linear: tuple[int, ...] = ()  # the operands in which it is linear, all at once

    def floats(self, function):
        """Return a function of the moving operands alone, to the sum of squares of its float results."""

        def scalar(*moving, operands):
            filled = list(operands)
            for i, x in zip(self.moving, moving, strict=True):
                filled[i] = x
            results = jax.tree.leaves(function(*filled))
            return sum((jnp.sin(x) * x).sum() for x in results if jnp.issubdtype(x.dtype, jnp.floating))

        return scalar


def ramp(*shape, start=0.1, step=0.3):
    return (start + step * np.arange(np.prod(shape, dtype=int))).reshape(shape).astype(np.float32)


@numba.njit
def multiply(x, y, out):
    for i in range(out.size):
        out[i] = x[i] * y[i]


def with_numba(function):
    """Return what registers the Numba kernel of a function."""
    return lambda op: op.def_numba_kernel(numba_generator(function))


multiply_with_numba = with_numba(multiply)


def product(name="product", register=multiply_with_numba):
    """Elementwise, with the author's rules, which use the operator."""
    op = XLACustomKernel(f"zoo_{name}")
    register(op)
    call = lambda x, y: op(x, y, outs=like(x)[0])
    op.def_jvp_rule2(lambda t, x, y, **_: call(t, y), lambda t, x, y, **_: call(x, t))

    def transpose(cts, x, y, **_):
        if jax.interpreters.ad.is_undefined_primal(x):
            return call(cts[0], y), None
        return None, call(x, cts[0])

    op.def_transpose_rule(transpose)
    return Animal(name, call, lambda x, y: x * y, lambda n: (ramp(n), ramp(n, start=1.0)), (0, 1), (1,))


@numba.njit
def sine(x, out):
    for i in range(x.size):
        out[i] = np.sin(x[i])


def sines():
    """Not linear, with one jvp rule in jax.numpy."""
    op = XLACustomKernel("zoo_sine")
    op.def_numba_kernel(numba_generator(sine))
    op.def_jvp_rule2(lambda t, x, **_: t * jnp.cos(x))
    return Animal("sine", lambda x: op(x, outs=like(x)[0]), jnp.sin, lambda n: (ramp(n),), (0,))


@numba.njit
def dot_rows(w, x, out):
    for i in range(w.shape[0]):
        out[i] = 0
        for j in range(w.shape[1]):
            out[i] += w[i, j] * x[j]


dot_rows_with_numba = with_numba(dot_rows)


def matvec(name="matvec", register=dot_rows_with_numba, rows=lambda n: n + 1):
    """Contracts a dimension; both operands have derivatives; the transpose uses the operator again."""
    op = XLACustomKernel(f"zoo_{name}")
    register(op)
    call = lambda w, x: op(w, x, outs=jax.ShapeDtypeStruct(w.shape[:1], x.dtype))
    op.def_jvp_rule2(lambda t, w, x, **_: call(t, x), lambda t, w, x, **_: call(w, t))

    def transpose(cts, w, x, **_):
        if jax.interpreters.ad.is_undefined_primal(w):
            return jnp.outer(cts[0], x), x
        return w, call(w.T, cts[0])

    op.def_transpose_rule(transpose)
    return Animal(name, call, lambda w, x: w @ x, lambda n: (ramp(rows(n), n), ramp(n)), (0, 1), (1,))


@numba.njit
def add_and_multiply(x, y, product, total):
    for i in range(x.size):
        total[i] = x[i] + y[i]
        product[i] = x[i] * y[i]


def sum_and_product():
    """Several results, in a dictionary, with one rule for all."""
    op = XLACustomKernel("zoo_sum_and_product")
    op.def_numba_kernel(numba_generator(add_and_multiply))
    call = lambda x, y: op(x, y, outs={"sum": like(x)[0], "product": like(x)[0]})

    def rule(primals, tangents, **params):
        (x, y), (s, t) = primals, (jax.interpreters.ad.instantiate_zeros(t) for t in tangents)
        return op.primitive.bind(x, y, **params), [s * y + x * t, s + t]

    op.def_jvp_rule(rule)
    twin = lambda x, y: {"sum": x + y, "product": x * y}
    return Animal("sum_and_product", call, twin, lambda n: (ramp(n), ramp(n, start=1.0)), (0, 1))


@numba.njit
def take(x, index, out):
    for i in range(index.size):
        out[i] = x[index[i]]


def gather():
    """An operand of integers."""
    op = XLACustomKernel("zoo_gather")
    op.def_numba_kernel(numba_generator(take))
    call = lambda x, index: op(x, index, outs=jax.ShapeDtypeStruct(index.shape, x.dtype))
    op.def_jvp_rule2(lambda t, x, index, **_: call(t, index), None)
    op.def_transpose_rule(lambda cts, x, index, **_: (jnp.zeros(x.aval.shape).at[index].add(cts[0]), None))
    operands = lambda n: (ramp(n + 1), (np.arange(n) * 2 % (n + 1)).astype(np.int32))
    return Animal("gather", call, lambda x, index: jnp.take(x, index), operands, (0,), (0,))


@numba.njit
def mask(keep, x, out, count):
    count[()] = 0
    for i in range(x.size):
        out[i] = x[i] ** 2 if keep[i] else 0
        count[()] += keep[i]


def masked():
    """Booleans go in, integers come out; derivatives come from the reference."""
    op = XLACustomKernel("zoo_masked")
    op.def_numba_kernel(numba_generator(mask))
    twin = op.def_reference(lambda keep, x: (jnp.where(keep, x**2, 0), keep.sum(dtype=jnp.int32)))
    return Animal("masked", lambda keep, x: op(keep, x), twin, lambda n: (np.arange(n) % 2 == 0, ramp(n)), (1,))


def reference_only():
    """No kernel and no rule."""
    op = XLACustomKernel("zoo_reference_only")
    twin = op.def_reference(lambda x, y: jnp.tanh(x) * y[::-1])
    return Animal("reference_only", lambda x, y: op(x, y), twin, lambda n: (ramp(n), ramp(n)), (0, 1), (1,))


@numba.njit
def cube(x, y, out):
    for i in range(x.size):
        out[i] = x[i] ** 3 * y[()]


def cubes():
    """Numba and a reference, no rule; a scalar operand."""
    op = XLACustomKernel("zoo_cubes")
    op.def_numba_kernel(numba_generator(cube))
    twin = op.def_reference(lambda x, y: x**3 * y)
    call = lambda x, y: op(x, y, outs=like(x))
    return Animal("cubes", call, lambda x, y: [twin(x, y)], lambda n: (ramp(n), np.float32(1.5)), (0, 1), (1,))


def pallas():
    """A Pallas kernel, interpreted."""

    def kernel(x, y, out):
        out[...] = x[...] * y[...] + y[...]

    def generator(*, outs):
        return pl.pallas_call(kernel, out_shape=like(outs[0])[0], interpret=True)

    op = XLACustomKernel("zoo_pallas")
    op.def_kernel("pallas", "cpu", generator)
    twin = op.def_reference(lambda x, y: x * y + y)
    return Animal("pallas", lambda x, y: op(x, y), twin, lambda n: (ramp(n), ramp(n, start=2.0)), (0, 1), (1,))


def plain():
    """A kernel in jax.numpy; rules that are nothing but jax.numpy."""
    op = XLACustomKernel("zoo_plain")
    op.def_kernel("jnp", "cpu", lambda *, outs: lambda x: jnp.cumsum(x))
    op.def_jvp_rule2(lambda t, x, **_: [jnp.cumsum(t)])
    return Animal("plain", lambda x: op(x, outs=like(x)[0]), jnp.cumsum, lambda n: (ramp(n),), (0,))


def callback():
    """A kernel that has no vmap of its own."""

    def generator(*, outs):
        return lambda x, y: jax.pure_callback(lambda x, y: np.asarray(x) * np.asarray(y), like(outs[0])[0], x, y)

    op = XLACustomKernel("zoo_callback")
    op.def_kernel("python", "cpu", generator)
    twin = op.def_reference(lambda x, y: x * y)
    return Animal("callback", lambda x, y: op(x, y), twin, lambda n: (ramp(n), ramp(n, start=2.0)), (0, 1), (0,))


def by_scan():
    """Batched by the general rule."""
    op = XLACustomKernel("zoo_by_scan")
    op.def_numba_kernel(numba_generator(multiply))
    op.register_general_batching()
    twin = op.def_reference(lambda x, y: x * y)
    return Animal("by_scan", lambda x, y: op(x, y), twin, lambda n: (ramp(n), ramp(n, start=2.0)), (0, 1), (1,))


def by_author():
    """Batched by its author: any shape will do."""
    op = XLACustomKernel("zoo_by_author")
    op.def_kernel("jnp", "cpu", lambda *, outs: lambda x, y: jnp.sin(x) * y)

    def batch(args, axes, *, outs):
        size = next(x.shape[a] for x, a in zip(args, axes, strict=True) if a is not None)
        x, y = (
            jnp.broadcast_to(x, (size, *x.shape)) if a is None else jnp.moveaxis(x, a, 0)
            for x, a in zip(args, axes, strict=True)
        )
        return [op(x, y, outs=like(x)[0])], [0]

    op.def_batching_rule(batch)
    op.def_jvp_rule2(lambda t, x, y, **_: jnp.cos(x) * y * t, lambda t, x, y, **_: jnp.sin(x) * t)
    call = lambda x, y: op(x, y, outs=like(x)[0])
    return Animal("by_author", call, lambda x, y: jnp.sin(x) * y, lambda n: (ramp(n), ramp(n)), (0, 1))


ANIMALS = {
    animal.name: animal
    for animal in (
        product(), sines(), matvec(), sum_and_product(), gather(), masked(), reference_only(), cubes(), pallas(),
        plain(), callback(), by_scan(), by_author(),
    )
}  # fmt: skip
