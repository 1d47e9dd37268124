# SPDX-License-Identifier: Apache-2.0
"""The parameters of a kernel whose source is not there, as its caller declares them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from .._compat import ShapedArray
from ..errors import KernelArgumentError, did_you_mean
from .call import out_aval
from .launch import Slot
from .launch.code import Code, Entry
from .scalars import HALVES, number_bytes

__all__ = ["INPUTS", "OUTPUTS", "Argument", "Arguments", "slots"]

INPUTS, OUTPUTS = ("input", "inout"), ("output", "inout")
_POINTER = 8  # bytes
_NUMBERS = {"bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
            "float16", "bfloat16", "float32", "float64"}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """One parameter: an array, a number of a dtype, scratch memory, or bytes."""

    name: str
    kind: str  # "input", "output", "inout", "number", "scratch", "bytes"
    dtype: str = ""  # of a number, or of an array if it is to be checked
    value: Any = None  # the bytes, or the scratch memory's type, or a function that returns it

    @property
    def size(self) -> int:
        """Its bytes as a parameter."""
        if self.kind == "bytes":
            return len(self.value)
        return (HALVES.get(self.dtype) or np.dtype(self.dtype)).itemsize if self.kind == "number" else _POINTER

    def __str__(self) -> str:
        words = {"number": self.dtype, "bytes": f"{self.size} bytes"}
        return f"{self.name} ({words.get(self.kind, self.kind)})"


@dataclass(frozen=True)
class Arguments:
    """All parameters of a kernel in their order; None stands for the inputs and then the outputs."""

    where: str
    declared: tuple[Argument, ...] | None

    @classmethod
    def of(cls, where: str, given: Mapping[str, Any] | None) -> Arguments:
        """Check what a user declares."""
        if given is None:
            return cls(where, None)
        if not isinstance(given, Mapping):
            raise KernelArgumentError(
                f"{where}: arguments is {type(given).__name__}; pass the parameters of the kernel by name, in their "
                'order: {"x": "input", "n": "int32", "out": "output"}'
            )
        return cls(where, tuple(_argument(where, name, what) for name, what in given.items()))

    def for_call(self, inputs: int, outputs: int) -> tuple[Argument, ...]:
        """Return the parameters of a call with so many arrays."""
        if self.declared is None:
            return (
                *(Argument(f"input {k}", "input") for k in range(inputs)),
                *(Argument(f"output {k}", "output") for k in range(outputs)),
            )
        for kinds, found in ((INPUTS, inputs), (OUTPUTS, outputs)):
            names = [one.name for one in self.declared if one.kind in kinds]
            if len(names) != found:
                listed = f"{len(names)} {kinds[0]}s are declared ({', '.join(names) or 'none'})"
                raise KernelArgumentError(
                    f"{self.where}: {listed}, and there are {found}; change arguments= or the call"
                )
        return self.declared

    def aliases(self) -> dict[int, int]:
        """Return the outputs that start with the content of an input, by the input's number."""
        inputs = [one.name for one in self.declared or () if one.kind in INPUTS]
        outputs = [one.name for one in self.declared or () if one.kind in OUTPUTS]
        return {inputs.index(one.name): outputs.index(one.name) for one in self.declared or () if one.kind == "inout"}

    def check_sizes(self, arguments: Sequence[Argument], code: Code, entry: Entry) -> None:
        """Raise if the code says that its parameters have other sizes."""
        sizes = tuple(argument.size for argument in arguments)
        if entry.sizes is None or sizes == entry.sizes:
            return
        there = ", ".join(map(str, entry.sizes)) or "none"
        if len(sizes) != len(entry.sizes):
            found = f"it takes {len(entry.sizes)} parameters, of {there} bytes, and {len(sizes)} are declared"
        else:
            k = next(k for k, pair in enumerate(zip(sizes, entry.sizes, strict=True)) if pair[0] != pair[1])
            found = f"its parameter {k} has {entry.sizes[k]} bytes, and {arguments[k]} has {sizes[k]}"
        raise KernelArgumentError(
            f"{self.where}: the kernel {entry.name!r} of {code.origin} has other parameters: {found}. Declared: "
            f"{', '.join(map(str, arguments)) or 'none'}; change arguments="
        )

    def check_dtypes(self, arguments: Sequence[Argument], arrays: Sequence[Any]) -> None:
        """Raise if an array has another dtype than was declared; arrays are inputs, then outputs."""
        in_order = [one for kinds in (INPUTS, OUTPUTS) for one in arguments if one.kind in kinds]
        for argument, x in zip(in_order, arrays, strict=True):
            dtype = np.dtype(jax.dtypes.canonicalize_dtype(x.dtype)).name
            if argument.dtype not in ("", dtype):
                raise KernelArgumentError(
                    f"{self.where}: {argument.name!r} is declared {argument.dtype}, and is {dtype}{list(x.shape)}; "
                    "convert it, or change arguments="
                )

    def scratch(self, operands: Sequence[Any], outs: Sequence[Any]) -> tuple[ShapedArray, ...]:
        """Return the types of scratch memory for a call, which are hidden results."""
        specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in (*operands, *outs)]
        found = []
        for argument in self.for_call(len(operands), len(outs)):
            if argument.kind == "scratch":
                value = argument.value(*specs) if callable(argument.value) else argument.value
                if not hasattr(value, "shape") or not hasattr(value, "dtype"):
                    raise KernelArgumentError(
                        f"{self.where}: the function for the scratch memory {argument.name!r} returned "
                        f"{type(value).__name__}; return a jax.ShapeDtypeStruct"
                    )
                found.append(out_aval(f"{self.where}: scratch memory", value))
        return tuple(found)

    def values(self, arguments: Sequence[Argument], numbers: Mapping[str, Any]) -> tuple[bytes, ...]:
        """Return the bytes of all parameters; those of pointers are filled in later."""
        names = [argument.name for argument in arguments if argument.kind == "number"]
        for name in numbers:
            if name not in names:
                raise KernelArgumentError(
                    f"{self.where}: the kernel has no number {name!r}{did_you_mean(name, names)}; there are: "
                    f"{', '.join(names) or 'none'}; declare it in arguments="
                )
        if missing := [name for name in names if name not in numbers]:
            raise KernelArgumentError(f"{self.where}: missing numbers: {', '.join(missing)}; pass them by name")
        return tuple(
            number_bytes(f"{self.where}: {argument.name}", argument.dtype, numbers[argument.name])
            if argument.kind == "number"
            else argument.value
            if argument.kind == "bytes"
            else bytes(_POINTER)
            for argument in arguments
        )


