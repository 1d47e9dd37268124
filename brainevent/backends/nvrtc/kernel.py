# SPDX-License-Identifier: Apache-2.0
"""Raw CUDA kernels without nvcc or a host compiler: NVRTC compiles them, and a launch plan runs them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from ...errors import KernelArgumentError, did_you_mean
from ...ffi.arguments import canonical_outs, check_operands, check_vmap_method, checked_aliases, flat_outs
from ...ffi.call import native_call
from ...ffi.devices import cuda_capabilities
from ...ffi.launch import Extents, Launch, LaunchPlan, Limits, PlanTarget, Slot, check_limits
from ...ffi.scalars import byte_size, number_bytes
from ...toolchain.architectures import gpu_architectures
from ...typing import DTypeLike, PyTree, TypesLike
from .compiler import Code, compiled
from .cpp_types import CppType, read_type
from .translation_unit import TranslationUnit, translation_unit

__all__ = ["KernelSource", "cuda_kernel"]

Size = int | Sequence[int]


def cuda_kernel(
    source: str,
    entry: str,
    outs: TypesLike,
    *,
    grid: Size | Callable[..., Size] | None = None,
    block: Size | Callable[..., Size] | None = None,
    launch_dims: Size | Callable[..., Size] | None = None,
    threads_per_block: int = 256,
    shared_mem: int | Callable[..., int] = 0,
    types: Mapping[str, DTypeLike] | None = None,
    options: Sequence[str] = (),
    zeroed: bool | Sequence[str] = (),
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., PyTree]:
    """Return a JAX function that runs a kernel of a CUDA C++ source, compiled by NVRTC; nvcc is not needed.

    The pointers of the kernel are the inputs, then the outputs; its other parameters are numbers. Give either `grid`
    and `block`, or `launch_dims`; these and `shared_mem` may be functions of the inputs and outputs.

    Args:
        source: The text, in CUDA C++.
        entry: The name of the kernel, a `__global__` function.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
        grid: The number of blocks, along up to three axes.
        block: The number of threads of a block, along up to three axes.
        launch_dims: The number of threads, along up to three axes.
        threads_per_block: The threads of a block, where `launch_dims` is given.
        shared_mem: Bytes of dynamic shared memory of a block.
        types: Names of types for the source, as in `{"T": jnp.float32}`.
        options: Options of the compiler.
        zeroed: The outputs that are zero when the kernel starts, by name; True for all but those of
            `input_output_aliases`.
        vmap_method: Accepted, as for `jax.ffi.ffi_call`. A native loop launches the kernel for each element.
        input_output_aliases: Outputs that start with the content of an input, in its memory: `{input: output}`, by
            number.

    Returns:
        A function `f(*inputs, **numbers)`. Its results have the structure of `outs`.

    Raises:
        KernelArgumentError: If the launch configuration or the arguments do not fit the kernel.
        KernelCompilationError: When it is called: if the text does not compile.
        KernelNotAvailableError: If NVRTC is not installed.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> source = '''
        ... extern "C" __global__ void scale(const float* x, float* out, int n, float factor) {
        ...   int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...   if (i < n) out[i] = factor * x[i];
        ... }'''
        >>> x = jnp.arange(3.0)
        >>> scale = brainevent.cuda_kernel(source, "scale", outs=x, launch_dims=x.shape)  # doctest: +SKIP
        >>> scale(x, n=3, factor=2.0)  # doctest: +SKIP
        Array([0., 2., 4.], dtype=float32)
    """
    where = f"cuda_kernel({entry})"
    check_vmap_method(where, vmap_method)
    declared, tree = flat_outs(where, outs)
    types = dict(types) if isinstance(types, Mapping) else types
    unit = functools.partial(translation_unit, where, source, entry, types, options)  # what "T" is changes with x64
    extents = Extents(where, grid, block, launch_dims, threads_per_block, shared_mem)
    checked = _Kernel(where, unit(), extents, _checked_zeroed(where, zeroed))

    def call(*operands: Any, **numbers: Any) -> Any:
        kernel, avals = replace(checked, unit=unit()), canonical_outs(declared)
        kernel.check_operands(operands)
        aliases = checked_aliases(where, input_output_aliases or {}, operands, avals)
        again = functools.partial(kernel.plan, numbers, frozenset(output for _, output in aliases))
        target = PlanTarget(again(operands, avals), again, source=kernel.source())
        return tree.unflatten(native_call(target, operands, avals, aliases))

    return call


def _checked_zeroed(where: str, zeroed: Any) -> bool | tuple[str, ...]:
    if isinstance(zeroed, bool):
        return zeroed
    if isinstance(zeroed, str) or not isinstance(zeroed, Sequence) or not all(isinstance(n, str) for n in zeroed):
        raise KernelArgumentError(f"{where}: zeroed is {zeroed!r}; pass True, or a tuple of names of output parameters")
    return tuple(zeroed)


@dataclass(frozen=True)
class KernelSource:
    """What a kernel is compiled from, and the dtypes of its parameters that are numbers, "" for those of arrays."""

    unit: TranslationUnit
    numbers: tuple[str, ...]


@dataclass(frozen=True)
class _Parameter:
    """A parameter: its name, its text, its type."""

    name: str
    text: str
    type: CppType


@dataclass(frozen=True)
class _Kernel:
    """A kernel and how to launch it, for any inputs and outputs."""

    where: str
    unit: TranslationUnit
    extents: Extents
    zeroed: bool | tuple[str, ...]

    def source(self) -> KernelSource:
        """Return the text of the kernel, which is compiled."""
        code = compiled(self.where, self.unit, gpu_architectures(None, cuda_capabilities))
        numbers = (read_type(mangled) for mangled in code.types)
        return KernelSource(self.unit, tuple("" if n.is_pointer else n.dtypes[0] for n in numbers))

    def check_operands(self, operands: Sequence[Any]) -> None:
        """Raise unless every operand is an array."""
        for i, x in enumerate(operands):
            if isinstance(x, (bool, int, float, complex)):
                raise KernelArgumentError(
                    f"{self.where}: input {i} is the number {x!r}; pass numbers by the name of their parameter "
                    f"(name={x!r}), and arrays without axes as jnp.asarray({x!r}). The kernel is\n  {self._declaration}"
                )
        check_operands(self.where, operands)

    def plan(
        self, numbers: Mapping[str, Any], started: Set[int], operands: Sequence[Any], outs: Sequence[Any]
    ) -> LaunchPlan:
        """Compile the kernel, unless that was done, and lay out its launch; outputs `started` begin as inputs."""
        architectures = gpu_architectures(None, cuda_capabilities)
        code = compiled(self.where, self.unit, architectures)
        parameters = self._parameters(code)
        self._check_arrays(parameters, operands, outs)
        values = self._values(parameters, numbers)
        outputs = [p.name for p in parameters if p.type.is_pointer][len(operands) :]
        zeroed = self._zeroed(outputs, started)
        title, arrays = self.unit.declaration.entry, [*operands, *outs]
        configuration = self.extents.of(arrays)
        if configuration.is_empty:  # no thread writes: outputs are zeros, not undefined
            zeroed = [o for o in range(len(outs)) if o not in started]
        sizes = tuple((len(operands) + o, n) for o in zeroed if (n := byte_size(outs[o])))
        if configuration.is_empty:
            return LaunchPlan(title, len(arrays), (), sizes)
        pointers = [i for i, parameter in enumerate(parameters) if parameter.type.is_pointer]
        launch = Launch(
            binary=code.binary,
            entry=code.entry,
            title=title,
            grid=configuration.grid,
            block=configuration.block,
            parameters=tuple(values),
            slots=tuple(
                Slot(place, buffer, alignment=parameters[place].type.alignment) for buffer, place in enumerate(pointers)
            ),
            shared=configuration.shared,
        )
        check_limits(self.where, launch, Limits.of(architectures[0]))
        return LaunchPlan(title, len(arrays), (launch,), sizes)

    @property
    def _declaration(self) -> str:
        return str(self.unit.declaration)

    def _parameters(self, code: Code) -> list[_Parameter]:
        found = []
        for written, mangled in zip(self.unit.declaration.parameters, code.types, strict=True):
            kind = read_type(mangled)
            texture = any(word in written.declared for word in ("cudaTextureObject_t", "cudaSurfaceObject_t"))
            if texture or not (kind.is_pointer or kind.is_number):
                raise KernelArgumentError(
                    f"{self.where}: the parameter `{written}` is neither a pointer to elements of an array nor a "
                    "number; textures, structures and references cannot be passed: take arrays and numbers"
                )
            if kind.is_number and not written.name:
                raise KernelArgumentError(f"{self.where}: the parameter `{written}` has no name; name it")
            found.append(_Parameter(written.name, str(written), kind))
        return found

    def _check_arrays(self, parameters: Sequence[_Parameter], operands: Sequence[Any], outs: Sequence[Any]) -> None:
        pointers = [parameter for parameter in parameters if parameter.type.is_pointer]
        if len(pointers) != len(operands) + len(outs):
            raise KernelArgumentError(
                f"{self.where}: the kernel takes {len(pointers)} arrays, but is called with {len(operands)} inputs and "
                f"{len(outs)} outs. Inputs come first, then outputs: change the call or the kernel"
                f"\n  {self._declaration}"
            )
        for i, (parameter, x) in enumerate(zip(pointers, (*operands, *outs), strict=True)):
            is_input = i < len(operands)
            which = f"input {i}" if is_input else f"output {i - len(operands)}"
            dtype = np.dtype(jax.dtypes.canonicalize_dtype(x.dtype)).name
            if parameter.type.dtypes and dtype not in parameter.type.dtypes:
                wanted = " or ".join(parameter.type.dtypes)
                raise KernelArgumentError(
                    f"{self.where}: the parameter `{parameter.text}` takes {wanted}, but {which} is "
                    f"{dtype}{list(x.shape)}; convert it, change the declaration, or name its type in types="
                )
            if not is_input and parameter.type.is_constant:
                raise KernelArgumentError(
                    f"{self.where}: {which} is passed to the parameter `{parameter.text}`, which is const. Inputs come "
                    f"first, then outputs: change the order, or remove the const\n  {self._declaration}"
                )

    def _values(self, parameters: Sequence[_Parameter], numbers: Mapping[str, Any]) -> list[bytes]:
        """Return the bytes of all parameters; those of pointers are filled in later."""
        declared = {p.name: p for p in parameters if not p.type.is_pointer}
        for name in numbers:
            if name not in declared:
                arrays = [p.name for p in parameters if p.type.is_pointer]
                advice = "pass arrays by position" if name in arrays else f"there are: {', '.join(declared) or 'none'}"
                raise KernelArgumentError(
                    f"{self.where}: the kernel has no number {name!r}{did_you_mean(name, declared)}; {advice}"
                    f"\n  {self._declaration}"
                )
        missing = [parameter.text for name, parameter in declared.items() if name not in numbers]
        if missing:
            raise KernelArgumentError(f"{self.where}: missing numbers: {', '.join(missing)}; pass them by name")
        return [
            bytes(8)
            if parameter.type.is_pointer
            else number_bytes(f"{self.where}: {parameter.name}", parameter.type.dtypes[0], numbers[parameter.name])
            for parameter in parameters
        ]

    def _zeroed(self, outputs: Sequence[str], started: Set[int]) -> list[int]:
        """Return the outputs that are to be zero."""
        if isinstance(self.zeroed, bool):
            return [o for o in range(len(outputs)) if self.zeroed and o not in started]
        for name in self.zeroed:
            if name not in outputs:
                raise KernelArgumentError(
                    f"{self.where}: zeroed names {name!r}{did_you_mean(name, outputs)}; the outputs are: "
                    f"{', '.join(outputs)}"
                )
            if outputs.index(name) in started:
                raise KernelArgumentError(
                    f"{self.where}: {name!r} is named in zeroed and in input_output_aliases; remove it from one of them"
                )
        return [o for o, name in enumerate(outputs) if name in self.zeroed]
