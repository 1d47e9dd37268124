# SPDX-License-Identifier: Apache-2.0
"""Compile cuTile kernels ahead, to a cubin for one compute capability; no GPU is needed."""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import cuda.tile as ct
import jax
import numpy as np
from cuda.tile import compilation

from ...errors import KernelArgumentError, KernelCompilationError
from ...ffi.launch.code import Code, read
from ...ffi.launch.code import capability as capability_of

__all__ = ["KERNEL", "alignment_of", "array", "compiled", "constant", "index_bytes", "is_constant", "is_wide", "number",
           "parameters", "strides_of"]  # fmt: skip

KERNEL = ct.kernel
_WIDEST = 16  # bytes: to more, neither XLA's arrays nor elements of a batch are aligned
_SCALARS = {"int32": ct.int32, "int64": ct.int64, "float32": ct.float32, "uint32": ct.uint32}


def _annotations(kernel: Any) -> dict[str, Any]:
    its = kernel._annotated_function
    return dict(zip(its.pysig.parameters, its.parameter_annotations, strict=True))


def parameters(kernel: Any) -> tuple[str, ...]:
    """Return the names of a kernel's parameters."""
    return tuple(_annotations(kernel))


def is_constant(kernel: Any, name: str) -> bool:
    """Return whether a parameter is a part of the code: annotated as ct.Constant."""
    return bool(getattr(_annotations(kernel)[name], "constant", False))


@dataclass(frozen=True)
class Constant:
    """A number that is a part of the code; by its text, since 1, 1.0 and True are equal, and other code."""

    text: str
    value: bool | float = field(compare=False)


def constant(value: bool | float) -> Constant:
    """Return a number that is a part of the code."""
    return Constant(repr(value), value)


def is_wide(kernel: Any, name: str) -> bool:
    """Return whether a number is annotated as an int64 (ct.ScalarInt64)."""
    its = getattr(_annotations(kernel)[name], "scalar", None)
    return its is not None and bool(its.dtype == ct.int64)


def index_bytes(kernel: Any, name: str) -> int:
    """Return the bytes of an array's extents and strides: 8, if its parameter is annotated as indexed by int64."""
    its = getattr(_annotations(kernel)[name], "array", None)
    return 8 if its is not None and its.index_dtype == ct.int64 else 4


def alignment_of(x: Any) -> int:
    """Return the power of two that divides the address of an array, and of each element of a batch of them."""
    return math.gcd(_WIDEST, math.prod(x.shape) * np.dtype(x.dtype).itemsize) or _WIDEST


def array(where: str, name: str, x: Any, index: int, group: str | None) -> Any:
    """Return what the compiler may assume of an array; arrays of one group may share memory."""
    from cuda.tile._ir.typing_support import to_dtype

    try:
        dtype = to_dtype(np.dtype(jax.dtypes.canonicalize_dtype(x.dtype)))
    except Exception as error:
        raise KernelArgumentError(f"{where}: cuTile has no arrays of {x.dtype}, as {name!r} is; convert it") from error
    strides = strides_of(x.shape)
    if index == 4 and max((*x.shape, *strides), default=0) > np.iinfo(np.int32).max:
        raise KernelArgumentError(
            f"{where}: {name!r} is {x.dtype}{list(x.shape)}, and is indexed by int32; annotate the parameter with "
            "ct.IndexedWithInt64"
        )
    together = max(1, _WIDEST // np.dtype(x.dtype).itemsize)
    return compilation.ArrayConstraint(
        dtype,
        len(x.shape),
        index_dtype=ct.int64 if index == 8 else ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=() if group is None else (group,),
        may_alias_internally=False,
        stride_constant=[1 if stride == 1 else None for stride in strides],
        stride_divisible_by=[math.gcd(stride, together) for stride in strides],
        shape_divisible_by=[_WIDEST if extent % _WIDEST == 0 else 1 for extent in x.shape],
        base_addr_divisible_by=alignment_of(x),
    )


def strides_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a row-major array, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def number(where: str, name: str, dtype: str) -> Any:
    """Return what the compiler knows of a number that is not a part of the code."""
    if dtype not in _SCALARS:
        raise KernelArgumentError(
            f"{where}: {name!r} is declared {dtype}; numbers of cuTile's kernels are "
            f"{', '.join(_SCALARS)}, or constants (ct.Constant)"
        )
    return compilation.ScalarConstraint(_SCALARS[dtype])


@functools.lru_cache(maxsize=256)
def _compiled(kernel: Any, constraints: tuple[Any, ...], architecture: str) -> tuple[bytes, str]:
    convention = compilation.CallingConvention.cutile_python_v1()
    name = kernel._annotated_function.pyfunc.__name__
    given = [compilation.ConstantConstraint(c.value) if isinstance(c, Constant) else c for c in constraints]
    signature = compilation.KernelSignature(given, convention).with_mangled_symbol(name)
    code = io.BytesIO()
    compilation.export_kernel(kernel, [signature], code, gpu_code=architecture, output_format="cubin")
    return code.getvalue(), signature.symbol or name


def compiled(where: str, kernel: Any, constraints: Sequence[Any], capability: str) -> tuple[Code, str]:
    """Return the machine code of a kernel for a compute capability such as "9.0", and its entry."""
    architecture = "sm_{}{}".format(*capability_of(capability))
    try:
        binary, entry = _compiled(kernel, tuple(constraints), architecture)
    except FileNotFoundError as error:
        raise KernelCompilationError(f"{where}: {error}; run: pip install 'cuda-tile[tileiras]'") from error
    except Exception as error:
        lines = [line.rstrip() for line in str(error).splitlines() if line.strip()]
        shown = "\n  ".join(lines[:12] + (["..."] if len(lines) > 12 else []))
        raise KernelCompilationError(f"{where}: the kernel does not compile for {architecture}:\n  {shown}") from error
    [code] = read(where, binary)
    return code, entry
