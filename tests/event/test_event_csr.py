# SPDX-License-Identifier: Apache-2.0
"""Products with matrices in compressed sparse rows: NumPy is the oracle; what all formats promise, and this adds."""

from unittest import mock

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshes import cut, mesh, sent
from platforms import every_backend, few_examples
from product_promises import (
    SOME,
    Promises,
    assert_checked,
    assert_product,
    both_ways,
    ninety,
    one_or_many,
    planned,
    planned_product,
    vector_or_matrix,
    what_is_launched,
)
from product_promises import same as same_numbers
from sparse_products import CALLS, Sparse, close, numbers, operand, taken

import brainevent
from brainevent import (
    binary_csrmm,
    binary_csrmv,
    binary_csrmv_indexed,
    csr_slice_rows,
    csrmm,
    csrmv,
)
from brainevent.backends.numba.memory import any_of
from brainevent.backends.nvrtc import kernel as nvrtc
from brainevent.errors import MathError, ShapeError
from brainevent.event.csr import on_gpu
from brainevent.event.library import OPERATORS
from brainevent.event.on_cpu.events import list_events
from brainevent.event.on_gpu import cut as parts_of
from brainevent.event.on_gpu import each

pytestmark = pytest.mark.covering

__all__ = ["ninety"]

VARIANT = {"indexed": False, "indices_sorted": False, "clustered": True, "per_slice": 256, "wide": True}
INDEXED = ("csrmv_indexed", "csrmm_indexed", "binary_csrmv_indexed", "binary_csrmm_indexed")


def compressed(seed, m, k, connections, *, homogeneous, dtype="float32", index="int32"):
    """Return a matrix in compressed sparse rows of all lengths, with duplicates, and columns in no order."""
    random = np.random.default_rng(seed)
    stored = m * connections if k else 0
    rows, columns = np.sort(random.integers(0, max(1, m), stored)), random.integers(0, max(1, k), stored)
    indptr = np.searchsorted(rows, np.arange(m + 1))
    weights = random.normal(size=1 if homogeneous else stored)
    indices = jnp.asarray(columns, "int32"), jnp.asarray(indptr, index)
    return Sparse(jnp.asarray(weights, dtype), indices, (m, k), rows, columns)


@every_backend
@few_examples(3)  # most are of types of their own, for which a kernel is compiled
@given(**CALLS)
def test_products(backend, **drawn):
    with jax.enable_x64(True):
        assert_product(compressed, "csr", backend, **drawn)


@pytest.mark.thorough  # TestPromises holds some of each to more
@vector_or_matrix
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
def test_operators_keep_the_most_fragile_promises(event, columns):
    assert_checked(compressed, "csr", event=event, columns=columns)


class TestPromises(Promises):
    make = staticmethod(compressed)
    kind = "csr"
    folder = "csr"
    variant = VARIANT

    def test_they_are_found_by_tags_and_measured(self):
        laws = ("", "binary_", "weighted_")
        products = {f"{law}csr{k}{i}" for law in laws for k in ("mv", "mm") for i in ("", "_indexed")}
        found = brainevent.get_primitives_by_tags({"csr"})
        others = {"binary_csr_plast", "csr2csc_on_post", "csrmv_dt2t", "csrmm_dt2t"}
        others |= {f"csr_delay_{do}{way}" for do in ("deliver", "collect") for way in ("", "_indexed", "_layout")}
        others |= {f"{law}csr_per_element{i}" for law in laws for i in ("", "_indexed")}
        assert set(found) == products | others | {"csr_slice_rows", "csr_slice_rows_grad"}
        assert set(brainevent.get_primitives_by_tags({"binary", "csr", "indexed"})) == set(INDEXED[2:])

    @pytest.mark.thorough
    def test_all_are_measured(self):
        for operator in brainevent.get_primitives_by_tags({"csr"}).values():
            configs = operator.definition.benchmark_data(platform="cpu")
            assert len({config.name for config in configs}) == len(configs)
            assert all(config.bytes > 0 for config in configs)
            assert operator.name == "csr_slice_rows" or all(config.flops > 0 for config in configs)
            call = lambda backend, operator=operator, config=configs[0]: operator.call(
                *config.args, backend=backend, **config.kernel_kwargs
            )
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), call("numba"), call("reference"))


# ---- what is launched on GPUs; kernels are compiled here, and run elsewhere ------------------------------------------


def plan(sparse, x, **options):
    return planned_product("csr", sparse, x, **{**VARIANT, **options})


