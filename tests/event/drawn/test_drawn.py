# SPDX-License-Identifier: Apache-2.0
"""Drawn connectivity: what is drawn, and that all which a matrix is asked for is of one matrix."""

import math
import zlib
from statistics import NormalDist

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshes import cut, mesh, sent
from platforms import by_platform

import brainevent
from brainevent import BinaryArray
from brainevent.backends.numba import kept
from brainevent.event import table
from brainevent.event.description import Description
from brainevent.event.drawn import numbers, tables
from brainevent.event.drawn.checked import drawn_from
from brainevent.event.drawn.format import JITN, JITS, JITU
from brainevent.event.laws.products import EVENTS, NUMBERS, Product
from brainevent.event.laws.whole import WHOLE

FAMILIES = {"jits": ("Scalar", (1.5,)), "jitn": ("Normal", (1.0, 0.5)), "jitu": ("Uniform", (-1.0, 2.0))}
every_family = pytest.mark.parametrize("family", FAMILIES)
most_families = pytest.mark.parametrize("family", ["jits", "jitn", pytest.param("jitu", marks=pytest.mark.thorough)])
by_rows_or_columns = pytest.mark.parametrize("corder", [True, False], ids=["rows", "columns"])


def made(family, prob=0.2, seed=7, *, side="R", shape=(30, 50), of=None, **how):
    name, values = FAMILIES[family]
    return getattr(brainevent, f"JITC{name}{side}")((*(of or values), prob, seed), shape=shape, **how)


def function(family, kind=""):
    name = f"{family}{kind}" if not kind.startswith("binary") else f"binary_{family}{kind[7:]}"
    return getattr(brainevent, name)


def same_bits(one, other):
    one, other = np.asarray(one), np.asarray(other)
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    np.testing.assert_array_equal(one.view(np.uint8), other.view(np.uint8))


def close(one, other, **how):
    np.testing.assert_allclose(np.asarray(one, float), np.asarray(other, float), **{"rtol": 1e-5, "atol": 1e-4, **how})


# ---- what is drawn -----------------------------------------------------------------------------------------------


def test_tables_are_the_same_on_every_machine():
    assert [zlib.crc32(made().tobytes()) for made in (tables.logarithms, tables.quantiles)] == [579084101, 2888252613]


TABLES = jnp.asarray(tables.both_tables())


@given(st.integers(0, 2**64 - 1))
def test_words_are_those_of_splitmix64(x):
    low, high = numbers.hashed((jnp.uint32(x & 2**32 - 1), jnp.uint32(x >> 32)))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ x >> shift) * factor % 2**64
    assert int(low) | int(high) << 32 == x ^ x >> 31


WORDS = np.random.default_rng(0).integers(0, 2**32, 20_000, np.uint32)


@pytest.mark.parametrize("prob", [1e-6, 1e-3, 0.01, 0.0624, 0.0626, 0.3, 0.5, 0.9, 0.999])
def test_gaps_are_geometric(prob):
    plan = drawn_from("test", prob, 0)
    scale = float(plan[0]) * 2.0 ** (tables.FRACTION - int(plan[1]))
    assert math.isclose(scale * math.log1p(-float(np.float32(prob))), -math.log(2), rel_tol=1e-5)
    found = np.asarray(numbers.gap(plan, jnp.asarray(tables.logarithms()), jnp.asarray(WORDS)))
    wanted = np.log((WORDS + 0.5) / 2**32) / math.log1p(-float(np.float32(prob)))
    assert np.abs(found - np.floor(wanted)).max() <= 1 + 1.5e-5 / prob
    assert (found != np.floor(wanted)).mean() <= 1e-3 + 1e-6 / prob


def test_weights_are_normal_and_uniform():
    normal, uniform = (
        numbers.weight_word(kind, jnp.asarray(tables.quantiles()), jnp.asarray(WORDS))
        for kind in (numbers.NORMAL, numbers.UNIFORM)
    )
    np.testing.assert_array_equal(uniform, WORDS >> 8)
    wanted = [NormalDist().inv_cdf(1 - (int(word >> 1) + 0.5) / 2**32) * (1 - 2 * int(word & 1)) for word in WORDS]
    np.testing.assert_allclose(np.asarray(normal) * 2.0**-20, wanted, atol=1e-5)


