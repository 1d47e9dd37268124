# SPDX-License-Identifier: Apache-2.0
"""C++ entry points as functions of JAX arrays: what they can take, give and raise."""

import threading

import cuda_sources
import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from cpp_sources import CPP_TYPES, DTYPE_CODES, DTYPES, INTEGERS, basics
from forked import run_forked
from hypothesis import example, given, settings
from hypothesis import strategies as st

import brainevent
from brainevent.errors import KernelArgumentError, KernelLoadError


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


@pytest.fixture(scope="module")
def mod():
    return basics()


LANGUAGES = ["cpp", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(scope="module", params=LANGUAGES)
def either(request):
    """The module in C++, and the one in CUDA C++ on a GPU."""
    return basics() if request.param == "cpp" else cuda_sources.basics()


# ---- arrays ---------------------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3), (2, 0, 3), (1,) * 8], ids=str)
def test_every_dtype_and_rank_arrives_whole(either, dtype, shape):
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).integers(0, 2, shape)).astype(dtype)
        result = jax.jit(lambda x: either.copy(x, outs=like(x)))(x)
        assert result.dtype == x.dtype
        np.testing.assert_array_equal(np.asarray(result), np.asarray(x))
        row = np.asarray(either.describe(x, outs=jax.ShapeDtypeStruct((21,), jnp.int32)))
        strides = [s // x.itemsize for s in np.empty(shape, x.dtype).strides]
        assert row[:5].tolist() == [DTYPE_CODES[dtype], len(shape), x.size, x.nbytes, x.itemsize]
        assert row[5 : 5 + len(shape)].tolist() == list(shape)
        if x.size:
            assert row[13 : 13 + len(shape)].tolist() == strides


def test_arrays_are_row_major_whatever_made_them(mod):
    x = jnp.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(jax.jit(lambda x: mod.copy(x.T, outs=like(x.T)) + 0)(x), x.T)


def test_more_dimensions_than_eight_are_refused_in_words(mod):
    x = jnp.ones((1,) * 9)
    with pytest.raises(jax.errors.JaxRuntimeError, match="has 9 dimensions; a BE::Tensor has at most 8"):
        mod.copy(x, outs=like(x)).block_until_ready()


def test_a_dtype_that_tensors_lack_is_refused_in_words(mod):
    x = jnp.ones(4, jnp.float8_e4m3fn)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"(operand|result) 0 has a dtype that BE::DType lacks"):
        mod.copy(x, outs=like(x)).block_until_ready()


def test_outs_give_the_structure_of_the_results(mod):
    x, scalar = jnp.arange(4.0), jax.ShapeDtypeStruct((), jnp.float32)
    for outs in ([scalar, scalar], (scalar, scalar), {"a": scalar, "b": scalar}):
        result = mod.sum_and_largest(x, outs=outs)
        assert jax.tree.structure(result) == jax.tree.structure(outs)
        assert [float(leaf) for leaf in jax.tree.leaves(result)] == [6.0, 3.0]


def test_an_output_may_start_as_an_input(mod):
    x = jnp.arange(3.0)
    np.testing.assert_array_equal(
        jax.jit(lambda x: mod.add_one_in_place(x, outs=like(x), input_output_aliases={0: 0}))(x), x + 1
    )
    np.testing.assert_array_equal(x, [0, 1, 2])  # it is still in use: XLA made a copy


# ---- attributes -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def echo():
    """A module with a function for each type of attribute, which writes it down."""
    functions = [
        f"""
// @BE echo_{kind} ret attr.value:{kind}
void echo_{kind}(BE::Tensor out, {cpp} value) {{
  std::memcpy(out.data_ptr(), &value, sizeof value);
}}"""
        for kind, cpp in CPP_TYPES.items()
    ]
    several = """
// @BE several attr.zeta:int32 ret attr.Alpha:float64 attr.batch:int8 attr._x
void several(int zeta, BE::Tensor out, double Alpha, int8_t batch, bool _x) {
  double* row = out.data_ptr<double>();
  row[0] = zeta, row[1] = Alpha, row[2] = batch, row[3] = _x;
}"""
    return brainevent.load_cpp_inline("echo", "\n".join(['#include "brainevent/common.h"', *functions, several]))


@pytest.fixture(scope="module", params=LANGUAGES)
def echo_of_either(request):
    return request.getfixturevalue("echo") if request.param == "cpp" else cuda_sources.echo()


