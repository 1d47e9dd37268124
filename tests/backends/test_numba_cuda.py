# SPDX-License-Identifier: Apache-2.0
"""`numba_cuda_kernel` and `numba_cuda_callable`, as far as no GPU is needed: configurations, recording, plans."""

import contextlib
import dataclasses
import importlib
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent.errors import KernelArgumentError, KernelCompilationError
from brainevent.ffi.launch import Configuration

numba_cuda = pytest.importorskip("brainevent.backends.numba_cuda.kernel", reason="needs numba.cuda")
cuda = pytest.importorskip("numba.cuda")

compiled = importlib.import_module("brainevent.backends.numba_cuda.native")
native = importlib.import_module("brainevent.backends.numba_cuda.native")
from brainevent.backends.numba_cuda.record import CannotRecordError, StandIn, recorded  # noqa: E402

F32 = np.dtype(np.float32)
VECTOR = jax.ShapeDtypeStruct((64,), jnp.float32)


@cuda.jit
def add(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + y[i]


@cuda.jit
def square(x, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * x[i]


def configured(grid=None, block=None, launch_dims=None, threads_per_block=256, shared=0):
    return Configuration.checked("here", grid, block, launch_dims, threads_per_block, shared)


@pytest.mark.parametrize(
    ("given", "grid", "block"),
    [
        ({"launch_dims": 1024}, (4, 1, 1), (256, 1, 1)),
        ({"launch_dims": 1000, "threads_per_block": 128}, (8, 1, 1), (128, 1, 1)),
        ({"launch_dims": 100}, (1, 1, 1), (100, 1, 1)),
        ({"launch_dims": np.int64(100)}, (1, 1, 1), (100, 1, 1)),
        ({"launch_dims": (64, 64)}, (4, 4, 1), (16, 16, 1)),
        ({"launch_dims": (5, 100)}, (1, 7, 1), (5, 16, 1)),
        ({"launch_dims": [9, 9, 9]}, (2, 2, 3), (8, 8, 4)),
        ({"launch_dims": 0}, (0, 1, 1), (1, 1, 1)),
        ({"launch_dims": (4, 0)}, (1, 0, 1), (4, 1, 1)),
        ({"grid": 4, "block": 256}, (4, 1, 1), (256, 1, 1)),
        ({"grid": (2, 3), "block": (4, 5, 6)}, (2, 3, 1), (4, 5, 6)),
    ],
    ids=str,
)
def test_launch_configurations(given, grid, block):
    found = configured(**given)
    assert (found.grid, found.block) == (grid, block)
    assert found.is_empty == (0 in grid)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no launch configuration; pass grid= and block=, or launch_dims="),
        ({"grid": 1}, "grid is given without block; pass both, or launch_dims alone"),
        ({"block": 1}, "block is given without grid"),
        ({"grid": 1, "block": 1, "launch_dims": 1}, "both launch_dims and grid or block are given"),
        ({"launch_dims": -1}, "launch_dims is -1; extents cannot be negative"),
        ({"launch_dims": (1, 2, 3, 4)}, "pass a whole number, or one to three of them"),
        ({"launch_dims": ()}, "pass a whole number"),
        ({"launch_dims": 2.5}, "launch_dims is 2.5"),
        ({"launch_dims": "64"}, "launch_dims is '64'"),
        ({"launch_dims": True}, "launch_dims is True"),
        ({"launch_dims": 5, "threads_per_block": 0}, "threads_per_block is 0; pass 1 or more"),
        ({"launch_dims": 5, "shared": -1}, "shared_mem is -1; pass a number of bytes"),
    ],
    ids=str,
)
def test_wrong_configurations_are_reported(given, words):
    with pytest.raises(ValueError, match=f"here: .*{words}"):
        configured(**given)