@pytest.mark.covering(strength=1, most=3)
@what_is_launched
def test_what_is_launched_on_gpus(ninety, connections, columns, transpose, options, threads):
    sparse = compressed(0, 300, 50, connections, homogeneous=True)
    x = operand(1, taken(sparse, transpose=transpose), columns)
    (launch,) = plan(sparse, x, transpose=transpose, **options).launches
    assert launch.grid[0] * launch.block[0] - threads in range(launch.block[0])
    assert launch.block[0] % 32 == 0


@pytest.mark.covering(strength=1)
@one_or_many
@pytest.mark.parametrize("connections", [80, 400])
@pytest.mark.parametrize("options", [{"wide": False}, {"indexed": True}, {"indices_sorted": True}])
def test_variants_for_gpus_compile(ninety, homogeneous, options, connections):
    sparse = compressed(0, 300, 50, connections, homogeneous=homogeneous)
    if options.get("indexed"):
        sparse = Sparse(sparse.weights, (*sparse.indices, sparse.indices[0]), *sparse_rest(sparse))
    assert plan(sparse, operand(1, 300, None), transpose=True, **options).launches


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize(
    ("columns", "dtype", "width", "parts"),
    [(7, "float32", 1, 7), (50, "float32", 4, 13), (60_000, "float64", 4286, 14), (200_000, "bfloat16", 14_286, 14)],
)
def test_clusters_of_blocks_sum_parts_of_sorted_rows(ninety, columns, dtype, width, parts):
    with jax.enable_x64(dtype == "float64"):
        sparse = compressed(0, 300, columns, 700, homogeneous=True, dtype=dtype)
        found = plan(sparse, operand(1, 300, None), transpose=True, indices_sorted=True)
    (launch,) = found.launches
    assert not found.zeroed
    assert (launch.grid[0], launch.block[0]) == (parts * 8, 1024)  # of 132 multiprocessors
    assert launch.shared == width * max(4, np.dtype(dtype).itemsize)


@given(columns=st.integers(0, 300) | st.integers(0, 2**40), most=st.integers(1, 40))
def test_every_part_has_columns_and_every_column_a_part(columns, most):
    parts, width = parts_of(columns, most)
    assert 1 <= parts <= most
    assert (parts - 1) * width < max(1, columns)
    assert parts * width >= columns


@pytest.mark.parametrize(
    ("columns", "connections", "options"),
    [
        (60_000, 100, {"indices_sorted": True}),  # too short
        (900_000, 700, {"indices_sorted": True}),  # too many columns for the memory of blocks
        (60_000, 700, {"indices_sorted": True, "clustered": False}),
        (60_000, 700, {}),
    ],
)
def test_other_rows_are_added_to_the_result_one_by_one(ninety, columns, connections, options):
    sparse = compressed(0, 300, columns, connections, homogeneous=True)
    found = plan(sparse, operand(1, 300, None), transpose=True, **options)
    assert found.zeroed
    assert found.launches[0].shared == 0


