# SPDX-License-Identifier: Apache-2.0
"""Arrays of events in every form: what they hold, what they are in JAX, and their products with `@`."""

import contextlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent
from brainevent import BinaryArray, BitPackedBinary, CompactBinary, EventRepresentation, bitpack
from brainevent.errors import MathError, ShapeError
from brainevent.event.activity import is_active, weighted
from brainevent.event.bitpack import unpack

FORMS = {"BinaryArray": BinaryArray, "BitPackedBinary": BitPackedBinary, "CompactBinary": CompactBinary.from_array}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
DTYPES = ("bool", "int8", "uint32", "int32", "float16", "bfloat16", "float32")
SHAPES = st.sampled_from([(33,), (70, 32), (0,), (1, 33), (5, 0)])  # few, as each shape is compiled anew


def drawn(seed, shape, dtype="float32", active=0.3):
    random = np.random.default_rng(seed)
    numbers = np.where(random.random(shape) < active, random.choice([-2, -1, 1, 2, 3], shape), 0)
    return jnp.asarray(np.abs(numbers) if dtype in ("bool", "uint32") else numbers).astype(dtype)


WEIGHTS = jnp.asarray(np.random.default_rng(0).normal(size=(40, 9)), jnp.float32)
VECTOR, MATRIX = drawn(1, (40,)), drawn(2, (40, 5))


# ---- what they hold ---------------------------------------------------------------------------------------------


@settings(max_examples=3)
@every_form
@given(seed=st.integers(0, 99), shape=SHAPES, dtype=st.sampled_from(DTYPES))
def test_every_form_holds_the_same_events(form, seed, shape, dtype):
    x = drawn(seed, shape, dtype)
    events = jax.jit(form)(x)
    assert isinstance(events, EventRepresentation)
    assert (events.shape, events.ndim, events.size, len(events)) == (x.shape, x.ndim, x.size, len(x))
    assert events.dtype == events.value.dtype
    np.testing.assert_array_equal(is_active(events.value), np.asarray(x.astype("float32")) != 0)
    other = events.with_value(jnp.ones(3))
    assert type(other) is type(events)
    assert other.value.all()


def test_a_binary_array_keeps_its_numbers():
    events = BinaryArray(VECTOR)
    assert events.value is VECTOR
    assert BinaryArray(events).value is VECTOR
    np.testing.assert_array_equal(BinaryArray([0, 2]).value, [0, 2])
    np.testing.assert_array_equal(BinaryArray(CompactBinary.from_array(VECTOR)).value, VECTOR != 0)
    np.testing.assert_array_equal(BinaryArray(MATRIX).T.value, MATRIX.T)
    np.testing.assert_array_equal(BinaryArray(MATRIX).transpose(1, 0).value, MATRIX.T)
    np.testing.assert_array_equal(BinaryArray(MATRIX).transpose().value, MATRIX.T)
    assert isinstance(BinaryArray(MATRIX).bitpack(), BitPackedBinary)
    assert repr(BinaryArray(jnp.array([True]))) == "BinaryArray(Array([ True], dtype=bool))"


@every_form
def test_indexing_and_iterating_give_arrays(form):
    events = form(MATRIX)
    assert isinstance(events[3], jax.Array)
    np.testing.assert_array_equal(events[3:7, 1] != 0, MATRIX[3:7, 1] != 0)
    rows = list(events)
    assert len(rows) == 40
    np.testing.assert_array_equal(jnp.stack(rows) != 0, MATRIX != 0)


def test_events_without_a_dimension():
    events = BinaryArray(jnp.array(1.0))
    assert (events.shape, events.ndim, events.size) == ((), 0, 1)
    with pytest.raises(TypeError, match="BinaryArray: events without a dimension have no length"):
        len(events)


