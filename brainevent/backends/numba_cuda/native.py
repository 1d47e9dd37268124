# SPDX-License-Identifier: Apache-2.0
"""Numba-CUDA on the GPU: compiled kernels as launch plans."""

from __future__ import annotations

import functools
import inspect
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numba
import numpy as np
from numba import cuda, types

from ..._compat import ShapedArray
from ...errors import GpuArchDetectionError, KernelArgumentError, KernelCompilationError
from ...ffi.devices import cuda_capabilities
from ...ffi.launch import Assembly, Configuration, Launch, LaunchPlan, Limits, PlanTarget, Slot, check_limits
from ...ffi.launch.code import read
from ...toolchain.architectures import least_architecture
from . import mlir
from .arguments import check_arity, checked_dtype, title_of
from .callback import callback_target
from .record import CannotRecordError, CUDADispatcher, Recording, StandIn, recorded

__all__ = ["KERNEL", "function_target", "kernel_target"]

_ENTRY = re.compile(r"\.entry\s+([\w$]+)")
_HEAD = re.compile(r"\.entry\s+[\w$]+\s*\([^)]*\)")
_MANGLED = re.compile(r"\b(?:_ZN[\w$]+|static_shared_memory_\d+)")
_CONTRACTED = re.compile(r"(?<![\w.])(add|sub|mul)((?:\.ftz)?(?:\.sat)?\.f(?:16x2|16|32|64))\b")
_PASSED_ON = ("debug", "lineinfo", "fastmath", "opt", "launch_bounds")
_codes: weakref.WeakKeyDictionary[CUDADispatcher, dict[Any, Code]] = weakref.WeakKeyDictionary()
_lock = threading.RLock()
KERNEL = CUDADispatcher


@dataclass(frozen=True)
class Code:
    """PTX, its entry point, and the limits of its device."""

    binary: bytes
    entry: str
    limits: Limits


def compiled(where: str, kernel: CUDADispatcher, arguments: Sequence[Any]) -> Code:
    """Compile a kernel for arguments of these types, unless that was done."""
    type_of = mlir.type_of if mlir.compiles(kernel) else _type_of
    signature, capability = tuple(type_of(where, argument) for argument in arguments), _capability()
    with _lock:
        known = _codes.setdefault(kernel, {})
        if (signature, capability) not in known:
            known[signature, capability] = _compile(where, kernel, signature, capability)
        return known[signature, capability]


def _capability() -> str:
    try:
        return least_architecture(cuda_capabilities)
    except GpuArchDetectionError as error:
        raise GpuArchDetectionError(
            f"{error}\nTo run the kernel on the CPU, in Numba's simulator: start Python with BRAINEVENT_EMULATE=1, or "
            "call brainevent.config.emulate() before anything imports numba.cuda"
        ) from error


def _type_of(where: str, argument: Any) -> Any:
    if isinstance(argument, StandIn):
        return types.Array(numba.from_dtype(argument.dtype), argument.ndim, "C")
    try:
        kind = numba.typeof(argument)
    except ValueError:  # one of which Numba knows nothing
        kind = type(argument).__name__
    if not isinstance(kind, (types.Integer, types.Float, types.Complex, types.Boolean)):
        raise KernelArgumentError(
            f"{where}: {argument!r} is an argument of the type {kind}; kernels take arrays and numbers"
        )
    return kind


def _compile(where: str, kernel: CUDADispatcher, signature: tuple[Any, ...], capability: str) -> Code:
    options = kernel.targetoptions
    if options.get("link"):
        raise KernelArgumentError(
            f"{where}: XLA cannot launch kernels that link other files; remove link= from cuda.jit"
        )
    check_arity(where, kernel.py_func, signature)
    major, minor = (int(number) for number in re.findall(r"\d+", capability)[:2])
    passed = {key: options[key] for key in _PASSED_ON if options.get(key) is not None}
    try:
        if mlir.compiles(kernel):
            ptx = mlir.ptx(kernel, signature, (major, minor), passed)
        else:
            ptx, _ = cuda.compile_ptx(kernel.py_func, signature, cc=(major, minor), **passed)
    except Exception as error:
        raise KernelCompilationError(_failure(where, signature, error)) from error
    limits = _bounded(Limits.of(capability), options.get("launch_bounds"))
    return _code(_with_most_registers(where, ptx, options.get("max_registers")), limits)


