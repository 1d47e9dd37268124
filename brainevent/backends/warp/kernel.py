# SPDX-License-Identifier: Apache-2.0
"""NVIDIA Warp on the CPU and on the GPU: a compiled kernel as a launch plan, with no Python at run time."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import did_you_mean
from ...ffi.arguments import check_operands, check_vmap_method, checked_aliases, flat_outs
from ...typing import PyTree, TypesLike
from .adjoint import differentiable
from .arguments import Parameter, declared
from .call import WarpCall
from .compiled import titled
from .dtypes import jaxinfo_to_warpinfo, jaxtype_to_warptype, the_warp
from .internals import check_release
from .patterns import refuse_wrong_adjoints

__all__ = ["jaxinfo_to_warpinfo", "jaxtype_to_warptype", "warp_kernel"]

_MOST_THREADS = 1024  # of a block
_MOST_EXTENT = 2**31 - 1  # wp.tid() counts in 32 bits


def warp_kernel(
    kernel: Callable[..., None],
    outs: TypesLike,
    *,
    launch_dims: int | Sequence[int],
    block_dim: int = 256,
    in_out_argnames: str | Sequence[str] = (),
    zeroed: bool | str | Sequence[str] = (),
    adjoint: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., PyTree]:
    """Return a JAX function that runs a Warp kernel, on the CPU or on a GPU.

    The parameters of the kernel are inputs, then outputs: its last arrays, one for each leaf of `outs`.

    Args:
        kernel: A function decorated with `warp.kernel`.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
        launch_dims: The number of threads, along up to four axes.
        block_dim: The threads of a block, on a GPU.
        in_out_argnames: Outputs that are arguments, too, with whose content they start, by name.
        zeroed: Outputs that are zero when the kernel starts, by name; True for all that are not arguments.
        adjoint: Whether the function is differentiable in reverse mode, by the adjoint that Warp makes of the kernel.
        vmap_method: Accepted, as for `jax.ffi.ffi_call`. A native loop launches the kernel for each element.
        input_output_aliases: Outputs that start with the content of an input, in its memory: `{input: output}`, by
            number.

    Returns:
        A function of the inputs: arrays, and Python numbers for parameters that are not arrays. Its results have the
            structure of `outs`.

    Raises:
        TypeError: If `kernel` is not a Warp kernel.
        ImportError: If Warp is not installed.
        ValueError: If outputs are named that the kernel does not have, or `adjoint` is combined with
            `input_output_aliases`.

    Examples:
        >>> import jax, jax.numpy as jnp, warp as wp, brainevent
        >>> @wp.kernel
        ... def scale(x: wp.array(dtype=wp.float32), factor: wp.float32, out: wp.array(dtype=wp.float32)):
        ...     i = wp.tid()
        ...     out[i] = factor * x[i]
        >>> x = jnp.arange(3.0)
        >>> brainevent.warp_kernel(scale, outs=jax.ShapeDtypeStruct(x.shape, x.dtype), launch_dims=x.shape)(x, 2.0)
        Array([0., 2., 4.], dtype=float32)
    """
    warp = the_warp()
    where = f"warp_kernel({titled(kernel)})"
    check_release(where)
    _check_kernel(where, warp, kernel)
    check_vmap_method(where, vmap_method)
    described, tree = flat_outs(where, outs)
    parameters = declared(where, kernel)
    outputs = _outputs(where, parameters, len(described))
    in_out = _named(where, "in_out_argnames", in_out_argnames, outputs)
    pure = tuple(parameter.name for parameter in outputs if parameter.name not in in_out)
    description = WarpCall(
        where=where,
        kernel=kernel,
        parameters=parameters,
        outs=tuple(zip((parameter.name for parameter in outputs), described, strict=True)),
        in_out=in_out,
        zeroed=pure if zeroed is True else _named(where, "zeroed", zeroed or (), outputs),
        dims=_dims(where, launch_dims),
        block_dim=_block_dim(where, block_dim),
    )
    description.check_zeroed()
    if adjoint and input_output_aliases:
        raise ValueError(f"{where}: adjoint=True with input_output_aliases; use in_out_argnames instead")
    if adjoint:
        refuse_wrong_adjoints(where, kernel, {output.name: output.name in in_out for output in outputs})

    def call(*operands: Any) -> Any:
        if adjoint:
            return differentiable(description.canonical(), tree, operands)
        arrays, bound = description.canonical().bind(operands)
        check_operands(where, arrays)
        aliases = checked_aliases(where, input_output_aliases or {}, arrays, bound.outs)
        return tree.unflatten(bound.run(arrays, aliases))

    return call


def _check_kernel(where: str, warp: Any, kernel: Any) -> None:
    if isinstance(kernel, warp.Kernel):
        return
    hint = "decorate it with @warp.kernel" if callable(kernel) else "pass a function decorated with @warp.kernel"
    if hasattr(kernel, "py_func"):
        hint = "it is compiled by Numba: decorate the function with @warp.kernel, or use numba_kernel"
    elif isinstance(kernel, warp.Function):
        hint = "it is decorated with @warp.func; call it from a function that is decorated with @warp.kernel"
    raise TypeError(f"{where}: kernel must be a Warp kernel, found {type(kernel).__name__}; {hint}")


def _outputs(where: str, parameters: Sequence[Parameter], count: int) -> tuple[Parameter, ...]:
    """Return the parameters that are outputs: the last arrays."""
    arrays = [parameter for parameter in parameters if parameter.is_array]
    if not 1 <= count <= len(arrays):
        raise ValueError(
            f"{where}: outs has {count} leaves, and the kernel has {len(arrays)} array parameters "
            f"({', '.join(parameter.name for parameter in arrays)}), the last of which are the outputs; "
            "describe each output in outs"
        )
    return tuple(arrays[-count:])


def _named(where: str, what: str, names: Any, outputs: Sequence[Parameter]) -> tuple[str, ...]:
    """Return names of outputs, checked."""
    names = (names,) if isinstance(names, str) else tuple(names) if isinstance(names, Sequence) else names
    if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{where}: {what} is {names!r}; pass names of outputs")
    known = [output.name for output in outputs]
    for name in names:
        if name not in known:
            raise ValueError(
                f"{where}: {what}: the kernel has no output {name!r}{did_you_mean(name, known)}; "
                f"the outputs are the last arrays, one for each leaf of outs: {', '.join(known)}"
            )
    if len(set(names)) < len(names):
        raise ValueError(f"{where}: {what} names an output twice ({', '.join(names)}); name it once")
    return names


def _dims(where: str, dims: Any) -> tuple[int, ...]:
    extents = tuple(dims) if isinstance(dims, Sequence) and not isinstance(dims, (str, bytes)) else (dims,)
    if not 1 <= len(extents) <= 4 or not all(_is_whole(extent) for extent in extents):
        raise ValueError(f"{where}: launch_dims is {dims!r}; pass a whole number, or one to four of them")
    whole = tuple(operator.index(extent) for extent in extents)
    if not all(0 <= extent <= _MOST_EXTENT for extent in whole):
        raise ValueError(f"{where}: launch_dims is {dims!r}; extents are from 0 to {_MOST_EXTENT}")
    return whole


def _block_dim(where: str, block_dim: Any) -> int:
    if not _is_whole(block_dim) or not 1 <= operator.index(block_dim) <= _MOST_THREADS:
        raise ValueError(f"{where}: block_dim is {block_dim!r}; pass a whole number from 1 to {_MOST_THREADS}")
    return operator.index(block_dim)


def _is_whole(number: Any) -> bool:
    return hasattr(number, "__index__") and not isinstance(number, bool)
