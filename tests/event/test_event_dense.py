# SPDX-License-Identifier: Apache-2.0
"""Products of dense matrices with events: every kernel against NumPy, derivatives, batches, shards, wrong operands."""

import importlib
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from meshes import cut, mesh, sent
from platforms import few_examples
from programs import run_program

import brainevent
from brainevent import binary_densemm, binary_densemm_p, binary_densemv, binary_densemv_p
from brainevent.backends.nvrtc import kernel as nvrtc
from brainevent.errors import MathError, ShapeError
from brainevent.ffi.launch import PlanTarget

pytestmark = pytest.mark.covering

BACKENDS = ("numba", "dot", "reference")
FLOATS = ("float16", "bfloat16", "float32", "float64")
EVENTS = ("bool", "int8", "uint8", "int32", "float16", "bfloat16", "float32", "float64")
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}
SIZES = st.integers(0, 70)

on_gpu = [pytest.param(name, marks=pytest.mark.gpu, id=f"{name} on a GPU") for name in ("cuda_raw", "dot")]
every_backend = pytest.mark.parametrize("backend", [*BACKENDS, *on_gpu])
both_ways = pytest.mark.parametrize("transpose", [False, True], ids=["weights", "weights.T"])


@pytest.fixture(autouse=True)
def with_64_bits():
    with jax.enable_x64(True):
        yield


def drawn(seed, k, m, n, *, dtype="float32", events="bool", active=0.3, transpose=False):
    """Return weights, and events of which some are negative, where the type has such numbers."""
    random = np.random.default_rng(seed)
    weights = jnp.asarray(random.normal(size=(k, m) if transpose else (m, k)), dtype)
    shape = (k,) if n is None else (k, n)
    numbers = np.where(random.random(shape) < active, random.choice([-2, -1, 1, 2, 3], shape), 0)
    unsigned = events in ("bool", "uint8")
    return weights, jnp.asarray(np.abs(numbers) if unsigned else numbers).astype(events)


def expected(weights, x, *, transpose):
    """Return the product in float64; what is silent is left out, not multiplied by zero."""
    rows = np.asarray(weights, np.float64).T if transpose else np.asarray(weights, np.float64)
    active = np.asarray(x.astype(jnp.float64)) != 0
    if x.ndim == 1:
        return rows[:, active].sum(1)
    columns = [rows[:, column].sum(1) for column in active.T]
    return np.stack(columns, 1) if columns else np.zeros((rows.shape[0], 0))


def close(found, weights, x, transpose):
    wanted = expected(weights, x, transpose=transpose)
    scale = 1 + abs(wanted).max(initial=0)
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, atol=scale * TOLERANCE[weights.dtype.name])


def called(weights, x, **options):
    return (binary_densemv if x.ndim == 1 else binary_densemm)(weights, x, **options)


@few_examples(3)
@every_backend
@given(
    seed=st.integers(0, 99), k=SIZES, m=SIZES, n=st.none() | st.integers(0, 40), dtype=st.sampled_from(FLOATS),
    events=st.sampled_from(EVENTS), active=st.sampled_from([0.0, 0.05, 0.5, 1.0]), transpose=st.booleans(),
)  # fmt: skip
def test_products(backend, seed, k, m, n, dtype, events, active, transpose):
    weights, x = drawn(seed, k, m, n, dtype=dtype, events=events, active=active, transpose=transpose)
    found = called(weights, x, transpose=transpose, backend=backend)
    assert found.dtype == weights.dtype
    close(found, weights, x, transpose)


@pytest.mark.covering(strength=1)
@every_backend
@both_ways
@pytest.mark.parametrize("n", [None, 600])
def test_a_matrix_of_several_tiles(backend, transpose, n):
    weights, x = drawn(0, 50, 1300, n, transpose=transpose)
    found = called(weights, x, transpose=transpose, backend=backend)
    np.testing.assert_allclose(found, expected(weights, x, transpose=transpose), atol=1e-4)


@every_backend
@both_ways
@pytest.mark.parametrize("n", [None, 3])
@pytest.mark.parametrize("value", [jnp.nan, jnp.inf])
def test_weights_of_inactive_rows_add_nothing(backend, transpose, n, value):
    weights, x = drawn(1, 12, 9, n, transpose=transpose)
    x = x.at[5].set(False).at[2].set(True)
    silent, active = (weights.at[where].set(value) for where in ((5,) if transpose else (slice(None), 5), 2))
    found = called(silent, x, transpose=transpose, backend=backend)
    np.testing.assert_allclose(found, expected(silent, x, transpose=transpose), atol=1e-5)
    assert np.isfinite(found).all()
    assert not np.isfinite(called(active, x, transpose=transpose, backend=backend)).all()


