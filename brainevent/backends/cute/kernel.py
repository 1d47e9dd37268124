# SPDX-License-Identifier: Apache-2.0
"""Host functions of CuTe DSL as functions of JAX arrays: compiled while JAX traces, and called without Python."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import KernelArgumentError
from ...ffi.arguments import check_vmap_method, flat_outs
from ...ffi.declared import Argument, Arguments
from ...ffi.devices import cuda_capabilities
from ...ffi.tvm import Function, Source, call_of
from ...languages import load_with_packages
from ...toolchain.architectures import gpu_architectures
from ...typing import PyTree, TypesLike
from . import INSTALL

__all__ = ["cute_kernel"]


def cute_kernel(
    function: Callable[..., None],
    outs: TypesLike,
    *,
    arguments: Mapping[str, Any] | None = None,
    allow_cuda_graph: bool = True,
    vmap_method: str | None = None,
    input_output_aliases: Mapping[int, int] | None = None,
) -> Callable[..., PyTree]:
    """Return a JAX function that calls a host function of CuTe DSL, which launches kernels.

    The function is compiled for the shapes of its arrays. Its last parameter is the stream, on which it launches.

    Args:
        function: A function decorated with `cutlass.cute.jit`.
        outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
        arguments: The parameters of the function before the stream, in their order, by their names: "input", "output",
            "inout" for an output that starts with the content of an input (or with a dtype that is checked, as in
            `("input", "float32")`), the dtype of a number, a `jax.ShapeDtypeStruct` for scratch memory or a function of
            the inputs and outputs that returns one. None: the inputs, then the outputs.
        allow_cuda_graph: Whether XLA may record calls in a CUDA graph.
        vmap_method: As for `jax.ffi.ffi_call`. Without one, a native loop calls the function for each element.
        input_output_aliases: Outputs that start with the content of an input, in its memory: `{input: output}`, by
            number.

    Returns:
        A function `f(*inputs, **numbers)`. Its results have the structure of `outs`.

    Raises:
        KernelArgumentError: If arrays and numbers do not fit `arguments`, or there is no parameter for the stream.
        KernelNotAvailableError: If `nvidia-cutlass-dsl` is not installed.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> from cutlass import cute  # doctest: +SKIP
        >>> @cute.kernel  # doctest: +SKIP
        ... def scale(x: cute.Tensor, out: cute.Tensor):
        ...     i = cute.arch.thread_idx()[0]
        ...     out[i] = 2 * x[i]
        >>> @cute.jit  # doctest: +SKIP
        ... def launch(x: cute.Tensor, out: cute.Tensor, stream):
        ...     scale(x, out).launch(grid=[1, 1, 1], block=[cute.size(out), 1, 1], stream=stream)
        >>> x = jnp.arange(3.0)
        >>> brainevent.cute_kernel(launch, outs=x)(x)  # doctest: +SKIP
        Array([0., 2., 4.], dtype=float32)
    """
    compiler = load_with_packages("cute_kernel", f"{__package__}.compiler", INSTALL)
    if not callable(function):
        raise KernelArgumentError(
            f"cute_kernel: function is {type(function).__name__}; pass a function decorated with @cute.jit"
        )
    names = compiler.parameters(function)
    where = f"cute_kernel({getattr(function, '__name__', 'function')})"
    if not names or names[-1] != "stream":
        raise KernelArgumentError(
            f"{where}: its parameters are {', '.join(names) or '(none)'}; the last must be 'stream', for "
            "launch(..., stream=stream): XLA runs kernels in an order on streams of its own"
        )
    check_vmap_method(where, vmap_method)
    declared, tree = flat_outs(where, outs)
    parameters = _declared(where, arguments, names[:-1])

    def source(its: Sequence[Argument], arrays: Sequence[Any]) -> Source:
        if len(its) != len(names) - 1:
            raise KernelArgumentError(
                f"{where}: it takes {', '.join(names[:-1]) or 'nothing'} and the stream, and is called with {len(its)} "
                "arrays, inputs and outputs; change the call, or declare arguments="
            )
        architecture = gpu_architectures(None, cuda_capabilities)[0]
        library, name = compiler.library(where, function, its, arrays, architecture)
        return Source(name, library, runtime="cute")

    called = Function(where, source, "cuda", parameters, bool(allow_cuda_graph))
    call = call_of(called, declared, vmap_method, input_output_aliases)
    return lambda *operands, **numbers: tree.unflatten(call(*operands, **numbers))


def _declared(where: str, arguments: Mapping[str, Any] | None, names: Sequence[str]) -> Arguments:
    """Return the declared parameters, which must be those of the function before the stream."""
    parameters = Arguments.of(where, arguments)
    if parameters.declared is None:
        return parameters
    if tuple(one.name for one in parameters.declared) != names:
        raise KernelArgumentError(
            f"{where}: arguments names {', '.join(one.name for one in parameters.declared) or 'none'}; the function's "
            f"parameters before the stream are: {', '.join(names) or 'none'}"
        )
    for one in parameters.declared:
        if one.kind == "bytes":
            raise KernelArgumentError(f"{where}: {one.name!r} is declared as bytes; CuTe DSL takes arrays and numbers")
    return parameters
