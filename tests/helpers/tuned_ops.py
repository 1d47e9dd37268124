# SPDX-License-Identifier: Apache-2.0
"""An operator with kernels of clearly different speed, for tests in this process and in others."""

import jax
import jax.numpy as jnp

import brainevent

X = jnp.arange(1.0, 65.0)
OUT = jax.ShapeDtypeStruct(X.shape, X.dtype)


def slow(*, outs, turns):
    return lambda x: 2 * jax.lax.fori_loop(0, turns, lambda i, y: jnp.cos(y) * 0 + x, x)


def fast(*, outs):
    return lambda x: x + x


def wrong(*, outs):
    return lambda x: x + 1


def reference(x):
    return 2 * jax.lax.fori_loop(0, 500, lambda i, y: jnp.sin(y) * 0 + x, x)


def doubling(name, *, variants=(5_000,), default="slow"):
    """Return an operator whose default is slow, and that has one fast kernel and a faster wrong one."""
    operator = brainevent.XLACustomKernel(name)
    operator.def_kernel("slow", "cpu", slow, variants={"turns": variants})
    operator.def_kernel("fast", "cpu", fast)
    operator.def_kernel("wrong", "cpu", wrong)
    operator.def_reference(reference)
    operator.set_default("cpu", default)
    return operator


def chosen(operator, x=X, **kwargs):
    """Return which kernel a call of `doubling` runs, and how many turns if it is the slow one."""
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return read(jax.jit(lambda x: operator(x, outs=out, **kwargs)), x)


def read(jitted, x=X):
    """Return which kernel is in a jitted function, by its program."""
    text = jitted.lower(x).as_text()
    if "stablehlo.sine" in text:
        return "reference"
    if "stablehlo.cosine" in text:
        return next(f"slow {turns}" for turns in (5_000, 7, 5) if f"dense<{turns}>" in text)
    return "fast" if "1.000000e+00" not in text else "wrong"
