# SPDX-License-Identifier: Apache-2.0
"""The transformations of JAX, each as a function of an animal of the zoo, what it is called by, and its operands."""

import jax
import jax.numpy as jnp
import numpy as np


def same(found, expected):
    """Hold a pytree of arrays to another: structure, shapes, dtypes and values."""
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for got, want in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert (jnp.shape(got), jnp.result_type(got)) == (jnp.shape(want), jnp.result_type(want))
        if getattr(want, "dtype", None) != jax.dtypes.float0:
            scale = np.max(np.abs(want), initial=1)
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 * scale)


def varied(x, size, axis):
    """Return a batch of variants of an operand, along an axis; no variant is like another."""
    x = np.asarray(x)
    variants = [x * np.float32(1 + 0.3 * k) if x.dtype == np.float32 else np.roll(x, k) for k in range(size)]
    stacked = np.stack(variants) if size else np.zeros((0, *x.shape), x.dtype)
    return np.moveaxis(stacked, 0, axis)


def batched_operands(operands, size, axes=0):
    axes = [axes] * len(operands) if isinstance(axes, int) else axes
    return [x if a is None else varied(x, size, a) for x, a in zip(operands, axes, strict=True)]


def tangents(operands, scale=0.5):
    """Return a tangent per operand, float0 for integers."""
    return [
        scale + np.sin(x) if x.dtype == np.float32 else np.zeros(x.shape, jax.dtypes.float0)
        for x in map(np.asarray, operands)
    ]


def over(transform):
    """Make a transformation of scalar functions one of operators: of the sum of its results' squares."""

    def apply(animal, f, operands):
        moving = [operands[i] for i in animal.moving]
        scalar = lambda *moving: animal.floats(f)(*moving, operands=operands)
        return transform(scalar, range(len(moving)), moving)

    return apply


def vmapped(size, axes=0, out_axes=0, depth=1):
    def apply(_, f, operands):
        for _ in range(depth):
            f, operands = jax.vmap(f, axes, out_axes), batched_operands(operands, size, axes)
        return f(*operands)

    return apply


def only_first(size):
    """Map the first operand; the last of all, where there are several, stays."""

    def apply(_, f, operands):
        axes = [0, *[None] * (len(operands) - 1)]
        return jax.vmap(f, axes)(*batched_operands(operands, size, axes))

    return apply


def jvp(f, operands):
    return jax.jvp(f, tuple(operands), tuple(tangents(operands)))


def vjp(f, operands):
    results, pull = jax.vjp(f, *operands)
    cts = jax.tree.map(
        lambda x: jnp.ones_like(x) * 0.7 if x.dtype == jnp.float32 else np.zeros(x.shape, jax.dtypes.float0), results
    )
    return results, pull(cts)


def grad_of_vmap(animal, f, operands):
    batch = batched_operands(operands, 2)
    scalar = lambda *moving: animal.floats(jax.vmap(f))(*moving, operands=batch)
    return jax.grad(scalar, range(len(animal.moving)))(*(batch[i] for i in animal.moving))


def vmap_of_grad(animal, f, operands):
    batch = batched_operands(operands, 2)
    gradient = lambda *operands: over(lambda s, nums, m: jax.grad(s, nums)(*m))(animal, f, operands)
    return jax.vmap(gradient)(*batch)


def vmap_of_grad_by_last(animal, f, operands):
    """The gradient of what is not mapped, too: it is summed nowhere."""
    axes = [None] * (len(operands) - 1) + [0]
    gradient = lambda *operands: over(lambda s, nums, m: jax.grad(s, nums)(*m))(animal, f, operands)
    return jax.vmap(gradient, axes)(*batched_operands(operands, 2, axes))


def grad_through_unmapped(animal, f, operands):
    """The gradient by an operand that vmap does not map: a sum over the batch."""
    axes = [None] * (len(operands) - 1) + [0]
    batch = batched_operands(operands, 3, axes)
    scalar = lambda *moving: animal.floats(jax.vmap(f, axes))(*moving, operands=batch)
    return jax.grad(scalar, range(len(animal.moving)))(*(batch[i] for i in animal.moving))


