# SPDX-License-Identifier: Apache-2.0
"""The same function, out = a + b, in every way that JAX can call one: (n,) + (n,) -> (n,)."""

import functools
import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.probes.cpp import build_handlers, register_handler

Contender = Callable[[jax.Array, jax.Array], jax.Array]
SIZE = 64


def example() -> tuple[jax.Array, jax.Array]:
    """The operands of most probes: (64,), (64,)."""
    return jnp.arange(SIZE, dtype=jnp.float32), jnp.ones(SIZE, jnp.float32)


def like(array: Any) -> jax.ShapeDtypeStruct:
    """The shape and dtype of an operand, which are the result's too."""
    return jax.ShapeDtypeStruct(array.shape, array.dtype)


# As users do: a callable for one shape is made once. Only the last is kept, so that `memory` counts none of ours.
keep_last = functools.lru_cache(maxsize=1)


def make_jax_add() -> Contender:
    """JAX's own addition, which XLA fuses: no call at all."""
    return jnp.add


def make_cpp(symbol: str = "Add", vmap_method: str | None = None) -> Contender:
    """A C++ handler."""
    target = register_handler(build_handlers(), symbol, f"bench_cpp_{symbol.lower()}")
    build = keep_last(lambda out: jax.ffi.ffi_call(target, out, vmap_method=vmap_method))
    return lambda a, b: build(like(a))(a, b)


def make_numba_add() -> Any:
    """The Numba function: inputs first, then the output, written in place."""
    import numba

    @numba.njit
    def add(a: Any, b: Any, out: Any) -> None:
        for i in range(out.size):
            out[i] = a[i] + b[i]

    return add


def make_numba_kernel() -> Contender:
    """`brainevent.numba_kernel`, called directly."""
    import brainevent

    add = make_numba_add()
    build = keep_last(lambda out: brainevent.numba_kernel(add, outs=[out]))
    return lambda a, b: build(like(a))(a, b)[0]


def make_operator(name: str = "bench_add", general_batching: bool = False) -> Contender:
    """The same kernel through an `XLACustomKernel`; `general_batching` makes its vmap a scan."""
    import brainevent

    add = make_numba_add()
    operator = brainevent.XLACustomKernel(name)
    operator.def_numba_kernel(lambda *, outs, **_: brainevent.numba_kernel(add, outs=outs))
    if general_batching:
        operator.register_general_batching()
    return lambda a, b: operator(a, b, outs=[like(a)])[0]


def make_pure_callback() -> Contender:
    """NumPy, called back by XLA."""

    def add(a: Any, b: Any) -> Any:
        return np.asarray(a) + np.asarray(b)

    return lambda a, b: jax.pure_callback(add, like(a), a, b)


def make_warp() -> Contender:
    """A Warp kernel on the CPU."""
    warp = importlib.import_module("warp")
    warp.config.quiet = True
    # Older releases keep it elsewhere.
    holder = warp if hasattr(warp, "jax_kernel") else importlib.import_module("warp.jax_experimental")
    vector: Any = warp.array(dtype=warp.float32)

    def add(a, b, out):  # type: ignore[no-untyped-def]
        i = warp.tid()
        out[i] = a[i] + b[i]

    add.__annotations__ = {"a": vector, "b": vector, "out": vector}
    call = holder.jax_kernel(warp.kernel(add))
    return lambda a, b: call(a, b)[0]
