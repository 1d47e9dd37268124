# SPDX-License-Identifier: Apache-2.0
"""cuTile kernels as launch plans: compiled while JAX traces, and launched without Python."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import KernelArgumentError, did_you_mean
from ...ffi.arguments import canonical_outs, check_operands, check_vmap_method, checked_aliases, flat_outs
from ...ffi.call import native_call
from ...ffi.launch import Extents, PlanTarget
from ...languages import load_with_packages
from ...typing import PyTree, TypesLike
from . import INSTALL

__all__ = ["cutile_kernel"]

Size = int | Sequence[int]


def cutile_kernel(
    kernel: Callable[..., None],
    outs: TypesLike,
    *,
    grid: Size | Callable[..., Size],
    inout: Mapping[str, int] | None = None,
    zeroed: bool = False,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., PyTree]:
    """Return a JAX function that runs a cuTile kernel on a GPU.

    The kernel's array parameters are the inputs, then the outputs. All others are numbers, which a call passes by name:
    constants (`ct.Constant`), and numbers that are int32 or float32, as in cuTile.

    Args:
        kernel: A function decorated with `cuda.tile.kernel`.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
        grid: The number of blocks, along up to three axes, or a function of the inputs and outputs.
        inout: Array parameters that are an input and an output: their names, and the number of the output. It starts
            with the content of the input.
        zeroed: Whether outputs are zero when the kernel starts, except for those that start with an input's content.
        vmap_method: Accepted, as for `jax.ffi.ffi_call`. A native loop launches the kernel for each element.
        input_output_aliases: Outputs that start with the content of an input, in its memory: `{input: output}`, by
            number. The kernel has one parameter for each of them.

    Returns:
        A function `f(*inputs, **numbers)`. Its results have the structure of `outs`.

    Raises:
        TypeError: If `kernel` is not a kernel of cuTile.
        KernelArgumentError: If arrays and numbers do not fit the kernel's parameters.
        KernelNotAvailableError: If `cuda-tile` is not installed.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> import cuda.tile as ct  # doctest: +SKIP
        >>> @ct.kernel  # doctest: +SKIP
        ... def scale(x, out, factor, tile: ct.Constant[int]):
        ...     ct.store(out, (ct.bid(0),), factor * ct.load(x, (ct.bid(0),), (tile,)))
        >>> x = jnp.arange(3.0)
        >>> scaled = brainevent.cutile_kernel(scale, outs=x, grid=1)  # doctest: +SKIP
        >>> scaled(x, factor=2.0, tile=4)  # doctest: +SKIP
        Array([0., 2., 4.], dtype=float32)
    """
    plans = load_with_packages("cutile_kernel", f"{__package__}.plan", INSTALL)
    compiler = plans.compiler
    if not isinstance(kernel, compiler.KERNEL):
        raise TypeError(
            f"cutile_kernel: kernel must be a kernel of cuTile, found {type(kernel).__name__}; decorate the function "
            "with @cuda.tile.kernel"
        )
    names = compiler.parameters(kernel)
    title = kernel._annotated_function.pyfunc.__name__
    where = f"cutile_kernel({title})"
    check_vmap_method(where, vmap_method)
    declared, tree = flat_outs(where, outs)
    for name in inout or {}:
        if name not in names:
            raise KernelArgumentError(
                f"{where}: inout names {name!r}{did_you_mean(name, names)}; the parameters are: {', '.join(names)}"
            )
    its = plans.Kernel(
        where, title, kernel, names, Extents(where, grid, 1, None, 1, 0), dict(inout or {}), bool(zeroed)
    )

    def call(*operands: Any, **numbers: Any) -> Any:
        check_operands(where, operands)
        avals = canonical_outs(declared)
        shared = checked_aliases(where, input_output_aliases or {}, operands, avals)
        roles = its.roles(numbers, len(operands), len(avals))
        aliases = checked_aliases(where, {**dict(shared), **its.both(roles)}, operands, avals)
        again = functools.partial(its.plan, roles, numbers, aliases)
        target = PlanTarget(again(operands, avals), again)
        return tree.unflatten(native_call(target, operands, avals, aliases))

    return call
