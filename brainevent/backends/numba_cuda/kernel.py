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
from ...typing import PyTree, TypesLike
from . import mlir
from .arguments import title_of
from .emulation import is_simulated

__all__ = ["numba_cuda_callable", "numba_cuda_kernel"]

importlib.import_module("numba.cuda")  # this import decides whether it is Numba's simulator
_here: ModuleType = importlib.import_module(".simulated" if is_simulated() else ".native", package=__package__)


def numba_cuda_kernel(
    kernel: Callable[..., None],
    outs: TypesLike,
    *,
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    launch_dims: int | Sequence[int] | None = None,
    threads_per_block: int = 256,
    shared_mem: int = 0,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., PyTree]:
    """Return a JAX function that runs a Numba-CUDA kernel on a GPU.

    The kernel is called as `kernel(*inputs, *outputs)`, and writes its outputs. Give either `grid` and `block`, or
    `launch_dims`.

    Args:
        kernel: A function decorated with `numba.cuda.jit`, or with `numba_cuda_mlir.cuda.jit`.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
        grid: The number of blocks, along up to three axes.
        block: The number of threads of a block, along up to three axes.
        launch_dims: The number of threads, along up to three axes.
        threads_per_block: The threads of a block, where `launch_dims` is given.
        shared_mem: Bytes of dynamic shared memory of a block.
        vmap_method: Accepted, as for `jax.ffi.ffi_call`. A native loop launches the kernel for each element.
        input_output_aliases: Outputs that start with the content of an input, in its memory: `{input: output}`, by
            number.

    Returns:
        A function of the inputs. Its results have the structure of `outs`.

    Raises:
        TypeError: If `kernel` is not compiled by Numba for GPUs.
        KernelArgumentError: If the launch configuration is not valid.
        KernelNotAvailableError: If Numba-CUDA is not installed.

    Examples:
        >>> import jax, jax.numpy as jnp, brainevent
        >>> from numba import cuda  # doctest: +SKIP
        >>> @cuda.jit  # doctest: +SKIP
        ... def add(a, b, out):
        ...     i = cuda.grid(1)
        ...     if i < out.size:
        ...         out[i] = a[i] + b[i]
        >>> x = jnp.arange(3.0)
        >>> brainevent.numba_cuda_kernel(add, outs=x, launch_dims=x.shape)(x, x)  # doctest: +SKIP
        Array([0., 2., 4.], dtype=float32)
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
    if isinstance(kernel, _here.KERNEL) or (mlir.is_kernel(kernel) and not is_simulated()):
        return
    if mlir.is_kernel(kernel):
        raise TypeError(
            f"{where}: the kernel is one of numba-cuda-mlir, which has no simulator; for emulation decorate it with "
            "@numba.cuda.jit"
        )
    hint = "decorate it with @numba.cuda.jit" if callable(kernel) else "pass a function decorated with @numba.cuda.jit"
    if hasattr(kernel, "py_func"):
        hint = "it is compiled for the CPU: decorate the function with @numba.cuda.jit, or use numba_kernel"
    raise TypeError(f"{where}: kernel must be a Numba-CUDA dispatcher, found {type(kernel).__name__}; {hint}")


def numba_cuda_callable(
    func: Callable[..., None],
    outs: TypesLike,
    *,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., PyTree]:
    """Return a JAX function that runs several Numba-CUDA kernels, in the order in which a function launches them.

    `func(*inputs, *outputs, stream)` is called once, while JAX traces, with stand-ins for arrays and for the stream.
    Its launches become one native call, and its temporaries (`cuda.device_array`) hidden results. A function that does
    more, such as waiting or reading values, is called through Python in every run, which takes a hundred times as long;
    a warning says why.

    Args:
        func: The function that launches kernels.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
        vmap_method: How `jax.vmap` calls the kernel, as for `jax.ffi.ffi_call`; None for a native loop over the batch.
        input_output_aliases: Outputs that start with the content of an input, in its memory: `{input: output}`, by
            number.

    Returns:
        A function of the inputs. Its results have the structure of `outs`.

    Raises:
        TypeError: If `func` is not callable.
        KernelNotAvailableError: If Numba-CUDA is not installed.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> from numba import cuda  # doctest: +SKIP
        >>> @cuda.jit  # doctest: +SKIP
        ... def double(a, out):
        ...     i = cuda.grid(1)
        ...     if i < out.size:
        ...         out[i] = 2 * a[i]
        >>> def four_times(a, out, stream):
        ...     half = cuda.device_array(a.shape, a.dtype)
        ...     double[1, 32, stream](a, half)
        ...     double[1, 32, stream](half, out)
        >>> x = jnp.arange(3.0)
        >>> brainevent.numba_cuda_callable(four_times, outs=x)(x)  # doctest: +SKIP
        Array([0., 4., 8.], dtype=float32)
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