@pytest.mark.covering(strength=1)
@every_backend
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@both_ways
def test_sums_of_16_bits_are_made_in_32(backend, dtype, transpose):
    weights, x = jnp.ones((3000, 3000), dtype), jnp.ones(3000, bool)
    weights = weights * jnp.asarray(2**-4, dtype)
    found = binary_densemv(weights, x, transpose=transpose, backend=backend)
    assert (found == jnp.asarray(3000 / 16, dtype)).all()  # 0.0625 added to 128 in bfloat16 is 128 again


# ---- derivatives ------------------------------------------------------------------------------------------------


@jax.custom_jvp
def counted(x):
    return (x != 0).astype(x.dtype)


counted.defjvp(lambda primals, tangents: (counted(*primals), *tangents))


def model(weights, x, *, transpose):
    """The product, with a derivative by events that goes straight through, in every order."""
    return (weights.T if transpose else weights) @ counted(x)


@pytest.mark.covering(strength=0)
@both_ways
@pytest.mark.parametrize("n", [None, 5])
def test_derivatives_of_first_and_second_order(transpose, n):
    weights, x = drawn(2, 4, 3, n, dtype="float64", events="float64", transpose=transpose)

    def derivatives(f):
        loss = lambda weights, x: jnp.sin(f(weights, x, transpose=transpose)).sum()
        grad = jax.grad(loss, (0, 1))
        tangents = jax.jvp(loss, (weights, x), (weights + 1, x + 1))
        return grad(weights, x), jax.jacfwd(grad, (0, 1))(weights, x), tangents

    found, wanted = (jax.jit(lambda f=f: derivatives(f))() for f in (called, model))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-10), found, wanted)


def test_events_have_a_gradient_straight_through():
    weights, x = drawn(3, 5, 4, None, dtype="float64", events="float64", transpose=True)
    by_x = jax.grad(lambda x: (binary_densemv(weights, x, transpose=True) * jnp.arange(4.0)).sum())(x)
    np.testing.assert_allclose(by_x, weights @ jnp.arange(4.0))
    by_weights = jax.grad(lambda w: binary_densemv(w, x, transpose=True).sum())(weights)
    np.testing.assert_array_equal(by_weights, np.repeat((x != 0)[:, None], 4, 1))


def test_boolean_events_have_no_gradient():
    weights, x = drawn(3, 5, 4, None, dtype="float64")
    found = jax.grad(lambda w: binary_densemv(w, x).sum())(weights)
    np.testing.assert_array_equal(found, np.repeat(x[None], 4, 0))


def test_gradients_have_the_dtype_of_their_operand():
    for dtype in FLOATS[:2]:
        weights, x = drawn(4, 5, 4, 3, dtype=dtype, events="float32")
        found = jax.grad(lambda w, x: binary_densemm(w, x).astype("float32").sum(), (0, 1))(weights, x)
        assert [a.dtype for a in found] == [weights.dtype, x.dtype]


# ---- batches ----------------------------------------------------------------------------------------------------


@both_ways
@pytest.mark.parametrize("n", [None, 3])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_a_batch_of_events_is_one_product_of_matrices(transpose, n, axis):
    weights, x = drawn(5, 8, 6, n, transpose=transpose)
    batch = jnp.stack([x, ~x, x[::-1], x], axis)
    one = lambda x: called(weights, x, transpose=transpose)
    mapped = jax.vmap(one, in_axes=axis)
    text = jax.jit(mapped).lower(batch).as_text()
    assert text.count("custom_call @") == 1
    assert "while" not in text
    wanted = jnp.stack([one(part) for part in (x, ~x, x[::-1], x)])
    np.testing.assert_allclose(mapped(batch), wanted, atol=1e-5)
    jaxpr = str(jax.make_jaxpr(mapped)(batch))
    assert "binary_densemm" in jaxpr
    assert "binary_densemv" not in jaxpr


@pytest.mark.covering(strength=1)
@every_backend
@pytest.mark.parametrize("axes", [(0, None), (0, 0), (2, 1), (None, 0)])
@both_ways
def test_batches_of_weights(backend, axes, transpose):
    weights, x = drawn(6, 8, 6, None, transpose=transpose)
    many = jnp.stack([weights, 2 * weights, weights + 1], axes[0] or 0) if axes[0] is not None else weights
    spikes = jnp.stack([x, ~x, x[::-1]], axes[1]) if axes[1] is not None else x
    found = jax.vmap(lambda w, x: binary_densemv(w, x, transpose=transpose, backend=backend), axes)(many, spikes)
    reference = binary_densemv_p.definition.reference.fn
    wanted = jax.vmap(lambda w, x: reference(w, x, transpose=transpose)[0], axes)(many, spikes)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_an_empty_batch():
    assert jax.vmap(lambda x: binary_densemv(jnp.ones((3, 4)), x))(jnp.ones((0, 4))).shape == (0, 3)