def numpy_type(kind):
    return np.dtype(getattr(ml_dtypes, kind, None) or kind)


def echoed(echo, kind, value):
    with jax.enable_x64(True):
        dtype = numpy_type(kind)
        return np.asarray(echo.functions[f"echo_{kind}"](outs=jax.ShapeDtypeStruct((), dtype), value=value))[()]


@pytest.mark.parametrize("kind", INTEGERS)
@settings(max_examples=6)
@given(data=st.data())
def test_integers_arrive_or_are_refused(echo_of_either, kind, data):
    limits = np.iinfo(kind)
    value = data.draw(st.integers(-(2**65), 2**65) | st.integers(int(limits.min) - 2, int(limits.max) + 2))
    if limits.min <= value <= limits.max:
        assert int(echoed(echo_of_either, kind, value)) == value
    else:
        with pytest.raises(KernelArgumentError, match=f"which {kind} cannot represent; pass a whole number"):
            echoed(echo_of_either, kind, value)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16", "bfloat16"])
@settings(max_examples=6)
@given(value=st.floats(-6e4, 6e4) | st.sampled_from([np.inf, -np.inf, np.nan, 0.0, -0.0]))
def test_floats_are_rounded_as_numpy_does(echo_of_either, kind, value):
    expected = numpy_type(kind).type(value)
    assert echoed(echo_of_either, kind, value).tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("float32", 1e300, "1e.300, which float32 cannot represent"),
        ("float32", 2**24 + 1, "16777217, which float32 cannot represent"),
        ("float16", np.float32(0.1), "which float16 cannot represent"),
        ("float32", np.int64(2**60 + 1), "which float32 cannot represent"),
        ("int32", 2.5, "2.5, which int32 cannot represent; pass a whole number"),
        ("int32", float("nan"), "nan, which int32 cannot represent"),
        ("int32", True, "is True; it was declared int32"),
        ("bool", 1, "is 1; it was declared bool: pass True or False"),
        ("int32", "3", "is '3', of str; pass a number"),
        ("float32", 1j, "pass a number"),
        ("float32", None, "pass a number"),
        ("float32", np.ones(1), "is an array .*static_argnames"),
    ],
    ids=str,
)
def test_what_a_type_cannot_hold_is_refused_in_words(echo, kind, value, words):
    with pytest.raises(KernelArgumentError, match=f"echo_{kind}: the attribute value .*{words}"):
        echoed(echo, kind, value)


def test_numbers_of_other_types_pass_if_they_are_the_same_number(echo_of_either):
    assert echoed(echo_of_either, "int8", 3.0) == 3
    assert echoed(echo_of_either, "float32", 7) == 7
    assert echoed(echo_of_either, "float64", np.float32(0.5)) == 0.5
    assert echoed(echo_of_either, "int64", np.uint8(200)) == 200
    assert echoed(echo_of_either, "bool", np.bool_(True))


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("kind", CPP_TYPES)
def test_plain_calls_pass_attributes_of_every_type(request, echo_of_either, kind):
    exact = numpy_type(kind).type(1)
    plain = exact.view(np.uint16) if kind.endswith("float16") else exact
    name = {"cpp": "echo", "cuda": "cuda_echo"}[request.node.callspec.params["echo_of_either"]]
    with jax.enable_x64(True):
        call = jax.ffi.ffi_call(f"{name}.echo_{kind}", jax.ShapeDtypeStruct((), exact.dtype))
        assert np.asarray(call(value=plain))[()] == exact


def test_half_precision_may_be_given_as_its_bits(echo_of_either):
    assert echoed(echo_of_either, "float16", np.uint16(0x3C00)) == 1.0
    assert echoed(echo_of_either, "bfloat16", np.uint16(0x3F80)) == 1.0


def test_zero_and_minus_zero_are_two_values_to_a_cache(echo_of_either):
    call = lambda value: echo_of_either.echo_float32(outs=jax.ShapeDtypeStruct((), jnp.float32), value=value)
    assert [np.signbit(call(value)).item() for value in (0.0, -0.0, 0.0)] == [False, True, False]


