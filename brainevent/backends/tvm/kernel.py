# SPDX-License-Identifier: Apache-2.0
"""Functions of TVM FFI as functions of JAX arrays: native code makes their arguments, and no Python runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any

from ...errors import KernelArgumentError
from ...ffi.arguments import check_vmap_method, flat_outs
from ...ffi.declared import Arguments
from ...ffi.tvm import Function, call_of, found
from ...typing import PyTree, TypesLike

__all__ = ["tvm_kernel"]

_PLATFORMS = {"cpu": "cpu", "gpu": "cuda"}


def tvm_kernel(
    function: str | PathLike[str] | Any,
    outs: TypesLike,
    *,
    name: str | None = None,
    platform: str = "gpu",
    arguments: Mapping[str, Any] | None = None,
    allow_cuda_graph: bool = True,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., PyTree]:
    """Return a JAX function that calls a function with the calling convention of TVM FFI.

    TileLang, TVM, CUTLASS and others export such functions. They write their results into arrays among their arguments.

    Args:
        function: The path of a shared library, or a `tvm_ffi.Function`. Only programs with libraries can be exported.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
        name: The name of the function in the library; None: the only one.
        platform: "cpu" or "gpu": where its arrays are.
        arguments: The parameters of the function in their order, by names: "input", "output", "inout" for an output
            that starts with the content of an input (or with a dtype that is checked, as in `("input", "float32")`),
            the dtype of a number, a `jax.ShapeDtypeStruct` for scratch memory or a function of the inputs and outputs
            that returns one. None: the inputs, then the outputs.
        allow_cuda_graph: Whether XLA may record calls in a CUDA graph. Pass False for functions that do more than
            launch kernels on the stream of TVM FFI.
        vmap_method: As for `jax.ffi.ffi_call`. Without one, a native loop calls the function for each element.
        input_output_aliases: Outputs that start with the content of an input, in its memory: `{input: output}`, by
            number.

    Returns:
        A function `f(*inputs, **numbers)`. Its results have the structure of `outs`.

    Raises:
        KernelArgumentError: If the library has no such function, or arrays and numbers do not fit `arguments`.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> x = jnp.arange(3.0)
        >>> arguments = {"x": "input", "factor": "float32", "out": "output"}
        >>> scale = brainevent.tvm_kernel("scale.so", x, arguments=arguments, platform="cpu")  # doctest: +SKIP
        >>> scale(x, factor=2.0)  # doctest: +SKIP
        Array([0., 2., 4.], dtype=float32)
    """
    where = f"tvm_kernel({name or 'function'})"
    if platform not in _PLATFORMS:
        raise KernelArgumentError(f'{where}: platform is {platform!r}; pass "cpu" or "gpu"')
    check_vmap_method(where, vmap_method)
    declared, tree = flat_outs(where, outs)
    source = found(where, function, name)
    where = f"tvm_kernel({source.name})"
    parameters = Arguments.of(where, arguments)
    for one in parameters.declared or ():
        if one.kind == "bytes":
            raise KernelArgumentError(f"{where}: {one.name!r} is declared as bytes; TVM FFI takes arrays and numbers")
    in_graphs = bool(allow_cuda_graph) and platform == "gpu"
    called = Function(where, lambda arguments, arrays: source, _PLATFORMS[platform], parameters, in_graphs)
    call = call_of(called, declared, vmap_method, input_output_aliases)
    return lambda *operands, **numbers: tree.unflatten(call(*operands, **numbers))