@settings(max_examples=8)
@given(seed=st.integers(0, 99), shape=SHAPES, data=st.data())
def test_bits_are_packed_along_any_axis(seed, shape, data):
    x = drawn(seed, shape)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    words = bitpack(x, axis)
    assert words.dtype == jnp.uint32
    assert words.shape[axis] == -(-shape[axis] // 32)
    bits = np.unpackbits(np.moveaxis(np.asarray(words), axis, -1).copy().view(np.uint8), axis=-1, bitorder="little")
    np.testing.assert_array_equal(bits[..., : shape[axis]], np.moveaxis(np.asarray(x) != 0, axis, -1))
    assert not bits[..., shape[axis] :].any()
    np.testing.assert_array_equal(unpack(words, axis, shape[axis]), x != 0)


def test_bit_packed_events_are_packed_along_each_axis():
    events = BitPackedBinary(MATRIX)
    assert events.original_shape == (40, 5)
    assert [words.shape for words in events.packed] == [(2, 5), (40, 1)]
    for axis, words in enumerate(events.packed):
        np.testing.assert_array_equal(words, bitpack(MATRIX, axis))
    np.testing.assert_array_equal(bitpack(jnp.array([1, 0, 0, 1] + 28 * [0] + [1]), 0), [9, 1])


def test_an_axis_out_of_range_is_refused():
    with pytest.raises(ValueError, match="bitpack: axis is 2, but the array has 2 dimensions"):
        bitpack(MATRIX, 2)


@settings(max_examples=6)
@given(seed=st.integers(0, 99), shape=SHAPES, active=st.sampled_from([0.0, 0.1, 1.0]))
def test_compact_events_list_active_rows(seed, shape, active):
    x = drawn(seed, shape, active=active)
    events = jax.jit(CompactBinary.from_array)(x)
    (ids,) = np.nonzero(np.asarray(x != 0).any(tuple(range(1, x.ndim))))
    assert (events.n_orig, events.batch_size) == (shape[0], shape[1] if len(shape) == 2 else None)
    assert events.n_active == ids.size
    assert events.active_ids.dtype == events.n_active.dtype == jnp.int32
    np.testing.assert_array_equal(events.active_ids, [*ids, *[shape[0]] * (shape[0] - ids.size)])
    np.testing.assert_array_equal(events.packed, bitpack(x, -1))


@pytest.mark.parametrize("shape", [(), (2, 3, 4)])
def test_packed_and_compact_events_are_vectors_or_matrices(shape):
    for form in (BitPackedBinary, CompactBinary.from_array):
        with pytest.raises(MathError, match=r"Binary: the events have shape \(.*\); pass a vector, or a matrix"):
            form(jnp.ones(shape))


# ---- what they are in JAX ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: brainevent.bitpack(jnp.ones(3), None), "bitpack: axis is None; pass an integer"),
        (lambda: brainevent.BitPackedBinary(jnp.full(3, 1j)), "events are complex64; pass booleans, integers or real"),
        (lambda: brainevent.CompactBinary.from_array(jnp.full(3, 1j)), "events are complex64; pass booleans"),
    ],
)
def test_what_cannot_be_packed(call, words):
    with pytest.raises(TypeError, match=words):
        call()


@every_form
@pytest.mark.parametrize("x", [VECTOR, MATRIX], ids=["vector", "matrix"])
def test_events_are_pytrees(form, x):
    events = form(x)
    leaves, tree = jax.tree.flatten(events)
    assert all(isinstance(leaf, jax.Array) for leaf in leaves)
    again = jax.tree.unflatten(tree, leaves)
    assert type(again) is type(events)
    np.testing.assert_array_equal(again.value, events.value)
    jax.tree.unflatten(tree, [object()] * len(leaves))  # JAX puts other things in the place of arrays
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(events)]
    assert len(set(paths)) == len(leaves)


@every_form
def test_one_jitted_function_takes_all_events_of_a_shape(form):
    traced = []

    @jax.jit
    def run(events):
        traced.append(events.shape)
        return events @ WEIGHTS, events

    for seed in range(3):
        events = form(drawn(seed, (40,)))
        product, again = run(events)
        np.testing.assert_allclose(product, (events.value != 0) @ WEIGHTS, atol=1e-5)
        np.testing.assert_array_equal(again.value, events.value)
    assert len(traced) == 1