@pytest.mark.parametrize("prob", [0.01, 0.3, 0.6, 0.9])
def test_the_density_is_the_one_that_was_asked_for(prob):
    n = 1000
    dense = np.asarray(brainevent.jits(1.0, prob, 5, shape=(n, n)))
    deviation = math.sqrt(prob * (1 - prob))
    assert abs(dense.mean() - prob) < 4 * deviation / n
    for axis in (0, 1):  # elements of rows and of columns are as many as independent draws give
        degrees = dense.sum(axis)
        assert abs(degrees.var() / (n * deviation**2) - 1) < 4 * math.sqrt(2 / n)
        assert np.abs(degrees / n - prob).max() < 5 * deviation / math.sqrt(n)
    neighbours = (dense[:, 1:] * dense[:, :-1]).mean()
    assert abs(neighbours - prob**2) < 4 * prob * deviation / n * 2


@pytest.mark.covering(strength=0)
@most_families
def test_probabilities_of_zero_and_one_draw_nothing_and_everything(family):
    assert not made(family, 0.0).todense().any()
    assert made(family, 0.0).tocsr().nse == 0
    full = np.asarray(made(family, 1.0, shape=(40, 60)).todense())
    assert (full != 0).all()
    mean, spread = {"jits": (1.5, 0), "jitn": (1, 0.5), "jitu": (0.5, math.sqrt(0.75))}[family]
    assert abs(full.mean() - mean) <= 4 * spread / math.sqrt(2400)
    assert abs(full.std() - spread) <= 4 * spread / math.sqrt(2400) + 1e-6
    events = BinaryArray(jnp.arange(60) == 3)
    same_bits(made(family, 1.0, shape=(40, 60)) @ events, full[:, 3].copy())


# ---- one matrix --------------------------------------------------------------------------------------------------

DRAWS = {
    "prob": st.sampled_from([0.0, 0.003, 0.1, 0.5, 0.97, 1.0]),
    "seed": st.integers(-(2**31), 2**31 - 1),
    "origin": st.sampled_from([(0, 0), (3, 100), (2**32 - 2, 2**31 - 6000)]),
}
TYPES = [
    (JITS, "float32"),
    pytest.param(JITU, "float32", marks=pytest.mark.thorough),
    (JITN, "float32"),
    pytest.param(JITN, "float16", marks=pytest.mark.thorough),
    (JITU, "bfloat16"),
    (JITN, "float64"),
]
every_type = pytest.mark.parametrize(("form", "dtype"), TYPES, ids=lambda x: getattr(x, "name", x))


def parts(form, dtype, prob, seed, origin=(0, 0)):
    weights = jnp.array([1.1, 0.3][: form.stored((), (0, 0))[0]], dtype)
    return weights, drawn_from("test", prob, seed) + jnp.array([0] * 5 + [*origin, 0, 0, 0], jnp.uint32)


def whole(form, weights, drawn, shape, backend="numba"):
    return table.TABLE[Description(form, WHOLE)](weights, drawn, TABLES, shape=shape, backend=backend)[0]


@pytest.mark.covering(strength=1, most=2)
@every_type
@settings(max_examples=3)
@given(**DRAWS)
def test_kernels_and_the_reference_draw_the_same_bits(form, dtype, prob, seed, origin):
    with jax.enable_x64(True):
        given = parts(form, dtype, prob, seed, origin)
        same_bits(whole(form, *given, (7, 300)), whole(form, *given, (7, 300), "reference"))


