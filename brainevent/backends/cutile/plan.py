# SPDX-License-Identifier: Apache-2.0
"""Launch plans of cuTile kernels: parameters as cuTile's calling convention has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import KernelArgumentError, did_you_mean
from ...ffi.devices import cuda_capabilities
from ...ffi.launch import Extents, Launch, LaunchPlan, Limits, Slot, check_limits
from ...ffi.launch.code import capability, chosen
from ...ffi.scalars import byte_size, number_bytes
from ...toolchain.architectures import gpu_architectures
from . import compiler

__all__ = ["Kernel"]


@dataclass(frozen=True)
class _Role:
    """What a parameter gets: a number, or an array as an operand, as a result, or as both."""

    name: str
    operand: int | None = None
    result: int | None = None


@dataclass(frozen=True)
class Kernel:
    """A kernel and how to launch it, for any inputs and outputs."""

    where: str
    title: str
    kernel: Any
    names: tuple[str, ...]
    extents: Extents
    inout: Mapping[str, int]
    zeroed: bool

    def roles(self, numbers: Mapping[str, Any], operands: int, results: int) -> tuple[_Role, ...]:
        """Return the roles of the parameters: numbers are those with a value, arrays are all others."""
        for name in numbers:
            if name not in self.names or name in self.inout:
                raise KernelArgumentError(
                    f"{self.where}: the kernel has no number {name!r}{did_you_mean(name, self.names)}; its parameters "
                    f"are: {', '.join(self.names)}"
                )
        missing = [n for n in self.names if n not in numbers and compiler.is_constant(self.kernel, n)]
        if missing:
            raise KernelArgumentError(f"{self.where}: missing constants: {', '.join(missing)}; pass them by name")
        arrays = [name for name in self.names if name not in numbers]
        later = [o for o in range(results) if o not in self.inout.values()]
        if len(arrays) != operands + len(later) or not set(self.inout.values()) <= set(range(results)):
            raise KernelArgumentError(
                f"{self.where}: the parameters {', '.join(arrays) or '(none)'} are arrays, and there are {operands} "
                f"inputs and {results} outputs; pass numbers by name, or change the call, outs or inout"
            )
        found, inputs, outputs = [], iter(range(operands)), iter(later)
        for name in self.names:
            if name in numbers:
                found.append(_Role(name))
                continue
            operand = next(inputs, None)
            if name in self.inout and operand is None:
                raise KernelArgumentError(f"{self.where}: {name!r} of inout comes after all inputs; pass its input")
            result = self.inout.get(name) if operand is not None else next(outputs)
            found.append(_Role(name, operand, result))
        return tuple(found)

    def both(self, roles: Sequence[_Role]) -> dict[int, int]:
        """Return the outputs that start with the content of an input because one parameter is both."""
        return {r.operand: r.result for r in roles if r.operand is not None and r.result is not None}

    def plan(
        self,
        roles: Sequence[_Role],
        numbers: Mapping[str, Any],
        aliases: Sequence[tuple[int, int]],
        operands: Sequence[Any],
        results: Sequence[Any],
    ) -> LaunchPlan:
        """Compile the kernel for these arrays, and lay out its launch."""
        started = {output for _, output in aliases}
        configuration = self.extents.of((*operands, *results))
        buffers = len(operands) + len(results)
        wanted = self.zeroed or configuration.is_empty  # no thread writes: outputs are zeros, not undefined
        zeroed = [o for o in range(len(results)) if wanted and o not in started]
        sizes = tuple((len(operands) + o, n) for o in zeroed if (n := byte_size(results[o])))
        if configuration.is_empty:
            return LaunchPlan(self.title, buffers, (), sizes)
        architectures = gpu_architectures(None, cuda_capabilities)
        parameters = _Parameters(self.where, self.kernel, dict(aliases))
        for role in roles:
            parameters.add(role, numbers, operands, results)
        code, entry = compiler.compiled(self.where, self.kernel, parameters.constraints, architectures[0])
        chosen(self.where, (code,), [capability(one) for one in architectures])
        parameters.check_sizes(code.entry(self.where, entry).sizes)
        # The driver takes the threads of a block from the code: cuTile's kernels are launched with one.
        launch = Launch(
            binary=code.binary,
            entry=entry,
            title=self.title,
            grid=configuration.grid,
            block=(1, 1, 1),
            parameters=tuple(parameters.values),
            slots=tuple(parameters.slots),
        )
        check_limits(self.where, launch, Limits.of(architectures[0]))
        return LaunchPlan(self.title, buffers, (launch,), sizes)


class _Parameters:
    """The parameters of cuTile's calling convention: an array is an address, extents, strides; no constants."""

    def __init__(self, where: str, kernel: Any, aliases: Mapping[int, int]):
        self.where, self.kernel = where, kernel
        self._groups = {**{("operand", i): f"shared_{o}" for i, o in aliases.items()},
                        **{("result", o): f"shared_{o}" for o in aliases.values()}}  # fmt: skip
        self.constraints: list[Any] = []
        self.values: list[bytes] = []
        self.slots: list[Slot] = []

    def add(self, role: _Role, numbers: Mapping[str, Any], operands: Sequence[Any], results: Sequence[Any]) -> None:
        """Add a parameter."""
        if role.operand is None and role.result is None:
            self._add_number(role.name, numbers[role.name])
        else:
            self._add_array(role, operands, results)

    def _add_number(self, name: str, value: Any) -> None:
        if compiler.is_constant(self.kernel, name):
            if not isinstance(value, (bool, int, float)):
                raise KernelArgumentError(
                    f"{self.where}: the constant {name!r} is {type(value).__name__}; pass a Python number"
                )
            self.constraints.append(compiler.constant(value))
            return
        dtype = "float32" if isinstance(value, (float, np.floating)) else "int32"
        wide = compiler.is_wide(self.kernel, name) and dtype == "int32"
        dtype = "int64" if wide else dtype
        number = int(value) if isinstance(value, (bool, np.bool_)) else value
        self.values.append(number_bytes(f"{self.where}: {name}", dtype, number))
        self.constraints.append(compiler.number(self.where, name, dtype))

    def _add_array(self, role: _Role, operands: Sequence[Any], results: Sequence[Any]) -> None:
        if role.result is not None:
            x, buffer, key = results[role.result], len(operands) + role.result, ("result", role.result)
        else:
            place = role.operand or 0
            x, buffer, key = operands[place], place, ("operand", place)
        # If one parameter is both, no other one has its memory.
        group = self._groups.get(key) if role.operand is None or role.result is None else None
        index = compiler.index_bytes(self.kernel, role.name)
        self.constraints.append(compiler.array(self.where, role.name, x, index, group))
        self.slots.append(Slot(len(self.values), buffer, alignment=compiler.alignment_of(x)))
        extents = (*x.shape, *compiler.strides_of(x.shape))
        self.values += [bytes(8), *(int(extent).to_bytes(index, "little") for extent in extents)]

    def check_sizes(self, sizes: tuple[int, ...] | None) -> None:
        """Raise if the compiler lays out parameters in another way than this file."""
        here = tuple(len(value) for value in self.values)
        if sizes is not None and sizes != here:
            raise KernelArgumentError(
                f"{self.where}: this cuda-tile passes parameters of {sizes} bytes, and {here} are known; install "
                "another version: pip install 'cuda-tile<1.8'"
            )
