# SPDX-License-Identifier: Apache-2.0
"""Machine code as a launch plan: nothing is compiled here, and no Python runs."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from ...errors import GpuArchDetectionError, KernelArgumentError, did_you_mean
from ...ffi.arguments import canonical_outs, check_operands, check_vmap_method, checked_aliases, flat_outs
from ...ffi.call import native_call
from ...ffi.declared import OUTPUTS, Argument, Arguments, slots
from ...ffi.devices import cuda_capabilities
from ...ffi.launch import Extents, Launch, LaunchPlan, Limits, PlanTarget, check_limits, on_three_axes
from ...ffi.launch.code import Code, Entry, capability, chosen, read
from ...ffi.scalars import byte_size
from ...toolchain.architectures import gpu_architectures
from ...typing import PyTree, TypesLike

__all__ = ["cubin_kernel"]

Size = int | Sequence[int]
OneCode = bytes | str | PathLike[str]


def cubin_kernel(
    code: OneCode | Sequence[OneCode],
    entry: str | None,
    outs: TypesLike,
    *,
    arguments: Mapping[str, Any] | None = None,
    grid: Size | Callable[..., Size] | None = None,
    block: Size | Callable[..., Size] | None = None,
    launch_dims: Size | Callable[..., Size] | None = None,
    threads_per_block: int = 256,
    shared_mem: int | Callable[..., int] = 0,
    cluster: Size | None = None,
    cooperative: bool = False,
    zeroed: bool | Sequence[str] = (),
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., PyTree]:
    """Return a JAX function that runs a kernel of a cubin or of PTX, from any compiler.

    Give either `grid` and `block`, or `launch_dims`; these and `shared_mem` may be functions of the inputs and outputs.

    Args:
        code: A cubin as bytes, PTX as a text, or the path of a file with one; or several, of which the best for the GPU
            is taken.
        entry: The name of the kernel in it; None: the only kernel of the code.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
        arguments: The parameters of the kernel in their order, by names: "input", "output", "inout" for an output that
            starts with the content of an input (or with a dtype that is checked, as in `("input", "float32")`), the
            dtype of a number, a `jax.ShapeDtypeStruct` for scratch memory or a function of the inputs and outputs that
            returns one, or bytes. None: the inputs, then the outputs.
        grid: The number of blocks, along up to three axes.
        block: The number of threads of a block, along up to three axes.
        launch_dims: The number of threads, along up to three axes.
        threads_per_block: The threads of a block, where `launch_dims` is given.
        shared_mem: Bytes of dynamic shared memory of a block.
        cluster: The blocks of a cluster, along up to three axes; None: as the kernel was compiled.
        cooperative: Whether all blocks must run at the same time.
        zeroed: The outputs and scratch memory that are zero when the kernel starts, by name; True for all but those of
            `input_output_aliases`.
        vmap_method: Accepted, as for `jax.ffi.ffi_call`. A native loop launches the kernel for each element.
        input_output_aliases: Outputs that start with the content of an input, in its memory: `{input: output}`, by
            number.

    Returns:
        A function `f(*inputs, **numbers)`. Its results have the structure of `outs`.

    Raises:
        KernelArgumentError: If the code has no such kernel, its parameters do not have the sizes of `arguments`, or it
            was compiled for blocks of another size.
        UnsupportedArchError: When it is called: if no code runs on the GPU.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> x = jnp.arange(3.0)
        >>> arguments = {"x": "input", "n": "int32", "factor": "float32", "out": "output"}
        >>> scale = brainevent.cubin_kernel(  # doctest: +SKIP
        ...     "scale.cubin", "scale", outs=x, arguments=arguments, launch_dims=x.shape
        ... )
        >>> scale(x, n=3, factor=2.0)  # doctest: +SKIP
        Array([0., 2., 4.], dtype=float32)
    """
    where = f"cubin_kernel({entry})" if entry else "cubin_kernel"
    check_vmap_method(where, vmap_method)
    declared, tree = flat_outs(where, outs)
    codes = read(where, code)
    parameters = Arguments.of(where, arguments)
    for one in codes:
        found = one.entry(where, entry)
        if parameters.declared is not None:
            parameters.check_sizes(parameters.declared, one, found)
    extents = Extents(where, grid, block, launch_dims, threads_per_block, shared_mem)
    names = zeroed if isinstance(zeroed, bool) else tuple(zeroed)
    how = _Launched(cooperative, _cluster(where, cluster), names)
    kernel = _Kernel(where, codes, entry, parameters, extents, how)

    def call(*operands: Any, **numbers: Any) -> Any:
        check_operands(where, operands)
        avals = canonical_outs(declared)
        wanted = {**kernel.arguments.aliases(), **(input_output_aliases or {})}
        aliases = checked_aliases(where, wanted, operands, avals)
        hidden = kernel.arguments.scratch(operands, avals)
        again = functools.partial(kernel.plan, numbers, frozenset(output for _, output in aliases), len(hidden))
        target = PlanTarget(again(operands, (*avals, *hidden)), again)
        results = native_call(target, operands, (*avals, *hidden), aliases)
        return tree.unflatten(results[: len(avals)])

    return call


def _cluster(where: str, given: Size | None) -> tuple[int, int, int]:
    if given is None:
        return (0, 0, 0)
    return on_three_axes(where, "cluster", given)


def _check_block(where: str, launch: Launch, entry: Entry) -> None:
    """Raise if the kernel was compiled for blocks of other sizes: the driver would refuse it when it runs."""
    if entry.block not in ((), launch.block):
        raise KernelArgumentError(
            f"{where}: the kernel {entry.name!r} was compiled for blocks of {entry.block} threads, and the block is "
            f"{launch.block}; pass grid= and block={entry.block}"
        )
    if entry.most_threads is not None and math.prod(launch.block) > entry.most_threads:
        raise KernelArgumentError(
            f"{where}: the kernel {entry.name!r} was compiled for blocks of at most {entry.most_threads} threads, and "
            f"the block is {launch.block}; use a smaller one"
        )


@dataclass(frozen=True)
class _Launched:
    """What a launch has besides its size."""

    together: bool
    cluster: tuple[int, int, int]
    zeroed: bool | tuple[str, ...]


@dataclass(frozen=True)
class _Kernel:
    """A kernel and how to launch it, for any inputs and outputs."""

    where: str
    codes: tuple[Code, ...]
    entry: str | None
    arguments: Arguments
    extents: Extents
    how: _Launched

    def plan(
        self,
        numbers: Mapping[str, Any],
        started: frozenset[int],
        hidden: int,
        operands: Sequence[Any],
        results: Sequence[Any],
    ) -> LaunchPlan:
        """Lay out the launch for operands and results, of which the last are scratch memory."""
        outs = results[: len(results) - hidden]
        arguments = self.arguments.for_call(len(operands), len(outs))
        architectures = self._architectures()
        code = chosen(self.where, self.codes, [capability(one) for one in architectures])
        entry = code.entry(self.where, self.entry)
        self.arguments.check_sizes(arguments, code, entry)
        self.arguments.check_dtypes(arguments, (*operands, *outs))
        values = self.arguments.values(arguments, numbers)
        configuration = self.extents.of((*operands, *outs))
        zeroed = self._zeroed(arguments, started)
        if configuration.is_empty:  # no thread writes: outputs are zeros, not undefined
            zeroed = [o for o in range(len(outs)) if o not in started]
        sizes = tuple((len(operands) + o, n) for o in zeroed if (n := byte_size(results[o])))
        buffers = len(operands) + len(results)
        if configuration.is_empty:
            return LaunchPlan(entry.name, buffers, (), sizes)
        launch = Launch(
            binary=code.binary,
            entry=entry.name,
            title=entry.name,
            grid=configuration.grid,
            block=configuration.block,
            parameters=values,
            slots=tuple(slots(arguments, len(operands), len(outs))),
            shared=configuration.shared,
            together=self.how.together,
            cluster=self.how.cluster,
        )
        check_limits(self.where, launch, Limits.of(architectures[0]))
        _check_block(self.where, launch, entry)
        return LaunchPlan(entry.name, buffers, (launch,), sizes)

    def _architectures(self) -> tuple[str, ...]:
        """Return what the code must run on, or raise: it is compiled already, so another GPU is no way out."""
        try:
            return gpu_architectures(None, cuda_capabilities)
        except GpuArchDetectionError as error:
            raise GpuArchDetectionError(
                f"[E-ARCH] {self.where}: this code runs on NVIDIA GPUs, and none is found here; call it on a machine "
                "with one. To export a program for one, name it before: brainevent.config.set_compute_capability('9.0')"
            ) from error

    def _zeroed(self, arguments: Sequence[Argument], started: frozenset[int]) -> list[int]:
        """Return the results that are to be zero: outputs, then scratch memory."""
        names = [one.name for kinds in (OUTPUTS, ("scratch",)) for one in arguments if one.kind in kinds]
        if isinstance(self.how.zeroed, bool):
            return [o for o in range(len(names)) if self.how.zeroed and o not in started]
        for name in self.how.zeroed:
            if name not in names:
                raise KernelArgumentError(
                    f"{self.where}: zeroed names {name!r}{did_you_mean(name, names)}; outputs and scratch memory are: "
                    f"{', '.join(names)}"
                )
            if names.index(name) in started:
                raise KernelArgumentError(
                    f"{self.where}: {name!r} is named in zeroed and in input_output_aliases; remove it from one of them"
                )
        return [o for o, name in enumerate(names) if name in self.how.zeroed]