def test_attributes_of_any_name_and_order(echo):
    with jax.enable_x64(True):
        outs = jax.ShapeDtypeStruct((4,), jnp.float64)
        row = echo.several(outs=outs, Alpha=0.5, _x=True, zeta=-7, batch=3)
        assert row.tolist() == [-7, 0.5, 3, 1]
        plain = jax.ffi.ffi_call("echo.several", outs)
        again = plain(Alpha=0.5, _x=True, zeta=np.int32(-7), batch=np.int8(3))
        assert again.tolist() == row.tolist()


def test_a_traced_attribute_is_explained(mod):
    x = jnp.ones(3)
    with pytest.raises(KernelArgumentError, match=r"attribute scale is an array .*static_argnames"):
        jax.jit(lambda x, scale: mod.affine(x, outs=like(x), scale=scale, offset=0))(x, 2.0)
    jitted = jax.jit(lambda x, scale: mod.affine(x, outs=like(x), scale=scale, offset=0), static_argnames="scale")
    np.testing.assert_array_equal(jitted(x, scale=2.0), 2 * x)


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"scale": 1.0}, r"affine: missing attributes: offset \(float32\)"),
        ({"scale": 1.0, "offset": 0, "ofset": 0}, "no attribute 'ofset'; did you mean 'offset'"),
        ({"scale": 1.0, "offset": 0, "vmap_methd": None}, "did you mean 'vmap_method'"),
    ],
    ids=str,
)
def test_wrong_names_are_reported(mod, keywords, words):
    x = jnp.ones(3)
    with pytest.raises(KernelArgumentError, match=words):
        mod.affine(x, outs=like(x), **keywords)


def test_wrong_calls_are_reported(mod):
    x = jnp.ones(3)
    with pytest.raises(
        KernelArgumentError, match=r"add takes 2 operands and writes 1 results \(arg arg ret\).* 1 oper"
    ):
        mod.add(x, outs=like(x))
    with pytest.raises(KernelArgumentError, match=r"writes 2 results .* and 1 outs"):
        mod.sum_and_largest(x, outs=like(x))
    with pytest.raises(AttributeError, match="add: operand 1 is a float, which has no shape"):
        mod.add(x, 2.0, outs=like(x))
    with pytest.raises(AttributeError, match="add: outs leaf 0 is 3"):
        mod.add(x, x, outs=3)
    with pytest.raises(TypeError, match="outs"):
        mod.add(x, x)
    with pytest.raises(ValueError, match="unknown vmap_method 'broadcastall'; did you mean 'broadcast_all'"):
        mod.add(x, x, outs=like(x), vmap_method="broadcastall")
    with pytest.raises(ValueError, match=r"\{0: 1\}: there are 2 inputs and 1 outputs"):
        mod.add(x, x, outs=like(x), input_output_aliases={0: 1})
    with pytest.raises(AttributeError, match=r"no function 'ad'; did you mean 'add'\?; it has: copy, describe, add"):
        mod.ad(x, x, outs=like(x))


def test_plain_ffi_calls_report_what_is_wrong(mod):
    x = jnp.ones(3)
    call = jax.ffi.ffi_call("basics.affine", like(x))
    np.testing.assert_array_equal(call(x, scale=np.float32(2), offset=np.float32(1)), 2 * x + 1)
    for keywords, words in [
        ({"scale": np.float32(2)}, "be_affine: Wrong number of attributes.* 1 given, 2 declared: offset, scale"),
        ({"scale": np.float32(2), "ofset": np.float32(1)}, "or wrong names: 2 given, 2 declared"),
        (
            {"scale": np.int32(5), "offset": np.float32(1)},
            r"'scale' is int32, but was declared float32; pass np.float32",
        ),
        ({"scale": "two", "offset": np.float32(1)}, "'scale' is not a scalar"),
    ]:
        with pytest.raises(jax.errors.JaxRuntimeError, match=f"INVALID_ARGUMENT: .*{words}"):
            call(x, **keywords).block_until_ready()
    with pytest.raises(jax.errors.JaxRuntimeError, match="called with 1 and 1, declared with 2 and 1"):
        jax.ffi.ffi_call("basics.add", like(x))(x).block_until_ready()


# ---- transformations ------------------------------------------------------------------------------------------------