def test_what_is_no_kernel_is_reported():
    import numba

    with pytest.raises(TypeError, match=r"numba_cuda_kernel\(f\): .*found function; decorate it with @numba.cuda.jit"):
        brainevent.numba_cuda_kernel(f, VECTOR, launch_dims=64)
    on_cpu = numba.njit(f)
    with pytest.raises(
        TypeError, match=r"it is compiled for the CPU: decorate the function with @numba.cuda.jit, or use"
    ):
        brainevent.numba_cuda_kernel(on_cpu, VECTOR, launch_dims=64)
    with pytest.raises(TypeError, match="found int; pass a function decorated with"):
        brainevent.numba_cuda_kernel(3, VECTOR, launch_dims=64)
    with pytest.raises(TypeError, match="numba_cuda_callable: func must be a function, found int"):
        brainevent.numba_cuda_callable(3, VECTOR)
    with pytest.raises(ValueError, match="unknown vmap_method 'all'"):
        brainevent.numba_cuda_kernel(add, VECTOR, launch_dims=64, vmap_method="all")
    with pytest.raises(AttributeError, match="outs leaf 0 is 3"):
        brainevent.numba_cuda_kernel(add, 3, launch_dims=64)


def f(x, out):
    pass


linked = cuda.jit(f, link=["more.cu"])


class OnTheGpu:
    """An array of another library's, or one that was there before."""

    __cuda_array_interface__ = {"shape": (64,), "typestr": "<f4", "data": (0, False), "version": 3}  # noqa: RUF012


def test_bfloat16_is_refused_as_an_argument_and_a_value():
    call = brainevent.numba_cuda_kernel(square, jax.ShapeDtypeStruct((4,), jnp.bfloat16), launch_dims=4)
    for kind in (KernelArgumentError, ValueError):
        with pytest.raises(kind, match="take no arrays of bfloat16; convert first"):
            call(jnp.ones(4, jnp.bfloat16))


# ---- recording ------------------------------------------------------------------------------------------------------


def two_kernels(x, out, stream):
    squares = cuda.device_array(x.shape[0], dtype=np.float32)
    square[1, 64, stream](x, squares)
    again = cuda.device_array_like(squares)
    square[(2, 1), (32, 1), stream, 128](squares[:], again)
    add[1, 64, stream](again, squares, out)


def test_launches_and_temporaries_are_recorded_in_order():
    recording = recorded(two_kernels, [((64,), F32), ((64,), F32)])
    assert [record.kernel for record in recording.launches] == [square, square, add]
    assert [x.buffer for x in recording.temporaries] == [2, 3]
    assert [[x.buffer for x in record.arguments] for record in recording.launches] == [[0, 2], [2, 3], [3, 2, 1]]
    first, second, _ = recording.launches
    assert (first.grid, first.block, first.shared) == (1, 64, 0)
    assert (second.grid, second.block, second.shared) == ((2, 1), (32, 1), 128)


