# SPDX-License-Identifier: Apache-2.0
"""What products with sparse matrices promise, whatever the format: the tests of a format inherit them."""

import functools
import importlib
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forked import run_forked
from meshes import cut, mesh
from platforms import every_backend, every_kernel
from sparse_products import FLOATS, called, close, numbers, operand, taken

import brainevent
from brainevent.backends.nvrtc import kernel as nvrtc

BACKENDS = ("numba", "reference")
X = ("bool", "int32", "float64", "bfloat16")  # one for each type of weights

# What one weight for all could break, and many do not.
SOME = ("values", "jit", "outputs written", "nested vmap", "jvp", "vjp", "transpose", "grad of vmap", "sharded jit")

FEW = ("shapes and dtypes", "values", "outputs written", "nested vmap", "vjp", "sharded jit", "export")

both_ways = pytest.mark.parametrize("transpose", [False, True], ids=["A", "A.T"])
one_or_many = pytest.mark.parametrize("homogeneous", [False, True], ids=["weights", "one weight"])
vector_or_matrix = pytest.mark.parametrize("columns", [None, 4], ids=["mv", "mm"])


def same(found, wanted, atol=1e-5):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=atol), found, wanted)


def assert_product(make, kind, backend, *, seed, m, k, connections, columns, of_x, active, transpose, event, **options):
    """Compare one product, drawn by Hypothesis, with that of NumPy."""
    sparse = make(seed, m, k, connections, **options)
    x = operand(seed, taken(sparse, transpose=transpose), columns, of_x, active)
    found = called(sparse, x, "binary_" * event + kind, transpose=transpose, backend=backend)
    assert found.dtype == (sparse.weights.dtype if event else jnp.promote_types(sparse.weights.dtype, x.dtype))
    close(found, sparse.product(x, transpose=transpose, event=event), options["dtype"])


class _PlannedError(Exception):
    pass


def planned(call):
    """Return the launch plan of what a function would launch on a GPU."""

    def stop(target, *_):
        raise _PlannedError(target.plan)

    with mock.patch.object(nvrtc, "native_call", stop), pytest.raises(_PlannedError) as caught:
        call()
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


# Of products of 300 rows, if a slice is of 256 elements.
what_is_launched = pytest.mark.parametrize(
    ("connections", "columns", "transpose", "options", "threads"),
    [
        (80, None, True, {}, 75 * 32),  # a warp looks at four of 300 rows
        (1000, None, True, {}, 75 * 32 * 3),  # three warps share an active row
        (1000, None, True, {"per_slice": 1024}, 75 * 32),
        (80, None, False, {}, 300 * 32),  # a warp sums a row
        (6, None, False, {}, 2400),  # eight threads do
        (80, 40, True, {}, 32 * 300 * 2),  # two warps, of 32 columns each
        (80, 4, False, {}, 32 * 300),
    ],
)


def planned_product(folder, sparse, x, *, event=True, **options):
    """Return what is launched on a GPU for a product."""
    on_gpu = importlib.import_module(f"brainevent.event.{'csr' if folder == 'fixed' else folder}.on_gpu")
    cuda_product = on_gpu.cuda_product_of_equal_rows if folder == "fixed" else on_gpu.cuda_product
    size = sparse.shape[1 if options["transpose"] else 0]
    out = jax.ShapeDtypeStruct((size, *x.shape[1:]), sparse.weights.dtype)
    product = cuda_product([out], event=event, **options)
    return planned(lambda: product(sparse.weights, *sparse.indices, x))


def assert_checked(make, kind, *, event, columns):
    """Check what breaks first of what an operator promises; `thorough` tests ask for all, in all variants."""
    operator = getattr(brainevent, f"{'binary_' * event}{kind}{'mv' if columns is None else 'mm'}_p")
    sparse = make(9, 8, 12, 4, homogeneous=False, dtype="float32")
    x = numbers(10, taken(sparse, transpose=True), columns, "float32")
    options = {"shape": sparse.shape, "transpose": True, "promises": FEW[1:]}  # the first is always looked at
    report = brainevent.check(operator, sparse.weights, *sparse.indices, x, **options)
    report.raise_if_failed()
    assert {row.promise for row in report.rows if row.status == "ok"} == set(FEW)


