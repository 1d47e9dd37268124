# SPDX-License-Identifier: Apache-2.0
"""Numba-CUDA on the GPU: a compiled kernel as a launch plan, with no Python at run time."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numba.cuda.dispatcher import CUDADispatcher

from ..._compat import ShapedArray
from ...errors import KernelArgumentError
from ...ffi.arguments import check_operands, check_vmap_method, checked_aliases, flat_outs
from ...ffi.call import native_call
from ...ffi.launch import Configuration, Launch, LaunchPlan, PlanTarget, check_limits
from .callback import callback_target
from .compiled import compiled, parameters_of
from .record import CannotRecordError, Recording, StandIn, recorded

__all__ = ["numba_cuda_callable", "numba_cuda_kernel"]


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
    where = f"numba_cuda_kernel({_title(kernel)})"
    configuration = Configuration.checked(where, grid, block, launch_dims, threads_per_block, shared_mem)
    check_vmap_method(where, vmap_method)
    avals, tree = flat_outs(where, outs)
    _check_kernel(where, kernel)

    def call(*operands: Any) -> Any:
        check_operands(where, operands)
        aliases = checked_aliases(where, input_output_aliases or {}, operands, avals)
        again = functools.partial(_plan, where, kernel, configuration)
        target = PlanTarget(again(operands, avals), again)
        return tree.unflatten(native_call(target, operands, avals, aliases))

    return call


def _title(kernel: Any) -> str:
    return str(getattr(getattr(kernel, "py_func", kernel), "__name__", type(kernel).__name__))


def _check_kernel(where: str, kernel: Any) -> None:
    if isinstance(kernel, CUDADispatcher):
        return
    hint = "decorate it with @numba.cuda.jit" if callable(kernel) else "pass a function decorated with @numba.cuda.jit"
    if hasattr(kernel, "py_func"):
        hint = "it is compiled for the CPU: decorate the function with @numba.cuda.jit, or use numba_kernel"
    raise TypeError(f"{where}: kernel must be a Numba-CUDA dispatcher, found {type(kernel).__name__}; {hint}")


def _plan(
    where: str, kernel: CUDADispatcher, configuration: Configuration, operands: Sequence[Any], outs: Sequence[Any]
) -> LaunchPlan:
    """Compile the kernel for these arrays, and lay out its launch."""
    arrays = _stand_ins(where, operands, outs)
    if configuration.is_empty:  # no thread writes: what would be undefined is zero
        zeroed = tuple((x.buffer, x.nbytes) for x in arrays[len(operands) :] if x.nbytes)
        return LaunchPlan(_title(kernel), len(arrays), (), zeroed)
    return LaunchPlan(_title(kernel), len(arrays), (_launch(where, kernel, configuration, arrays),))


def _launch(where: str, kernel: CUDADispatcher, configuration: Configuration, arguments: Sequence[Any]) -> Launch:
    code = compiled(where, kernel, arguments)
    parameters, slots = parameters_of(arguments)
    launch = Launch(
        binary=code.binary,
        entry=code.entry,
        title=_title(kernel),
        grid=configuration.grid,
        block=configuration.block,
        parameters=parameters,
        slots=slots,
        shared=configuration.shared,
    )
    check_limits(where, launch, code.limits)
    return launch


def _stand_ins(where: str, operands: Sequence[Any], outs: Sequence[Any]) -> list[StandIn]:
    return [StandIn(i, tuple(x.shape), _dtype(where, x.dtype)) for i, x in enumerate((*operands, *outs))]


def _dtype(where: str, dtype: Any) -> np.dtype[Any]:
    dtype = np.dtype(jax.dtypes.canonicalize_dtype(dtype))
    if dtype.name == "bfloat16" or dtype.kind not in "biufc":
        raise _DtypeError(
            f"{where}: Numba-CUDA kernels take no arrays of {dtype}; convert first, for example x.astype(jnp.float32)"
        )
    return dtype


class _DtypeError(KernelArgumentError, ValueError):
    """An array of a dtype that Numba-CUDA lacks; existing programs expect a ValueError."""


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
    avals, tree = flat_outs(where, outs)

    def call(*operands: Any) -> Any:
        arrays = [jnp.asarray(x) for x in operands]
        aliases = checked_aliases(where, input_output_aliases or {}, arrays, avals)
        try:
            recording = recorded(func, [(x.shape, x.dtype) for x in _stand_ins(where, arrays, avals)])
        except CannotRecordError as reason:
            target: Any = callback_target(where, func, str(reason))
            hidden: tuple[ShapedArray, ...] = ()
        else:
            plan = _recorded_plan(where, recording)
            again = functools.partial(_plan_again, where, func, len(recording.temporaries))
            target = PlanTarget(plan, again)
            hidden = tuple(ShapedArray(x.shape, x.dtype) for x in recording.temporaries)
        results = native_call(target, arrays, (*avals, *hidden), aliases, vmap_method)
        return tree.unflatten(results[: len(avals)])

    return call


def _recorded_plan(where: str, recording: Recording) -> LaunchPlan:
    launches = []
    for record in recording.launches:
        at = f"{where}: {_title(record.kernel)}"
        configuration = Configuration.checked(at, record.grid, record.block, None, 1, record.shared)
        if not configuration.is_empty:
            launches.append(_launch(at, record.kernel, configuration, record.arguments))
    buffers = recording.taken + len(recording.temporaries)
    return LaunchPlan(where.partition("(")[2].rstrip(")"), buffers, tuple(launches))


def _plan_again(
    where: str, func: Callable[..., Any], hidden: int, operands: Sequence[Any], outs: Sequence[Any]
) -> LaunchPlan:
    """Record for arrays of other ranks; there the temporaries have grown an axis, and are given like results."""
    visible = outs[: len(outs) - hidden]
    recording = recorded(func, [(x.shape, x.dtype) for x in _stand_ins(where, operands, visible)])
    sizes = [x.nbytes for x in recording.temporaries]
    room = [int(np.prod(out.shape)) * np.dtype(out.dtype).itemsize for out in outs[len(outs) - hidden :]]
    if len(sizes) != len(room) or any(size > most for size, most in zip(sizes, room, strict=True)):
        raise KernelArgumentError(
            f"{where}: it takes other temporaries for the whole batch than for an element; leave vmap_method out"
        )
    return _recorded_plan(where, recording)