@pytest.mark.covering(strength=1, most=2)
@every_form
def test_events_in_scan_and_vmap(form):
    def step(events, _):
        return events.with_value(~is_active(events.value)), (events @ WEIGHTS).sum()

    first = form(VECTOR != 0)
    _, sums = jax.lax.scan(step, first, length=3)
    np.testing.assert_allclose(sums[0], sums[2], atol=1e-5)
    np.testing.assert_allclose(sums[0] + sums[1], WEIGHTS.sum(), atol=1e-4)
    many = jnp.stack([VECTOR, -VECTOR, VECTOR[::-1]])
    events = jax.vmap(form)(many)
    assert events.shape == many.shape
    np.testing.assert_array_equal(is_active(events.value), many != 0)
    found = jax.vmap(lambda events: events @ WEIGHTS)(events)
    np.testing.assert_allclose(found, (many != 0) @ WEIGHTS, atol=1e-5)


# ---- products ---------------------------------------------------------------------------------------------------


@every_form
@given(
    seed=st.integers(0, 99), sizes=st.sampled_from([(33, 9, 5), (0, 1, 5), (33, 0, 0)]), dtype=st.sampled_from(DTYPES),
)  # fmt: skip
@settings(max_examples=2)
def test_products_with_arrays(form, seed, sizes, dtype):
    k, m, n = sizes
    weights = np.random.default_rng(seed).normal(size=(k, m)).astype("float32")
    vector, matrix = drawn(seed, (k,), dtype), drawn(seed, (n, k), dtype)
    active, rows = np.asarray(is_active(vector)), np.asarray(is_active(matrix))
    for array in (np.asarray, jnp.asarray):
        found = [
            form(vector) @ array(weights), array(weights.T) @ form(vector),
            form(matrix) @ array(weights), array(weights.T) @ form(matrix.T),
        ]  # fmt: skip
        wanted = [active @ weights, weights.T @ active, rows @ weights, weights.T @ rows.T]
        for mine, true in zip(found, wanted, strict=True):
            assert isinstance(mine, jax.Array)
            np.testing.assert_allclose(mine, true, atol=1e-4)


@pytest.mark.covering(strength=1)
@every_form
@pytest.mark.parametrize("name", ["CSR", "CSC", "COO", "Dense"])
def test_products_with_sparse_matrices(form, name):
    dense = jnp.where(abs(WEIGHTS) > 1, WEIGHTS, 0)
    matrix = getattr(brainevent, name).fromdense(dense)
    for x in (VECTOR, MATRIX.T):
        np.testing.assert_allclose(form(x) @ matrix, (x != 0) @ dense, atol=1e-5)
    for x in (VECTOR, MATRIX):
        np.testing.assert_allclose(matrix.T @ form(x), dense.T @ (x != 0), atol=1e-5)


KERNELS = [
    (kind, name)
    for kind in ("CSR", "CSC", "COO", "FixedNumPerPre", "FixedNumPerPost", "Dense")
    for name in (None, "jax_raw")
]
FEW = [pytest.param(*each, marks=pytest.mark.thorough) if each[1] and each[0] != "CSR" else each for each in KERNELS]


@pytest.mark.covering(strength=1, most=4)
@pytest.mark.filterwarnings("ignore:operator 'binary_csrmm'.* asks for 'cpp'")
@pytest.mark.parametrize(("kind", "backend"), [*FEW, ("CSR", "cpp"), ("Dense", "dot")])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_number_that_is_not_zero_is_an_event_and_a_weight_that_meets_none_adds_nothing(kind, backend, dtype):
    """Also a negative number, and NaN; such a weight may be NaN, too."""
    numbers = jnp.array([-1, jnp.nan, 0, -0.0, 2, jnp.inf], dtype)
    weights = np.array([[1, 2, np.nan, np.inf, 4, 8], [16, 32, -np.inf, np.nan, 64, 128]], dtype)
    matrix = getattr(brainevent, kind).fromdense(jnp.asarray(weights))
    with brainevent.use_backend("cpu", backend) if backend else contextlib.nullcontext():
        np.testing.assert_array_equal(matrix @ BinaryArray(numbers), [15, 240])
        np.testing.assert_array_equal(BinaryArray(numbers) @ matrix.T, [15, 240])
        np.testing.assert_array_equal(
            matrix @ BinaryArray(jnp.stack([numbers, jnp.zeros(6, dtype)], 1)), [[15, 0], [240, 0]]
        )
    slope = jax.grad(lambda m: (m @ BinaryArray(numbers)).sum(), allow_int=True)(matrix)
    np.testing.assert_array_equal(matrix.with_data(slope.data).todense(), [[1, 1, 0, 0, 1, 1]] * 2)