@pytest.mark.covering(strength=1)
class Promises:
    """`make` draws a matrix of the format, and `kind` is in the names of its functions."""

    make = None
    kind = ""

    @pytest.fixture(autouse=True)
    def with_64_bits(self):
        with jax.enable_x64(True):
            yield

    def drawn(self, seed=0, columns=None, *, transpose, homogeneous, dtype="float32"):
        """Return a matrix of eight rows, and numbers of which half are events."""
        sparse = self.make(seed, 8, 12, 4, homogeneous=homogeneous, dtype=dtype)
        return sparse, numbers(seed + 1, taken(sparse, transpose=transpose), columns, dtype)

    def operator(self, event, columns):
        return getattr(brainevent, f"{'binary_' * event}{self.kind}{'mv' if columns is None else 'mm'}_p")

    # ---- values ----

    @every_backend
    @both_ways
    @vector_or_matrix
    @pytest.mark.parametrize("value", [jnp.nan, jnp.inf])
    def test_weights_of_inactive_rows_add_nothing(self, backend, transpose, columns, value):
        sparse, _ = self.drawn(transpose=transpose, homogeneous=False)
        silent = sparse.rows if transpose else sparse.columns
        active = np.arange(taken(sparse, transpose=transpose)) != silent[0]
        x = jnp.asarray(active if columns is None else np.repeat(active[:, None], columns, 1))
        where = (silent == silent[0]).reshape(sparse.weights.shape)
        call = lambda weights: called(sparse, x, f"binary_{self.kind}", weights, transpose=transpose, backend=backend)
        found = call(jnp.where(where, value, sparse.weights))
        same(found, call(jnp.where(where, 0, sparse.weights)))
        assert np.isfinite(found).all()
        assert not np.isfinite(call(jnp.where(where, sparse.weights, value))).all()

    @every_backend
    @both_ways
    @pytest.mark.parametrize("value", [jnp.nan, jnp.inf])
    def test_a_weight_for_all_that_is_nan_leaves_results_without_events_zero(self, backend, transpose, value):
        sparse, x = self.drawn(transpose=transpose, homogeneous=True)
        found = called(sparse, x < -99, f"binary_{self.kind}", jnp.array(value), transpose=transpose, backend=backend)
        same(found, np.zeros(found.shape))

    @pytest.mark.covering(strength=1)
    @every_backend
    @both_ways
    @one_or_many
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_sums_of_16_bits_are_made_in_32(self, backend, transpose, homogeneous, dtype):
        sparse = self.make(3, 1, 1, 3000, homogeneous=homogeneous, dtype=dtype)
        weights = jnp.full(sparse.weights.shape, 2**-4, dtype)
        for kind in (f"binary_{self.kind}", self.kind):
            found = called(sparse, jnp.ones(1, dtype), kind, weights, transpose=transpose, backend=backend)
            assert found == jnp.asarray(3000 / 16, dtype)  # 0.0625 added to 128 in bfloat16 is 128 again

    # ---- derivatives ----

    @pytest.mark.covering(strength=1)
    @every_kernel
    @both_ways
    @one_or_many
    @vector_or_matrix
    @pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
    def test_derivatives_are_those_of_the_reference(self, backend, transpose, homogeneous, columns, event):
        sparse, x = self.drawn(2, columns, transpose=transpose, homogeneous=homogeneous)
        kind = "binary_" * event + self.kind

        def loss(backend):
            return lambda weights, x: jnp.sin(
                called(sparse, x, kind, weights, transpose=transpose, backend=backend)
            ).sum()

        @functools.partial(jax.jit, static_argnums=0)
        def derivatives(f, *operands):
            gradient = jax.grad(f, (0, 1))
            tangents = jax.tree.map(lambda a: a + 1, operands)
            return gradient(*operands), jax.jacfwd(gradient, (0, 1))(*operands), jax.jvp(f, operands, tangents)

        mine, true = (derivatives(loss(each), sparse.weights, x) for each in (backend, "reference"))
        same(mine, true)

    @pytest.mark.thorough
    @both_ways
    @one_or_many
    @pytest.mark.parametrize("outer", [jax.jacfwd, jax.jacrev])
    def test_second_derivatives_are_those_of_products_with_numbers(self, transpose, homogeneous, outer):
        sparse, x = self.drawn(2, transpose=transpose, homogeneous=homogeneous)
        x = (x != 0).astype(x.dtype)  # events that count as their number

        def second(product):
            loss = lambda weights, x: jnp.sin(product(weights, x)).sum()
            return jax.jit(outer(jax.grad(loss, (0, 1)), (0, 1)))(sparse.weights, x)

        def by_numbers(weights, x):
            dense = jnp.zeros(sparse.shape, weights.dtype).at[sparse.rows, sparse.columns].add(weights.reshape(-1))
            return dense.T @ x if transpose else dense @ x

        binary = lambda weights, x: called(sparse, x, f"binary_{self.kind}", weights, transpose=transpose)
        same(second(binary), second(by_numbers))

    @both_ways
    @one_or_many
    def test_events_have_a_gradient_straight_through(self, transpose, homogeneous):
        sparse, x = self.drawn(3, transpose=transpose, homogeneous=homogeneous)
        ct = numbers(4, sparse.shape[1 if transpose else 0])
        loss = lambda weights, x: called(sparse, x, f"binary_{self.kind}", weights, transpose=transpose) @ ct
        by_weights, by_x = jax.jit(jax.grad(loss, (0, 1)))(sparse.weights, x)
        same(by_x, sparse.dense() @ ct if transpose else ct @ sparse.dense())
        events, ct = np.asarray(x != 0), np.asarray(ct)
        sides = (events, ct) if transpose else (ct, events)
        each = sides[0][sparse.rows] * sides[1][sparse.columns]
        same(by_weights, (each.sum() if homogeneous else each).reshape(by_weights.shape))

    @one_or_many
    def test_boolean_events_have_no_gradient(self, homogeneous):
        sparse, x = self.drawn(3, transpose=True, homogeneous=homogeneous)
        loss = lambda weights, x: called(sparse, x, f"binary_{self.kind}", weights, transpose=True).sum()
        same(jax.grad(loss)(sparse.weights, x != 0), jax.grad(loss)(sparse.weights, x))

    @pytest.mark.covering(strength=1)
    @one_or_many
    @pytest.mark.parametrize("dtype", FLOATS)
    def test_gradients_have_the_dtype_of_their_operand(self, homogeneous, dtype):
        sparse, x = self.drawn(4, 3, transpose=True, homogeneous=homogeneous, dtype=dtype)
        for kind in (self.kind, f"binary_{self.kind}"):
            loss = lambda w, x, kind=kind: called(sparse, x, kind, w, transpose=True).astype("float64").sum()
            found = jax.eval_shape(jax.grad(loss, (0, 1)), sparse.weights, x.astype("float32"))
            assert [(a.dtype, a.shape) for a in found] == [
                (sparse.weights.dtype, sparse.weights.shape), (jnp.float32, x.shape),
            ]  # fmt: skip

    # ---- batches ----

    @both_ways
    @vector_or_matrix
    @pytest.mark.parametrize("axis", [0, 1])
    @pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
    def test_a_batch_of_x_is_one_product_of_matrices(self, transpose, columns, axis, event):
        sparse, x = self.drawn(5, columns, transpose=transpose, homogeneous=False)
        each = [x, -x, x[::-1]]
        batch = jnp.stack(each, axis)
        kind = "binary_" * event + self.kind
        one = lambda x: called(sparse, x, kind, transpose=transpose)
        mapped = jax.vmap(one, in_axes=axis)
        text = jax.jit(mapped).lower(batch).as_text()
        assert text.count("custom_call @") == 1
        assert "while" not in text
        same(mapped(batch), jnp.stack([one(part) for part in each]))
        names = [equation.primitive.name for equation in jax.make_jaxpr(mapped)(batch).eqns]
        assert self.operator(event, 2).name in names
        assert self.operator(event, None).name not in names

    @every_backend
    @both_ways
    @vector_or_matrix
    @pytest.mark.parametrize("axes", [(0, None), (1, 0)])
    def test_batches_of_weights(self, backend, transpose, columns, axes):
        sparse, x = self.drawn(6, columns, transpose=transpose, homogeneous=False)
        weights = jnp.stack([sparse.weights, 2 * sparse.weights, sparse.weights + 1], axes[0])
        many = x if axes[1] is None else jnp.stack([x, -x, x[::-1]], axes[1])
        one = lambda w, x, backend=backend: called(
            sparse, x, f"binary_{self.kind}", w, transpose=transpose, backend=backend
        )
        assert "while" not in jax.jit(jax.vmap(one, axes)).lower(weights, many).as_text()
        wanted = [one(jnp.take(weights, i, axes[0]), x if axes[1] is None else many[i]) for i in range(3)]
        same(jax.vmap(one, axes)(weights, many), jnp.stack(wanted))

    def test_batches_of_batches_and_of_nothing(self):
        sparse, x = self.drawn(7, transpose=True, homogeneous=True)
        one = lambda x: called(sparse, x, f"binary_{self.kind}", transpose=True)
        batch = numbers(8, 6 * x.size).reshape(2, x.size, 3)
        mapped = jax.vmap(jax.vmap(one, in_axes=1))
        assert "while" not in jax.jit(mapped).lower(batch).as_text()
        same(mapped(batch), jnp.stack([jnp.stack([one(column) for column in part.T]) for part in batch]))
        assert jax.vmap(one)(jnp.ones((0, x.size), x.dtype)).shape == (0, sparse.shape[1])

    # ---- promises of every operator ----

    @pytest.mark.thorough  # test_event_table.py holds each operator to some
    @both_ways
    @one_or_many
    @vector_or_matrix
    @pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
    def test_operators_keep_their_promises(self, platform, transpose, homogeneous, columns, event):
        sparse, _ = self.drawn(9, transpose=transpose, homogeneous=homogeneous)
        # Sums of quarters are exact: threads of a GPU add in any order, and equal calls are to give equal bits.
        weights = jnp.round(4 * sparse.weights) / 4
        x = operand(10, taken(sparse, transpose=transpose), columns, "float32")
        every = not homogeneous and (event + transpose + (columns is None)) % 2  # each two of the three meet in a half
        options = {"shape": sparse.shape, "transpose": transpose, "promises": None if every else SOME}
        if platform == "gpu":
            options |= {"backends": ["cuda_raw"], "promises": None}
        brainevent.check(self.operator(event, columns), weights, *sparse.indices, x, **options).raise_if_failed()

    @pytest.mark.thorough  # they are sums in float32, or as float32 is
    @vector_or_matrix
    @pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
    @pytest.mark.parametrize("event", [True, False], ids=["events", "numbers"])
    def test_other_dtypes_keep_them_too(self, columns, dtype, event):
        sparse, x = self.drawn(9, columns, transpose=True, homogeneous=dtype == "float16", dtype=dtype)
        x = jnp.round(4 * x.astype("float32")).astype(dtype) / 4
        promises = ["values", "outputs written", "nested vmap", "vjp", "export"]
        options = {"shape": sparse.shape, "transpose": True, "promises": promises}
        operator = self.operator(event, columns)
        brainevent.check(operator, sparse.weights, *sparse.indices, x, **options).raise_if_failed()

    @both_ways
    def test_columns_of_x_are_sharded_without_communication(self, transpose):
        sparse, x = self.drawn(10, 8, transpose=transpose, homogeneous=False)
        one = lambda x: called(sparse, x, f"binary_{self.kind}", transpose=transpose)
        operand_ = cut(mesh(), x, None, "d")
        text = jax.jit(one).lower(operand_).compile().as_text()
        assert not [word for word in ("all-gather", "all-reduce", "collective") if word in text]
        same(jax.jit(one)(operand_), sparse.product(x, transpose=transpose, event=True))

    # ---- what surrounds them ----

    @pytest.mark.thorough
    def test_they_are_found_by_tags_and_measured(self):
        names = {self.operator(True, columns).name for columns in (None, 2)}
        assert set(brainevent.get_primitives_by_tags({"binary", self.kind})) == names
        floats = {f"{self.kind}mv", f"{self.kind}mm", f"{self.kind}_per_element"}
        assert set(brainevent.get_primitives_by_tags({"float", self.kind})) == floats
        for event in (True, False):
            for columns in (None, 2):
                operator = self.operator(event, columns)
                configs = operator.definition.benchmark_data(platform="cpu")
                assert len({config.name for config in configs}) == len(configs)
                assert all(config.bytes > 0 for config in configs)
                if not event:
                    continue  # the kernels are the same but for one line
                call = lambda backend, operator=operator, config=configs[0]: operator.call(
                    *config.args, backend=backend, **config.kernel_kwargs
                )
                np.testing.assert_allclose(call("numba"), call("reference"), rtol=1e-4, atol=1e-4)

    @pytest.mark.thorough
    def test_an_operator_is_whole_in_a_process_that_asks_for_nothing_else(self, tmp_path):
        """It is measured, tuned, checked and listed, whatever module would have been imported before."""
        program = """
            import sys
            import brainevent

            operator = getattr(brainevent, sys.argv[1])
            config = min(operator.definition.benchmark_data(platform="cpu"), key=lambda config: config.bytes)
            operator.def_benchmark_data(lambda *, platform: [config])
            result = operator.benchmark(platform="cpu", n_warmup=0, n_runs=1, backends=["numba"])
            assert [(record.backend, record.success) for record in result.records] == [("numba", True)]
            operands, keywords = config.args, config.kernel_kwargs
            choice = operator.tune(*operands, seconds=0.001, **keywords)
            assert choice.backend in ("numba", "cpp") and choice.remembered
            brainevent.check(operator, *operands, promises=["values"], **keywords).raise_if_failed()

            from brainevent.cli import main

            sys.exit(main(["list", "--tags", "binary"]))
        """
        name = f"binary_{self.kind}mv"
        printed = run_forked(program, f"{name}_p", BRAINEVENT_CACHE_DIR=str(tmp_path))
        assert getattr(brainevent, f"{name}_p").name in printed

    @pytest.mark.covering(strength=0)
    def test_units_are_multiplied(self):
        units = pytest.importorskip("brainunit")
        sparse, x = self.drawn(11, transpose=True, homogeneous=False)
        binary = lambda w, x: called(sparse, x, f"binary_{self.kind}", w, transpose=True)
        found = binary(sparse.weights * units.mV, x)
        assert units.get_unit(found) == units.mV
        same(found.mantissa, binary(sparse.weights, x))
        found = called(sparse, x * units.mA, self.kind, sparse.weights * units.mV, transpose=True)
        assert units.get_unit(found) == units.uwatt
        same(found.mantissa, called(sparse, x, self.kind, transpose=True))
        gradient = units.autograd.grad(lambda w: binary(w, x).sum())(sparse.weights * units.mV)
        same(gradient, jax.grad(lambda w: binary(w, x).sum())(sparse.weights))

    # ---- kernels for GPUs, which are compiled here and run elsewhere ----

    def plan(self, sparse, x, **options):
        return planned_product(self.folder, sparse, x, **{**self.variant, **options})

    @both_ways
    @one_or_many
    @vector_or_matrix
    @pytest.mark.parametrize(("dtype", "of_x"), [*zip(FLOATS, X, strict=True)])
    def test_kernels_for_gpus_compile(self, ninety, transpose, homogeneous, columns, dtype, of_x):
        index = "int64" if dtype == "float64" else "int32"
        sparse = self.make(12, 300, 50, 8, homogeneous=homogeneous, dtype=dtype, index=index)
        x = operand(13, taken(sparse, transpose=transpose), columns, of_x)
        for event in (True, False):
            found = self.plan(sparse, x, event=event, transpose=transpose)
            assert len(found.launches) == 1

    @both_ways
    @vector_or_matrix
    @pytest.mark.parametrize(("m", "k", "connections"), [(0, 4, 2), (4, 0, 2), (4, 4, 0), (0, 0, 0)])
    def test_empty_matrices_and_gpus(self, ninety, transpose, columns, m, k, connections):
        sparse = self.make(14, m, k, connections, homogeneous=True)
        found = self.plan(sparse, operand(15, taken(sparse, transpose=transpose), columns), transpose=transpose)
        assert found.launches or found.zeroed or 0 in (sparse.shape[1 if transpose else 0], m)
