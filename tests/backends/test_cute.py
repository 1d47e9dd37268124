# SPDX-License-Identifier: Apache-2.0
"""Host functions of CuTe DSL, compiled and linked here without a GPU: what they check themselves, exports, errors."""

import importlib
import re

import jax
import jax.numpy as jnp
import pytest
from jax import export

import brainevent
from brainevent import KernelArgumentError, KernelCompilationError
from brainevent.ffi.declared import Argument
from brainevent.ffi.tvm.library import Source, callable_of

cute = pytest.importorskip("cutlass.cute")
cutlass = importlib.import_module("cutlass")
tvm_ffi = pytest.importorskip("tvm_ffi")
compiler = importlib.import_module("brainevent.backends.cute.compiler")
kernels = importlib.import_module("brainevent.backends.cute.kernel")

X = jnp.arange(1000.0)
ARGUMENTS = {"x": "input", "out": "output", "factor": "float32"}


@cute.kernel
def scale(x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32):
    i = cute.arch.block_idx()[0] * cute.arch.block_dim()[0] + cute.arch.thread_idx()[0]
    if i < cute.size(out):
        out[i] = factor * x[i]


@cute.jit
def launch(x: cute.Tensor, out: cute.Tensor, factor: cutlass.Float32, stream):
    scale(x, out, factor).launch(grid=[(cute.size(out) + 127) // 128, 1, 1], block=[128, 1, 1], stream=stream)


@cute.jit
def without(x: cute.Tensor, out: cute.Tensor):
    scale(x, out, 2.0).launch(grid=[1, 1, 1], block=[128, 1, 1])


@cute.jit
def broken(x: cute.Tensor, out: cute.Tensor, stream):
    out[0] = x.no_such_thing()


STRIDES = []


@cute.jit
def told(x: cute.Tensor, out: cute.Tensor, stream):
    STRIDES.append(tuple(x.stride))
    scale(x, out, 2.0).launch(grid=[1, 1, 1], block=[128, 1, 1], stream=stream)


@pytest.fixture(autouse=True)
def ninety(monkeypatch):
    """Pretend that all GPUs have compute capability 9.0."""
    monkeypatch.setattr(kernels, "cuda_capabilities", lambda: ("9.0",))


def test_the_library_is_one_of_tvm_ffi_and_checks_its_arguments():
    arguments = [Argument("x", "input"), Argument("out", "output"), Argument("factor", "number", "float32")]
    content, name = compiler.library("here", launch, arguments, [X, X, None], "9.0")
    function, its_object = callable_of(Source(name, content, runtime="cute"))  # with the vendor's libraries
    assert function
    assert its_object
    again, _ = compiler.library("here", launch, arguments, [X, X, None], "9.0")
    assert again is content  # compiled once
    other, _ = compiler.library("here", launch, arguments, [X[:8], X[:8], None], "9.0")
    assert other != content


def test_arrays_are_in_rows():
    arguments = [Argument("x", "input"), Argument("out", "output")]
    STRIDES.clear()
    compiler.library("here", told, arguments, [jnp.ones((3, 5, 7)), jnp.ones((3, 5, 7))], "9.0")
    assert STRIDES
    assert set(STRIDES) == {(35, 7, 1)}


def test_exported_programs_contain_the_library():
    kernel = brainevent.cute_kernel(launch, X, arguments=ARGUMENTS)
    call = jax.jit(jax.vmap(lambda x: kernel(x, factor=2.0)))
    program = export.export(call, platforms=["cuda"], disabled_checks=brainevent.export_checks())(jnp.ones((3, 1000)))
    assert program.mlir_module().count("brainevent_portable_graph") == 1


@pytest.mark.parametrize(
    ("function", "options", "words"),
    [
        (3, {}, "function is int; pass a function decorated with @cute.jit"),
        (without, {}, "its parameters are x, out; the last must be 'stream'"),
        (
            launch,
            {"arguments": {"y": "input", "out": "output"}},
            "arguments names y, out; the function's parameters before",
        ),
        (launch, {"arguments": {**ARGUMENTS, "factor": b"abcd"}}, "'factor' is declared as bytes; CuTe DSL takes"),
    ],
)
def test_what_is_refused(function, options, words):
    with pytest.raises(KernelArgumentError, match=re.escape(words)):
        brainevent.cute_kernel(function, X, **options)


def test_what_does_not_fit_a_call():
    with pytest.raises(
        KernelArgumentError, match=re.escape("it takes x, out, factor and the stream, and is called with 2 arr")
    ):
        brainevent.cute_kernel(launch, X)(X)
    with pytest.raises(KernelArgumentError, match=re.escape("'input 0' is float32[]; CuTe DSL's arrays have axes")):
        brainevent.cute_kernel(broken, X)(jnp.float32(1))
    with pytest.raises(KernelArgumentError, match="CuTe DSL has no complex64, as 'input 0' is; convert it"):
        brainevent.cute_kernel(broken, X)(jnp.ones(3, "complex64"))
    with pytest.raises(KernelCompilationError, match=re.escape("cute_kernel(broken): the function does not compile:")):
        brainevent.cute_kernel(broken, X)(X)
