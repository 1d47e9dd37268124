# SPDX-License-Identifier: Apache-2.0
"""Numba-CUDA on the GPU, with no Python at run time; on the CPU, where `numba.cuda` is Numba's simulator."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import jax.numpy as jnp

from ...ffi.arguments import canonical_outs, check_operands, check_vmap_method, checked_aliases, flat_outs
from ...ffi.call import native_call
from ...ffi.launch import Configuration
from ...languages import numba_cuda_is_simulated
from .arguments import title_of

__all__ = ["numba_cuda_callable", "numba_cuda_kernel"]

importlib.import_module("numba.cuda")  # from now on it is Numba's simulator, or is not
_here: ModuleType = importlib.import_module(
    ".simulated" if numba_cuda_is_simulated() else ".native", package=__package__
)


def numba_cuda_kernel(
    kernel: Any,
    outs: Any,
    *,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    launch_dims: int | Sequence[int] | None = None,
    threads_per_block: int = 256,
    shared_mem: int = 0,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., Any]:
    """Return a JAX function that runs a Numba-CUDA kernel `kernel(*inputs, *outputs)`, which writes its outputs.

    The launch is given as `grid` and `block`, or as `launch_dims`, the number of threads along up to three axes.
    `outs` is a pytree of objects with shape and dtype; results have its structure. Under `vmap` a native loop launches
    the kernel for each element, whichever `vmap_method` is named.
    """
    where = f"numba_cuda_kernel({title_of(kernel)})"
    configuration = Configuration.checked(where, grid, block, launch_dims, threads_per_block, shared_mem)
    check_vmap_method(where, vmap_method)
    declared, tree = flat_outs(where, outs)
    _check_kernel(where, kernel)

    def call(*operands: Any) -> Any:
        check_operands(where, operands)
        avals = canonical_outs(declared)
        aliases = checked_aliases(where, input_output_aliases or {}, operands, avals)
        target = _here.kernel_target(where, kernel, configuration, operands, avals, aliases)
        return tree.unflatten(native_call(target, operands, avals, aliases))

    return call


def _check_kernel(where: str, kernel: Any) -> None:
    if isinstance(kernel, _here.KERNEL):
        return
    hint = "decorate it with @numba.cuda.jit" if callable(kernel) else "pass a function decorated with @numba.cuda.jit"
    if hasattr(kernel, "py_func"):
        hint = "it is compiled for the CPU: decorate the function with @numba.cuda.jit, or use numba_kernel"
    raise TypeError(f"{where}: kernel must be a Numba-CUDA dispatcher, found {type(kernel).__name__}; {hint}")


def numba_cuda_callable(
    func: Callable[..., Any],
    outs: Any,
    *,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., Any]:
    """Return a JAX function that runs what `func(*inputs, *outputs, stream)` launches, in the order of its launches.

    `func` is called once, while JAX traces, with stand-ins for arrays and for the stream: its launches become one
    native call, and its temporaries (`cuda.device_array`) hidden results. A function that does more, such as to wait
    or to read values, is called for every run instead, which costs a hundred times as much; a warning says so, and why.
    """
    if not callable(func):
        raise TypeError(f"numba_cuda_callable: func must be a function, found {type(func).__name__}")
    where = f"numba_cuda_callable({getattr(func, '__name__', type(func).__name__)})"
    check_vmap_method(where, vmap_method)
    declared, tree = flat_outs(where, outs)

    def call(*operands: Any) -> Any:
        arrays, avals = [jnp.asarray(x) for x in operands], canonical_outs(declared)
        aliases = checked_aliases(where, input_output_aliases or {}, arrays, avals)
        target, hidden = _here.function_target(where, func, arrays, avals)
        results = native_call(target, arrays, (*avals, *hidden), aliases, vmap_method)
        return tree.unflatten(results[: len(avals)])

    return call