def slots(arguments: Sequence[Argument], inputs: int, outputs: int) -> list[Slot]:
    """Return the places of addresses: buffers are inputs, outputs, scratch memory."""
    following = {"input": 0, "output": inputs, "scratch": inputs + outputs}
    found = []
    for place, argument in enumerate(arguments):
        for kind in ("input", "output") if argument.kind == "inout" else (argument.kind,):
            if kind in following:
                buffer = following[kind]
                following[kind] += 1
        if argument.kind in ("inout", *following):
            found.append(Slot(place, buffer))
    return found


def _argument(where: str, name: Any, what: Any) -> Argument:
    if not isinstance(name, str) or not name.isidentifier():
        raise KernelArgumentError(f"{where}: the name {name!r} in arguments= is none; use a name as in Python")
    kind, *rest = what if isinstance(what, tuple) else (what,)
    if isinstance(kind, str) and kind in ("input", "output", "inout") and len(rest) <= 1:
        return Argument(name, kind, _dtype(where, name, rest[0]) if rest else "")
    if isinstance(what, (bytes, bytearray)):
        return Argument(name, "bytes", value=bytes(what))
    if isinstance(what, jax.ShapeDtypeStruct) or (isinstance(what, Callable) and not isinstance(what, type)):  # type: ignore[arg-type]
        return Argument(name, "scratch", value=what)
    dtype = _dtype(where, name, what)
    if dtype not in _NUMBERS:
        raise KernelArgumentError(f"{where}: {name!r} is declared {dtype}, and numbers cannot be; use another dtype")
    return Argument(name, "number", dtype)


def _dtype(where: str, name: str, what: Any) -> str:
    try:
        return np.dtype(HALVES.get(what, what) if isinstance(what, str) else what).name
    except TypeError:
        raise KernelArgumentError(
            f'{where}: {name!r} is declared {what!r}; use "input", "output", "inout", ("input", dtype), the dtype of a '
            "number, a jax.ShapeDtypeStruct for scratch memory or a function that returns one, or bytes"
        ) from None
