# SPDX-License-Identifier: Apache-2.0
"""One Warp kernel with its outputs and threads, without and with operands."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..._compat import ShapedArray
from ...errors import KernelArgumentError
from ...ffi.arguments import canonical_outs
from ...ffi.call import native_call
from .arguments import Array, Parameter, Value, as_array, as_value
from .plan import WarpTarget

__all__ = ["BoundCall", "WarpCall", "whole"]


@dataclass(frozen=True)
class WarpCall:
    """The checked arguments of `warp_kernel`; `outs` are names and types of outputs in the order of the parameters."""

    where: str
    kernel: Any = field(repr=False)
    parameters: tuple[Parameter, ...]
    outs: tuple[tuple[str, ShapedArray], ...]
    in_out: tuple[str, ...]
    zeroed: tuple[str, ...]
    dims: tuple[int, ...]
    block_dim: int

    def check_zeroed(self) -> None:
        """Raise if an output would start both as zeros and as an argument."""
        for name in self.zeroed:
            if name in self.in_out:
                raise ValueError(
                    f"{self.where}: {name!r} is named in zeroed and in in_out_argnames; remove it from one of them"
                )

    def canonical(self) -> WarpCall:
        """Return the same with the types of outputs as JAX has them now."""
        names, declared = zip(*self.outs, strict=True)
        return replace(self, outs=tuple(zip(names, canonical_outs(declared), strict=True)))

    def bind(self, given: Sequence[Any]) -> tuple[list[Any], BoundCall]:
        """Check arguments against the kernel's parameters; return the arrays among them, and the call."""
        pure = {name for name, _ in self.outs} - set(self.in_out)
        taken = [parameter for parameter in self.parameters if parameter.name not in pure]
        if len(given) != len(taken):
            raise KernelArgumentError(
                f"{self.where}: {len(given)} arguments are passed, and it takes {len(taken)}: "
                f"({', '.join(parameter.name for parameter in taken)}); pass no outputs, except those in "
                "in_out_argnames"
            )
        values = {parameter.name: value for parameter, value in zip(taken, given, strict=True)}
        arrays = [values[parameter.name] for parameter in taken if parameter.is_array]
        results = {name: len(arrays) + i for i, (name, _) in enumerate(self.outs)}
        places = itertools.count()
        arguments: list[Array | Value] = []
        aliases = []
        for parameter in self.parameters:
            name = parameter.name
            if name in pure:
                arguments.append(as_array(self.where, parameter, dict(self.outs)[name], results[name]))
            elif parameter.is_array:
                _check_is_array(self.where, parameter, values[name])
                place = next(places)
                argument = as_array(self.where, parameter, values[name], results.get(name, place))
                if name in self.in_out:
                    _check_same(self.where, name, values[name], dict(self.outs)[name])
                    aliases.append((place, results[name] - len(arrays)))
                arguments.append(argument)
            else:
                arguments.append(as_value(self.where, parameter, values[name]))
        return arrays, BoundCall(self, tuple(arguments), len(arrays), tuple(aliases))


def _check_is_array(where: str, parameter: Parameter, value: Any) -> None:
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        raise KernelArgumentError(
            f"{where}: {parameter.name!r} is declared as {parameter}, and {value!r} is passed; pass an array "
            "(jnp.asarray(x)), or declare a number"
        )


def _check_same(where: str, name: str, value: Any, out: ShapedArray) -> None:
    if tuple(value.shape) != tuple(out.shape):
        raise KernelArgumentError(
            f"{where}: {name!r} is in in_out_argnames, and {list(value.shape)} is passed where outs says "
            f"{list(out.shape)}; both must have the same shape"
        )


@dataclass(frozen=True)
class BoundCall:
    """A call whose arguments are known; `aliases` are pairs of an operand and the result that starts with it."""

    call: WarpCall
    arguments: tuple[Array | Value, ...]
    operands: int
    aliases: tuple[tuple[int, int], ...]

    @property
    def outs(self) -> tuple[ShapedArray, ...]:
        """The types of the results."""
        return tuple(aval for _, aval in self.call.outs)

    def run(self, arrays: Sequence[Any], aliases: Sequence[tuple[int, int]] = ()) -> list[Any]:
        """Emit the launch."""
        call = self.call
        started = {out for _, out in (*self.aliases, *aliases)}
        if len(started) < len(self.aliases) + len(aliases):
            raise ValueError(f"{call.where}: input_output_aliases names an output of in_out_argnames; leave it out")
        zeroed = [i for i, (name, _) in enumerate(call.outs) if name in call.zeroed or 0 in call.dims]
        target = WarpTarget(
            where=call.where,
            kernel=call.kernel,
            arguments=self.arguments,
            buffers=self.operands + len(call.outs),
            dims=call.dims,
            block_dim=call.block_dim,
            zeroed=whole(self.operands, self.outs, (i for i in zeroed if i not in started)),
            inputs=frozenset(p.name for p in call.parameters if p.is_array) - {name for name, _ in call.outs},
        )
        return native_call(target, arrays, self.outs, (*self.aliases, *aliases))


def whole(operands: int, outs: Sequence[ShapedArray], which: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return results as a plan's buffers to set to zero, with their bytes."""
    sizes = [(operands + i, outs[i].size * outs[i].dtype.itemsize) for i in which]
    return tuple((buffer, size) for buffer, size in sizes if size)