def linear_transpose(animal, f, operands):
    i = animal.linear[0]
    of_one = lambda x: f(*operands[:i], x, *operands[i + 1 :])
    results = of_one(operands[i])
    return jax.linear_transpose(of_one, operands[i])(jax.tree.map(lambda x: x + 1, results))


def vmap_of_linear_transpose(animal, f, operands):
    i = animal.linear[0]
    batch = batched_operands(operands, 2)
    transposed = lambda ct, *operands: jax.linear_transpose(
        lambda x: f(*operands[:i], x, *operands[i + 1 :]), operands[i]
    )(ct)
    return jax.vmap(transposed)(jax.tree.map(lambda x: x + 1, jax.vmap(f)(*batch)), *batch)


def transpose_of_vmap(animal, f, operands):
    """Transpose a batch whose linear operand is not mapped: its cotangents are summed."""
    i = animal.linear[0]
    axes = [None if k == i else 0 for k in range(len(operands))]
    batch = batched_operands(operands, 2, axes)
    of_one = lambda x: jax.vmap(f, axes, axis_size=2)(*batch[:i], x, *batch[i + 1 :])
    if len(operands) == 1:
        of_one = lambda x: jax.vmap(lambda _: f(x))(jnp.arange(2))
    return jax.linear_transpose(of_one, operands[i])(jax.tree.map(lambda x: x + 1, of_one(operands[i])))


def scan(_, f, operands):
    return jax.lax.scan(lambda c, x: (c + 1, f(*x)), 0, tuple(batched_operands(operands, 3)))


def grad_of_scan(animal, f, operands):
    def scanned(*operands):
        return jax.lax.scan(lambda c, x: (c + 1, f(*x)), 0, operands)[1]

    return grad_of(animal, scanned, batched_operands(operands, 2))


def grad_of(animal, f, operands):
    return over(lambda s, nums, m: jax.grad(s, nums)(*m))(animal, f, operands)


def while_loop(_, f, operands):
    zero = jax.tree.map(jnp.zeros_like, f(*operands))
    add = lambda a, b: jax.tree.map(jnp.add, a, b)
    return jax.lax.while_loop(lambda c: c[0] < 2, lambda c: (c[0] + 1, add(c[1], f(*operands))), (0, zero))


def vmap_of_while(_, f, operands):
    """Loops of different lengths, in one batch."""
    batch = batched_operands(operands, 2)

    def loop(stop, *operands):
        zero = jax.tree.map(jnp.zeros_like, f(*operands))
        return jax.lax.while_loop(
            lambda c: c[0] < stop, lambda c: (c[0] + 1, jax.tree.map(jnp.add, c[1], f(*operands))), (0, zero)
        )

    return jax.vmap(loop)(jnp.array([1, 3]), *batch)


def cond(_, f, operands):
    other = lambda *operands: jax.tree.map(jnp.zeros_like, f(*operands))
    return [jax.lax.cond(jnp.asarray(choice), f, other, *operands) for choice in (True, False)]


def vmap_of_cond(_, f, operands):
    other = lambda *operands: jax.tree.map(jnp.zeros_like, f(*operands))
    choose = lambda choice, *operands: jax.lax.cond(choice, f, other, *operands)
    return jax.vmap(choose)(jnp.array([True, False]), *batched_operands(operands, 2))


def fori(_, f, operands):
    start = jax.tree.map(jnp.zeros_like, f(*operands))
    return jax.lax.fori_loop(0, 2, lambda i, c: jax.tree.map(jnp.add, c, f(*operands)), start)


def named_axis(_, f, operands):
    def summed(*operands):
        return jax.tree.map(lambda x: jax.lax.psum(x, "batch"), f(*operands))

    return jax.vmap(summed, axis_name="batch")(*batched_operands(operands, 3))


def custom_vjp(animal, f, operands):
    wrapped = jax.custom_vjp(f)
    wrapped.defvjp(lambda *xs: (f(*xs), xs), lambda xs, cts: tuple(vjp_of(f, xs, cts)))
    return grad_of(animal, wrapped, operands)


def vjp_of(f, operands, cts):
    return jax.vjp(f, *operands)[1](cts)