def test_stand_ins_are_sliced_as_arrays():
    whole = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    array = StandIn(0, whole.shape, whole.dtype)
    assert (array.ndim, array.size, array.nbytes, array.strides, len(array)) == (3, 24, 96, whole.strides, 4)
    for index in (slice(1, 3), slice(None), slice(-2, None), slice(3, 1), 2, -1):
        part, real = array[index], whole[index]
        assert (part.shape, part.strides) == (real.shape, real.strides)
        if real.size:
            assert part.shift == real.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    assert array.reshape(6, 4).shape == array.reshape((6, -1)).shape == (6, 4)
    assert (array[np.int64(2)].shape, array[np.int64(2)].shift) == (array[2].shape, array[2].shift)
    assert array.reshape(6, 4, order="C").shape == array.reshape(np.int64(24)).reshape(6, 4, order="A").shape == (6, 4)
    with pytest.raises(ValueError, match="reshape"):
        array.reshape(5)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda x, stream: float(x[0]), "indexes an array with 0"),
        (lambda x, stream: float(x), "reads the values of an array"),
        (lambda x, stream: np.asarray(x), "uses '__array_|reads the values of an array"),
        (lambda x, stream: 1 if x else 2, "reads the values of an array"),
        (lambda x, stream: x[::2], "indexes an array with slice"),
        (lambda x, stream: x.__setitem__(0, 1), "writes to an array outside of a kernel"),
        (lambda x, stream: x.copy_to_host(), "uses 'copy_to_host' of an array"),
        (lambda x, stream: stream.synchronize(), "uses 'synchronize' of the stream"),
        (lambda x, stream: cuda.synchronize(), "calls cuda.synchronize"),
        (lambda x, stream: cuda.current_context().synchronize(), "calls cuda.current_context"),
        (lambda x, stream: cuda.to_device(np.ones(3)), "calls cuda.to_device"),
        (lambda x, stream: square.forall(64, stream=stream)(x, x), "calls a kernel's forall"),
        (lambda x, stream: x.reshape(8, 8, order="F"), "reshapes an array in the order 'F'"),
        (lambda x, stream: square[1, 64](x, x), "launches 'square' on a stream other than the one that it receives"),
        (lambda x, stream: cuda.device_array(3, order="F"), "a temporary array that is not row-major"),
        (lambda x, stream: cuda.device_array(3, F32, None, "F", stream), "a temporary array that is not row-major"),
        (lambda x, stream: square[1, 64, stream](np.ones(64), x), "passes to 'square' an argument of the type ndarray"),
        (lambda x, stream: square[1, 64, stream](x, (1.0, x)), "passes to 'square' an argument of the type tuple"),
        (lambda x, stream: square[1, 64, stream](x, OnTheGpu()), "passes to 'square' an argument of the type OnTheGpu"),
        (lambda x, stream: linked[1, 64, stream](x, x), "launches 'f', which links other files"),
    ],
)
def test_what_a_plan_cannot_repeat_is_reported(function, words):
    """Also where the function catches what it is told with, and goes on or fails."""

    def goes_on(x, stream):
        with contextlib.suppress(Exception):
            function(x, stream)

    def fails(x, stream):
        goes_on(x, stream)
        raise ValueError("what was caught is missing")

    for told in (function, goes_on, fails):
        with pytest.raises(CannotRecordError, match=words):
            recorded(told, [((64,), F32)])


def test_temporaries_are_asked_for_in_all_ways_that_numba_has():
    def asks(x, stream):
        a = cuda.device_array(4, np.float32, None, "C", stream)
        b = cuda.device_array((4, np.int64(2)), dtype=np.int8, stream=stream)
        cuda.device_array_like(a, stream)
        cuda.device_array_like(b, stream=stream)

    temporaries = recorded(asks, [((64,), F32)]).temporaries
    assert [(x.shape, x.dtype) for x in temporaries] == [((4,), F32), ((4, 2), np.int8)] * 2


def test_an_error_of_the_function_itself_passes():
    def wrong(x, stream):
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        recorded(wrong, [((4,), F32)])


# ---- compiling, for which no GPU is needed --------------------------------------------------------------------------


@pytest.fixture
def ninety():
    """Compile for one architecture, whatever this machine has; skip where Numba cannot compile."""
    brainevent.config.set_compute_capability("9.0")
    try:
        cuda.compile_ptx(lambda: None, (), cc=(9, 0))
    except Exception as error:  # noqa: BLE001 - whatever keeps it from compiling
        pytest.skip(f"Numba-CUDA cannot compile here: {type(error).__name__}")
    yield
    brainevent.config.set_compute_capability(None)


def exported(call, *operands):
    return jax.export.export(jax.jit(call), platforms=["cuda"], disabled_checks=brainevent.export_checks())(
        *operands
    ).mlir_module()


def test_a_kernel_is_one_custom_call_that_graphs_may_record(ninety):
    x = jnp.ones(64)
    call = brainevent.numba_cuda_kernel(add, VECTOR, launch_dims=64)
    text = exported(call, x, x)
    assert text.count("custom_call @brainevent_portable_graph") == 1
    assert exported(jax.vmap(call, (0, None)), jnp.ones((3, 64)), x).count("custom_call @") == 1
    two = exported(brainevent.numba_cuda_callable(two_kernels, VECTOR), x)
    assert two.count("custom_call @brainevent_portable_graph") == 1


