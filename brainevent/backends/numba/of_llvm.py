# SPDX-License-Identifier: Apache-2.0
"""Functions of scalars in LLVM's language, as functions that Numba's code calls: Numba neither reads nor types them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types

from .internals import function_type, library_of

__all__ = ["LlvmFunction"]

_BITS = {"float32": ir.FloatType(), "float64": ir.DoubleType(), "bool": ir.IntType(1)}
_BITS |= {f"{sign}int{bits}": ir.IntType(bits) for sign in ("", "u") for bits in (32, 64)}


@dataclass(frozen=True, eq=False)
class LlvmFunction:
    """The function `name` of a module's `text`, by the dtypes of its inputs and outputs; several are a tuple."""

    name: str
    text: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    _types: list[Any] = field(default_factory=list, init=False, repr=False)

    @property
    def content_parts(self) -> tuple[Any, ...]:
        """What it is made of."""
        return self.name, self.text, self.inputs, self.outputs

    @property
    def _numba_type_(self) -> Any:  # by which Numba knows what it calls
        if not self._types:
            kinds = [_type(dtype) for dtype in self.outputs]
            result = kinds[0] if len(kinds) == 1 else types.BaseTuple.from_types(kinds)
            self._types.append(function_type(self.name, result(*map(_type, self.inputs)), self._called))
        return self._types[0]

    def _called(self, context: Any, builder: ir.IRBuilder, signature: Any, args: Sequence[ir.Value]) -> ir.Value:
        outputs = [_BITS[dtype] for dtype in self.outputs]
        result = outputs[0] if len(outputs) == 1 else ir.LiteralStructType(outputs)
        kind = ir.FunctionType(result, [_BITS[dtype] for dtype in self.inputs])
        function = builder.module.globals.get(self.name) or ir.Function(builder.module, kind, self.name)
        context.active_code_library.add_linking_library(library_of(self.name, self.text))
        value = builder.call(function, args)
        if len(outputs) == 1:
            return value
        values = [builder.extract_value(value, place) for place in range(len(outputs))]
        return context.make_tuple(builder, signature.return_type, values)


def _type(dtype: str) -> Any:
    return numba.from_dtype(np.dtype(dtype))
