# SPDX-License-Identifier: Apache-2.0
"""The launch of a Warp kernel as a plan: one for the CPU, one for GPUs."""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field
from typing import Any

from ...errors import KernelArgumentError
from ...ffi.launch import Launch, LaunchPlan, PlanTarget, Slot, check_limits
from .arguments import Array, Value, array_bytes
from .compiled import Code, compiled, titled
from .internals import array_structure, launch_bounds

__all__ = ["WarpTarget"]

_MOST_BLOCKS = 2**31 - 1
Argument = Array | Value


@dataclass(frozen=True)
class WarpTarget:
    """A Warp kernel and its launch; it is compiled when a program is lowered.

    `gradients` gives, for a launch of the adjoint, the buffer with the adjoint of each array argument, or None.
    """

    where: str
    kernel: Any = field(repr=False)
    arguments: tuple[Argument, ...]
    buffers: int
    dims: tuple[int, ...]
    block_dim: int
    zeroed: tuple[tuple[int, int], ...] = ()
    inputs: frozenset[str] = frozenset()  # parameters that the kernel must not store to
    gradients: tuple[int | None, ...] | None = None

    platforms = ("cpu", "cuda")

    @property
    def title(self) -> str:
        """The kernel's name, for messages."""
        return titled(self.kernel)

    def on(self, platform: str) -> PlanTarget:
        """Compile the kernel for a platform, and lay out its launch."""
        plan = self._plan(platform)
        return PlanTarget(plan, lambda *_: plan, platform)

    def _plan(self, platform: str) -> LaunchPlan:
        on_host = platform == "cpu"
        if 0 in self.dims:
            launches: tuple[Launch, ...] = ()
        else:
            types = tuple(argument.type for argument in self.arguments)
            backward = self.gradients is not None
            code = compiled(self.where, self.kernel, types, platform, self.block_dim, backward)
            self._check(code)
            launches = (self._on_host(code) if on_host else self._on_gpu(code),)
        return LaunchPlan(self.title, self.buffers, launches, self.zeroed, in_graphs=not on_host, host=on_host)

    def _check(self, code: Code) -> None:
        """Raise if the kernel would change an operand, or read more thread indices than there are axes."""
        for name in sorted(self.inputs & code.written):
            raise KernelArgumentError(
                f"{self.where}: the kernel writes to its input {name!r}, which is an array of the caller; make it an "
                "output that starts as the argument: name it in in_out_argnames"
            )
        if code.tid_axes > len(self.dims):
            raise KernelArgumentError(
                f"{self.where}: wp.tid() returns {code.tid_axes} numbers, but launch_dims is {self.dims}; "
                "pass one extent for each"
            )

    def _on_host(self, code: Code) -> Launch:
        dims = self.dims
        if code.tiles:
            if dims[-1] != self.block_dim:
                raise KernelArgumentError(
                    f"{self.where}: the kernel uses tiles, which a block works on together, so that the last of "
                    f"launch_dims must be block_dim, {self.block_dim}; launch_dims is {dims}"
                )
            dims = (*dims[:-1], 1)
        parameters = [launch_bounds(dims, code.tid_axes), *self._structures()]
        return Launch(
            binary=code.binary,
            entry=code.forward if self.gradients is None else code.backward,
            title=self.title,
            grid=(1, 1, 1),
            block=(1, 1, 1),
            parameters=tuple(bytes(parameter) for parameter in parameters),
            slots=tuple(self._slots(lambda side, place: (1 + side, _offset(parameters[1 + side], place)))),
        )

    def _structures(self) -> list[ctypes.Structure]:
        """Return the arguments of the CPU's entry points: all arguments in one structure, all adjoints in another."""
        values = [_as_ctypes(argument) for argument in self.arguments]
        fields = [(f"field{i}", type(value)) for i, value in enumerate(values)]
        structure: Any = type("Arguments", (ctypes.Structure,), {"_fields_": fields})
        adjoints = [] if self.gradients is None else [structure(*self._adjoints())]
        return [structure(*values), *adjoints]

    def _adjoints(self) -> list[Any]:
        assert self.gradients is not None
        return [
            _as_ctypes(argument) if buffer is not None else type(_as_ctypes(argument))()
            for argument, buffer in zip(self.arguments, self.gradients, strict=True)
        ]

    def _on_gpu(self, code: Code) -> Launch:
        values = [_as_ctypes(argument) for argument in self.arguments]
        adjoints = [] if self.gradients is None else self._adjoints()
        parameters = [launch_bounds(self.dims, code.tid_axes), *values, *adjoints]
        backward = self.gradients is not None
        launch = Launch(
            binary=code.binary,
            entry=code.backward if backward else code.forward,
            title=self.title,
            grid=_grid(math.prod(self.dims), self.block_dim, code.strided),
            block=(self.block_dim, 1, 1),
            parameters=tuple(bytes(parameter) for parameter in parameters),
            slots=tuple(self._slots(lambda side, place: (1 + side * len(values) + place, 0))),
            shared=code.shared[backward],
        )
        check_limits(self.where, launch, code.limits)
        return launch

    def _slots(self, at: Any) -> list[Slot]:
        """Return the positions of addresses; `at(side, place)` is the parameter and byte of an argument or adjoint."""
        kind = array_structure()
        slots = []
        for place, argument in enumerate(self.arguments):
            if isinstance(argument, Array):
                parameter, byte = at(0, place)
                slots.append(Slot(parameter, argument.buffer, byte + kind.data.offset))
                adjoint = self.gradients[place] if self.gradients is not None else None
                if adjoint is not None:
                    # If Warp finds an adjoint in both places, a store clears it.
                    slots.append(Slot(parameter, adjoint, byte + kind.grad.offset))
                    parameter, byte = at(1, place)
                    slots.append(Slot(parameter, adjoint, byte + kind.data.offset))
        return slots


def _as_ctypes(argument: Argument) -> Any:
    if isinstance(argument, Array):
        return array_bytes(argument)
    return _ctype(argument.type).from_buffer_copy(argument.content)


def _ctype(kind: Any) -> Any:
    """Return the ctypes type of an argument by value."""
    plain = {int: ctypes.c_int32, float: ctypes.c_float, bool: ctypes.c_bool}
    if hasattr(kind, "ctype"):  # a struct
        return kind.ctype
    if issubclass(kind, ctypes.Array):  # a vector or a matrix
        return kind
    return plain.get(kind) or kind._type_


def _offset(structure: Any, place: int) -> int:
    return int(getattr(type(structure), f"field{place}").offset)


def _grid(threads: int, block: int, strided: bool) -> tuple[int, int, int]:
    """Return the number of blocks that Warp launches."""
    blocks = -(-threads // block)
    if strided:
        return (min(blocks, _MOST_BLOCKS), 1, 1)
    x = min(blocks, 2**24 // block)
    y = min(-(-blocks // x), 65_535)
    return (x, y, -(-blocks // (x * y)))