def test_several_results_of_a_batch(mod):
    outs = jax.ShapeDtypeStruct((), jnp.float32)
    total = jax.vmap(lambda x: mod.sum_and_largest(x, outs=[outs, outs])[0])(jnp.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(total, [3, 12])


@settings(max_examples=8)
@example(sizes=[2, 3, 4], axes=[True, False, True, True, False, True])
@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=3), axes=st.lists(st.booleans(), min_size=6, max_size=6))
def test_any_nesting_of_vmap_is_one_native_loop(either, sizes, axes):
    a, b = jnp.arange(3.0), jnp.arange(3.0) * 10
    call, expected = (lambda a, b: either.add(a, b, outs=like(a))), (lambda a, b: a + b)
    for level, size in enumerate(sizes):
        mapped = [axes[2 * level], axes[2 * level + 1]]
        if not any(mapped):
            mapped[0] = True
        in_axes = tuple(0 if m else None for m in mapped)
        call, expected = jax.vmap(call, in_axes), jax.vmap(expected, in_axes)
        a = jnp.stack([a + i for i in range(size)] or [a])[:size] if mapped[0] else a
        b = jnp.stack([b - i for i in range(size)] or [b])[:size] if mapped[1] else b
    result = jax.jit(call)(a, b)
    np.testing.assert_array_equal(result, expected(a, b))
    assert jax.jit(call).lower(a, b).as_text().count("custom_call @") == 1


def test_elements_of_no_bytes_are_batched_too(mod):
    x = jnp.ones((3, 0))
    np.testing.assert_array_equal(
        jax.vmap(lambda x: mod.describe(x, outs=jax.ShapeDtypeStruct((21,), jnp.int32)))(x)[:, :6],
        [[1, 1, 0, 0, 4, 0]] * 3,
    )


def test_a_vmap_method_gives_the_whole_batch(request, either):
    x = jnp.arange(6.0).reshape(2, 3)
    shapes = jax.vmap(
        lambda x: either.describe(x, outs=jax.ShapeDtypeStruct((21,), jnp.int32), vmap_method="broadcast_all")
    )(x)
    assert shapes.ravel()[:7].tolist() == [1, 2, 6, 24, 4, 2, 3]
    name = {"cpp": "basics", "cuda": "cuda_basics"}[request.node.callspec.params["either"]]
    plain = jax.ffi.ffi_call(f"{name}.copy", like(x[0]), vmap_method="broadcast_all")
    np.testing.assert_array_equal(jax.vmap(plain)(x), x)


def test_it_is_not_differentiable_by_itself(mod):
    with pytest.raises(ValueError, match=r"the kernel 'add' cannot be differentiated\. Make it the kernel of an XLAC"):
        jax.grad(lambda x: mod.add(x, x, outs=like(x)).sum())(jnp.ones(3))


def test_it_runs_in_loops_and_in_threads(mod):
    x = jnp.arange(3.0)
    loop = jax.jit(lambda x: jax.lax.fori_loop(0, 50, lambda _, y: mod.add(y, x, outs=like(x)), x))
    results = {}
    threads = [threading.Thread(target=lambda i=i: results.update({i: loop(x + i)})) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(4):
        np.testing.assert_array_equal(results[i], 51 * (x + i))


# ---- errors while it runs -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (1, r"be_fail: \[be\] CHECK FAILED at basics.cpp:\d+: how != 1 - how is 1, x has 3 of float32 2.5true"),
        (2, "be_fail: out of paper"),
        (3, "be_fail: something was thrown that is no std::exception"),
        (4, r"be_fail: \[be\] CHECK FAILED at basics.cpp:\d+: how != 4\n"),
    ],
)
def test_what_is_thrown_becomes_an_error_of_jax(mod, how, words):
    x = jnp.ones(3)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"INTERNAL: {words}"):
        mod.fail(x, outs=like(x), how=how).block_until_ready()
    np.testing.assert_array_equal(mod.fail(x, outs=like(x), how=0), np.zeros(3))


def test_an_error_within_a_batch_ends_it(mod):
    with pytest.raises(jax.errors.JaxRuntimeError, match="out of paper"):
        jax.jit(jax.vmap(lambda x: mod.fail(x, outs=like(x), how=2)))(jnp.ones((4, 3))).block_until_ready()


def test_dispatch_refuses_other_dtypes_in_words(mod):
    x = jnp.ones(3, jnp.int32)
    words = "BE_DISPATCH_FLOATING: dtype int32 is not one of float32, float64; convert the array"
    with pytest.raises(jax.errors.JaxRuntimeError, match=words):
        mod.add(x, x, outs=like(x)).block_until_ready()