def plans(rows, columns, each, dtype="float32", **options):
    """Return the titles and plans of what is launched for a product of sorted rows, of whatever size, on a GPU."""
    made, plan_of = {}, nvrtc._Kernel.plan

    def plan_and_note(kernel, *arguments):
        plan = plan_of(kernel, *arguments)
        return made.setdefault(plan.title, plan)

    arrays = [((rows * each,), dtype), ((rows * each,), "int32"), ((rows + 1,), "int64"), ((rows,), bool)]
    product = on_gpu.cuda_product(
        [jax.ShapeDtypeStruct((columns,), dtype)],
        **{**VARIANT, "indices_sorted": True, "event": True, "transpose": True, **options},
    )
    with jax.enable_x64(True), mock.patch.object(nvrtc._Kernel, "plan", plan_and_note):
        (out,) = jax.eval_shape(product, *(jax.ShapeDtypeStruct(*array) for array in arrays))
    assert (out.shape, out.dtype) == ((columns,), dtype)
    return made


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(
    ("rows", "columns", "connections", "dtype", "looking", "parts"),
    [
        (1_000_000, 1_000_000, 1000, "float32", 977, 31),  # a thread has two rows
        pytest.param(100_000, 900_000, 2000, "bfloat16", 196, 31, marks=pytest.mark.thorough),
        pytest.param(4_000_000, 1_000_000, 2000, "float32", 977, 31, marks=pytest.mark.thorough),
        (100_000, 1_000_000, 3000, "float64", 196, 36),  # what a block's memory holds
    ],
)
def test_active_rows_are_listed_where_there_are_many_columns(ninety, rows, columns, connections, dtype, looking, parts):
    first, second = plans(rows, columns, connections, dtype).values()
    assert (first.title, second.title) == ("scatter_or_list", "sum_listed")
    assert [launch.grid[0] for launch in (*first.launches, *second.launches)] == [looking, parts * 4]
    size = 8 if dtype == "float64" else 4
    assert [bytes_ for _, bytes_ in first.zeroed] == [size * columns]
    assert not second.zeroed
    assert second.launches[0].shared == -(-(-(-columns // parts) * size) // 16) * 16 <= 219 * 1024


@pytest.mark.parametrize(
    ("rows", "columns", "connections"),
    [
        (1_000_000, 1_000_000, 490),  # too short
        (1000, 1_000_000, 3870),  # even all are fewer than four additions for each column
        (100_000, 20_000_000, 6000),  # more parts than a block has memory to look for
        (5_000_000, 1_000_000, 3870),  # too many for blocks to count each other's
    ],
)
def test_active_rows_are_not_listed_where_it_does_not_pay(ninety, rows, columns, connections):
    assert [*plans(rows, columns, connections)] == ["scatter"]


@pytest.mark.covering(strength=1, most=2)
@pytest.mark.parametrize(
    ("options", "entries"),
    [({}, 2), ({"connections": 3870}, 2), ({"indices_sorted": False}, 1), ({"clustered": False}, 1)],
)
def test_when_active_rows_are_listed(ninety, options, entries):
    assert len(plans(1_000_000, 1_000_000, 3870, **options)) == entries


def test_gpus_without_clusters(ninety):
    brainevent.config.set_compute_capability("8.0")
    sparse = compressed(0, 300, 5000, 700, homogeneous=True)
    found = plan(sparse, operand(1, 300, None), transpose=True, indices_sorted=True)
    assert found.launches[0].shared == 0


def test_kernels_of_elements_compile(ninety):
    numbers_ = {"event": False, "silent": False, "by_rows": True}
    sparse = compressed(0, 300, 50, 80, homogeneous=False)
    chosen, sides = jnp.arange(5, dtype="int32"), (jnp.ones((300, 3)), jnp.ones((50, 3)))
    elements, rows = jax.ShapeDtypeStruct((24_000,), jnp.float32), jax.ShapeDtypeStruct((5, 50), jnp.float32)
    plans = [
        planned(lambda: each.per_element(elements, *sparse.indices, None, *sides, **numbers_)),
        planned(lambda: each.copied(rows, sparse.weights, *sparse.indices, chosen, shape=sparse.shape)),
        planned(lambda: each.added(elements, *sparse.indices, chosen, jnp.ones((5, 50)), shape=sparse.shape)),
    ]
    assert [plan.launches[0].grid[0] * 256 // 32 for plan in plans] == [304, 8, 8]


@pytest.mark.covering(strength=1)
@both_ways
@pytest.mark.parametrize("kind", ["event", "silent", None])
@pytest.mark.parametrize("form", ["in order", "by places", "rows of equal length"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_kernels_of_gradients_compile(ninety, transpose, kind, form, dtype):
    with jax.enable_x64(True):
        sparse = compressed(0, 300, 50, 80, homogeneous=False)
        x = jnp.ones((300 if transpose else 50, 3), "int32" if kind == "event" else dtype)
        values = jnp.ones((50 if transpose else 300, 3), dtype)
        out = jax.ShapeDtypeStruct((24_000,), jnp.dtype(dtype))
        arrays = (*sparse.indices, jnp.arange(24_000) if form == "by places" else None)
        if form == "rows of equal length":
            arrays = jnp.zeros((300, 80), "int32"), None, None
        sides = (x, values) if transpose else (values, x)
        how = {"event": kind == "event", "silent": kind == "silent", "by_rows": transpose}
        plan = planned(lambda: each.per_element(out, *arrays, *sides, **how))
        assert plan.launches[0].grid[0] * 256 // 32 == 304


def sparse_rest(sparse):
    return sparse.shape, sparse.rows, sparse.columns


# ---- weights by a permutation -----------------------------------------------------------------------------------


def permuted(sparse, seed):
    """Return a permutation, and the matrix that it makes of the weights."""
    perm = np.random.default_rng(seed).permutation(sparse.rows.size)
    weights = sparse.weights if sparse.weights.size == 1 else sparse.weights[perm]
    return jnp.asarray(perm, "int32"), Sparse(weights, sparse.indices, *sparse_rest(sparse))


@pytest.mark.covering(strength=1)
@one_or_many
@both_ways
@pytest.mark.parametrize(
    "name", [name if "binary" in name else pytest.param(name, marks=pytest.mark.thorough) for name in INDEXED]
)
def test_weights_by_a_permutation(name, transpose, homogeneous):
    sparse = compressed(0, 9, 12, 4, homogeneous=homogeneous)
    perm, known = permuted(sparse, 1)
    x = numbers(2, taken(sparse, transpose=transpose), 3 if "mm" in name else None)
    options = {"shape": sparse.shape, "transpose": transpose}
    one = lambda w, x: getattr(brainevent, name)(w, *sparse.indices, perm, x, **options)
    close(one(sparse.weights, x), known.product(x, transpose=transpose, event="binary" in name))
    plain = getattr(brainevent, name.removesuffix("_indexed"))
    other = lambda w, x: plain(w if homogeneous else w[perm], *sparse.indices, x, **options)
    gradients = [
        jax.jit(jax.grad(lambda w, x, f=f: jnp.sin(f(w, x)).sum(), (0, 1)))(sparse.weights, x) for f in (one, other)
    ]
    jax.tree.map(close, *gradients)


others = [pytest.param("csrmv_indexed", False, marks=pytest.mark.thorough)]
others += [pytest.param("binary_csrmm_indexed", False, marks=pytest.mark.thorough)]
others += [pytest.param("csrmm_indexed", True, marks=pytest.mark.thorough)]


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "transpose"), [("binary_csrmv_indexed", True), *others])
def test_operators_with_a_permutation_keep_their_promises(name, transpose):
    sparse = compressed(3, 8, 12, 4, homogeneous=False)
    perm, _ = permuted(sparse, 4)
    x = numbers(5, taken(sparse, transpose=transpose), 4 if "mm" in name else None)
    operator = getattr(brainevent, f"{name}_p")
    promises = ["values", "outputs written", "nested vmap", "jvp", "vjp", "export"]
    options = {"shape": sparse.shape, "transpose": transpose, "promises": promises}
    brainevent.check(operator, sparse.weights, *sparse.indices, perm, x, **options).raise_if_failed()


# ---- what gives weights their gradient, and rows ------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    "dtype", ["float32", *(pytest.param(dtype, marks=pytest.mark.thorough) for dtype in ("float16", "float64"))]
)
def test_products_of_each_element_keep_their_promises(dtype):
    with jax.enable_x64(True):
        sparse = compressed(6, 8, 12, 4, homogeneous=False, dtype=dtype)
        sides = [jnp.round(4 * numbers(seed, size, 4)).astype(dtype) / 4 for seed, size in ((7, 8), (8, 12))]
        outs = [jax.ShapeDtypeStruct(sparse.rows.shape, jnp.dtype(dtype))]
        report = brainevent.check(OPERATORS["csr_per_element"], *sparse.indices, *sides, outs=outs)
        report.raise_if_failed()
        (found,) = OPERATORS["csr_per_element"](*sparse.indices, *sides)
        rows, columns = (np.asarray(x, np.float64) for x in sides)
        close(found, (rows[sparse.rows] * columns[sparse.columns]).sum(1), dtype)


@settings(max_examples=4)
@given(
    homogeneous=st.booleans(),
    seed=st.integers(0, 99),
    m=st.sampled_from([7, 0]),
    connections=st.sampled_from([4, 0]),
    index=st.sampled_from(["int32", "int64"]),
)
def test_chosen_rows(homogeneous, seed, m, connections, index):
    with jax.enable_x64(True):
        sparse = compressed(seed, m, 5, connections, homogeneous=homogeneous, index=index)
        rows = np.random.default_rng(seed).integers(-2, m + 2, 4)
        known, slope = np.zeros((4, 5)), np.zeros(sparse.rows.size)
        for i, row in enumerate(rows):
            if 0 <= row < m:
                known[i], there = sparse.dense()[row], sparse.rows == row
                slope[there] += 2 * known[i, sparse.columns[there]]
        call = lambda w, backend: csr_slice_rows(
            w, *sparse.indices, jnp.asarray(rows, index), shape=sparse.shape, backend=backend
        )
        for backend in ("numba", "reference"):
            close(call(sparse.weights, backend), known)
            gradient = jax.jit(jax.grad(lambda w, backend=backend: (call(w, backend) ** 2).sum()))(sparse.weights)
            close(gradient, slope.sum(keepdims=True) if homogeneous else slope)


@pytest.mark.thorough
@pytest.mark.parametrize("homogeneous", [pytest.param(True, marks=pytest.mark.thorough), False])
def test_operators_on_rows_keep_their_promises(homogeneous):
    sparse = compressed(9, 8, 12, 4, homogeneous=homogeneous)
    chosen, dense = jnp.array([3, 0, 3, 9], "int32"), numbers(10, 4, 12)
    options = {"shape": sparse.shape, "promises": None if homogeneous else SOME}
    brainevent.check(OPERATORS["csr_slice_rows"], sparse.weights, *sparse.indices, chosen, **options).raise_if_failed()
    options["outs"] = [jax.ShapeDtypeStruct(sparse.rows.shape, jnp.float32)]
    brainevent.check(OPERATORS["csr_slice_rows_grad"], *sparse.indices, chosen, dense, **options).raise_if_failed()


@both_ways
def test_products_of_weights_with_values(transpose):
    sparse = compressed(11, 8, 12, 4, homogeneous=False)
    y = numbers(12, taken(sparse, transpose=not transpose))
    place = sparse.columns if transpose else sparse.rows
    known = np.asarray(sparse.weights) * np.asarray(y)[place]
    close(brainevent.csrmv_dt2t(y, sparse.weights, *sparse.indices, shape=sparse.shape, transpose=transpose), known)
    turned = {"shape": sparse.shape[::-1], "transpose": not transpose}
    close(brainevent.cscmv_dt2t(y, sparse.weights, *sparse.indices, **turned), known)


# ---- formats of indices -------------------------------------------------------------------------------------------


@settings(max_examples=8)
@given(
    seed=st.integers(0, 99),
    m=st.sampled_from([7, 0]),
    k=st.sampled_from([9, 0]),
    connections=st.sampled_from([3, 0]),
    traced=st.booleans(),
)
def test_conversions_are_of_the_same_matrix(seed, m, k, connections, traced):
    sparse = compressed(seed, m, k, connections, homogeneous=False)
    indices, indptr = sparse.indices
    maybe_jit = jax.jit if traced else lambda f: f
    rows, columns = maybe_jit(brainevent.csr_to_coo_index)(indptr, indices)
    same_numbers((rows, columns), (sparse.rows, sparse.columns))
    turned = maybe_jit(lambda p, i: brainevent.csr_to_csc_index(p, i, shape=(m, k)))(indptr, indices)
    by_column = np.argsort(sparse.columns, kind="stable")
    starts = np.searchsorted(np.sort(sparse.columns), np.arange(k + 1))
    same_numbers(turned, (starts, sparse.rows[by_column], by_column))
    same_numbers(maybe_jit(lambda r, c: brainevent.coo_to_csc_index(r, c, shape=(m, k)))(rows, columns), turned)
    back = maybe_jit(lambda p, i: brainevent.csc_to_csr_index(p, i, shape=(m, k)))(*turned[:2])
    inverse = np.argsort(by_column, kind="stable")
    within = np.lexsort((sparse.columns, sparse.rows))  # columns are in order now
    same_numbers(back[:2], (indptr, sparse.columns[within]))
    assert (np.asarray(sparse.rows)[by_column][np.asarray(back[2])] == sparse.rows).all()
    assert sorted(np.asarray(back[2])) == sorted(inverse)
    mixed = np.random.default_rng(seed).permutation(rows.size)
    found = maybe_jit(lambda r, c: brainevent.coo2csr(r, c, shape=(m, k)))(rows[mixed], columns[mixed])
    order = np.argsort(sparse.rows[mixed], kind="stable")
    same_numbers(found, (indptr, sparse.columns[mixed][order], order))
    assert brainevent.csr_to_csc_index(indptr, indices, shape=(m, k), include_perm=False)[2] is None


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: brainevent.coo2csr(jnp.array([0, 3]), jnp.array([0, 1]), shape=(3, 2)), ValueError,
         "coo2csr: row_ids holds 3, out of range for a size of 3"),
        (lambda: brainevent.coo_to_csc_index(jnp.array([0]), jnp.array([-1]), shape=(3, 2)), ValueError,
         "coo_to_csc_index: indices holds -1; indices must not be negative"),
        (lambda: brainevent.coo2csr(jnp.array([0]), jnp.array([0, 1]), shape=(3, 2)), ShapeError,
         r"row_ids and col_ids have shapes \(1,\) and \(2,\); pass one of each per element"),
        (lambda: brainevent.coo2csr(jnp.ones(1), jnp.array([0]), shape=(3, 2)), TypeError, "row_ids is float32"),
        (lambda: brainevent.csr_to_csc_index(INDPTR, INDICES, shape=(2, 3), method="foo"), ValueError,
         "csr_to_csc_index: method is 'foo'; pass one of 'coo', 'numpy', 'gpu_column_block'"),
        (lambda: brainevent.csr_to_csc_index(jnp.array([0, 1]), jnp.array([5]), shape=(1, 2)), ValueError,
         "csr_to_csc_index: indices holds 5, out of range"),
        (lambda: brainevent.csr_to_csc_index(jnp.array([0, 2, 1]), jnp.array([0]), shape=(2, 2)), ValueError,
         "indptr decreases from 2 to 1"),
        (lambda: brainevent.csr_to_coo_index(jnp.array([0, 2]), jnp.array([0])), ShapeError,
         "indptr ends with 2; it must end with 1, the number of indices"),
        (lambda: brainevent.csr_to_coo_index(jnp.zeros(0, int), jnp.zeros(0, int)), ShapeError, "indptr is empty"),
    ],
)  # fmt: skip
def test_invalid_indices_are_refused(call, error, words):
    with pytest.raises(error, match=words):
        call()


