# SPDX-License-Identifier: Apache-2.0
"""`numba_kernel`: what a Numba function on the CPU can take, give and raise."""

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent
from brainevent import half, numba_kernel
from brainevent.errors import KernelArgumentError, KernelCompilationError


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@numba.njit
def copy(x, out):
    for i in range(x.size):
        out.flat[i] = x.flat[i]


@numba.njit
def multiply(a, b, out):
    for i in range(out.size):
        out[i] = a[i] * b[i]


@numba.njit
def sum_and_count(x, total, count):
    total[()] = x.sum()
    count[()] = x.size


INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
DTYPES = ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


@pytest.mark.covering(strength=0, times=4)
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        *((dtype, ((3,), (2, 3))[i % 2]) for i, dtype in enumerate(DTYPES)),
        *(pytest.param(dtype, ((2, 3), (3,))[i % 2], marks=pytest.mark.thorough) for i, dtype in enumerate(DTYPES)),
        *(("bool", shape) for shape in ((), (0,), (2, 0, 3))),
    ],
    ids=str,
)
def test_every_dtype_and_rank_arrives_whole(dtype, shape):
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).integers(0, 2, shape)).astype(dtype)
        result = jax.jit(lambda x: numba_kernel(copy, outs=like(x))(x))(x)
        assert result.dtype == x.dtype
        assert result.shape == shape
        np.testing.assert_array_equal(np.asarray(result), np.asarray(x))


def test_parts_of_arrays_are_where_they_are():
    """Slices use the strides of an array, which whole arrays in row-major order do without."""

    @numba.njit
    def columns_first(x, out):
        for k in range(x.shape[2]):
            for i in range(x.shape[0]):
                out[k, i] = x[i, :, k].sum()

    x = jnp.arange(24.0).reshape(2, 3, 4)
    found = numba_kernel(columns_first, outs=jax.ShapeDtypeStruct((4, 2), "float32"))(x)
    np.testing.assert_array_equal(found, x.sum(1).T)