# ---- the C++ interface ----------------------------------------------------------------------------------------------

FAMILIES = {
    "FLOATING": ["float32", "float64"],
    "FLOATING_AND_HALF": ["float32", "float64"],  # halves too, with BE_CPU_HALF: `halves` below
    "INTEGRAL": ["bool", *INTEGERS],
    "SIGNED_INDEX": ["int32", "int64"],
    "CSR_INDPTR": ["int32", "int64"],
    "COMPLEX": ["complex64", "complex128"],
    "ALL_TYPES": ["float32", "float64", "bool", *INTEGERS],
    "ALL": DTYPES,
}


@pytest.fixture(scope="module")
def dispatched():
    """A function for each macro: the size of the type that it chose, below zero if that is unsigned."""
    functions = [
        f"""
// @BE {family} arg ret
void {family}(const BE::Tensor x, BE::Tensor out) {{
  *out.data_ptr<int32_t>() = 0;
  BE_DISPATCH_{family}(x.dtype(), value_t, {{
    value_t values[2] = {{}};  // a comma in the body
    *out.data_ptr<int32_t>() = static_cast<int32_t>(sizeof(values) / 2) * (std::is_unsigned<value_t>::value ? -1 : 1);
    return;
  }});
}}"""
        for family in FAMILIES
    ]
    pair = """
// @BE pair arg arg ret
void pair(const BE::Tensor x, const BE::Tensor y, BE::Tensor out) {
  BE_CHECK_CSR_INDICES_INT32(x);
  BE_DISPATCH_SIGNED_INDEX_PAIR(x.dtype(), y.dtype(), first_t, second_t,
                                { *out.data_ptr<int32_t>() = 10 * sizeof(first_t) + sizeof(second_t); });
}"""
    return brainevent.load_cpp_inline("dispatched", "\n".join(['#include "brainevent/common.h"', *functions, pair]))


@pytest.mark.covering(strength=1, times=2)
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dispatch_chooses_the_type(dispatched, family, dtype):
    with jax.enable_x64(True):
        x = np.ones(1, numpy_type(dtype))
        call = lambda: int(dispatched.functions[family](x, outs=jax.ShapeDtypeStruct((), jnp.int32)))
        if dtype in FAMILIES[family]:
            assert call() == x.itemsize * (-1 if x.dtype.kind in "bu" else 1)
        else:
            with pytest.raises(jax.errors.JaxRuntimeError, match=f"BE_DISPATCH_{family}: dtype {dtype} is not one of"):
                call()


def test_dispatch_over_two_types(dispatched):
    with jax.enable_x64(True):
        out = jax.ShapeDtypeStruct((), jnp.int32)
        i32, i64 = jnp.ones(1, jnp.int32), jnp.ones(1, jnp.int64)
        assert int(dispatched.pair(i32, i64, outs=out)) == 48
        with pytest.raises(jax.errors.JaxRuntimeError, match="indices are int64; pass int32"):
            dispatched.pair(i64, i64, outs=out).block_until_ready()
        with pytest.raises(jax.errors.JaxRuntimeError, match="INDEX_PAIR: dtype float32 is not one of int32, int64"):
            dispatched.pair(i32, jnp.ones(1, jnp.float32), outs=out).block_until_ready()


