# SPDX-License-Identifier: Apache-2.0
"""Numba on the CPU: a compiled function as an XLA kernel, with no Python at run time."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import llvmlite.binding as llvm
import numba
import numpy as np

from ..._content import Content, content_of
from ...errors import KernelArgumentError, KernelCompilationError
from ...ffi.arguments import canonical_outs, check_operands, check_vmap_method, checked_aliases, flat_outs
from ...ffi.call import native_call
from ...ffi.portable import PAYLOAD, TARGET
from ...ffi.targets import register_once
from ...typing import PyTree, TypesLike
from . import half
from .handler import ArraySpec, Spec, compile_handler, flat, grouped, takes_arrays
from .internals import Dispatcher, note_compilations, settings
from .kept import address_of, carry, payload_of

__all__ = ["half", "handlers_when_lowered", "numba_kernel", "target_of"]

_PREFIX = "brainevent_numba_ffi_"
_OURS = __name__.partition(".")[0] + "."  # modules whose kernels read constants alone
_INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_DTYPES = ("bool", *_INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
_compiled: set[str] = set()  # names of targets; handlers live as long as the process
_names: weakref.WeakKeyDictionary[Dispatcher, dict[Any, str]] = weakref.WeakKeyDictionary()  # of targets
_lock = threading.RLock()
_tracing = threading.local()
note_compilations()


def numba_kernel(
    kernel: Dispatcher,
    outs: TypesLike,
    *,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., PyTree]:
    """Return a JAX function that runs a Numba kernel on the CPU.

    The kernel is called as `kernel(*inputs, *outputs)`, with arrays of Numba, and writes its outputs. No Python runs
    when the compiled program does.

    Args:
        kernel: A function decorated with `numba.njit`. Inputs in a tuple are passed to it as a tuple.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
        vmap_method: How `jax.vmap` calls the kernel, as for `jax.ffi.ffi_call`; None for a native loop over the batch.
        input_output_aliases: Outputs that start with the content of an input, in its memory: `{input: output}`, by
            number.

    Returns:
        A function of the inputs, which are arrays or tuples of arrays. Its results have the structure of `outs`.

    Raises:
        TypeError: If `kernel` is not compiled by Numba for the CPU.
        KernelArgumentError: When it is called: if the kernel takes another number of arrays, or none of their dtypes.
        KernelCompilationError: When it is called: if Numba cannot compile the kernel.

    Examples:
        >>> import jax, jax.numpy as jnp, numba, brainevent
        >>> @numba.njit
        ... def add(a, b, out):
        ...     for i in range(out.size):
        ...         out[i] = a[i] + b[i]
        >>> x = jnp.arange(3.0)
        >>> brainevent.numba_kernel(add, outs=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, x)
        Array([0., 2., 4.], dtype=float32)
    """
    if not isinstance(kernel, Dispatcher):
        hint = "decorate it with @numba.njit" if callable(kernel) else "pass a function decorated with @numba.njit"
        raise TypeError(f"numba_kernel: kernel must be a Numba CPU dispatcher, found {_named(kernel)}; {hint}")
    where = f"numba_kernel({_title(kernel)})"
    check_vmap_method(where, vmap_method)
    declared, tree = flat_outs(where, outs)

    def call(*operands: Any) -> Any:
        arrays = flat(operands)
        check_operands(where, arrays)
        avals = canonical_outs(declared)
        aliases = checked_aliases(where, input_output_aliases or {}, arrays, avals)
        target = _target(kernel, _specs(operands), _specs(avals))
        return tree.unflatten(native_call(target, arrays, avals, aliases, vmap_method))

    return call


@contextlib.contextmanager
def handlers_when_lowered() -> Iterator[None]:
    """Compile handlers of kernels that are called here when XLA calls them, if it does: a loop calls their kernels."""
    before, _tracing.compiles_later = getattr(_tracing, "compiles_later", False), True
    try:
        yield
    finally:
        _tracing.compiles_later = before


@dataclass(frozen=True)
class NumbaTarget:
    """A Numba function for dtypes and ranks; its `code` is a name made of its content."""

    code: str
    kernel: Dispatcher = field(compare=False, repr=False)
    operands: tuple[Spec, ...]
    outs: tuple[Spec, ...]

    platform: ClassVar[str] = "cpu"
    attributes: ClassVar[dict[str, Any]] = {}

    @property
    def name(self) -> str:
        """The target's name: the kernel is compiled now, unless it was before."""
        return self.code if self.code in _compiled else _compiled_target(self.kernel, self.operands, self.outs)

    @property
    def title(self) -> str:
        """The kernel's name, for messages."""
        return _title(self.kernel)

    @property
    def has_changed(self) -> bool:
        """Whether the function was compiled, and what it reads has changed since: older code keeps the older values."""
        is_compiled = self.code in _compiled or bool(self.kernel.overloads)
        if not is_compiled or self.kernel.__module__.startswith(_OURS):
            return False
        new, now = (_content_of(self.kernel, self.operands, self.outs, anew) for anew in (self.kernel, None))
        if new.opaque is not None:
            return False
        return new.name != now.name or (self.code in _compiled and self.code != _PREFIX + now.name)

    def portable(self) -> tuple[str, dict[str, Any]]:
        """Return the target that carries the compiled code."""
        name, content = f"{self.code}_carried", _content(self.kernel, self.operands, self.outs)

        def carried() -> np.ndarray:
            module = compile_handler(self.kernel, self.operands, self.outs, name)
            return carry(module, name, self.title, content.opaque)

        return TARGET, {PAYLOAD: payload_of(name, self.title, content, carried)}

    def for_types(self, operands: Sequence[Any], outs: Sequence[Any]) -> NumbaTarget:
        """Return the same function compiled for other ranks."""
        return _target(self.kernel, _specs(grouped(operands, self.operands)), _specs(outs))


