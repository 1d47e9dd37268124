# SPDX-License-Identifier: Apache-2.0
"""`brainevent.check` finds planted faults of every kind, and none in good operators."""

import functools

import faults
import faults_at_edges  # noqa: F401 - adds to faults.FAULTS
import faults_by_data  # noqa: F401 - so does this
import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest
from faults import MATRIX, X, operator, plain, twice
from jax.interpreters import ad
from zoo import like, numba_generator

import brainevent
from brainevent import CheckReport, XLACustomKernel, check
from brainevent.operator.check.derivatives import central_differences, directions
from brainevent.operator.check.report import CheckRow
from brainevent.operator.check.run import PROMISES

ALIKE = {
    "ignores_the_batch_axis",
    "forgets_a_whole_output",
    "shared_scratch_memory_and_sorted_integers",
    "shared_scratch_memory_and_booleans_that_are_all_true",
    "forgets_the_rest_of_blocks_of_columns",
    "sums_whole_blocks_only",
    "knows_the_size_it_was_written_for",
    "product_of_no_columns_is_not_written",
    "returns_early_where_nobody_spikes",
    "second_result_is_left_where_nobody_spikes",
    "maximum_swallows_nan",
    "is_wrong_for_odd_numbers_above_eight_though_jax_compiles_it",
    "forgets_what_follows_blocks_of_32",
    "divides_by_the_size_less_one",
    "neurons_set_what_they_share",
    "makes_zero_negative",
    "reads_one_index_more",
    "leaks_a_thousand_bytes",
    "leaks_what_numba_allocates",
}
PLANTED = [pytest.param(make, marks=pytest.mark.thorough) if make.__name__ in ALIKE else make for make in faults.FAULTS]


@pytest.mark.parametrize("make", PLANTED, ids=lambda make: make.__name__)
def test_finds_the_planted_fault(make):
    fault = make()
    report = check(fault.operator, *fault.operands, promises=[fault.promise], **fault.options)
    found = {row.promise: row.detail for row in report.failures}
    assert fault.promise in found, str(report)
    assert fault.words in found[fault.promise]
    assert not report.ok
    with pytest.raises(brainevent.CheckFailedError, match=fault.operator.name):
        report.raise_if_failed()


def test_every_promise_is_broken_by_a_planted_fault():
    assert {make().promise for make in faults.FAULTS if make.__name__ not in ALIKE} == set(PROMISES)
    assert {make.__name__ for make in faults.FAULTS} > ALIKE


# ---- good operators ------------------------------------------------------------------------------------------------

WITHOUT_DERIVATIVES = {"jvp", "vjp", "transpose", "vmap of grad", "grad of vmap", "sharded grad of vmap"}
OF_NATIVE_CODE = {"within bounds", "floating-point mode"}


def good_product(unique_name):
    """Elementwise, two kernels, a reference, a sharding rule."""

    @numba.njit
    def kernel(x, y, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1]):
                out[i, j] = x[i, j] * y[i, j]

    op = XLACustomKernel(unique_name("product"))
    op.def_numba_kernel(numba_generator(kernel))
    op.def_kernel("jnp", "cpu", plain(lambda x, y: [x * y]))
    op.def_reference(jnp.multiply)
    op.def_sharding_rule("i j, i j -> i j")
    return op, (MATRIX, MATRIX[::-1] + 1), {}, {"transpose", *OF_NATIVE_CODE}


def good_matvec(unique_name):
    """Reduces; the author's rules, no reference."""

    @numba.njit
    def kernel(w, x, out):
        for i in range(w.shape[0]):
            out[i] = 0
            for j in range(w.shape[1]):
                out[i] += w[i, j] * x[j]

    op = XLACustomKernel(unique_name("matvec"))
    op.def_numba_kernel(numba_generator(kernel))
    op.def_sharding_rule("m k, k -> m", reduction_factors=("k",))
    op.def_jvp_rule2(lambda t, w, x, **params: op(t, x, **params), lambda t, w, x, **params: op(w, t, **params))

    def transpose(cts, w, x, **_):
        return (jnp.outer(cts[0], x), None) if ad.is_undefined_primal(w) else (None, cts[0] @ w)

    op.def_transpose_rule(transpose)
    return op, (MATRIX, X), {"outs": like(MATRIX[:, 0])}, {"values"}