# ---- events, listed -----------------------------------------------------------------------------------------------


_list_events = numba.njit(list_events.py_func)  # of what compiled code alone calls


@given(seed=st.integers(0, 99), size=st.integers(0, 1500), active=st.sampled_from([0.0, 0.02, 0.5, 1.0]))
def test_events_are_listed_in_parts(seed, size, active):
    x = np.random.default_rng(seed).random(size) < active
    places, start, listed = np.empty(100, np.int64), 0, []
    while start < size:
        start, found = _list_events(x, start, size, places)
        listed += list(places[:found])
    assert listed == list(np.flatnonzero(x))


@pytest.mark.parametrize("x", [np.zeros(9), np.zeros(18, bool)[::2]], ids=["floats", "gaps"])
def test_only_booleans_in_a_row_are_read_eight_at_a_time(x):
    with pytest.raises(numba.TypingError):
        numba.njit(lambda x: any_of(x, 0, 8))(x)


@pytest.mark.covering(strength=1)
@both_ways
@vector_or_matrix
def test_more_events_than_are_listed_at_once(transpose, columns):
    sparse = compressed(13, 700, 700, 5, homogeneous=False)
    x = operand(14, 700, columns, "float32", 0.9)
    call = binary_csrmv if columns is None else binary_csrmm
    found = call(sparse.weights, *sparse.indices, x, shape=sparse.shape, transpose=transpose)
    close(found, sparse.product(x, transpose=transpose, event=True))


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("homogeneous", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("ordered", [True, False], ids=["ordered", "any order"])
@pytest.mark.parametrize(("rows", "active"), [(40, 1.0), (40, 0.3), (40, 0.0), (700, 0.9)])
@pytest.mark.parametrize(
    ("columns", "connections"),
    [(17_001, 600), (40_001, 150), (200_001, 150), (9_000, 2_501)],
    ids=["small", "large", "very large", "none, but rows on several pages"],
)
def test_sums_of_many_columns_are_made_in_tiles(homogeneous, ordered, rows, active, columns, connections):
    """From long rows, what belongs to one tile of the sums is taken after the other: in any order of the elements."""
    random = np.random.default_rng(17)
    indices = random.integers(0, columns, (rows, connections), dtype=np.int32)
    indices = np.sort(indices) if ordered else indices
    weights = random.integers(1, 5, 1 if homogeneous else indices.size).astype(np.float32)
    x = random.random(rows) < active
    each = np.broadcast_to(weights if homogeneous else weights.reshape(rows, -1), indices.shape) * x[:, None]
    wanted = np.bincount(indices.ravel(), each.ravel(), minlength=columns)
    matrix = brainevent.CSR((weights, indices.ravel(), np.arange(rows + 1) * connections), shape=(rows, columns))
    equal = brainevent.FixedNumPerPre(
        (weights if homogeneous else weights.reshape(rows, -1), indices), shape=matrix.shape
    )
    np.testing.assert_array_equal(brainevent.BinaryArray(x) @ matrix, wanted)
    perm = jnp.arange(indices.size)[::-1]
    options = {"shape": matrix.shape, "transpose": True}
    turned = weights if homogeneous else weights[::-1]
    found = binary_csrmv_indexed(jnp.asarray(turned), matrix.indices, matrix.indptr, perm, jnp.asarray(x), **options)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(brainevent.BinaryArray(x) @ equal, wanted)


@pytest.mark.covering(strength=0)
@one_or_many
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=4)
@given(
    st.lists(st.sampled_from([0, 1, 15, 16, 17, 80, 511, 512, 576, 5000]), min_size=1, max_size=12),
    st.sampled_from([1, 50, 4000]),
    st.sampled_from([1.0, 0.5]),
    st.integers(0, 9),
)
def test_long_and_short_rows_follow_each_other(homogeneous, dtype, lengths, columns, active, seed):
    """Elements are asked for from memory ahead of their turn, also those of the next row: in whatever lengths."""
    random = np.random.default_rng(seed)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    indices = random.integers(0, columns, indptr[-1], dtype=np.int32)
    weights = random.integers(1, 5, 1 if homogeneous else indices.size).astype(dtype)
    x = random.random(len(lengths)) < active
    wanted = np.bincount(indices, np.broadcast_to(weights, indices.shape) * np.repeat(x, lengths), minlength=columns)
    options = {"shape": (len(lengths), columns), "transpose": True}
    with jax.enable_x64(dtype == "float64"):
        rows = [jnp.asarray(indices), jnp.asarray(indptr)]
        for product in (binary_csrmv, jax.jit(binary_csrmv, static_argnames=tuple(options))):  # the second is unchecked
            np.testing.assert_array_equal(product(jnp.asarray(weights), *rows, jnp.asarray(x), **options), wanted)
        turned = jnp.asarray(weights if homogeneous else weights[::-1])
        perm = jnp.arange(indices.size)[::-1]
        np.testing.assert_array_equal(binary_csrmv_indexed(turned, *rows, perm, jnp.asarray(x), **options), wanted)