def test_a_matrix_of_another_kind_is_asked_for_its_product():
    class Matrix:
        def __matmul__(self, events):
            return "matrix @", events

        def __rmatmul__(self, events):
            return "@ matrix", events

    events = BinaryArray(VECTOR)
    assert events @ Matrix() == ("@ matrix", events)
    assert Matrix() @ events == ("matrix @", events)


def test_products_run_event_driven_kernels():
    for product, operator in (
        (lambda x: BinaryArray(x) @ WEIGHTS, "binary_densemv"),
        (lambda x: WEIGHTS.T @ BinaryArray(x), "binary_densemv"),
        (lambda x: BinaryArray(jnp.stack([x, x])) @ WEIGHTS, "binary_densemm"),
    ):
        assert operator in str(jax.make_jaxpr(product)(VECTOR))


@pytest.mark.parametrize("side", ["events @ weights", "weights @ events"])
def test_gradients_go_through_products(side):
    product = {
        "events @ weights": lambda w, x: BinaryArray(x) @ w,
        "weights @ events": lambda w, x: w.T @ BinaryArray(x),
    }[side]
    by_weights, by_x = jax.grad(lambda w, x: (product(w, x) * jnp.arange(9.0)).sum(), (0, 1))(WEIGHTS, VECTOR)
    np.testing.assert_allclose(by_weights, jnp.outer(VECTOR != 0, jnp.arange(9.0)))
    np.testing.assert_allclose(by_x, WEIGHTS @ jnp.arange(9.0), rtol=1e-5)


@every_form
def test_products_that_have_no_meaning(form):
    events = form(VECTOR)
    name = type(events).__name__
    for weights in (WEIGHTS[:, 0], WEIGHTS[None]):
        for product in (lambda w: events @ w, lambda w: w @ events):
            with pytest.raises(AssertionError, match=rf"{name}.*: the weights have shape .* pass a matrix"):
                product(weights)
    with pytest.raises(ShapeError, match=r"binary_densemv: .* takes spikes of 9 rows; spikes has shape \(40,\)"):
        events @ WEIGHTS.T
    for other in ([1, 2], 3.0, events):
        with pytest.raises(TypeError, match="unsupported operand"):
            events @ other


@pytest.mark.parametrize("shape", [(), (2, 3, 40)])
def test_events_of_another_rank(shape):
    events = BinaryArray(jnp.ones(shape))
    for product in (lambda: events @ WEIGHTS, lambda: WEIGHTS @ events):
        with pytest.raises(MathError, match=r"the events have shape \(.*\); pass a vector or a matrix of events"):
            product()


@pytest.mark.thorough
def test_nothing_heavy_is_loaded_before_it_is_used():
    program = """
import sys, brainevent
assert not [name for name in sys.modules if name.startswith("brainevent.event")]
events = brainevent.BinaryArray([True, False])
assert "numba" not in sys.modules and "brainevent.event.table" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
@pytest.mark.parametrize("inner", [jax.jacfwd, jax.jacrev])
def test_second_derivatives_are_those_of_a_product(outer, inner):
    """Events of 0 and 1 count as their number, so that all derivatives are those of `weights * x`, mixed ones too."""
    weights, x = jnp.linspace(-1.0, 2.0, 6), jnp.array([0.0, 1, 1, 0, 1, 0])

    def second(product):
        return jax.jit(outer(inner(lambda *both: jnp.sin(product(*both)).sum(), (0, 1)), (0, 1)))(weights, x)

    found, expected = second(weighted), second(jnp.multiply)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6), found, expected)
    assert abs(found[0][1]).sum() > 1