def good_count(unique_name):
    """Integers from floats: no derivative."""

    @numba.njit
    def kernel(x, out):
        out[()] = 0
        for i in range(x.size):
            out[()] += x[i] > 0

    op = XLACustomKernel(unique_name("count"))
    op.def_numba_kernel(numba_generator(kernel))
    op.def_reference(lambda x: (x > 0).sum(dtype=np.int32))
    op.def_sharding_rule("k -> ", reduction_factors=("k",))
    return op, (X,), {}, WITHOUT_DERIVATIVES


def good_masked_gather(unique_name):
    """Operands without derivatives: indices and booleans."""

    @numba.njit
    def kernel(index, keep, out):
        for i in range(index.size):
            out[i] = index[index[i]] if keep[i] else -1

    op = XLACustomKernel(unique_name("gather"))
    op.def_numba_kernel(numba_generator(kernel))
    op.def_reference(lambda index, keep: jnp.where(keep, index[index], -1))
    index = np.array([2, 0, 3, 1], np.int32)
    return op, (index, index > 1), {}, WITHOUT_DERIVATIVES


def good_sum_and_sign(unique_name):
    """Several results of several dtypes, in a dictionary; a static argument."""

    @numba.njit
    def kernel(x, y, positive, total):
        for i in range(x.size):
            total[i] = x[i] + 2 * y[i]
            positive[i] = total[i] > 0

    def reference(x, y, *, scale):
        total = x + scale * y
        return {"positive": total > 0, "total": total}

    op = XLACustomKernel(unique_name("sum_and_sign"))
    op.def_numba_kernel(lambda *, outs, scale: brainevent.numba_kernel(kernel, outs=outs))
    op.def_reference(reference)
    op.def_sharding_rule("..., ... -> ..., ...")
    return op, (X, X[::-1]), {"scale": 2.0}, {"transpose"}


def good_reference_only(unique_name):
    """Not one kernel: the reference is all."""
    op = XLACustomKernel(unique_name("reference_only"))
    op.def_reference(lambda x, y: jnp.tanh(x) @ y)
    return op, (MATRIX, X), {}, {"transpose", *OF_NATIVE_CODE}


def good_events(unique_name):
    """A step with a surrogate derivative, which the reference says."""

    @jax.custom_jvp
    def step(x):
        return (x > 0).astype(x.dtype)

    step.defjvp(lambda primals, tangents: (step(*primals), tangents[0] / (1 + primals[0] ** 2)))

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] > 0

    op = XLACustomKernel(unique_name("step"))
    op.def_numba_kernel(numba_generator(kernel))
    op.def_jvp_rule2(lambda t, x, **_: t / (1 + x**2))
    op.def_reference(step)
    return op, (X,), {}, {"transpose"}


def good_linear(unique_name):
    """Linear, with a transpose rule and nothing else."""
    op = XLACustomKernel(unique_name("linear"))
    op.def_kernel("jnp", "cpu", plain(lambda x: [jnp.cumsum(x)]))
    op.def_transpose_rule(lambda cts, x, **_: [jnp.cumsum(cts[0][::-1])[::-1]])
    return (
        op,
        (X,),
        {"outs": like(X)},
        (WITHOUT_DERIVATIVES | OF_NATIVE_CODE | {"values", "other sizes"}) - {"transpose"},
    )


def good_complex(unique_name):
    """Complex numbers, and an operand that is declared to have no derivative."""
    op = XLACustomKernel(unique_name("complex"))
    op.def_kernel("jnp", "cpu", plain(lambda x, y: [x * x * y]))
    op.def_jvp_rule2(lambda t, x, y, **_: 2 * t * x * y, None)
    return (
        op,
        ((X + 1j * X[::-1]).astype(np.complex64), X),
        {"outs": like(X + 1j * X)},
        {"values", "transpose", "other sizes", *OF_NATIVE_CODE},
    )