def test_a_workspace_is_accepted_and_not_needed():
    sparse = compressed(15, 8, 12, 4, homogeneous=True)
    x = operand(16, 8, None)
    options = {"shape": sparse.shape, "transpose": True}
    found = binary_csrmv(sparse.weights, *sparse.indices, x, workspace=object(), **options)
    same_numbers(found, binary_csrmv(sparse.weights, *sparse.indices, x, **options))


@pytest.mark.covering(strength=0)
@one_or_many
@vector_or_matrix
@both_ways
@pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
def test_devices_share_the_stored_elements_and_reduce_their_sums(transpose, columns, homogeneous, event):
    sparse = compressed(19, 8, 12, 4, homogeneous=homogeneous)
    x = operand(20, taken(sparse, transpose=transpose), columns, "float32")
    share = lambda array: cut(mesh(), array, "d")
    weights, (indices, indptr) = sparse.weights, sparse.indices
    operands = weights if homogeneous else share(weights), share(indices), indptr, x
    function = getattr(brainevent, f"{'binary_' * event}csr{'mv' if columns is None else 'mm'}")
    call = lambda *operands: function(*operands, shape=sparse.shape, transpose=transpose)
    assert sent(call, *operands) == {"all-reduce": 1}
    close(jax.jit(call)(*operands), sparse.product(x, transpose=transpose, event=event))
    gradients = jax.grad(lambda *operands: (call(*operands) ** 2).sum(), (0, 3))
    found = jax.jit(gradients)(*operands)
    for got, want in zip(found, jax.jit(gradients)(weights, indices, indptr, x), strict=True):
        close(got, want)
    assert homogeneous or found[0].sharding.spec == jax.P("d")  # a weight's gradient is where the weight is
    assert "all-gather" not in sent(gradients, *operands)