@pytest.mark.covering(strength=1, most=2)
@every_type
@pytest.mark.parametrize(("law", "columns", "transpose"), [(EVENTS, False, True), (NUMBERS, True, False)])
def test_products_in_every_type(form, dtype, law, columns, transpose):
    with jax.enable_x64(True):
        given, shape = parts(form, dtype, 0.3, 5), (40, 33)
        matrix = np.asarray(whole(form, *given, shape), np.float64)
        of, taken = Description(form, law, columns=columns), shape[not transpose]
        x = (jnp.arange(taken * (2 if columns else 1)).reshape((taken, 2) if columns else taken) % 3).astype(dtype)
        (found,) = table.TABLE[of](*given, TABLES, x, shape=shape, transpose=transpose, backend="numba")
        wanted = np.asarray(x != 0 if law is EVENTS else x, np.float64)
        loose = {"float64": 1e-12, "float32": 1e-4}.get(dtype, 2e-2)
        close(found, (matrix.T if transpose else matrix) @ wanted, rtol=loose, atol=loose * 10)


@pytest.mark.covering(strength=0)
@every_family
@by_rows_or_columns
def test_all_views_of_a_drawn_matrix_agree(family, corder):
    matrix = made(family, corder=corder)
    dense, values = matrix.todense(), FAMILIES[family][1]
    other = made(family, side="C", corder=corder)
    same_bits(other.todense(), dense)
    same_bits(matrix.T.todense(), dense.T)
    assert (type(matrix.T), matrix.T.corder, matrix.T.shape) == (type(other), not corder, (50, 30))
    same_bits(matrix.T.T.todense(), dense)
    same_bits(function(family)(*values, 0.2, 7, shape=(30, 50), corder=corder), dense)
    same_bits(function(family)(*values, 0.2, 7, shape=(50, 30), corder=corder, transpose=True), made(
        family, shape=(50, 30), corder=not corder
    ).todense().T)  # fmt: skip
    csr = matrix.tocsr()
    same_bits(csr.todense(), dense)
    assert csr.data.shape == (csr.nse,) == (int((dense != 0).sum()),)
    assert (np.diff(np.asarray(csr.indices))[np.diff(np.repeat(np.arange(30), np.diff(csr.indptr))) == 0] > 0).all()
    same_bits(matrix.tocsc().todense(), dense)
    same_bits(matrix.tocoo().todense(), dense)
    same_bits(matrix[3], dense[3])
    same_bits(matrix.mv.todense(), matrix.mm.todense())
    large = made(family, shape=(35, 60), corder=corder).todense()
    same_bits(large[:30, :50], dense)


@pytest.mark.parametrize(  # test_products_in_every_type multiplies with each
    "family", ["jitn", *(pytest.param(family, marks=pytest.mark.thorough) for family in ("jits", "jitu"))]
)
@pytest.mark.covering(strength=0)
@by_rows_or_columns
def test_products_are_of_it(family, corder):
    matrix, values = made(family, corder=corder), FAMILIES[family][1]
    dense = np.asarray(matrix.todense(), np.float64)
    v, u = np.linspace(-1, 2, 50).astype("float32"), np.linspace(-2, 1, 30).astype("float32")
    how = {"shape": (30, 50), "corder": corder}
    for array, event in ((v, False), (v > 1, True)):
        operand, name = BinaryArray(array) if event else jnp.asarray(array), "binary_mv" if event else "mv"
        close(matrix @ operand, dense @ array)
        close(function(family, name)(*values, 0.2, operand, 7, **how), dense @ array)
        if not event:  # test_products_in_every_type multiplies numbers
            continue
        both = np.stack([array, ~array], 1)
        close(function(family, name[:-1] + "m")(*values, 0.2, jnp.asarray(both), 7, **how), dense @ both)
        close(jax.vmap(lambda x: matrix @ x, 1, 1)(jnp.asarray(both)), dense @ both)
    close(u @ matrix, u @ dense)
    close(BinaryArray(u > 0) @ matrix, (u > 0) @ dense)
    other = {"shape": (30, 50), "corder": not corder, "transpose": True}
    close(function(family, "mv")(*values, 0.2, u, 7, **other), u @ dense)
    for axis in (None, 0, 1):
        close(matrix.sum(axis), dense.sum(axis), rtol=1e-4)
    close(jax.jit(lambda matrix, x: matrix @ x)(matrix, v), dense @ v)