def good_half(unique_name):
    """Numbers of 16 bits, and of rank 0."""
    op = XLACustomKernel(unique_name("half"))
    op.def_reference(lambda x, y: jnp.sin(x) * y)
    return op, (jnp.asarray(X, jnp.bfloat16), jnp.float16(0.5)), {}, {"transpose", *OF_NATIVE_CODE}


def good_constant(unique_name):
    """No operand at all."""

    @numba.njit
    def kernel(out):
        out[()] = 7

    op = XLACustomKernel(unique_name("constant"))
    op.def_numba_kernel(numba_generator(kernel))
    op.def_reference(lambda: jnp.float32(7))
    skipped = {name for name in PROMISES if "vmap" in name or "jv" in name or "vjp" in name}
    return op, (), {}, {*skipped, "transpose", "other values", "other sizes"}


def good_in_place(unique_name):
    """Writes to an input, as it declares, with threads of Numba's own."""

    @numba.njit(parallel=True)
    def kernel(x, y, out):
        for i in numba.prange(x.size):
            out[i] += 2 * y[i]

    op = XLACustomKernel(unique_name("in_place"))
    op.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(kernel, outs=outs, input_output_aliases={0: 0}))
    op.def_reference(lambda x, y: x + 2 * y)
    op.def_sharding_rule("i, i -> i")
    return op, (X, X[::-1]), {}, {"transpose"}


def good_empty(unique_name):
    """No element."""

    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]

    op = XLACustomKernel(unique_name("empty"))
    op.def_numba_kernel(numba_generator(kernel))
    op.def_reference(twice)
    return op, (X[:0],), {}, {"transpose", "other values", "other sizes"}


MORE = {good_product, good_reference_only, good_half, good_linear, good_count, good_constant, good_complex}
GOOD = [
    pytest.param(value, marks=pytest.mark.thorough) if value in MORE else value
    for name, value in globals().items()
    if name.startswith("good_")
]


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("make", GOOD, ids=lambda make: make.__name__)
def test_good_operators_keep_every_promise(make, unique_name):
    op, operands, options, skipped = make(unique_name)
    report = check(op, *operands, **options)
    assert report.failures == (), str(report)
    assert report.ok
    report.raise_if_failed()
    assert {row.promise for row in report.rows if row.status == "skipped"} == skipped
    assert {row.promise for row in report.rows} == set(PROMISES)


@pytest.mark.thorough
def test_float64_is_held_to_its_own_precision(unique_name):
    with jax.enable_x64(True):
        op = operator(plain(lambda x: [jnp.sin(x) + 1e-8]), jnp.sin)
        assert [row.promise for row in check(op, X.astype(np.float64)).failures] == ["values"]
        op = operator(plain(lambda x: [jnp.sin(x)]))
        op.def_jvp_rule2(lambda t, x, **_: t * jnp.cos(x) * (1 + 1e-6))
        report = check(op, X.astype(np.float64), outs=like(X.astype(np.float64)), promises=["jvp", "vjp"])
        assert [row.promise for row in report.failures] == ["jvp", "vjp"]


# ---- what it compares, and with what -------------------------------------------------------------------------------


def test_a_kernel_that_is_wrong_is_then_compared_with_itself():
    report = check(operator(plain(lambda x: [2.1 * x]), twice), X, promises=["jit", "nested vmap", "shard_map"])
    assert [row.promise for row in report.failures] == ["values"]


def test_operands_of_the_caller_stay_as_they_are():
    fault = faults.writes_to_its_input()
    x = jnp.asarray(X)
    check(fault.operator, x, promises=["inputs unchanged"])
    np.testing.assert_array_equal(np.asarray(jnp.copy(x)), X)


