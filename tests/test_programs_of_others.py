# SPDX-License-Identifier: Apache-2.0
"""What existing programs call: names and results that differed, each by what it should do."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent
from brainevent import COO, CSC, CSR, BinaryArray, CompactBinary, Dense, FixedNumConn, FixedNumPerPost, FixedNumPerPre
from brainevent.errors import MathError, ShapeError, UnknownBufferError

EYE = jnp.eye(3)
FORMATS = (CSR, CSC, COO, Dense, FixedNumPerPre, FixedNumPerPost)
every_format = pytest.mark.parametrize("kind", FORMATS)


# ---- types of products ----------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize(
    "kind", [kind if kind in (CSR, COO, Dense) else pytest.param(kind, marks=pytest.mark.thorough) for kind in FORMATS]
)
@pytest.mark.parametrize("of_x", ["float64", "float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("of_weights", ["float64", "float32", "float16"])
def test_products_have_the_type_to_which_both_are_promoted(kind, of_x, of_weights):
    with jax.enable_x64(True):
        x, dense = jnp.arange(3).astype(of_x), jnp.diag(jnp.array([1.0, 3.0, 0.5])).astype(of_weights)
        matrix = kind.fromdense(dense)
        for found, wanted in (
            (x @ matrix, x @ dense),
            (matrix @ x, dense @ x),
            (matrix @ EYE.astype(of_x), dense @ EYE.astype(of_x)),
        ):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found, wanted)
        assert (BinaryArray(x) @ matrix).dtype == of_weights  # events have no size


def test_no_digit_is_lost_where_x_has_more():
    with jax.enable_x64(True):
        x = jnp.array([1.0, 1e-12, 0.0])
        for kind in (CSR, COO, Dense, FixedNumPerPre):  # the others are these, turned
            matrix = kind.fromdense(jnp.ones((3, 3), "float32"))
            np.testing.assert_array_equal(x @ matrix, [1 + 1e-12] * 3)
            by_weights = jax.grad(lambda data, m=matrix: (x @ m.with_data(data)).sum())(matrix.data)
            assert by_weights.dtype == "float32"


@pytest.mark.parametrize("dtype", ["int32", "int8", "uint16"])
@pytest.mark.parametrize("events", [[True, False, True], [[1.0, 0.0], [0.0, -2.0], [3.0, 0.0]]])
def test_events_add_integers(dtype, events):
    matrix = jnp.arange(12).reshape(3, 4).astype(dtype)
    events = BinaryArray(jnp.array(events).T)
    found, active = events @ matrix, (events.value != 0).astype(dtype)
    np.testing.assert_array_equal(found, active @ matrix)
    assert found.dtype == dtype
    np.testing.assert_array_equal(matrix.T @ events.T, matrix.T @ active.T)


# ---- indices --------------------------------------------------------------------------------------------------------


def test_index_helpers_know_both_names_of_their_arrays():
    indptr, indices = jnp.array([0, 2, 3]), jnp.array([0, 2, 2])
    wanted = brainevent.csr_to_csc_index(indptr, indices, shape=(2, 3))
    found = brainevent.csr_to_csc_index(csr_indptr=indptr, csr_indices=indices, shape=(2, 3))
    jax.tree.map(np.testing.assert_array_equal, found, wanted)
    jax.tree.map(
        np.testing.assert_array_equal,
        brainevent.csr_to_csc_index(indptr, csr_indices=indices, shape=(2, 3), include_perm=False),
        (*wanted[:2], None),
    )
    back = brainevent.csc_to_csr_index(csc_indptr=wanted[0], csc_indices=wanted[1], shape=(2, 3), include_perm=False)
    jax.tree.map(np.testing.assert_array_equal, back, (indptr, indices, None))
    with pytest.raises(TypeError, match="pass indices, or csr_indices, which is the same; found both"):
        brainevent.csr_to_csc_index(indptr, indices, csr_indices=indices, shape=(2, 3))
    with pytest.raises(TypeError, match="pass indptr, or csc_indptr, which is the same; found neither"):
        brainevent.csc_to_csr_index(indices=indices, shape=(2, 3))


# ---- matrices -------------------------------------------------------------------------------------------------------


@every_format
def test_buffers_are_attributes(kind):
    matrix = kind.fromdense(EYE)
    matrix.register_buffer("trace")
    assert matrix.trace is None
    matrix.trace = jnp.ones(3)
    np.testing.assert_array_equal(matrix.buffers["trace"], jnp.ones(3))
    matrix.set_buffer("trace", jnp.zeros(3))
    assert jax.jit(lambda m: m.with_data(m.data).trace)(matrix).tolist() == [0, 0, 0]
    with pytest.raises(UnknownBufferError, match=rf"^{kind.__name__}: no buffer 'other'; register it first") as caught:
        matrix.set_buffer("other", 1)
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, ValueError)
    with pytest.raises(ValueError, match=rf"{kind.__name__}: 'shape' is an attribute already; choose another name"):
        matrix.register_buffer("shape", jnp.ones(3))
    with pytest.raises(AttributeError, match=f"'{kind.__name__}' object has no attribute 'nothing'"):
        matrix.nothing  # noqa: B018


@every_format
def test_axes_may_be_given_where_there_is_one_order_of_them(kind):
    matrix = kind.fromdense(jnp.array([[1.0, 0, 0], [0, 0, 2], [0, 3, 0]]))
    for axes in (None, (1, 0), [-1, -2]):
        np.testing.assert_array_equal(matrix.transpose(axes).todense(), matrix.todense().T)
    np.testing.assert_array_equal(matrix.transpose(axes=None).todense(), matrix.T.todense())
    with pytest.raises(ValueError, match=rf"{kind.__name__}.transpose: axes are \(0, 1\); pass None, or \(1, 0\)"):
        matrix.transpose((0, 1))


def test_fixed_number_matrices_report_their_number_of_connections():
    pre = FixedNumPerPre((1.0, jnp.array([[0, 2], [1, 2]])), shape=(2, 3))
    assert (pre.num_pre, pre.num_post, pre.num_conn) == (2, 3, 2)
    assert (pre.T.num_pre, pre.T.num_post, pre.T.num_conn) == (3, 2, 2)
    assert isinstance(pre, FixedNumConn)
    assert isinstance(pre.T, FixedNumConn)
    assert not isinstance(pre.tocsr(), FixedNumConn)


# ---- derivatives by matrices ----------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1, most=3)
@every_format
def test_the_gradient_by_a_matrix_is_a_matrix(kind):
    dense = jnp.array([[1.0, 0, 0], [0, 0, 2], [0, 3, 0]])
    x = jnp.array([1.0, 2.0, 4.0])
    matrix = kind.fromdense(dense)
    loss = lambda m, x: (jnp.sin(x @ m) * x).sum()
    value, found = jax.jit(brainevent.value_and_grad(loss))(matrix, x)
    np.testing.assert_allclose(value, loss(dense, x), rtol=1e-6)
    assert type(found) is kind
    stored = np.ones((3, 3)) if kind is Dense else np.asarray(dense != 0)
    np.testing.assert_allclose(found.todense(), jax.grad(loss)(dense, x) * stored, rtol=1e-5)
    by_both = brainevent.grad(loss, argnums=(1, 0))(matrix, x)
    np.testing.assert_allclose(by_both[0], jax.grad(loss, 1)(dense, x), rtol=1e-5)
    np.testing.assert_allclose(by_both[1].todense(), found.todense(), rtol=1e-6)


def test_gradients_go_through_trees_auxiliary_results_and_buffers():
    matrix = CSR.fromdense(EYE)
    matrix.register_buffer("gain", jnp.array(2.0))
    loss = lambda parts, *, scale: (((parts["m"] @ jnp.ones(3)).sum() * parts["m"].gain * scale + parts["b"]), "aux")
    found, aux = brainevent.grad(loss, has_aux=True)({"m": matrix, "b": 1.0}, scale=3.0)
    assert (aux, float(found["b"]), float(found["m"].gain)) == ("aux", 1, 9)
    np.testing.assert_array_equal(found["m"].data, [6, 6, 6])
    with pytest.raises(TypeError, match="grad: argnums is 1, and there are 1 positional arguments; pass at least 2"):
        brainevent.grad(loss, 1)(matrix)
    with pytest.raises(TypeError, match="got int32"):
        brainevent.grad(lambda x: x.sum())(jnp.arange(3))


def test_the_gradient_of_jax_takes_trees_with_matrices():
    matrix, x = CSR.fromdense(EYE), jnp.arange(3.0)
    loss = lambda tree: (tree["m"] @ x).sum() + tree["b"] ** 2
    for transform in (jax.grad, brainevent.grad):
        for compiled in (lambda function: function, jax.jit):
            found = compiled(transform(loss))({"m": matrix, "b": 3.0})
            np.testing.assert_array_equal(found["m"].data, x)
            np.testing.assert_array_equal(found["m"].indices, matrix.indices)
            assert found["b"] == 6
    value, _ = jax.value_and_grad(loss)({"m": matrix, "b": 3.0})
    assert value == 12


# ---- events ---------------------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize("size", [0, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 31)), 32, 70])
def test_events_as_bits_or_as_a_list_alone(size):
    x = jnp.asarray(np.random.default_rng(size).random(size) < 0.4)
    weights = jnp.arange(2.0 * size).reshape(size, 2)
    for make in (CompactBinary.from_array, CompactBinary.from_array_light, CompactBinary.compacy_only_vector):
        events = jax.jit(make)(x)
        assert events.bit_width == 32
        assert events.shape == (size,)
        np.testing.assert_array_equal(events.to_dense(), x)
        np.testing.assert_array_equal(events @ weights, x.astype(float) @ weights)
    assert CompactBinary.from_array_light(x).n_active == 0
    assert CompactBinary.compacy_only_vector(x).packed.size == 0
    whole = CompactBinary.from_array(x, bit_width=32)
    again = CompactBinary.from_packed(whole.packed, whole.active_ids, whole.n_active, x, size)
    np.testing.assert_array_equal(again.value, x)
    listed = CompactBinary.from_packed(jnp.zeros(0, "uint32"), whole.active_ids, whole.n_active.reshape(1), None, size)
    np.testing.assert_array_equal(listed.value, x)


def test_events_of_batches():
    x = jnp.asarray(np.random.default_rng(0).random((5, 40)) < 0.2)
    for events in (CompactBinary.from_array(x), CompactBinary.from_array_light(x)):
        again = CompactBinary.from_packed(
            events.packed, events.active_ids, events.n_active, None, n_orig=5, batch_size=40
        )
        np.testing.assert_array_equal(again.to_dense(), x)
        assert again.n_active == x.any(1).sum()


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: CompactBinary.from_array(EYE, bit_width=64), ValueError, "bit_width is 64; words have 32 bits"),
        (lambda: CompactBinary.compacy_only_vector(EYE), MathError,
         r"shape \(3, 3\); pass a vector, or call from_array"),
        (lambda: CompactBinary.from_packed(jnp.zeros(2), EYE[0], 1, None, 3), ShapeError,
         r"packed has shape \(2,\); pass words of shape \(1,\)"),
        (lambda: CompactBinary.from_packed(jnp.zeros(1), EYE[0], 1), TypeError, "n_orig is not given"),
    ],
)  # fmt: skip
def test_events_that_do_not_fit_are_reported(call, error, says):
    with pytest.raises(error, match=says):
        call()


# ---- names of arguments and attributes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cls", "numbers"),
    [
        ("JITCScalarR", {"weight": 1.5}),
        ("JITCScalarC", {"weight": 1.5}),
        ("JITCNormalR", {"loc": 1.5, "scale": 0.1}),
        ("JITCUniformC", {"low": 0.5, "high": 1.5}),
    ],
)
def test_drawn_matrices_take_their_numbers_by_name(cls, numbers):
    make = getattr(brainevent, cls)
    wanted = make((*numbers.values(), 0.5, 42), shape=(20, 30))
    for found in (
        make(**numbers, prob=0.5, seed=42, shape=(20, 30)),
        make(*numbers.values(), prob=0.5, seed=42, shape=(20, 30)),
        make(*numbers.values(), 0.5, 42, shape=(20, 30)),
    ):
        np.testing.assert_array_equal(found.todense(), wanted.todense())
        assert found.seed == 42
    assert isinstance(make(*numbers.values(), 0.5, shape=(20, 30)).seed, int)  # a new one
    with pytest.raises(TypeError, match=f"{cls}: there is no argument 'probb'; did you mean 'prob'"):
        make(**numbers, probb=0.5, seed=42, shape=(20, 30))
    with pytest.raises(TypeError, match=f"{cls}: {next(iter(numbers))} is given twice"):
        make(1.0, **numbers, prob=0.5, seed=42, shape=(20, 30))
    with pytest.raises(ValueError, match=f"{cls}: {len(numbers)} values are given; pass "):
        make(**numbers, shape=(20, 30))


@pytest.mark.parametrize("seed", [0, 42, -7, 2**40 + 5, -(2**63), np.int32(-3), np.uint32(2**32 - 1)])
def test_the_seed_of_a_drawn_matrix_is_as_given(seed):
    matrix = brainevent.JITCScalarR(1.0, 0.5, seed, shape=(20, 30))
    assert matrix.seed == int(seed)
    again = jax.jit(lambda m: brainevent.JITCScalarR(1.0, 0.5, m.seed, shape=(20, 30)).todense())(matrix)
    np.testing.assert_array_equal(again, matrix.todense())


DENSE = jnp.array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.0], [3.0, 4.0, 5.0]])


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize("cls", ["CSR", "CSC", "COO", "Dense", "FixedNumPerPre"])
def test_methods_of_matrices_take_their_arguments_by_name(cls):
    more = {"num_conn": 3} if cls == "FixedNumPerPre" else {}
    matrix = getattr(brainevent, cls).fromdense(DENSE, **more)
    np.testing.assert_array_equal(matrix.apply(fn=lambda x: 2 * x).todense(), 2 * DENSE)
    np.testing.assert_array_equal(matrix.slice_rows(index=jnp.array([2, 0])).todense(), DENSE[jnp.array([2, 0])])
    np.testing.assert_array_equal(matrix.diag_add(other=1.0).todense(), DENSE + jnp.eye(3))


def test_the_places_of_a_diagonal_are_those_of_the_sum():
    matrix, diagonal = brainevent.CSR.fromdense(DENSE), jnp.array([10.0, 20.0, 30.0])
    indptr, indices, stored, places = matrix.diag_positions
    total = matrix.diag_add(diagonal)
    np.testing.assert_array_equal(indptr, total.indptr)
    np.testing.assert_array_equal(indices, total.indices)
    data = jnp.zeros(indices.size).at[stored].add(matrix.data).at[places].add(diagonal)
    np.testing.assert_array_equal(data, total.data)
    with pytest.raises(RuntimeError, match="diag_positions"):
        jax.jit(lambda m: m.diag_positions)(matrix)


def test_sums_of_dense_matrices_are_dense_matrices():
    u = pytest.importorskip("brainunit")
    for unit, matrix in ((1.0, brainevent.Dense(DENSE)), (u.mV, brainevent.Dense(DENSE * u.mV))):
        for found, wanted in (
            (matrix + 1.0 * unit, DENSE + 1.0),
            (1.0 * unit - matrix, 1.0 - DENSE),
            (matrix - matrix, 0 * DENSE),
            (matrix + DENSE[0] * unit, DENSE + DENSE[0]),
            (DENSE * unit + matrix, 2 * DENSE),
        ):
            assert isinstance(found, brainevent.Dense)
            np.testing.assert_array_equal(found.todense() / unit, wanted)


def test_events_as_bits_are_transposed_and_multiplied():
    spikes = np.random.default_rng(0).random((40, 70)) < 0.3
    events = brainevent.BitPackedBinary(jnp.asarray(spikes))
    for found in (events.T, events.transpose(), events.transpose(1, 0), events.transpose((1, 0))):
        assert isinstance(found, brainevent.BitPackedBinary)
        assert found.original_shape == found.shape == (70, 40)
        np.testing.assert_array_equal(found.value, spikes.T)
        jax.tree.map(np.testing.assert_array_equal, found, brainevent.BitPackedBinary(jnp.asarray(spikes.T)))
    np.testing.assert_array_equal(events.transpose(0, 1).value, spikes)
    matrix = jnp.arange(140.0).reshape(70, 2)
    np.testing.assert_array_equal(events.dot(matrix), events @ matrix)


def test_compact_events_are_made_of_seven_parts():
    value = jnp.array([True, False, True])
    events = brainevent.CompactBinary.from_array(value)
    parts = events.packed, events.active_ids, jnp.array([2]), value, 3, None, 32
    jax.tree.map(np.testing.assert_array_equal, brainevent.CompactBinary(*parts), events)
    with pytest.raises(TypeError, match="n_orig is not given"):
        brainevent.CompactBinary(*parts[:4])
    with pytest.raises(ShapeError, match=r"packed has shape \(1,\); pass words of shape \(2,\)"):
        brainevent.CompactBinary(*parts[:4], 40)


@pytest.mark.parametrize("cls", ["BinaryArray", "WeightedArray", "BitPackedBinary"])
def test_events_are_taken_apart_by_their_method(cls):
    events = getattr(brainevent, cls)(jnp.array([[1.0, 0.0]]))
    leaves, static = events.tree_flatten()
    again = type(events).tree_unflatten(static, leaves)
    np.testing.assert_array_equal(again.value, events.value)


def test_the_text_of_a_compilers_error_has_its_output_and_command_once():
    error = brainevent.errors.CompilationError("it failed", "x.cc:1: error: no", "g++ x.cc")
    assert str(error) == "it failed\nx.cc:1: error: no\ncommand: g++ x.cc"
    assert str(brainevent.errors.CompilationError(str(error), "x.cc:1: error: no\n", "g++ x.cc")) == str(error)


def test_other_arguments_by_name(tmp_path):
    pytest.importorskip("warp")
    assert brainevent.jaxinfo_to_warpinfo(jax_info=jax.ShapeDtypeStruct((3,), jnp.float32)).ndim == 1
    assert "name" in inspect.signature(brainevent.CompiledModule.get_handler).parameters