@pytest.fixture(scope="module")
def halves():
    return brainevent.load_cpp_inline(
        "halves",
        """
#define BE_CPU_HALF
#include "brainevent/common.h"
template <typename Half> void widened(const BE::Tensor x, BE::Tensor out) {
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<float>()[i] = x.data_ptr<Half>()[i];
}
template <typename Half> void narrowed(const BE::Tensor x, BE::Tensor out) {
  for (int64_t i = 0; i < x.numel(); ++i) out.data_ptr<Half>()[i] = x.data_ptr<float>()[i];
}
// @BE widen arg ret
void widen(const BE::Tensor x, BE::Tensor out) {
  x.dtype() == BE::DType::Float16 ? widened<BE::float16_t>(x, out) : widened<BE::bfloat16_t>(x, out);
}
// @BE narrow arg ret
void narrow(const BE::Tensor x, BE::Tensor out) {
  out.dtype() == BE::DType::Float16 ? narrowed<BE::float16_t>(x, out) : narrowed<BE::bfloat16_t>(x, out);
}
// @BE polynomial arg ret
void polynomial(const BE::Tensor x, BE::Tensor out) {
  BE_DISPATCH_FLOATING_AND_HALF(x.dtype(), scalar_t, {
    for (int64_t i = 0; i < x.numel(); ++i) {
      scalar_t total = 1;
      total += x.data_ptr<scalar_t>()[i] * 2, total *= 3, total -= scalar_t(1), total /= 2;
      out.data_ptr<scalar_t>()[i] = total < 0 ? -total : total;
    }
  });
}
""",
    )


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_every_half_converts_to_the_right_float(halves, kind):
    x = np.arange(2**16, dtype=np.uint16).view(numpy_type(kind))
    result = np.asarray(halves.widen(x, outs=jax.ShapeDtypeStruct(x.shape, jnp.float32)))
    np.testing.assert_array_equal(result, x.astype(np.float32))


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_floats_are_rounded_to_the_nearest_half(halves, kind):
    bits = np.random.default_rng(0).integers(0, 2**32, 200_000, np.uint32)
    every = np.arange(2**16, dtype=np.uint16).view(numpy_type(kind)).astype(np.float32).view(np.uint32)
    ties = np.concatenate([every + d for d in (0x1000, 0x0FFF, 0x1001, 0x8000, 0x7FFF, 0x8001)]).astype(np.uint32)
    x = np.concatenate([bits, every, ties]).view(np.float32)
    result = np.asarray(halves.narrow(x, outs=jax.ShapeDtypeStruct(x.shape, numpy_type(kind))))
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(result.astype(np.float32), x.astype(numpy_type(kind)).astype(np.float32))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_kernels_compute_with_halves(halves, dtype):
    x = jnp.asarray([0.5, -2.0, 3.0]).astype(dtype)
    np.testing.assert_array_equal(halves.polynomial(x, outs=like(x)).astype(jnp.float32), [2.5, 5.0, 10.0])


# ---- operators ------------------------------------------------------------------------------------------------------


@pytest.fixture
def scaled(mod, unique_name):
    import numba

    @numba.njit
    def in_numba(x, out):
        for i in range(out.size):
            out[i] = 3 * x[i] + 1

    operator = brainevent.XLACustomKernel(unique_name("scaled"))
    operator.def_cpp_kernel(lambda *, outs: lambda x: mod.affine(x, outs=outs, scale=3, offset=1))
    operator.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(in_numba, outs=outs))
    operator.def_reference(lambda x: 3 * x + 1)
    operator.def_sharding_rule("i -> i")
    return operator


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("promises", [["outputs written", "nested vmap", "vjp", "sharded jit", "export"], None])
def test_check_passes_for_every_kernel(scaled, promises):
    assert scaled.available_backends("cpu") == ["cpp", "numba"]
    report = brainevent.check(scaled, jnp.arange(1.0, 9.0), promises=promises)
    assert report.ok, str(report)
    assert {"cpp", "numba"} <= {row.backend for row in report.rows}


def test_an_operator_keeps_every_transformation(scaled):
    x = jnp.arange(8.0)
    np.testing.assert_array_equal(jax.jit(scaled)(x), 3 * x + 1)
    np.testing.assert_array_equal(jax.vmap(jax.grad(lambda x: (scaled(x) ** 2).sum()))(x[None]), 6 * (3 * x + 1)[None])
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    sharded = jax.device_put(x, jax.sharding.NamedSharding(mesh, jax.P("d")))
    result = jax.jit(scaled)(sharded)
    np.testing.assert_array_equal(result, 3 * x + 1)
    assert result.sharding.spec == jax.P("d")
    assert "all-gather" not in jax.jit(scaled).lower(sharded).compile().as_text()


def test_an_error_names_the_operator(mod, unique_name):
    operator = brainevent.XLACustomKernel(name := unique_name("failing"))
    operator.def_cpp_kernel(lambda *, outs: lambda x: mod.fail(x, outs=outs, how=2))
    x = jnp.ones(3)
    with pytest.raises(jax.errors.JaxRuntimeError, match=rf"be_fail \(operator '{name}'\): out of paper"):
        operator(x, outs=like(x)).block_until_ready()


def test_a_cpu_kernel_in_a_program_for_the_gpu_is_explained(mod):
    x = jnp.ones(3)
    with pytest.raises(
        NotImplementedError, match="the kernel 'copy' runs on CPUs, and is called in a program for cuda"
    ):
        jax.export.export(jax.jit(lambda x: mod.copy(x, outs=like(x))), platforms=["cuda"])(x)