@every_family
def test_values_of_synapses(family):
    values = FAMILIES[family][1]
    for corder in (True, False):
        matrix = made(family, corder=corder)
        csr, y, z = matrix.tocsr(), jnp.arange(1.0, 31), jnp.arange(1.0, 51)
        rows = np.repeat(np.arange(30), np.diff(csr.indptr))
        how = {"shape": (30, 50), "corder": corder}
        for transpose, of, wanted in ((False, y, y[rows]), (True, z, z[csr.indices])):
            found = function(family, "mv_dt2t")(*values, 0.2, of, 7, transpose=transpose, **how)
            close(found, csr.data * wanted)
        same_bits(matrix.dt2t(y, None), csr.data * y[rows])
        same_bits(matrix.dt2t_transposed(z, jnp.ones(csr.nse)), z[csr.indices])


@by_platform
@by_rows_or_columns
def test_batches_of_weights_seeds_and_probabilities(platform, corder):
    v = jnp.arange(50.0)
    one = lambda loc, seed, prob: brainevent.jitnmv(loc, 0.5, prob, v, seed, shape=(30, 50), corder=corder)
    given = np.arange(3.0, dtype="float32"), np.arange(3), np.array([0.1, 0.5, 0.9], "float32")
    wanted = jnp.stack([one(float(loc), int(seed), float(prob)) for loc, seed, prob in zip(*given, strict=True)])
    equal = close if platform == "gpu" else same_bits  # where threads add in any order
    equal(jax.vmap(one)(*map(jnp.asarray, given)), wanted)


def test_one_program_serves_all_seeds():
    traces = []

    @jax.jit
    def call(matrix, v):
        traces.append(matrix)
        return matrix @ v

    found = [call(made("jits", prob, seed), jnp.ones(50)) for prob, seed in ((0.2, 7), (0.4, -3))]
    assert len(traces) == 1
    for got, (prob, seed) in zip(found, ((0.2, 7), (0.4, -3)), strict=True):
        close(got, made("jits", prob, seed).todense().sum(1))


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("form", [JITS, JITN], ids=lambda form: form.name)
@pytest.mark.parametrize("transpose", [False, True], ids=["A", "A.T"])
def test_devices_share_what_x_stands_for(form, transpose):
    shape = (8, 160)
    weights = jnp.array([1.0, 2.0][: form.stored((), shape)[0]])
    drawn = drawn_from("test", 0.3, 3)
    x = jnp.asarray(np.random.default_rng(0).integers(0, 4, shape[not transpose]), jnp.float32)
    call = lambda x: table.TABLE[Description(form, NUMBERS)](
        weights, drawn, TABLES, x, shape=shape, transpose=transpose
    )[0]
    shared = cut(mesh(), x, "d")
    assert sent(call, shared) == {"all-reduce": 1}
    close(jax.jit(call)(shared), call(x), rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("corder", "columns", "event"), [(False, None, True), pytest.param(True, 3, False, marks=pytest.mark.thorough)]
)
def test_threads_add_in_the_same_order(corder, columns, event, monkeypatch):
    matrix = made("jitn", 0.2, shape=(4500, 4000), corder=corder)
    x = np.random.default_rng(0).integers(0, 2, 4000 if columns is None else (4000, columns))
    x = BinaryArray(jnp.asarray(x)) if event else jnp.asarray(x, jnp.float32)
    alone, gates, prepare = matrix @ x, [], kept.runtime.prepare_parallel
    monkeypatch.setattr(kept.runtime, "prepare_parallel", lambda: gates.append(prepare()))
    brainevent.config.set_numba_parallel()
    same_bits(matrix @ x, alone)
    assert gates  # only parallel code passes it