def test_code_is_the_same_text_in_every_process_and_after_other_kernels(ninety):
    arrays = [StandIn(i, (64,), F32) for i in range(3)]
    signature = tuple(compiled._type_of("", x) for x in arrays)
    first = compiled._compile("here", add, signature, "9.0")
    compiled._compile("here", square, signature[:2], "9.0")
    assert compiled._compile("here", add, signature, "9.0") == first
    assert b"_ZN" not in first.binary
    assert f".entry {first.entry}(".encode() in first.binary


def test_the_parameters_are_those_of_numbas_arrays():
    arrays = [StandIn(0, (3, 4), F32), np.float32(2.5), True, 7, StandIn(1, (), np.dtype(np.int64), shift=16)]
    parameters, slots = compiled.parameters_of(arrays)
    words = [int.from_bytes(p, "little") for p in parameters[:9]]
    assert words == [0, 0, 12, 4, 0, 3, 4, 16, 4]
    assert parameters[9:12] == (np.float32(2.5).tobytes(), b"\x01", np.int64(7).tobytes())
    assert [(slot.parameter, slot.buffer, slot.shift) for slot in slots] == [(4, 0, 0), (16, 1, 16)]


@pytest.mark.parametrize(
    "number", [2 + 1j, np.complex64(2 + 1j), np.complex128(3j), True, 3, np.int8(3), np.uint32(7), 2.5, np.float16(2)]
)
def test_compiled_code_takes_as_many_parameters_as_plans_give(ninety, number):
    arguments = [StandIn(0, (4,), np.dtype(np.complex64)), number, StandIn(1, (4,), np.dtype(np.complex64))]
    code = compiled.compiled("here", scaled, arguments)
    declared = re.findall(r"\.param\s+\.[a-z](\d+)", code.binary.decode().partition(".entry")[2].partition(")")[0])
    parameters, slots = compiled.parameters_of(arguments)
    assert [8 * len(parameter) for parameter in parameters] == [int(bits) for bits in declared]
    assert [slot.parameter for slot in slots] == [4, len(parameters) - 3]
    given = np.frombuffer(b"".join(parameters[7:-7]), np.bool_ if number is True else np.asarray(number).dtype)
    assert given == [number]


