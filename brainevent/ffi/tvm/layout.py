# SPDX-License-Identifier: Apache-2.0
"""From declared parameters and arrays to a call of a function of TVM FFI."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ...errors import KernelArgumentError
from ..arguments import canonical_outs, check_operands, checked_aliases
from ..call import native_call
from ..declared import Argument, Arguments, slots
from ..scalars import HALVES
from .library import Source
from .target import Call, CallTarget, Tensor, dtype_words

__all__ = ["Function", "call_of"]


@dataclass(frozen=True)
class Function:
    """A function, which may be compiled for its arrays, and how to call it."""

    where: str
    source: Callable[[Sequence[Argument], Sequence[Any]], Source]  # of parameters, and of arrays in their order
    platform: str
    arguments: Arguments
    in_graphs: bool

    def call(self, numbers: Mapping[str, Any], hidden: int, operands: Sequence[Any], results: Sequence[Any]) -> Call:
        """Lay out the call for operands and results, of which the last are scratch memory."""
        outs = results[: len(results) - hidden]
        arguments = self.arguments.for_call(len(operands), len(outs))
        self.arguments.check_dtypes(arguments, (*operands, *outs))
        values = self.arguments.values(arguments, numbers)
        arrays = (*operands, *results)
        by_argument = {slot.parameter: arrays[slot.buffer] for slot in slots(arguments, len(operands), len(outs))}
        tensors = []
        for slot in slots(arguments, len(operands), len(outs)):
            x = arrays[slot.buffer]
            if not all(isinstance(extent, int) for extent in x.shape):
                raise KernelArgumentError(
                    f"{self.where}: an array has the symbolic shape {x.shape}, and the call contains all extents; "
                    "export the program for each shape"
                )
            dtype = dtype_words(self.where, jax.dtypes.canonicalize_dtype(x.dtype))
            tensors.append(Tensor(slot.parameter, slot.buffer, dtype, tuple(x.shape)))
        described = [
            (place, *_number(self.where, argument, value))
            for place, (argument, value) in enumerate(zip(arguments, values, strict=True))
            if argument.kind == "number"
        ]
        source = self.source(arguments, [by_argument.get(place) for place in range(len(arguments))])
        return Call(source, tuple(described), tuple(tensors), len(arrays), self.platform, self.in_graphs)


def _number(where: str, argument: Argument, value: bytes) -> tuple[str, Any]:
    dtype = HALVES.get(argument.dtype) or np.dtype(argument.dtype)
    number = np.frombuffer(value, dtype)[0]
    if dtype.kind in "iu":
        if int(number) > np.iinfo(np.int64).max:
            raise KernelArgumentError(f"{where}: {argument.name} is {number}, and TVM FFI's integers have 63 bits")
        return "int", int(number)
    return ("bool", bool(number)) if argument.dtype == "bool" else ("float", float(number).hex())


def call_of(
    function: Function, declared: Sequence[Any], method: str | None, given: Mapping[int, int] | None
) -> Callable[..., list[Any]]:
    """Return a JAX function that calls a function; `given` are outputs that share the memory of inputs."""

    def call(*operands: Any, **numbers: Any) -> list[Any]:
        check_operands(function.where, operands)
        avals = canonical_outs(declared)
        wanted = {**function.arguments.aliases(), **(given or {})}
        aliases = checked_aliases(function.where, wanted, operands, avals)
        hidden = function.arguments.scratch(operands, avals)
        again = functools.partial(function.call, numbers, len(hidden))
        target = CallTarget(again(operands, (*avals, *hidden)), again)
        return native_call(target, operands, (*avals, *hidden), aliases, method)[: len(avals)]

    return call