@pytest.mark.thorough
def test_a_million_rows_and_columns():
    """All rows would be ten thousand million elements: only those of events are drawn."""
    n = 10**6
    matrix = brainevent.JITCUniformR((0.5, 1.5, 0.01, 3), shape=(n, n))
    found = matrix @ BinaryArray(jnp.zeros(n, bool).at[jnp.array([5, n - 1])].set(True))
    assert abs(int((found != 0).sum()) - n * (1 - 0.99**2)) < 4 * 141
    assert abs(float(found.sum()) - 20_000) < 4 * 150
    column = made("jitu", 0.01, 3, of=(0.5, 1.5), shape=(20_000, 6)).todense()[:, 5]
    other = matrix @ BinaryArray(jnp.zeros(n, bool).at[5].set(True))
    same_bits(other[:20_000], column)


# ---- a law that is not ours --------------------------------------------------------------------------------------

LARGEST = Product("top_{format}{mv}", ("top",), event=True, linear=False, merge="max")


@pytest.mark.parametrize("transpose", [False, True], ids=["A", "A.T"])
def test_laws_of_others_have_a_reference(transpose):
    weights, drawn = jnp.array([1.0, 3.0]), drawn_from("test", 0.3, 3)
    dense = np.asarray(table.TABLE[Description(JITU, WHOLE)](weights, drawn, TABLES, shape=(20, 30))[0])
    x = np.arange(20 if transpose else 30) % 3 == 0
    how = {"shape": (20, 30), "transpose": transpose}
    (found,) = table.apply(Description(JITU, LARGEST), weights, drawn, TABLES, jnp.asarray(x), **how)
    turned = dense.T if transpose else dense
    np.testing.assert_array_equal(found, np.where(x, turned, 0).max(1))


# ---- derivatives -------------------------------------------------------------------------------------------------


@by_platform
@pytest.mark.covering(strength=1, most=2)
@every_family
@by_rows_or_columns
@pytest.mark.parametrize("kind", ["", "mv", "mm", "binary_mv"])
def test_gradients(family, corder, kind):
    values = jnp.array(FAMILIES[family][1])
    x = jnp.asarray(np.random.default_rng(1).integers(-1, 3, (50, 2) if kind == "mm" else 50), jnp.float32)
    rest = () if not kind else (x,)
    how = {"shape": (30, 50), "corder": corder}

    def loss(values, *x):
        return jnp.sin(function(family, kind)(*values, 0.2, *x, 7, **how)).sum()

    def through_dense(values, *x):
        ones = [jnp.ones(()), jnp.zeros(())][: len(values)]
        base = function(family)(*ones, 0.2, 7, **how)
        dense = base * values[0]
        if len(values) == 2:
            other = function(family)(jnp.zeros(()), jnp.ones(()), 0.2, 7, **how)
            dense = dense + other * values[1]
        if not x:
            return jnp.sin(dense).sum()
        (x,) = x
        if kind.startswith("binary"):
            x = x + jax.lax.stop_gradient((x != 0) - x)  # straight through
        return jnp.sin(jnp.matmul(dense, x, precision="highest")).sum()

    by_all = tuple(range(1 + len(rest)))
    found, wanted = (jax.grad(each, by_all)(values, *rest) for each in (loss, through_dense))
    for got, want in zip(found, wanted, strict=True):
        close(got, want, rtol=2e-4, atol=2e-3)


def test_gradients_of_values_of_synapses_and_of_matrices():
    y = jnp.arange(1.0, 31)
    loss = lambda loc, scale: brainevent.jitnmv_dt2t(loc, scale, 0.2, y, 7, shape=(30, 50)).sum()
    matrix = made("jitn", corder=True)
    of_loc, of_scale = (matrix.with_data(values).todense().sum(1) @ y for values in ((1.0, 0.0), (0.0, 1.0)))
    close(jax.grad(loss, (0, 1))(1.0, 0.5), (of_loc, of_scale))
    found = brainevent.grad(lambda matrix: (y @ matrix).sum())(matrix)
    close(found.data, (of_loc, of_scale))
    same_bits(found.drawn, matrix.drawn)
    close(jax.grad(lambda matrix: (y @ matrix).sum())(matrix).data, (of_loc, of_scale))
    close(jax.grad(lambda prob: brainevent.jitsmv(1.0, prob, jnp.ones(5), 3, shape=(4, 5)).sum())(0.5), 0)
