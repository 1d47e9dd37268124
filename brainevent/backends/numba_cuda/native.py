# SPDX-License-Identifier: Apache-2.0
"""Numba-CUDA on the GPU: compiled kernels as launch plans."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba.cuda.dispatcher import CUDADispatcher

from ..._compat import ShapedArray
from ...errors import KernelArgumentError
from ...ffi.launch import Configuration, Launch, LaunchPlan, PlanTarget, check_limits
from .arguments import checked_dtype, title_of
from .callback import callback_target
from .compiled import compiled, parameters_of
from .record import CannotRecordError, Recording, StandIn, recorded

__all__ = ["KERNEL", "function_target", "kernel_target"]

KERNEL = CUDADispatcher


def kernel_target(
    where: str,
    kernel: CUDADispatcher,
    configuration: Configuration,
    operands: Sequence[Any],
    outs: Sequence[Any],
    aliases: Sequence[tuple[int, int]],
) -> PlanTarget:
    """Return the target that launches a kernel."""
    again = functools.partial(_plan, where, kernel, configuration, frozenset(out for _, out in aliases))
    return PlanTarget(again(operands, outs), again)


def function_target(
    where: str, func: Callable[..., Any], operands: Sequence[Any], outs: Sequence[Any]
) -> tuple[Any, tuple[ShapedArray, ...]]:
    """Return the target that launches a function's kernels, and the types of its temporaries, as further results."""
    try:
        recording = recorded(func, [(x.shape, x.dtype) for x in _stand_ins(where, operands, outs)])
        plan = _recorded_plan(where, recording)
    except CannotRecordError as reason:
        return callback_target(where, func, str(reason)), ()
    again = functools.partial(_plan_again, where, func, len(recording.temporaries))
    hidden = tuple(ShapedArray(x.shape, x.dtype) for x in recording.temporaries)
    return PlanTarget(plan, again), hidden


def _plan(
    where: str,
    kernel: CUDADispatcher,
    configuration: Configuration,
    aliased: frozenset[int],
    operands: Sequence[Any],
    outs: Sequence[Any],
) -> LaunchPlan:
    """Compile the kernel for these arrays, and lay out its launch."""
    arrays = _stand_ins(where, operands, outs)
    if configuration.is_empty:  # no thread writes: outputs are zeros, not undefined
        undefined = [x for i, x in enumerate(arrays[len(operands) :]) if i not in aliased]
        zeroed = tuple((x.buffer, x.nbytes) for x in undefined if x.nbytes)
        return LaunchPlan(title_of(kernel), len(arrays), (), zeroed)
    return LaunchPlan(title_of(kernel), len(arrays), (_launch(where, kernel, configuration, arrays),))


def _launch(where: str, kernel: CUDADispatcher, configuration: Configuration, arguments: Sequence[Any]) -> Launch:
    code = compiled(where, kernel, arguments)
    parameters, slots = parameters_of(arguments)
    launch = Launch(
        binary=code.binary,
        entry=code.entry,
        title=title_of(kernel),
        grid=configuration.grid,
        block=configuration.block,
        parameters=parameters,
        slots=slots,
        shared=configuration.shared,
    )
    check_limits(where, launch, code.limits)
    return launch


def _stand_ins(where: str, operands: Sequence[Any], outs: Sequence[Any]) -> list[StandIn]:
    return [StandIn(i, tuple(x.shape), checked_dtype(where, x.dtype)) for i, x in enumerate((*operands, *outs))]


def _recorded_plan(where: str, recording: Recording) -> LaunchPlan:
    launches = []
    for record in recording.launches:
        at = f"{where}: {title_of(record.kernel)}"
        configuration = Configuration.checked(at, record.grid, record.block, None, 1, record.shared)
        if not configuration.is_empty:
            launches.append(_launch(at, record.kernel, configuration, record.arguments))
    buffers = recording.taken + len(recording.temporaries)
    return LaunchPlan(where.partition("(")[2].rstrip(")"), buffers, tuple(launches))


def _plan_again(
    where: str, func: Callable[..., Any], hidden: int, operands: Sequence[Any], outs: Sequence[Any]
) -> LaunchPlan:
    """Record for arrays of other ranks; the temporaries have one more axis, and are passed like results."""
    visible = outs[: len(outs) - hidden]
    try:
        recording = recorded(func, [(x.shape, x.dtype) for x in _stand_ins(where, operands, visible)])
    except CannotRecordError as reason:
        raise KernelArgumentError(
            f"{where}: for the whole batch, unlike for an element, it {reason}; omit vmap_method"
        ) from None
    sizes = [x.nbytes for x in recording.temporaries]
    room = [int(np.prod(out.shape)) * np.dtype(out.dtype).itemsize for out in outs[len(outs) - hidden :]]
    if len(sizes) != len(room) or any(size > most for size, most in zip(sizes, room, strict=True)):
        raise KernelArgumentError(
            f"{where}: it needs other temporaries for the whole batch than for one element; omit vmap_method"
        )
    return _recorded_plan(where, recording)