def donated(_, f, operands):
    copies = [jnp.array(x) for x in operands]
    return jax.jit(lambda x, *rest: (f(x, *rest), x + 1 if x.dtype == jnp.float32 else x), donate_argnums=0)(*copies)


TRANSFORMATIONS = {
    "jit": lambda _, f, xs: f(*xs),
    "vmap": vmapped(3),
    "vmap of the last axis": vmapped(2, -1, -1),
    "vmap of vmap": vmapped(2, depth=2),
    "vmap sized 0": vmapped(0),
    "vmap sized 1": vmapped(1),
    "vmap of vmap sized 0": vmapped(0, depth=2),
    "vmap of one operand": only_first(2),
    "vmap with an axis name": named_axis,
    "jit of vmap": lambda _, f, xs: jax.jit(jax.vmap(f))(*batched_operands(xs, 2)),
    "vmap of jit": lambda _, f, xs: jax.vmap(jax.jit(f))(*batched_operands(xs, 2)),
    "jvp": lambda _, f, xs: jvp(f, xs),
    "vjp": lambda _, f, xs: vjp(f, xs),
    "grad": grad_of,
    "jacfwd": over(lambda s, nums, m: jax.jacfwd(s, nums)(*m)),
    "jacrev": over(lambda s, nums, m: jax.jacrev(s, nums)(*m)),
    "hessian": over(lambda s, nums, m: jax.hessian(s, nums)(*m)),
    "jvp of jvp": lambda _, f, xs: jvp_float(lambda *ys: jvp_float(f, ys, xs), xs, xs),
    "linearize": over(lambda s, nums, m: jax.linearize(s, *m)[1](*tangents(m))),
    "checkpoint": lambda animal, f, xs: grad_of(animal, jax.checkpoint(f), xs),
    "checkpoint of vmap": lambda animal, f, xs: grad_of(animal, jax.checkpoint(jax.vmap(f)), batched_operands(xs, 2)),
    "linear_transpose": linear_transpose,
    "vmap of linear_transpose": vmap_of_linear_transpose,
    "linear_transpose of vmap": transpose_of_vmap,
    "grad of vmap": grad_of_vmap,
    "grad of vmap, by what is not mapped": grad_through_unmapped,
    "vmap of grad": vmap_of_grad,
    "vmap of grad, one operand": vmap_of_grad_by_last,
    "vmap of jvp": lambda _, f, xs: jax.vmap(lambda *ys: jvp_float(f, ys, xs))(*batched_operands(xs, 2)),
    "jvp of vmap": lambda _, f, xs: jvp(jax.vmap(f), batched_operands(xs, 2)),
    "vmap of hessian": lambda animal, f, xs: jax.vmap(
        lambda *ys: over(lambda s, nums, m: jax.hessian(s)(*m))(animal, f, ys)
    )(*batched_operands(xs, 2)),
    "hessian of vmap": lambda animal, f, xs: over(lambda s, nums, m: jax.hessian(s)(*m))(
        animal, jax.vmap(f), batched_operands(xs, 2)
    ),
    "scan": scan,
    "grad of scan": grad_of_scan,
    "vmap of scan": lambda _, f, xs: jax.vmap(lambda *ys: jax.lax.scan(lambda c, _: (c, f(*ys)), 0, None, length=2))(
        *batched_operands(xs, 2)
    ),
    "while": while_loop,
    "vmap of while": vmap_of_while,
    "cond": cond,
    "vmap of cond": vmap_of_cond,
    "fori_loop": fori,
    "custom_vjp": custom_vjp,
    "donation": donated,
}


def jvp_float(f, operands, like):
    """Differentiate by the operands that are floats."""
    moving = [i for i, x in enumerate(like) if x.dtype == jnp.float32]

    def of_moving(*values):
        filled = list(operands)
        for i, x in zip(moving, values, strict=True):
            filled[i] = x
        return [x for x in jax.tree.leaves(f(*filled)) if x.dtype == jnp.float32]

    primals = tuple(operands[i] for i in moving)
    return jax.jvp(of_moving, primals, tuple(jnp.cos(x) for x in primals))