@pytest.mark.parametrize("first", [False, True])
def test_types_of_outputs_are_those_of_the_moment_of_the_call(first):
    """Also where the kernel was wrapped, or such an array was seen, before x64 was enabled or after."""
    x = np.arange(3.0)

    @numba.njit
    def double(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    with jax.enable_x64(first):
        call = numba_kernel(double, outs=like(x))
    for x64 in (first, not first):
        with jax.enable_x64(x64):
            found = call(x)
            assert found.dtype == (np.float64 if x64 else np.float32)
            np.testing.assert_array_equal(found, 2 * x)


def test_outs_give_the_structure_of_the_results():
    x = jnp.arange(4.0)
    scalar, integer = jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct((), jnp.int32)
    for outs in ([scalar, integer], (scalar, integer), {"a": scalar, "b": integer}):
        result = numba_kernel(sum_and_count, outs=outs)(x)
        assert jax.tree.structure(result) == jax.tree.structure(outs)
        assert [float(leaf) for leaf in jax.tree.leaves(result)] == [6.0, 4.0]
    assert numba_kernel(copy, outs=scalar)(jnp.float32(2)).shape == ()


def test_numpy_arrays_are_operands():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(numba_kernel(copy, outs=like(x))(x), x)


def test_operands_arrive_row_major():
    x = jnp.arange(12.0).reshape(3, 4)
    result = jax.jit(lambda x: numba_kernel(copy, outs=like(x.T))(x.T))(x)
    np.testing.assert_array_equal(result, x.T)


def test_many_shapes_share_one_registration():
    before = len(brainevent.export_checks())

    @numba.njit
    def shapes_only(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    for n in range(1, 6):
        x = jnp.arange(float(n))
        np.testing.assert_array_equal(numba_kernel(shapes_only, outs=like(x))(x), 2 * x)
    assert len(brainevent.export_checks()) == before + 1


def test_kernels_of_equal_content_share_one_registration_and_others_do_not():
    def make(factor):
        @numba.njit
        def scaled(x, out):
            for i in range(x.size):
                out[i] = factor * x[i]

        return scaled

    x, before = jnp.arange(3.0), len(brainevent.export_checks())
    for factor in (2.0, 3.0, 2.0, 3.0, 2):
        np.testing.assert_array_equal(numba_kernel(make(factor), outs=like(x))(x), factor * x)
    assert len(brainevent.export_checks()) == before + 3


def test_what_an_exported_kernel_calls_is_not_lent_to_kernels_compiled_later():
    @numba.njit
    def doubled(x, times):  # it calls itself twice, so that LLVM does not write it into its callers
        if times == 0:
            return x[0]
        return doubled(x, times - 1) + doubled(x, times - 1)

    def make(factor):
        @numba.njit
        def scaled(x, out):
            out[0] = factor * doubled(x, x.shape[0])

        return jax.jit(numba_kernel(scaled, outs=jax.ShapeDtypeStruct((1,), jnp.float32)))

    x = jnp.ones(5)
    assert make(1)(x) == 32
    jax.export.export(make(1), disabled_checks=brainevent.export_checks())(x)
    assert make(3)(x) == 96


# ---- vmap ----------------------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(st.data())
def test_vmap_agrees_with_the_reference(data):
    """Any operands mapped, on any axes, in up to three levels, of size 0 to 3."""
    levels = data.draw(st.integers(1, 3))
    axes, shapes = [], [[4], [4]]
    for _ in range(levels):
        size = data.draw(st.integers(0, 3))
        mapped = data.draw(st.sampled_from([(True, False), (False, True), (True, True)]))
        level = [data.draw(st.integers(0, len(s))) if m else None for m, s in zip(mapped, shapes, strict=True)]
        for shape, axis in zip(shapes, level, strict=True):
            if axis is not None:
                shape.insert(axis, size)
        axes.append(tuple(level))
    a, b = (jnp.asarray(np.random.default_rng(1).normal(size=s).astype(np.float32)) for s in shapes)
    native, reference = lambda a, b: numba_kernel(multiply, outs=like(a))(a, b), lambda a, b: a * b
    for level in axes:
        native, reference = jax.vmap(native, level), jax.vmap(reference, level)
    np.testing.assert_array_equal(jax.jit(native)(a, b), reference(a, b))


def test_vmap_is_a_native_loop_and_copies_no_broadcast_operand():
    f = jax.vmap(lambda a, b: numba_kernel(multiply, outs=like(a))(a, b), (0, None))
    text = jax.jit(f).lower(jnp.ones((1000, 64)), jnp.ones(64)).compile().as_text()
    assert "while" not in text
    assert " broadcast(" not in text
    assert text.count("custom-call(") == 1


@pytest.mark.parametrize("method", ["sequential", "sequential_unrolled"])
def test_sequential_methods_call_the_kernel_per_element(method):
    a = jnp.arange(12.0).reshape(3, 4)
    f = lambda a, b: numba_kernel(multiply, outs=like(a), vmap_method=method)(a, b)
    np.testing.assert_array_equal(jax.vmap(f, (0, None))(a, a[0]), a * a[0])


@numba.njit
def add_rows(a, b, out):
    for i in range(out.size):
        out.flat[i] = a.flat[i % a.size] + b.flat[i % b.size]


@pytest.mark.parametrize(("method", "extent"), [("expand_dims", 1), ("broadcast_all", 3)])
def test_vectorised_methods_give_the_kernel_the_whole_batch(method, extent):
    seen = []

    @numba.njit
    def extent_of_b(a, b, out):
        for i in range(out.size):
            out.flat[i] = b.shape[0]

    a, b = jnp.arange(12.0).reshape(3, 4), jnp.arange(4.0)
    f = lambda kernel: jax.vmap(lambda a, b: numba_kernel(kernel, outs=like(a), vmap_method=method)(a, b), (0, None))
    seen.append(float(f(extent_of_b)(a, b)[0, 0]))
    assert seen == [extent]
    np.testing.assert_array_equal(f(add_rows)(a, b), a + b)


def test_aliased_outputs_start_as_their_inputs():
    @numba.njit
    def add_in_place(total, x, out):
        for i in range(out.size):
            out[i] += x[i]

    total, x = jnp.arange(3.0), jnp.ones(3)
    f = lambda total, x: numba_kernel(add_in_place, outs=like(total), input_output_aliases={0: 0})(total, x)
    np.testing.assert_array_equal(jax.jit(f)(total, x), total + x)
    np.testing.assert_array_equal(total, [0, 1, 2])  # still alive, so XLA gave the kernel a copy
    xs = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jax.vmap(f, (None, 0))(total, xs), total + xs)
    np.testing.assert_array_equal(jax.vmap(f, (0, None))(xs, x), xs + x)


# ---- kernels of every make -----------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_tuples_of_arrays_arrive_as_tuples(dtype):
    @numba.njit
    def pick(x, both, rest, out):
        first, second = both
        out[:] = x
        for i in range(second.shape[0]):
            out[first[i]] += second[i, 0] + rest[0][i]

    x, places = jnp.arange(3.0), jnp.array([2, 0], "int32")
    both, one = (places, jnp.array([[4], [8]], dtype)), (jnp.array([100.0, 200.0]),)
    call = numba_kernel(pick, outs=like(x), input_output_aliases={0: 0})
    np.testing.assert_array_equal(jax.jit(call)(x, both, one), [208, 1, 106])
    found = jax.vmap(call, (None, (None, 0), 0))(x, (places, jnp.stack([both[1], 0 * both[1]])), (jnp.ones((2, 2)),))
    np.testing.assert_array_equal(found, [[9, 1, 7], [1, 1, 3]])
    exported = jax.export.export(jax.jit(call), disabled_checks=brainevent.export_checks())(x, both, one)
    np.testing.assert_array_equal(exported.call(x, both, one), [208, 1, 106])


def test_explicit_signatures_defaults_and_star_arguments():
    @numba.njit("void(float32[:], float32[:])")
    def signed(x, out):
        for i in range(x.size):
            out[i] = x[i] + 1

    @numba.njit
    def with_default(x, out, factor=3):
        for i in range(x.size):
            out[i] = factor * x[i]

    @numba.njit
    def starred(*arrays):
        for i in range(arrays[0].size):
            arrays[1][i] = arrays[0][i] - 1

    x = jnp.arange(4.0)
    for kernel, expected in ((signed, x + 1), (with_default, 3 * x), (starred, x - 1)):
        np.testing.assert_array_equal(numba_kernel(kernel, outs=like(x))(x), expected)


def test_kernels_without_inputs_and_without_outputs():
    @numba.njit
    def ones(out):
        out[:] = 1

    @numba.njit
    def nothing(x):
        pass

    np.testing.assert_array_equal(numba_kernel(ones, outs=jax.ShapeDtypeStruct((3,), jnp.float32))(), [1, 1, 1])
    assert numba_kernel(nothing, outs=[])(jnp.ones(3)) == []


def test_helpers_globals_and_temporaries():
    table = np.arange(5.0, dtype=np.float32)

    @numba.njit
    def helper(x):
        return x * 2

    @numba.njit
    def kernel(x, out):
        temporary = np.empty_like(x)
        for i in range(x.size):
            temporary[i] = helper(x[i]) + table[i]
        for i in range(x.size):
            out[x.size - 1 - i] = temporary[i]

    x = jnp.asarray([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(numba_kernel(kernel, outs=like(x))(x), (2 * x + table[:3])[::-1])


# ---- half precision ------------------------------------------------------------------------------------------------

HALVES = [
    (half.from_float16, half.to_float16, jnp.float16),
    (half.from_bfloat16, half.to_bfloat16, jnp.bfloat16),
]


@pytest.mark.parametrize(("read", "write", "dtype"), HALVES, ids=["float16", "bfloat16"])
def test_half_precision_is_read_and_written_exactly(read, write, dtype):
    @numba.njit
    def read_all(bits, out):
        for i in range(bits.size):
            out[i] = read(bits[i])

    @numba.njit
    def write_all(numbers, out):
        for i in range(numbers.size):
            out[i] = write(numbers[i])

    every = np.arange(2**16, dtype=np.uint16).view(dtype)
    wide = numba_kernel(read_all, outs=jax.ShapeDtypeStruct(every.shape, jnp.float32))(every)
    np.testing.assert_array_equal(wide, every.astype(np.float32))
    drawn = np.random.default_rng(0).integers(0, 2**32, 100_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        middles = (np.asarray(wide)[:-1] + np.asarray(wide)[1:]) / 2  # ties
        numbers = np.concatenate([wide, middles, np.nextafter(middles, np.float32(np.inf)), drawn])
    narrow = numba_kernel(write_all, outs=jax.ShapeDtypeStruct(numbers.shape, dtype))(numbers)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.asarray(narrow, np.float32), numbers.astype(dtype).astype(np.float32))


# ---- what bad input gets -------------------------------------------------------------------------------------------


def named(function):
    return pytest.param(function, id=function.__name__)


@pytest.mark.parametrize("thing", [lambda x, out: None, np.sin, 3, "kernel"])
def test_a_kernel_must_be_a_dispatcher(thing):
    with pytest.raises(TypeError, match=r"kernel must be a Numba CPU dispatcher.*@numba.njit"):
        numba_kernel(thing, outs=jax.ShapeDtypeStruct((3,), jnp.float32))


def test_outs_must_have_shape_and_dtype():
    with pytest.raises(AttributeError, match=r"outs leaf 0 is 3.*jax.ShapeDtypeStruct"):
        numba_kernel(copy, outs=[3])


def test_operands_must_be_arrays():
    with pytest.raises(AttributeError, match=r"operand 1 is a list.*jnp.asarray"):
        numba_kernel(copy, outs=like(jnp.ones(3)))((jnp.ones(3), [1.0]))
    with pytest.raises(AttributeError, match=r"operand 0 is a float.*jnp.asarray"):
        numba_kernel(copy, outs=jax.ShapeDtypeStruct((), jnp.float32))(1.0)


def test_the_wrong_number_of_operands():
    x = jnp.ones(3)
    with pytest.raises(KernelArgumentError, match=r"'multiply' takes the arrays \(a, b, out\).*1 inputs and 1 outputs"):
        numba_kernel(multiply, outs=like(x))(x)


def test_the_wrong_rank_is_reported_by_numba_with_the_types():
    x = jnp.ones((3, 3))

    @numba.njit
    def flat_only(x, out):
        for i in range(x.size):
            out[i] = math_floor(x[i])

    with pytest.raises(KernelCompilationError, match=r"does not compile for \(float32\[:, :\]\) -> ") as caught:
        numba_kernel(flat_only, outs=like(x))(x)
    assert len(str(caught.value).splitlines()) < 16


math_floor = numba.njit(lambda x: int(x))


@pytest.mark.parametrize("dtype", ["int4", "uint4", "float8_e4m3fn", "float8_e5m2"])
def test_dtypes_that_numba_lacks_are_refused_before_anything_runs(dtype):
    x = jnp.zeros(4, dtype)
    with pytest.raises(KernelArgumentError, match=rf"no arrays of {dtype}.*convert first"):
        numba_kernel(copy, outs=like(x))(x)


def test_an_unknown_vmap_method_gets_a_suggestion():
    with pytest.raises(ValueError, match=r"unknown vmap_method 'broadcast-all'; did you mean 'broadcast_all'"):
        numba_kernel(copy, outs=jax.ShapeDtypeStruct((3,), jnp.float32), vmap_method="broadcast-all")


@pytest.mark.parametrize(
    ("aliases", "words"),
    [
        ({1: 0}, "there are 1 inputs"),
        ({0: 1}, "there are 1 inputs and 1 outputs"),
        ({0: 0}, "must have the same shape"),
    ],
)
def test_impossible_aliases(aliases, words):
    with pytest.raises(ValueError, match=words):
        numba_kernel(copy, outs=jax.ShapeDtypeStruct((4,), jnp.float32), input_output_aliases=aliases)(jnp.ones(3))


def test_a_kernel_is_not_differentiable_by_itself():
    with pytest.raises(ValueError, match=r"kernel 'copy' cannot be differentiated.*def_reference"):
        jax.grad(lambda x: numba_kernel(copy, outs=like(x))(x).sum())(jnp.ones(3))


# ---- exceptions ----------------------------------------------------------------------------------------------------


@numba.njit
def raises(code, out):
    if code[0] == 1:
        raise ValueError("static")
    if code[0] == 2:
        raise KeyError("dynamic", code[0])
    if code[0] == 3:
        raise RuntimeError
    if code[0] == 4:
        out[0] = 1 // (code[0] - 4)
    if code[0] == 5:
        raise AssertionError("asserted")
    out[0] = code[0]


CASES = [
    (1, r"ValueError: static \(test_numba.py:\d+, in raises\)"),
    (2, r"KeyError: \('dynamic', 2\)"),
    (3, "RuntimeError"),
    (4, "ZeroDivisionError: .*division by zero"),
    (5, "AssertionError: asserted"),
]


@pytest.mark.parametrize(("code", "words"), CASES)
def test_a_kernel_exception_names_operator_kernel_type_and_message(code, words, unique_name):
    operator = brainevent.XLACustomKernel(unique_name())
    operator.def_numba_kernel(lambda *, outs: numba_kernel(raises, outs=outs))
    f = jax.jit(lambda x: operator(x, outs=like(x)))
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=rf"operator '{operator.name}': Numba kernel 'raises' raised {words}"
    ):
        jax.block_until_ready(f(jnp.asarray([code])))
    assert f(jnp.asarray([7])) == 7  # the process lives on


def test_an_exception_in_the_middle_of_a_batch():
    f = jax.jit(jax.vmap(lambda x: numba_kernel(raises, outs=like(x))(x)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="Numba kernel 'raises' raised ValueError: static"):
        jax.block_until_ready(f(jnp.asarray([[7], [1], [8]])))
    np.testing.assert_array_equal(f(jnp.asarray([[7], [6]])), [[7], [6]])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_without_conversion_does_not_compile(dtype):
    x = jnp.ones(3, dtype)
    with pytest.raises(KernelCompilationError, match=r"convert with the functions of brainevent.half"):
        numba_kernel(multiply, outs=like(x))(x, x)
    with pytest.raises(KernelCompilationError, match=r"convert with the functions of brainevent.half"):
        numba_kernel(multiply, outs=like(x))(jnp.ones(3), jnp.ones(3))


def test_functions_that_numba_does_not_compile_whole_are_refused():
    @numba.jit(forceobj=True)
    def in_python(x, out):
        out[:] = x

    @numba.njit
    def generator(x, out):
        yield x

    x = jnp.ones(3)
    with pytest.raises(KernelCompilationError, match=r"'in_python' .*\n.*Python code in object mode"):
        numba_kernel(in_python, outs=like(x))(x)
    with pytest.raises(KernelCompilationError, match=r"'generator' .*\n.*it is a generator"):
        numba_kernel(generator, outs=like(x))(x)


@pytest.mark.thorough
def test_unreferenced_kernels_are_freed():
    import gc
    import weakref

    def make():
        @numba.njit
        def kernel(x, out):
            for i in range(x.size):
                out[i] = 7 * x[i]

        return kernel

    x = jnp.ones(3)

    def used():
        kernel = make()
        f = jax.jit(lambda x: numba_kernel(kernel, outs=like(x))(x))
        np.testing.assert_array_equal(f(x), [7, 7, 7])
        return weakref.ref(kernel)

    alive = used()
    jax.clear_caches()
    gc.collect()
    assert alive() is None
    np.testing.assert_array_equal(numba_kernel(make(), outs=like(x))(x), [7, 7, 7])