@pytest.mark.thorough
def test_another_process_finds_the_library_and_the_compiled_program(tmp_path):
    """Names are made of content, so JAX's persistent compilation cache serves a second process."""
    source = """
        import jax, jax.numpy as jnp, sys
        from cpp_sources import basics
        jax.config.update("jax_compilation_cache_dir", sys.argv[1])
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
        hits = []
        jax.monitoring.register_event_listener(lambda name, **_: "cache_hits" in name and hits.append(name))
        mod, x = basics(), jnp.arange(4.0)
        before = len(hits)
        print(jax.jit(lambda x: mod.affine(x, outs=x, scale=2, offset=1))(x), len(hits) - before)
    """
    assert run_forked(source, tmp_path).split("]")[1].strip() == "0"
    assert run_forked(source, tmp_path).strip() == "[1. 3. 5. 7.] 1"


# ---- exported programs ----------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_an_exported_program_carries_the_library(echo, scaled, tmp_path):
    """The other process has only imported the package: no source, no compiler, no cache."""

    def model(x):
        alpha = echo.several(outs=jax.ShapeDtypeStruct((4,), jnp.float64), Alpha=0.5, _x=True, zeta=-7, batch=3)
        return jax.vmap(scaled)(x), alpha

    with jax.enable_x64(True):
        x = jnp.arange(6.0, dtype=jnp.float32).reshape(2, 3)
        program = jax.export.export(jax.jit(model), disabled_checks=brainevent.export_checks())(x)
    (tmp_path / "program").write_bytes(program.serialize())
    source = """
        import sys, jax, jax.numpy as jnp, brainevent
        jax.config.update("jax_enable_x64", True)
        program = jax.export.deserialize(open(sys.argv[1], "rb").read())
        rows, row = program.call(jnp.arange(6.0, dtype=jnp.float32).reshape(2, 3))
        print(rows.tolist(), row.tolist())
    """
    printed = run_forked(source, tmp_path / "program", PATH="", BRAINEVENT_CACHE_DIR=str(tmp_path / "empty"))
    assert printed.strip() == "[[1.0, 4.0, 7.0], [10.0, 13.0, 16.0]] [-7.0, 0.5, 3.0, 1.0]"
    assert not (tmp_path / "empty").exists()


def test_a_library_for_another_machine_is_an_error_not_a_crash(mod):
    from brainevent.backends.source import portable

    header = {"symbol": "be_copy", "device": "cpu", "machine": "s390x", "system": "Linux"}
    with pytest.raises(RuntimeError, match=r"compiled kernels are for machine s390x, and this is .*export it again"):
        portable.load(header, b"")
    words = "cannot load the library of an exported program: .*file too short; export it again"
    with pytest.raises(KernelLoadError, match=words):
        portable.load({**header, **portable.environment()}, b"")


def test_what_is_loaded_outlives_a_cleared_cache(tmp_path):
    source = """
#include "brainevent/common.h"
// @BE twice arg ret
void twice(const BE::Tensor x, BE::Tensor out) { out.data_ptr<float>()[0] = 2 * x.data_ptr<float>()[0]; }"""
    brainevent.set_cache_dir(tmp_path / "cache")
    try:
        module = brainevent.load_cpp_inline("outliving", source)
        assert brainevent.clear_cache("outliving") == 1
    finally:
        brainevent.set_cache_dir(None)
    x = jnp.ones(1)
    call = jax.jit(lambda x: module.twice(x, outs=like(x)))
    assert call(x) == 2
    assert jax.export.export(call, disabled_checks=brainevent.export_checks())(x).call(x) == 2


# ---- hostile calls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"be.batch": np.int64(3)}, "'be.batch' was not written by brainevent; omit it"),
        ({"be.batch": np.ones(5, np.int32)}, "'be.batch' was not written"),
        ({"be.batch": np.array([1, 5, 12], np.int64)}, "'be.batch' was not written"),
        ({"be.batch": np.array([10**18, 5, 12], np.int64)}, "'be.batch' was not written"),
        ({"be.batch": np.array([-1], np.int64)}, "'be.batch' was not written"),
        ({"be.operator": np.int64(3)}, "'be.operator' is not a string"),
    ],
    ids=str,
)
def test_attributes_of_ours_are_not_trusted(mod, attributes, words):
    x = jnp.ones(3)
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"INVALID_ARGUMENT: .*{words}"):
        jax.ffi.ffi_call("basics.copy", like(x))(x, **attributes).block_until_ready()