# ---- promises ---------------------------------------------------------------------------------------------------


def checked(operator, dtype, transpose, **options):
    weights, x = drawn(7, 8, 12, None if operator is binary_densemv_p else 4, events="float32", transpose=transpose)
    weights = jnp.round(4 * weights).astype(dtype) / 4
    brainevent.check(operator, weights, x, transpose=transpose, **options).raise_if_failed()


@pytest.mark.thorough  # test_event_table.py holds each operator to some
@both_ways
@pytest.mark.parametrize(  # batches of vectors are products with matrices, too
    "operator",
    [binary_densemv_p, pytest.param(binary_densemm_p, marks=pytest.mark.thorough)],
    ids=lambda operator: operator.name,
)
def test_operators_keep_their_promises(operator, transpose):
    some = ["nested vmap", "vjp", "sharded jit"]
    every = transpose == (operator is binary_densemv_p)
    checked(operator, "float32", transpose, backends=["numba"], promises=None if every else some)
    checked(operator, "float32", transpose, backends=["dot"], promises=some)


@pytest.mark.covering(strength=0)
@both_ways
@pytest.mark.parametrize(
    "dtype",
    [
        pytest.param("float16", marks=pytest.mark.thorough),
        "bfloat16",
        pytest.param("float64", marks=pytest.mark.thorough),
    ],
)
def test_promises_of_other_dtypes(dtype, transpose):
    checked(binary_densemv_p, dtype, transpose, backends=["numba"], promises=["jit", "nested vmap", "vjp"])


CUTS = [(("d", None), None, {}), ((None, "d"), "d", {"all-reduce": 1}), ((None, "d"), None, {"all-reduce": 1})]


@both_ways
@pytest.mark.parametrize("n", [None, 4])
@pytest.mark.parametrize(("rows_and_columns", "of_x", "collectives"), CUTS)
def test_devices_share_rows_or_columns(transpose, n, rows_and_columns, of_x, collectives):
    weights, x = drawn(8, 12, 8, n, transpose=transpose)
    spec = rows_and_columns[::-1] if transpose else rows_and_columns
    operands = cut(mesh(), weights, *spec), cut(mesh(), x, of_x, *[None] * (x.ndim - 1))
    one = lambda weights, x: called(weights, x, transpose=transpose)
    assert sent(one, *operands) == collectives
    np.testing.assert_allclose(jax.jit(one)(*operands), expected(weights, x, transpose=transpose), atol=1e-5)


def test_devices_share_columns_of_events_and_two_axes_at_once():
    weights, x = drawn(9, 12, 8, 4)
    operands = weights, cut(mesh(), x, None, "d")
    assert sent(binary_densemm, *operands) == {}
    grid = mesh(a=2, b=2)
    operands = cut(grid, weights, "a", "b"), cut(grid, x, "b", None)
    assert sent(binary_densemm, *operands) == {"all-reduce": 1}
    np.testing.assert_allclose(jax.jit(binary_densemm)(*operands), expected(weights, x, transpose=False), atol=1e-5)


@pytest.mark.thorough
def test_they_are_found_by_tags_and_measured():
    assert brainevent.get_primitives_by_tags({"binary", "dense"}).keys() == {"binary_densemm", "binary_densemv"}
    for operator in (binary_densemv_p, binary_densemm_p):
        config = operator.definition.benchmark_data(platform="cpu")[0]
        weights, x = config.args
        assert config.bytes >= 4 * weights.shape[1] * int((x.reshape(x.shape[0], -1) != 0).any(1).sum())
        found = [operator.call(*config.args, backend=backend, **config.kernel_kwargs) for backend in BACKENDS]
        for other in found[1:]:
            np.testing.assert_allclose(found[0], other, atol=1e-4)


@pytest.mark.thorough
def test_an_operator_alone_can_be_measured():
    """In a process that has used no other name of this package."""
    program = "import brainevent; print(brainevent.binary_densemv_p.call([[1.0, 2.0]], [True, True], backend='numba'))"
    assert run_program(program).strip() == "[3.]"