def target_of(kernel: Dispatcher, operands: Sequence[Any], outs: Sequence[Any]) -> NumbaTarget:
    """Return a Numba function as a target of XLA, compiled for arrays of the dtypes and ranks of these."""
    return _target(kernel, _specs(operands), _specs(outs))


def _target(kernel: Dispatcher, operands: tuple[Spec, ...], outs: tuple[Spec, ...]) -> NumbaTarget:
    """Compile and register a kernel for these dtypes and ranks, unless that was done, or is done later."""
    with _lock:
        known = _names.setdefault(kernel, {})
        if (operands, outs) in known:
            code = known[operands, outs]
        elif getattr(_tracing, "compiles_later", False):
            code = _PREFIX + _content(kernel, operands, outs).name
        else:
            code = known[operands, outs] = _compiled_target(kernel, operands, outs)
        return NumbaTarget(code, kernel, operands, outs)


def _compiled_target(kernel: Dispatcher, operands: tuple[Spec, ...], outs: tuple[Spec, ...]) -> str:
    title, content = _title(kernel), _content(kernel, operands, outs)
    name = _PREFIX + content.name
    if name not in _compiled:
        _check_arity(kernel, len(operands), len(outs))

        def compile_() -> llvm.ModuleRef:
            try:
                return compile_handler(kernel, operands, outs, name)
            except Exception as error:
                raise KernelCompilationError(_compile_failure(kernel, operands, outs, error)) from error

        with _lock:
            address = address_of(name, title, content, compile_)
            register_once(name, "cpu", lambda: address)
            _compiled.add(name)
    return name


def _content(kernel: Dispatcher, operands: Sequence[Spec], outs: Sequence[Spec]) -> Content:
    anew = kernel if takes_arrays(kernel, len(operands) + len(outs)) else None
    return _content_of(kernel, operands, outs, anew)


def _content_of(kernel: Dispatcher, operands: Sequence[Spec], outs: Sequence[Spec], anew: Dispatcher | None) -> Content:
    """Return the content of a kernel: that of older code of its, too, unless it is compiled anew."""
    types = [*map(str, operands), "->", *map(str, outs)]
    return content_of(kernel, numba.__version__, settings(), _title(kernel), *types, anew=anew)


def _title(kernel: Dispatcher) -> str:
    return kernel.py_func.__name__


def _named(thing: Any) -> str:
    return f"{type(thing).__name__} {getattr(thing, '__name__', '')}".rstrip()


def _specs(arguments: Sequence[Any]) -> tuple[Spec, ...]:
    return tuple(tuple(map(_spec_of, x)) if isinstance(x, tuple) else _spec_of(x) for x in arguments)


def _spec_of(x: Any) -> ArraySpec:
    return _spec(jax.dtypes.canonicalize_dtype(x.dtype), len(x.shape))


@functools.cache
def _spec(dtype: Any, ndim: int) -> ArraySpec:
    if str(dtype) not in _DTYPES:
        raise KernelArgumentError(
            f"Numba kernels take no arrays of {dtype}; convert first, for example "
            f"x.astype(jnp.float32). They take {', '.join(_DTYPES)}"
        )
    return ArraySpec(np.dtype(dtype), ndim)


def _check_arity(kernel: Dispatcher, operands: int, outs: int) -> None:
    """Raise unless a kernel takes this number of arrays."""
    try:
        inspect.signature(kernel.py_func).bind(*range(operands + outs))
    except TypeError:
        parameters = ", ".join(inspect.signature(kernel.py_func).parameters)
        raise KernelArgumentError(
            f"the Numba kernel {_title(kernel)!r} takes the arrays ({parameters}), but is called with {operands} "
            f"inputs and {outs} outputs, inputs first; change the kernel, the operands or outs"
        ) from None


def _compile_failure(kernel: Dispatcher, operands: Sequence[Spec], outs: Sequence[Spec], error: Exception) -> str:
    types = f"({', '.join(map(str, operands))}) -> ({', '.join(map(str, outs))})"
    halves = any(spec.dtype.name in ("float16", "bfloat16") for spec in flat((*operands, *outs)))
    lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
    shown = "\n  ".join(lines[:12] + (["..."] if len(lines) > 12 else []))
    advice = "\nNumba computes in neither float16 nor bfloat16: convert with the functions of brainevent.half" * halves
    return f"the Numba kernel {_title(kernel)!r} does not compile for {types}:\n  {shown}{advice}"