TEXTS = {
    "shout_cut": b"bad \xe2\x82",
    "shout_surrogate": b"\xed\xa0\x80",
    "shout_overlong": b"\xc0\xaf",
    "shout_too_large": b"\xf5\x80\x80\x80",
    "shout_well": "caf\u00e9 \u20ac \U0001f600".encode(),
    "shout_long": "\u00e9".encode() * 900,
}


@pytest.fixture(scope="module")
def shouts():
    """Compile functions that throw each a text."""
    lines = ['#include <stdexcept>\n#include "brainevent/common.h"']
    for name, text in TEXTS.items():
        literal = "".join(f"\\{byte:03o}" for byte in text)
        lines += [f"// @BE {name} ret", f'void {name}(BE::Tensor) {{ throw std::runtime_error("{literal}"); }}']
    return brainevent.load_cpp_inline("shouts", "\n".join(lines))


@pytest.mark.parametrize(("name", "text"), TEXTS.items(), ids=TEXTS)
def test_errors_are_text_whatever_was_thrown(shouts, name, text):
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        shouts.functions[name](outs=jax.ShapeDtypeStruct((), jnp.float32)).block_until_ready()
    said = str(caught.value).split(f"be_{name}: ")[1].partition("\n")[0]
    expected = text.decode(errors="replace").replace("\ufffd", "?")
    if len(text) < 1000:
        assert said.replace("?", "") == expected.replace("?", "")
        assert ("?" in said) == ("?" in expected)
    else:
        assert set(said) <= {"\u00e9", "?"}
        assert len(said) > 480


def test_big_unsigned_numbers_arrive_with_and_without_x64(echo):
    for value in (2**63 - 1, 2**63, 2**64 - 1):
        for x64 in (False, True):
            with jax.enable_x64(x64):
                bits = echo.echo_uint64(outs=jax.ShapeDtypeStruct((2,), jnp.uint32), value=value)
                low, high = (int(half) for half in bits)
                assert low + (high << 32) == value


@pytest.mark.parametrize("kind", ["float32", "float64", "int32", "uint64"])
def test_huge_integers_are_refused_in_words(echo, kind):
    with pytest.raises(KernelArgumentError, match=f"an integer of 1329 bits, which {kind} cannot represent"):
        echoed(echo, kind, 10**400)


def test_random_keys_are_refused_in_words(mod):
    key = jax.random.key(0)
    with pytest.raises(TypeError, match=r"copy: operand 0 is of the extended dtype key.*key_data\(key\)"):
        mod.copy(key, outs=like(jnp.ones(2)))


def test_an_attribute_may_be_called_self():
    source = """
#include "brainevent/common.h"
// @BE selfish ret attr.self:float32
void selfish(BE::Tensor out, float self) { *out.data_ptr<float>() = self; }"""
    module = brainevent.load_cpp_inline("selfish", source)
    assert module.selfish(outs=jax.ShapeDtypeStruct((), jnp.float32), self=2.5) == 2.5


@pytest.mark.parametrize("name", ["", "a b", "a\0b", "a\nb", 'a"b', "a" * 501])
def test_names_that_xla_silently_accepts_are_refused(mod, name):
    with pytest.raises(brainevent.KernelRegistrationError, match="is not a valid name of an FFI target"):
        brainevent.register_ffi_target(name, mod, "copy", platform="cpu")


def test_a_module_is_registered_where_it_can_run(mod):
    with pytest.raises(
        brainevent.KernelRegistrationError, match="was built for cpu, not for CUDA; pass platform='cpu'"
    ):
        brainevent.register_ffi_target("elsewhere.copy", mod, "copy")
    with pytest.raises(brainevent.KernelRegistrationError, match="unknown platform 'quantum'"):
        brainevent.register_ffi_target("elsewhere.copy", mod, "copy", platform="quantum")
    with pytest.raises(brainevent.KernelRegistrationError, match="unknown platform 'CUDAA'; did you mean 'cuda'"):
        brainevent.register_ffi_target("elsewhere.copy", mod, "copy", platform="CUDAA")