def test_batches_hold_different_elements():
    def first_only(x, mask, index):
        return x * mask + index

    op = operator(plain(lambda *xs: [first_only(*xs)]), first_only)

    def rule(args, axes, **params):
        args = [x if a is None else jnp.moveaxis(x, a, 0)[0] for x, a in zip(args, axes, strict=True)]
        size = next(size for x, size in zip(args, [3] * 3, strict=True))
        return [jnp.stack(op.primitive.bind(*args, **params) * size)], [0]

    op.def_batching_rule(rule)
    index = np.array([3, 1, 2, 0, 7, 6, 5, 4], np.int32)
    report = check(op, X, X > 0, index, promises=["vmap of one operand"])
    assert "operand 0 mapped along axis 0" in report.failures[0].detail
    for i in (1, 2):
        op = operator(plain(lambda *xs: [first_only(*xs)]), first_only)
        op.def_batching_rule(lambda args, axes, i=i, op=op, **params: _first_of(op, args, axes, i, params))
        report = check(op, X, X > 0, index, promises=["vmap of one operand"])
        assert f"operand {i} mapped along axis 0: output 0" in report.failures[0].detail


def _first_of(op, args, axes, wrong, params):
    """Batch, but take the first element of one operand for all."""
    args = [x if a is None else jnp.moveaxis(x, a, 0) for x, a in zip(args, axes, strict=True)]
    size = next(len(x) for x, a in zip(args, axes, strict=True) if a is not None)

    def pick(i, b):
        return args[i] if axes[i] is None else args[i][0 if i == wrong else b]

    rows = [op.primitive.bind(*(pick(i, b) for i in range(len(args))), **params)[0] for b in range(size)]
    return [jnp.stack(rows)], [0]


def sum_of_rows(pointers, values):
    """Sum the values between pointers, as of a sparse matrix by rows."""
    rows = jnp.searchsorted(pointers, jnp.arange(values.size), side="right") - 1
    return jnp.zeros(pointers.size - 1).at[rows].add(values)


def test_sorted_integers_stay_sorted_in_a_batch():
    pointers, few = np.array([0, 2, 5, 8], np.int32), np.array([0, 8], np.int32)
    op = operator(plain(lambda *xs: [sum_of_rows(*xs)]), sum_of_rows)
    op.def_batching_rule(lambda args, axes, **params: _first_of(op, args, axes, 0, params))
    seeing = check(op, pointers, X, promises=["vmap of one operand"])
    assert "operand 0 mapped along axis 0: output 0" in seeing.failures[0].detail
    blind = check(op, few, X, promises=["vmap of one operand"])
    assert blind.rows[-1].detail == "batches repeat operand 0 (to vary it pass samples=)"
    seeing = check(op, few, X, promises=["vmap of one operand"], samples=[(np.array([0, 5], np.int32), X + 1)])
    assert "operand 0 mapped along axis 0: output 0" in seeing.failures[0].detail


def test_tolerance_is_relative_to_the_largest_value():
    op = operator(plain(lambda x: [2 * x + 0.01]), twice)
    assert check(op, X, promises=["jit"], tolerance=0.002).ok
    assert not check(op, X, promises=["jit"], tolerance=0.001).ok


def test_without_rule_or_reference_derivatives_are_skipped(unique_name):
    report = check(operator(plain(lambda x: [2 * x])), X, outs=like(X), promises=["jvp", "vjp", "grad of vmap"])
    assert [(row.status, row.detail) for row in report.rows[2:]] == [
        ("skipped", "no rule (def_jvp_rule2, def_reference)")
    ] * 3


def test_a_promise_that_needs_a_broken_one_is_skipped():
    fault = faults.missing_transpose_rule()
    report = check(fault.operator, *fault.operands, **fault.options, promises=["vjp", "vmap of grad"])
    assert report.rows[-1] == CheckRow("planted", "vmap of grad", "skipped", "'vjp' failed")


def test_finds_that_arrays_are_gathered_in_spite_of_a_rule(monkeypatch):
    monkeypatch.setattr(brainevent.operator.lowering, "may_partition", lambda ctx: False)
    op = operator(numba_generator(faults.numba_twice), twice)
    op.def_sharding_rule("i -> i")
    (row,) = check(op, X, promises=["sharded jit"]).failures
    assert row.detail.startswith("a batch of operand 0, split: XLA gathers an array")


