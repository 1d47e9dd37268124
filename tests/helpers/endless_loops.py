# SPDX-License-Identifier: Apache-2.0
"""The beginning of programs whose loops would run for hours, and what interrupts them."""

__all__ = ["HEAD"]

# Loops that would run for hours, and a kernel that presses Ctrl-C in their first step.
HEAD = """
    import ctypes, os, re, signal, sys, threading, time, traceback
    import jax, jax.numpy as jnp, numba, numpy as np
    from jax import lax
    import brainevent as be

    send = numba.types.ExternalFunction("raise", numba.types.int32(numba.types.int32))

    SENT = int(signal.SIGINT)

    @numba.njit
    def press(step, v, out):
        if step[0] == 2:
            send(SENT)
        for k in range(v.size):
            out[k] = v[k]

    pressed = be.XLACustomKernel("pressed")
    pressed.def_numba_kernel(lambda *, outs: be.numba_kernel(press, outs=outs))

    def endless(v, steps=2 * 10**9, presses=True):
        def step(carry, _):
            count, v = carry
            v = jnp.where(v > 1, v - 2, v * 0.5 + 0.75)
            if presses:
                [v] = pressed(count[None], v, outs=[jax.ShapeDtypeStruct(v.shape, v.dtype)])
            return (jnp.minimum(count + 1, 10), v), None

        start = jnp.where(v[0] == 0, 0, 10).astype(jnp.int32)  # one element of a batch presses, and one device
        return lax.scan(step, (start, v), None, length=steps)[0][1]

    def heavy(v):
        large = jnp.outer(v, v)
        return jnp.cos(v @ large) @ large  # so that XLA runs the program on a thread of its own

    v = jnp.linspace(0, 1, 256)
    be.config.fuse_loops()

    def interrupted(run, *args):
        try:
            try:
                run(*args)
            except KeyboardInterrupt:
                return "KeyboardInterrupt"
            return "nothing was raised"
        except KeyboardInterrupt:
            return "KeyboardInterrupt, late"
"""