@pytest.mark.covering(strength=0)
@one_or_many
@both_ways
def test_devices_share_elements_that_a_permutation_finds(transpose, homogeneous):
    sparse = compressed(21, 8, 12, 4, homogeneous=homogeneous)
    perm = np.random.default_rng(22).permutation(32)
    weights = sparse.weights if homogeneous else jnp.zeros(32).at[perm].set(sparse.weights)
    x = operand(23, taken(sparse, transpose=transpose), None)
    share = lambda array: cut(mesh(), array, "d")
    operands = weights, share(sparse.indices[0]), sparse.indices[1], share(jnp.asarray(perm)), x
    call = lambda *operands: binary_csrmv_indexed(*operands, shape=sparse.shape, transpose=transpose)
    assert sent(call, *operands) == {"all-reduce": 1}
    close(jax.jit(call)(*operands), sparse.product(x, transpose=transpose, event=True))


def test_devices_share_a_matrix():
    sparse = compressed(24, 8, 12, 4, homogeneous=False)
    matrix = brainevent.CSR((sparse.weights, *sparse.indices), shape=sparse.shape)
    place = lambda leaf: cut(mesh(), leaf, "d") if leaf.size == 32 else leaf
    placed = brainevent.CSR(*map(place, (matrix.data, matrix.indices, matrix.indptr)), shape=matrix.shape)
    spikes = operand(25, 8, None)
    call = lambda spikes, matrix: brainevent.BinaryArray(spikes) @ matrix
    assert sent(call, spikes, placed) == {"all-reduce": 1}
    close(jax.jit(call)(spikes, placed), sparse.product(spikes, transpose=True, event=True))