def test_on_one_device_sharding_is_skipped(monkeypatch):
    one = jax.devices()[:1]
    monkeypatch.setattr(jax, "devices", lambda *_: one)
    report = check(operator(plain(lambda x: [2 * x]), twice), X, promises=["sharded jit", "shard_map"])
    assert [row.status for row in report.rows] == ["ok", "ok", "skipped", "skipped"]
    assert "XLA_FLAGS=--xla_force_host_platform_device_count=4" in report.rows[-1].detail


def test_says_which_factors_were_not_split():
    op = operator(plain(lambda w, x: [w @ x]), jnp.matmul)
    op.def_sharding_rule("m k, k -> m", need_replication_factors=("k",))
    report = check(op, MATRIX[:1], X, promises=["sharded jit"])
    assert report.rows[-1][2:] == ("skipped", "no factor that the rule splits (m) has a size that 4 devices share")
    report = check(op, jnp.concatenate([MATRIX] * 4), X, promises=["sharded jit"])
    assert report.rows[-1][2:] == ("ok", "never split by the rule: k")


# ---- which kernels -------------------------------------------------------------------------------------------------


def test_every_backend_has_its_rows():
    op = operator(plain(lambda x: [2 * x]), twice)
    op.def_kernel("wrong", "cpu", plain(lambda x: [3 * x]))
    op.def_kernel("broken", "cpu", plain(lambda x: 1 / 0))
    rows = check(op, X, promises=["jit"]).rows
    assert [row[:3] for row in rows] == [
        ("planted", "shapes and dtypes", "ok"),
        ("planted", "values", "ok"),
        ("planted", "jit", "ok"),
        ("wrong", "shapes and dtypes", "ok"),
        ("wrong", "values", "failed"),
        ("wrong", "jit", "ok"),
        ("broken", "shapes and dtypes", "failed"),
        ("broken", "all others", "skipped"),
    ]
    assert "ZeroDivisionError: division by zero" in rows[6].detail


@pytest.mark.parametrize("options", [{"backends": ["wrong"]}, {"backend": "wrong"}])
def test_backends_can_be_chosen(options):
    op = operator(plain(lambda x: [2 * x]), twice)
    op.def_kernel("wrong", "cpu", plain(lambda x: [3 * x]))
    assert {row.backend for row in check(op, X, promises=["jit"], **options).rows} == {"wrong"}
    assert check(op, X, promises=["jit"], backends=["reference"]).ok


def test_the_default_backend_of_the_block_changes_nothing():
    op = operator(plain(lambda x: [2 * x]), twice)
    op.def_kernel("wrong", "cpu", plain(lambda x: [3 * x]))
    with brainevent.use_backend("cpu", "wrong"):
        assert check(op, X, backends=["planted"], promises=["jit", "jvp"]).ok


def test_languages_that_are_missing_and_other_platforms_are_listed(monkeypatch):
    def generator(*, outs):
        raise ImportError("no module named warp")

    row = brainevent.languages.Language("warp", "Warp", ("cpu",), lambda: "install warp with: pip install warp-lang")
    monkeypatch.setitem(brainevent.languages.LANGUAGES, "warp", row)
    op = operator(plain(lambda x: [2 * x]), twice)
    op.def_kernel("warp", "cpu", generator)
    op.def_kernel("pallas", "tpu", generator)
    report = check(op, X, promises=["jit"])
    assert report.ok
    assert report.rows[-2:] == (
        CheckRow("warp", "all", "skipped", "install warp with: pip install warp-lang"),
        CheckRow("pallas", "all", "skipped", "it is for tpu; this process runs on cpu"),
    )


def test_keywords_named_as_options_come_in_a_partial():
    op = operator(lambda *, outs, tolerance: lambda x: [x * tolerance], lambda x, tolerance: x * tolerance)
    assert check(functools.partial(op, tolerance=3.0), X, promises=["jit"]).ok


# ---- the report ----------------------------------------------------------------------------------------------------