def _bounded(limits: Limits, bounds: Any) -> Limits:
    """Return the limits of a kernel that is compiled for a largest number of threads per block: its first bound."""
    most = bounds[0] if isinstance(bounds, Sequence) else bounds
    return limits if most is None else replace(limits, threads=min(limits.threads, most))


def _with_most_registers(where: str, ptx: str | bytes, most: Any) -> str:
    """Write `max_registers` into the PTX, next to other bounds: Numba passes it only to its linker."""
    text = ptx if isinstance(ptx, str) else ptx.decode()
    if not most:
        return text
    if not isinstance(most, int) or most < 0:
        raise KernelArgumentError(f"{where}: max_registers of the kernel is {most!r}; pass a number of registers")
    return _HEAD.sub(lambda match: f"{match[0]}\n.maxnreg {most}", text, count=1)


def _code(ptx: str, limits: Limits) -> Code:
    """Replace Numba's names, which contain a counter, by names that are the same in every process.

    The compiler has merged products and sums where that is allowed; a driver must not merge others, because a kernel
    has the same bits with each driver, and within a loop.
    """
    names: dict[str, str] = {}
    stable = _MANGLED.sub(lambda match: names.setdefault(match[0], f"be_{len(names)}"), ptx)
    stable = _CONTRACTED.sub(r"\1.rn\2", stable)
    found = _ENTRY.search(stable)
    assert found is not None, "a kernel has an entry point"
    return Code(stable.encode() + b"\0", found[1], limits)


def _failure(where: str, signature: Sequence[Any], error: Exception) -> str:
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    shown = "\n  ".join(lines[:12] + (["..."] if len(lines) > 12 else []))
    advice = ""
    if "IMPORT_NAME" in shown:
        advice = "\nNumba rejects an import within a kernel: move it to the top of the module"
    elif any(isinstance(kind, types.Array) and kind.ndim == 0 for kind in signature):
        advice = "\nAn array without axes is read and written as x[()]; for all else give it one axis, x.reshape(1)"
    return f"{where}: the kernel does not compile for ({', '.join(map(str, signature))}):\n  {shown}{advice}"


def _words(number: Any) -> list[bytes]:
    """Return a number as parameters: a complex number is two, its real and its imaginary part."""
    kind = numba.typeof(number)
    if isinstance(kind, types.Complex):
        half = np.dtype(f"float{kind.bitwidth // 2}")
        return [np.asarray(part, half).tobytes() for part in (number.real, number.imag)]
    dtype = np.dtype(np.uint8) if isinstance(kind, types.Boolean) else np.dtype(kind.name)
    return [np.asarray(number, dtype).tobytes()]


def parameters_of(arguments: Sequence[Any]) -> tuple[tuple[bytes, ...], tuple[Slot, ...]]:
    """Return the words of the arguments, and the positions of the addresses of arrays."""
    parameters: list[bytes] = []
    slots = []
    for argument in arguments:
        if isinstance(argument, StandIn):
            # Two words that Numba does not use, elements, their size, address, shape, strides.
            slots.append(Slot(parameter=len(parameters) + 4, buffer=argument.buffer, shift=argument.shift))
            words = [0, 0, argument.size, argument.dtype.itemsize, 0, *argument.shape, *argument.strides]
            parameters += [int(word).to_bytes(8, "little", signed=True) for word in words]
        else:
            parameters += _words(argument)
    return tuple(parameters), tuple(slots)


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
    names = tuple(inspect.signature(kernel.py_func).parameters)
    return PlanTarget(again(operands, outs), again, source=Assembly(_said_of(kernel), names))


def _said_of(kernel: CUDADispatcher) -> str:
    """Return what the docstring of a kernel says, as one line."""
    return " ".join((kernel.py_func.__doc__ or "").split())


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
    said = [_said_of(record.kernel) for record in recording.launches]
    return PlanTarget(plan, again, source=Assembly(" ".join(said))), hidden


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
    parameters, slots = mlir.parameters_of(where, arguments) if mlir.compiles(kernel) else parameters_of(arguments)
    _check_layout(where, code, parameters)
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


def _check_layout(where: str, code: Code, parameters: Sequence[bytes]) -> None:
    """Raise if this release of the compiler lays out parameters in another way than this package."""
    sizes, known = read(where, code.binary)[0].entry(where, code.entry).sizes, tuple(map(len, parameters))
    if sizes not in (None, known):
        raise KernelCompilationError(
            f"{where}: the compiler's kernel takes parameters of {sizes} bytes, and {known} are known; install another "
            "release of it"
        )


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