@cuda.jit
def scaled(x, factor, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = factor * x[i]


@pytest.mark.parametrize(
    ("options", "directives"),
    [
        ({"max_registers": 24}, [".maxnreg 24"]),
        ({"launch_bounds": 128}, [".maxntid 128"]),
        ({"launch_bounds": (128, 2), "max_registers": 40}, [".maxnreg 40", ".maxntid 128", ".minnctapersm 2"]),
        ({}, []),
    ],
    ids=str,
)
def test_bounds_of_a_kernel_are_passed_on(ninety, options, directives):
    kernel = cuda.jit(**options)(square.py_func)
    code = compiled.compiled("here", kernel, [StandIn(0, (4,), F32), StandIn(1, (4,), F32)])
    head = code.binary.decode().partition(".entry")[2].partition("{")[0].partition(")")[2]
    assert sorted(found[0] for found in re.finditer(r"\.(maxnreg|maxntid|minnctapersm) \d+", head)) == directives
    assert code.limits.threads == (128 if "launch_bounds" in options else 1024)


def test_blocks_beyond_the_bound_are_reported(ninety):
    bounded = cuda.jit(launch_bounds=32)(square.py_func)
    with pytest.raises(KernelArgumentError, match=r"the block \(64, 1, 1\) has 64 threads; use at most 32"):
        exported(brainevent.numba_cuda_kernel(bounded, VECTOR, launch_dims=64), jnp.ones(64))
    wrong = cuda.jit(max_registers="many")(square.py_func)
    with pytest.raises(KernelArgumentError, match="max_registers of the kernel is 'many'; pass a number of registers"):
        exported(brainevent.numba_cuda_kernel(wrong, VECTOR, launch_dims=64), jnp.ones(64))


@pytest.mark.parametrize(("aliases", "zeroed"), [((), ((1, 256), (2, 128))), (((0, 0),), ((2, 128),))])
def test_nothing_to_launch_zeroes_what_shares_no_memory(aliases, zeroed):
    empty = Configuration.checked("here", None, None, 0, 256, 0)
    outs = [VECTOR, jax.ShapeDtypeStruct((32,), jnp.float32)]
    assert native.kernel_target("here", square, empty, [VECTOR], outs, aliases).plan.zeroed == zeroed


def test_what_does_not_compile_is_reported(ninety):
    @cuda.jit
    def imports(x, out):
        import math

        out[0] = math.exp(x[0])

    @cuda.jit
    def nonsense(x, out):
        out[0] = x.nonsense

    x = jnp.ones(64)
    with pytest.raises(KernelCompilationError, match="move it to the top of the module"):
        exported(brainevent.numba_cuda_kernel(imports, VECTOR, launch_dims=64), x)
    with pytest.raises(
        KernelCompilationError, match=r"numba_cuda_kernel\(nonsense\): the kernel does not compile for \(a"
    ):
        exported(brainevent.numba_cuda_kernel(nonsense, VECTOR, launch_dims=64), x)


def test_an_array_without_axes_is_an_argument_and_how_to_read_it_is_reported(ninety):
    @cuda.jit
    def scale(x, factor, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = factor[()] * x[i]

    @cuda.jit
    def first(x, factor, out):
        out[0] = factor[0] * x[0]

    operands = jnp.ones(64), jnp.float32(2)
    assert "custom_call" in exported(brainevent.numba_cuda_kernel(scale, VECTOR, launch_dims=64), *operands)
    with pytest.raises(KernelCompilationError, match=r"without axes is read and written as x\[\(\)\]; for all else"):
        exported(brainevent.numba_cuda_kernel(first, VECTOR, launch_dims=64), *operands)


@pytest.mark.parametrize("wrapper", [brainevent.numba_cuda_kernel, brainevent.numba_cuda_callable])
def test_types_of_outputs_are_those_of_the_moment_of_the_call(ninety, wrapper):
    def launch(x, out, stream):
        square[1, 64, stream](x, out)

    options = {} if wrapper is brainevent.numba_cuda_callable else {"launch_dims": 64}
    call = wrapper(square if options else launch, jax.ShapeDtypeStruct((64,), np.float64), **options)
    for x64, dtype in ((False, "f32"), (True, "f64")):
        with jax.enable_x64(x64):
            assert f"-> tensor<64x{dtype}>" in exported(call, np.ones(64))


def test_wrong_arguments_are_reported(ninety):
    x = jnp.ones(64)
    with pytest.raises(
        KernelArgumentError, match=r"the kernel takes \(x, y, out\), but is called with 2 arguments: array"
    ):
        exported(brainevent.numba_cuda_kernel(add, VECTOR, launch_dims=64), x)
    with pytest.raises(KernelArgumentError, match=r"block.x is 2048, and must be from 1 to 1024"):
        exported(brainevent.numba_cuda_kernel(square, VECTOR, grid=1, block=2048), x)
    with pytest.raises(KernelArgumentError, match=r"grid.y is 70000, and must be from 1 to 65535"):
        exported(brainevent.numba_cuda_kernel(square, VECTOR, grid=(1, 70_000), block=1), x)

    def passes_text(x, out, stream):
        square[1, 64, stream]("text", out)

    with pytest.raises(
        KernelArgumentError, match="'text' is an argument of the type unicode_type; kernels take arrays"
    ):
        exported(brainevent.numba_cuda_callable(passes_text, VECTOR), x)

    def passes_what_nobody_knows(x, out, stream):
        square[1, 64, stream](object(), out)

    with pytest.raises(KernelArgumentError, match="is an argument of the type object; kernels take arrays and numbers"):
        exported(brainevent.numba_cuda_callable(passes_what_nobody_knows, VECTOR), x)
    with pytest.raises(KernelArgumentError, match=r"XLA cannot launch kernels that link other files; remove link="):
        exported(brainevent.numba_cuda_kernel(linked, VECTOR, launch_dims=64), x)


@pytest.mark.parametrize(("capability", "most"), [("7.5", 64), ("8.6", 99), ("9.0", 227)])
def test_shared_memory_is_limited_by_the_device(ninety, capability, most):
    brainevent.config.set_compute_capability(capability)
    x = jnp.ones(64)
    call = lambda shared: brainevent.numba_cuda_kernel(square, VECTOR, grid=1, block=64, shared_mem=shared)
    assert "custom_call" in exported(call(1024 * most), x)
    with pytest.raises(KernelArgumentError, match=f"bytes of dynamic shared memory; use at most {1024 * most}"):
        exported(call(1024 * most + 1), x)


def test_on_the_cpu_the_error_names_the_platform(ninety):
    x = jnp.ones(64)
    with pytest.raises(
        NotImplementedError, match="the kernel 'add' runs on NVIDIA GPUs, and is called in a program for cpu"
    ):
        brainevent.numba_cuda_kernel(add, VECTOR, launch_dims=64)(x, x)


def test_a_function_that_no_plan_can_repeat_is_called_and_that_is_reported(ninety):
    def waits(x, out, stream):
        square[1, 64, stream](x, out)
        stream.synchronize()

    x = jnp.ones(64)
    call = brainevent.numba_cuda_callable(waits, VECTOR)
    words = r"numba_cuda_callable\(waits\): it is called through Python in each run, because it uses 'synchronize'"
    with (
        pytest.warns(UserWarning, match=words),
        pytest.raises(
            brainevent.UnsupportedOperationError, match="cannot be exported: it is called through Python, because"
        ),
    ):
        exported(call, x)


@dataclasses.dataclass
class Captures:
    """Cannot be hashed, since it has __eq__; passes an array that it holds."""

    weights: np.ndarray

    def __call__(self, x, out, stream):
        add[1, 64, stream](x, self.weights, out)


def test_arrays_that_a_function_captures_are_passed_through_python(ninety):
    call = brainevent.numba_cuda_callable(Captures(np.ones(64, np.float32)), VECTOR)
    lower = lambda: jax.jit(lambda x: call(x)).trace(jnp.ones(64)).lower(lowering_platforms=("cuda",)).as_text()
    words = (
        r"numba_cuda_callable\(Captures\): it is called through Python.*passes to 'add' an argument of the type ndarray"
    )
    with pytest.warns(UserWarning, match=words):
        first = lower()
    assert first.count("custom_call @brainevent_numba_cuda_callable_") == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert lower() == first


def test_a_whole_batch_that_no_plan_can_repeat_is_reported(ninety):
    def looks(x, out, stream):
        square[1, 64, stream](x if x.ndim == 1 else x.copy_to_host(), out)

    call = brainevent.numba_cuda_callable(looks, VECTOR, vmap_method="broadcast_all")
    words = "for the whole batch, unlike for an element, it uses 'copy_to_host' of an array; omit vmap_method"
    with pytest.raises(KernelArgumentError, match=words):
        exported(jax.vmap(call), jnp.ones((3, 64)))


def test_a_driver_merges_no_products_and_sums():
    ptx = """.entry k() {
    mul.f32 %f1, %f2, %f3;
    add.ftz.f32 %f4, %f1, %f2;
    sub.sat.f32 %f4, %f1, %f2;
    mul.rn.f64 %fd1, %fd2, %fd3;
    add.s64 %rd1, %rd2, %rd3;
    atom.global.add.f32 %f1, [%rd1], %f2;
    }"""
    found = native._code(ptx, native.Limits()).binary.decode()
    lines = [line.split()[0] for line in found.splitlines()[1:-1]]
    assert lines == ["mul.rn.f32", "add.rn.ftz.f32", "sub.rn.sat.f32", "mul.rn.f64", "add.s64", "atom.global.add.f32"]