# ---- kernels for GPUs, which are compiled here and run elsewhere -------------------------------------------------


class _PlannedError(Exception):
    pass


def plan(weights, x, **options):
    def stop(target, *_):
        assert isinstance(target, PlanTarget)
        raise _PlannedError(target.plan)

    from brainevent.event.dense.on_gpu import cuda_product

    shape = (weights.shape[1 if options["transpose"] else 0], *x.shape[1:])
    run = cuda_product([jax.ShapeDtypeStruct(shape, weights.dtype)], **options)
    with mock.patch.object(nvrtc, "native_call", stop), pytest.raises(_PlannedError) as caught:
        run(weights, x)
    return caught.value.args[0]


@pytest.fixture
def ninety():
    """Compile for one architecture, whatever this machine has; skip where NVRTC is not installed."""
    try:
        importlib.import_module("brainevent.backends.nvrtc.compiler")._nvrtc()
    except ImportError as error:
        pytest.skip(str(error))
    brainevent.config.set_compute_capability("9.0")
    yield
    brainevent.config.set_compute_capability(None)


@pytest.mark.covering(strength=1, most=2)
@both_ways
@pytest.mark.parametrize("n", [None, 40])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("events", ["bool", "int32", "float32", "bfloat16"])
def test_kernels_for_gpus_compile(ninety, transpose, n, dtype, events):
    weights, x = drawn(10, 300, 50, n, dtype=dtype, events=events, transpose=transpose)
    found = plan(weights, x, transpose=transpose)
    assert len(found.launches) == 1
    assert found.zeroed == ()


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize(
    ("shape", "n", "transpose", "grid", "block"),
    [
        ((50, 300), None, True, 10, 1024),  # 32 columns for a block
        ((50, 300), None, False, 7, 256),  # a row for a warp
        ((2**15, 8), None, False, 2**10, 256),  # four rows for a warp
        ((50, 300), 40, False, 7 * 2, 512),  # 8 rows and 32 columns for a block
        ((50, 300), 40, True, 38 * 2, 512),
    ],
)
def test_what_is_launched_on_gpus(ninety, shape, n, transpose, grid, block):
    x = jnp.ones((shape[0 if transpose else 1], *([n] if n else [])))
    (launch,) = plan(jnp.ones(shape, "float32"), x, transpose=transpose).launches
    assert (launch.grid, launch.block) == ((grid, 1, 1), (block, 1, 1))


@pytest.mark.parametrize("shape", [(0, 4), (4, 0)])
@both_ways
def test_nothing_is_launched_for_no_results(ninety, shape, transpose):
    found = plan(jnp.ones(shape), jnp.ones(shape[0 if transpose else 1]), transpose=transpose)
    assert len(found.launches) == (0 if shape[1 if transpose else 0] == 0 else 1)


# ---- what wrong operands get ------------------------------------------------------------------------------------

ONES = jnp.ones((3, 4), "float32")


@pytest.mark.parametrize(
    ("function", "operands", "error", "words"),
    [
        (binary_densemv, (ONES[0], ONES[0]), AssertionError, r"weights has shape \(4,\); pass a matrix"),
        (
            binary_densemv,
            (ONES, ONES),
            MathError,
            r"spikes has shape \(3, 4\); its rank must be 1; call binary_densemm",
        ),
        (binary_densemm, (ONES, ONES[0]), MathError, r"spikes has shape \(4,\); .* must be 2; call binary_densemv"),
        (binary_densemv, (ONES, ONES[None]), MathError, "its rank must be 1"),
        (binary_densemv, (ONES, ONES[:, 0]), ShapeError, r"takes spikes of 4 rows; spikes has shape \(3,\)"),
        (binary_densemm, (ONES, ONES), ValueError, r"takes spikes of 4 rows; spikes has shape \(3, 4\)"),
        (binary_densemv, (ONES.astype(bool), ONES[0]), TypeError, r"weights is bool; pass floating weights"),
        (binary_densemv, (ONES.astype(complex), ONES[0]), TypeError, "weights is complex64; pass floating"),
        (binary_densemv, (ONES, ONES[0].astype(complex)), TypeError, "spikes is complex64; pass booleans, integers"),
    ],
)
def test_wrong_operands_are_reported(function, operands, error, words):
    with pytest.raises(error, match=f"{function.__name__}: .*{words}"):
        function(*operands)


def test_an_unknown_backend_is_reported():
    with pytest.raises(brainevent.KernelFallbackExhaustedError, match="did you mean 'numba'"):
        binary_densemv(ONES, ONES[0], backend="numbaa")