def test_prints_an_aligned_table(monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    long = "element [3] is 3.0, expected 2.0 (1 of 8 elements differ)"
    rows = (
        CheckRow("numba", "jit", "ok"),
        CheckRow("cpp", "values", "failed", long),
        CheckRow("warp", "all", "skipped"),
    )
    assert str(CheckReport("double", "cpu", rows)).splitlines() == [
        "operator 'double' on cpu: 1 ok, 1 failed, 1 skipped",
        "",
        "backend  promise  status   detail",
        "numba    jit      ok",
        "cpp      values   failed   element [3] is 3.0, expected 2.0 (1 of 8",
        "                           elements differ)",
        "warp     all      skipped",
    ]


def test_raises_all_failures_in_one_error():
    op = operator(plain(lambda x: [2.1 * x]), twice)
    op.def_jvp_rule2(lambda t, x, **_: 3 * t)
    report = check(op, X, promises=["jvp"])
    with pytest.raises(brainevent.CheckFailedError) as error:
        report.raise_if_failed()
    first, *lines = str(error.value).splitlines()
    assert first == f"operator '{report.operator}' breaks 2 promises on cpu:"
    assert lines[0].startswith("  planted, values: output 0: element [0] is 1.04")
    assert lines[0].endswith("correct the kernel")
    assert lines[1].startswith("  planted, jvp: ")


def test_where_nothing_can_be_checked_the_report_is_not_ok(unique_name):
    op = XLACustomKernel(unique_name())
    op.def_kernel("pallas", "tpu", plain(twice))
    report = check(op, X, outs=like(X))
    assert not report.ok
    assert report.failures == ()
    with pytest.raises(brainevent.CheckFailedError, match=r"nothing could be checked on cpu \(pallas: it is for tpu"):
        report.raise_if_failed()


# ---- usage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda op: check(twice, X), TypeError, "expected an XLACustomKernel, found function"),
        (lambda op: check(op, X, backends=["plantd"]), ValueError, "no backend 'plantd' here; did you mean 'planted'"),
        (lambda op: check(op, X, backends="planted"), TypeError, "backends is the string 'planted'; pass a list"),
        (lambda op: check(op, X, promises=["vmaps"]), ValueError, "unknown promise 'vmaps'"),
        (lambda op: check(op, X, promises="jit"), TypeError, "promises is the string 'jit'; pass a list"),
        (lambda op: check(op, X), TypeError, "has no reference that gives the types of its results; pass outs="),
        (
            lambda op: check(op, X, outs=like(X), samples=[(X[1:],)]),
            ValueError,
            "samples[0] holds float32[7]; the oper",
        ),
        (
            lambda op: check(op, jax.random.key(0), outs=like(X)),
            TypeError,
            "operand 0 is of dtype key<fry>, which holds no",
        ),
        (lambda op: check(op, [X], outs=like(X)), TypeError, "operand 0 is a list"),
        (lambda op: jax.jit(lambda x: check(op, x, outs=like(X)))(X), TypeError, "operand 0 is a traced value"),
    ],
)
def test_mistakes_of_the_caller_are_explained(call, error, words):
    with pytest.raises(error) as caught:
        call(operator(plain(lambda x: [2 * x])))
    assert words in str(caught.value)


# ---- numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("function", [jnp.sin, jnp.exp, jnp.square, lambda x: 5 * x, lambda x: x * 0 + 3])
def test_central_differences_are_close_and_know_their_error(function, dtype):
    values = [jnp.asarray(X, dtype)]
    tangents = directions(values, seed=1)
    exact = jax.jvp(function, values, tangents)[1]
    (derivative,) = central_differences(lambda x: [function(x)], values, tangents)
    assert np.abs(derivative.value - exact).max() <= derivative.error
    assert derivative.error <= 0.01 * derivative.size


def test_central_differences_do_not_settle_at_a_step():
    op = operator(plain(lambda x: [jnp.sign(x)]))
    op.def_jvp_rule2(lambda t, x, **_: t)
    report = check(op, X * 1e-3 + np.eye(8, dtype=np.float32)[0], outs=like(X), promises=["jvp"])
    assert report.rows[-1].status in ("skipped", "failed")