@pytest.mark.covering(strength=1)
@both_ways
@pytest.mark.parametrize("event", [True, False])
def test_devices_share_the_columns_of_b(transpose, event):
    sparse = compressed(17, 8, 12, 4, homogeneous=False)
    x = numbers(18, taken(sparse, transpose=transpose), 8)
    function = binary_csrmm if event else csrmm
    call = jax.jit(lambda x: function(sparse.weights, *sparse.indices, x, shape=sparse.shape, transpose=transpose))
    found = call(cut(mesh(), x, None, "d"))
    assert found.sharding.spec == jax.P(None, "d")
    close(found, sparse.product(x, transpose=transpose, event=event))


# ---- what wrong operands get --------------------------------------------------------------------------------------

INDICES, INDPTR, ONE = jnp.zeros(3, "int32"), jnp.array([0, 2, 3, 3]), jnp.ones(1)


@pytest.mark.parametrize(
    ("function", "operands", "shape", "error", "words"),
    [
        (binary_csrmv, (ONE, INDICES.astype(float), INDPTR, ONE), (3, 4), TypeError,
         r'binary_csrmv: indices is float32; pass int32 or int64 \(indices.astype\("int32"\)\)'),
        (csrmv, (ONE, INDICES, INDPTR.astype("int8"), ONE), (3, 4), TypeError, "csrmv: indptr is int8; pass int32"),
        (csrmv, (ONE, INDICES, INDPTR, ONE), (4, 4), ShapeError,
         r"indptr has shape \(4,\); it must have 5 elements, one more than there are slices"),
        (csrmv, (INDICES, INDICES, INDPTR, ONE), (3, 4), TypeError, "data is int32; pass floating weights"),
        (csrmv, (jnp.ones(2), INDICES, INDPTR, ONE), (3, 4), ShapeError, r"data has shape \(2,\); pass one weight"),
        (csrmv, (ONE, INDICES, INDPTR, jnp.ones((4, 2))), (3, 4), MathError, "its rank must be 1; call csrmm"),
        (binary_csrmm, (ONE, INDICES, INDPTR, ONE), (3, 4), MathError, r"B has shape \(1,\); .* 2; call binary_csrmv"),
        (csrmv, (ONE, INDICES, INDPTR, jnp.ones(3)), (3, 4), ShapeError, r"takes v of 4 rows; v has shape \(3,\)"),
        (csrmv, (ONE, INDICES, INDPTR, jnp.ones(4, complex)), (3, 4), TypeError, "v is complex64; pass booleans"),
        (binary_csrmv_indexed, (ONE, INDICES, INDPTR, INDICES[1:], jnp.ones(4)), (3, 4), ShapeError,
         r"perm has shape \(2,\); pass one place for each of 3"),
        (csr_slice_rows, (ONE, INDICES, INDPTR, ONE), (3, 4), TypeError, "row_indices is float32; pass int32"),
    ],
)  # fmt: skip
def test_wrong_operands_are_reported(function, operands, shape, error, words):
    with pytest.raises(error, match=words):
        function(*operands, shape=shape)


@pytest.mark.parametrize("row", [1, np.int64(1), np.array(1), jnp.array(1, jnp.int32)])
def test_one_row_is_a_vector(row):
    found = csr_slice_rows(jnp.array([1.0, 2.0, 4.0]), jnp.array([0, 2, 2]), jnp.array([0, 2, 3]), row, shape=(2, 3))
    np.testing.assert_array_equal(found, [0, 0, 4])
    rows = lambda row: csr_slice_rows(jnp.ones(1), jnp.array([0, 2, 2]), jnp.array([0, 2, 3]), row, shape=(2, 3))
    np.testing.assert_array_equal(jax.jit(jax.vmap(rows))(jnp.array([1, 0, 9])), [[0, 0, 1], [1, 0, 1], [0, 0, 0]])
    with pytest.raises(TypeError, match="row_indices is float"):
        rows(1.0)


def test_values_that_do_not_fit_are_reported():
    with pytest.raises(ShapeError, match=r"csrmv_dt2t: y has shape \(4,\); pass one value for each of 3"):
        brainevent.csrmv_dt2t(jnp.ones(4), ONE, INDICES, INDPTR, shape=(3, 4))
