# SPDX-License-Identifier: Apache-2.0
"""`XLACustomKernel.benchmark`: each backend with each configuration, what fails, what differs, and bad input."""

import re

import jax
import jax.numpy as jnp
import numba
import numpy as np
import pytest

import brainevent
from brainevent import BenchmarkConfig


def times(factor):
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = factor * x[i]

    return lambda *, outs, **_: brainevent.numba_kernel(kernel, outs=outs)


def broken(*, outs, **_):
    raise RuntimeError("this kernel cannot be built")


def data(*, platform):
    assert platform == "cpu"
    return [BenchmarkConfig(f"n={n}", (jnp.ones(n),), {"scale": 2}, {"n": n}) for n in (3, 5)]


@pytest.fixture
def operator(request):
    op = brainevent.XLACustomKernel(re.sub(r"\W", "_", f"benchmarked_{request.node.name}"))
    op.def_numba_kernel(times(2))
    op.def_kernel("other", "cpu", times(2))
    op.def_reference(lambda x, scale: scale * x)
    op.def_call(lambda x, *, scale, backend: op(x, scale=scale, backend=backend))
    op.def_benchmark_data(data)
    return op


def quick(operator, operands=(), **kwargs):
    return operator.benchmark(*operands, **{"platform": "cpu", "n_warmup": 0, "n_runs": 2, **kwargs})


def test_each_backend_is_measured_with_each_configuration(operator, capsys):
    result = quick(operator)
    assert result.primitive_name == operator.name
    assert [(r.label, r.backend) for r in result.records] == [
        ("n=3", "numba"),
        ("n=3", "other"),
        ("n=5", "numba"),
        ("n=5", "other"),
    ]
    for record in result.records:
        assert (record.platform, record.success, record.error, record.mismatch) == ("cpu", True, None, None)
        assert (record.kernel_kwargs, record.throughput) == ({"scale": 2}, None)
        assert 0 < record.min_ms <= record.mean_ms
        assert record.min_ms <= record.low_ms <= record.median_ms <= record.high_ms
        assert record.loop_ms == 0
    assert [record.data_kwargs for record in result.records] == [{"n": 3}] * 2 + [{"n": 5}] * 2
    assert capsys.readouterr().out == ""


def test_backends_are_chosen(operator):
    assert [r.backend for r in quick(operator, backends=["reference", "other"]).records] == ["reference", "other"] * 2
    assert [r.backend for r in quick(operator, backends="other").records] == ["other"] * 2


def test_the_time_of_the_loop_is_reported(operator):
    assert all(record.loop_ms > 0 for record in quick(operator, n_batch_per_run=10).records)


def test_an_operator_with_a_reference_alone_is_measured():
    op = brainevent.XLACustomKernel("benchmarked_reference")
    op.def_reference(lambda x: -x)
    op.def_call(op)
    op.def_benchmark_data(lambda *, platform: [BenchmarkConfig("one", (jnp.ones(3),))])
    assert [r.backend for r in quick(op).records] == ["reference"]


def test_a_backend_that_fails_is_a_record(operator, capsys):
    operator.def_kernel("broken", "cpu", broken)
    result = quick(operator, backends=["broken", "numba", "other"], verbose=True)
    assert [(r.backend, r.success) for r in result.records[:3]] == [
        ("broken", False),
        ("numba", True),
        ("other", True),
    ]
    said = result.records[0].error
    assert said.startswith("KernelCompilationError: ")
    assert "this kernel cannot be built" in said
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"[{operator.name}] [cpu|broken] n=3: FAILED — KernelCompilationError: ")
    assert re.search(
        rf"^\[{operator.name}\] \[cpu\|numba\] n=3: "
        + ", ".join(rf"{name}=[\d.]+ [mun]?s" for name in ("mean", "std", "min", "median"))
        + "$",
        "\n".join(lines),
        re.MULTILINE,
    )


def test_a_configuration_that_fails_on_one_backend_only(operator):
    def only_short(*, outs, **_):
        if outs[0].shape != (3,):
            raise ValueError("too long")
        return times(2)(outs=outs)

    operator.def_kernel("short", "cpu", only_short)
    assert [r.success for r in quick(operator, backends=["short", "numba"]).records] == [True, True, False, True]


def test_errors_pass_if_they_are_not_caught(operator):
    operator.def_kernel("broken", "cpu", broken)
    with pytest.raises(brainevent.KernelCompilationError, match="this kernel cannot be built"):
        quick(operator, catch_errors=False)


def test_keywords_of_a_call_are_those_of_the_operator(operator, unique_name):
    x = jnp.ones(4)
    result = quick(operator, scale=2, backends=["numba", "reference"], operands=(x,))
    assert [(r.kernel_kwargs, r.success, r.mismatch) for r in result.records] == [({"scale": 2}, True, None)] * 2
    bare = brainevent.XLACustomKernel(unique_name("branches"))
    bare.def_reference(lambda x, *, branches: branches * x)
    assert bare(x, branches=8).tolist() == [8.0] * 4
    (found,) = quick(bare, branches=8, outs=x, operands=(x,)).records
    assert (found.success, found.kernel_kwargs["branches"]) == (True, 8)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"branches": 8}, "benchmark got branches= without operands, and benchmark data have their own; pass operands"),
        ({"n_run": 3}, "leave it out; did you mean 'n_runs'?"),
        (
            {"operands": (jnp.ones(2),), "scale": 2, "n_run": 3},
            "unexpected keyword argument 'n_run'; did you mean 'n_runs'?",
        ),
        ({"operands": (jnp.ones(2),), "scale": [2]}, "'scale'= is a list, and keyword arguments must be hashable"),
    ],
)
def test_keywords_that_nothing_takes_are_refused(operator, options, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        quick(operator, **options)


def test_mismatches_are_printed_and_part_of_the_result(operator, capsys):
    operator.def_kernel("wrong", "cpu", times(3))
    result = quick(operator)
    said = "differs from 'reference' in 3 of 3 elements, most at [0]: 3.0 instead of 2.0"
    assert [(r.backend, r.label) for r in result.mismatches] == [("wrong", "n=3"), ("wrong", "n=5")]
    assert result.mismatches[0].mismatch == said
    assert f"[{operator.name}] [cpu|wrong] n=3: mismatch: {said}\n" in capsys.readouterr().out
    assert f"mismatch: [cpu|wrong] n=3: {said}\n" in str(result)


def apart(operator):
    """Let calls do without the reference: it is asked for no types."""
    operator.def_call(lambda x, *, scale, backend: operator(x, outs=x, scale=scale, backend=backend))


def counted(operator):
    """Replace the reference by one that counts how often it is traced."""
    apart(operator)
    traces = []
    operator.def_reference(lambda x, scale: traces.append(x.shape) or scale * x)
    return traces


def test_the_reference_says_what_is_right(operator):
    """A first kernel that is fast and wrong accuses none that is right."""
    traces = counted(operator)
    operator.def_kernel("wrong", "cpu", times(3))
    result = quick(operator, backends=["wrong", "numba", "other"])
    assert [(r.backend, r.label) for r in result.mismatches] == [("wrong", "n=3"), ("wrong", "n=5")]
    assert {r.backend for r in result.records} == {"wrong", "numba", "other"}
    assert result.fastest().backend != "wrong"
    assert traces == [(3,), (5,)]


def test_the_reference_agrees_with_itself(operator):
    """Also if the truth is computed more precisely than what is timed."""
    assert quick(operator, backends=["reference", "numba"], rtol=0, atol=0).mismatches == []


def test_nan_where_the_truth_has_none_is_a_mismatch(operator):
    operator.def_kernel("nan", "cpu", times(float("nan")))
    result = quick(operator, backends=["nan", "numba"])
    assert [r.backend for r in result.mismatches] == ["nan", "nan"]
    assert result.mismatches[0].mismatch.endswith("most at [0]: nan instead of 2.0")


def test_without_a_reference_the_first_backend_that_succeeds_is_right(operator):
    apart(operator)
    operator.definition.rules.pop("reference")
    operator.def_kernel("wrong", "cpu", times(3))
    operator.def_kernel("broken", "cpu", broken)
    result = quick(operator, backends=["broken", "numba", "wrong", "other"])
    assert [r.backend for r in result.mismatches] == ["wrong", "wrong"]
    assert result.mismatches[0].mismatch.startswith("differs from 'numba' in ")


def test_a_reference_that_fails_is_reported_once(operator, capsys):
    apart(operator)
    operator.def_reference(lambda x, scale: x[:, :, scale])
    operator.def_kernel("wrong", "cpu", times(3))
    result = quick(operator)
    assert result.mismatches[0].mismatch.startswith("differs from 'numba' in ")
    lines = [line for line in capsys.readouterr().out.splitlines() if "mismatch" not in line]
    assert len(lines) == 1
    assert lines[0].startswith(f"[{operator.name}] [cpu|reference] n=3: fails (KernelCompilationError: ")
    assert lines[0].endswith("); results are compared with those of the first backend that succeeds")


def test_nothing_is_paid_for_a_comparison_that_is_not_made(operator):
    traces = counted(operator)
    assert quick(operator, compare_results=False).mismatches == []
    assert traces == []


def test_results_are_compared_within_tolerances_or_not_at_all(operator):
    operator.def_kernel("wrong", "cpu", times(3))
    assert quick(operator, compare_results=False).mismatches == []
    assert quick(operator, rtol=0, atol=1.5).mismatches == []
    assert quick(operator, rtol=0.6, atol=0).mismatches == []
    assert len(quick(operator, rtol=0, atol=0.5).mismatches) == 2


def test_nans_agree_and_are_reported(operator):
    operator.def_benchmark_data(lambda *, platform: [BenchmarkConfig("a", (jnp.array([jnp.nan, 1.0]),), {"scale": 2})])
    result = quick(operator)
    assert [(r.nans, r.mismatch) for r in result.records] == [(1, None), (1, None)]
    assert "NaN: [cpu|other] a: 1 in the results" in str(result)


@pytest.mark.parametrize(("work", "unit"), [({"bytes": 24}, "GB/s"), ({"flops": 12}, "GFLOP/s")])
def test_throughput_follows_from_declared_work(operator, monkeypatch, work, unit):
    monkeypatch.setattr("brainevent.operator.benchmarking.measured_bandwidth", lambda device: 4e9)
    monkeypatch.setattr("brainevent.operator.benchmarking.measured_flops", lambda device: 5e9)
    operator.def_benchmark_data(lambda *, platform: [BenchmarkConfig("a", (jnp.ones(3),), {"scale": 2}, **work)])
    record = quick(operator).records[0]
    amount = next(iter(work.values()))
    assert record.throughput == pytest.approx(amount / (record.median_ms / 1e3) / 1e9)
    assert record.unit == unit
    assert record.peak_fraction == (pytest.approx(record.throughput / 4) if "bytes" in work else None)
    peaks = (4e9, None) if "bytes" in work else (None, 5e9)
    assert (record.peak_bandwidth, record.peak_flops) == peaks
    assert (record.bytes, record.flops) == (work.get("bytes"), work.get("flops"))


def test_numbers_among_the_arguments_stay_numbers(operator):
    operator.def_call(lambda x, n, *, backend: operator(x[:n], scale=2, backend=backend))
    operator.def_benchmark_data(lambda *, platform: [BenchmarkConfig("a", (jnp.ones(3), 2))])
    assert [record.success for record in quick(operator).records] == [True, True]


def test_configurations_are_put_on_a_device():
    config = BenchmarkConfig("a", ([1.0, 2.0], jnp.ones(2)), {"scale": 2}, {"n": 2}, bytes=3)
    put = config.put_args(jax.devices()[0])
    assert isinstance(put.args[0][0], jax.Array)
    assert (put.name, put.kernel_kwargs, put.data_kwargs, put.bytes) == ("a", {"scale": 2}, {"n": 2}, 3)
    assert config.args[0] == [1.0, 2.0]


# ---- bad input -------------------------------------------------------------------------------------------------------


def test_what_is_missing_is_reported_in_order():
    op = brainevent.XLACustomKernel("benchmarked_bare")
    words = (
        "has no benchmark data; pass operands, as in benchmarked_bare.benchmark.x., or store a function with def_ben"
    )
    with pytest.raises(brainevent.BenchmarkDataFnNotProvidedError, match=words):
        op.benchmark(platform="cpu")
    op.def_benchmark_data(data)
    words = "'benchmarked_bare' has no backends for the platform 'cpu'; platforms that have: none"
    with pytest.raises(ValueError, match=words):
        op.benchmark(platform="cpu")


def test_an_operator_is_measured_as_it_stands(unique_name):
    op = brainevent.XLACustomKernel(unique_name("as_it_stands"))
    op.def_reference(lambda spikes, weights: spikes @ weights)
    result = op.benchmark(jnp.ones(4), jnp.ones((4, 3)), n_warmup=1, n_runs=2)
    assert [(r.platform, r.backend, r.label, r.success) for r in result.records] == [
        ("cpu", "reference", "float32[4], float32[4, 3]", True)
    ]
    op.def_call(lambda x, *, backend: op(x, jnp.ones((4, 3)), backend=backend))
    assert op.benchmark(jnp.ones(4), n_warmup=1, n_runs=2).records[0].success
    with pytest.raises(TypeError, match="operand 0 is a list; pass each array as an operand of its own"):
        op.benchmark([1.0], platform="cpu")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"platform": "cpuu"}, "no backends for the platform 'cpuu'; did you mean 'cpu'?; platforms that have: cpu"),
        ({"platform": "gpu"}, "no backends for the platform 'gpu'; platforms that have: cpu"),
        ({"backends": ["nunba"]}, "unknown backend 'nunba' for cpu; did you mean 'numba'?; registered: numba, other, "),
        ({"backends": []}, "backends is empty; leave it out to measure numba, other, reference"),
        ({"n_runs": 0}, "benchmark: n_runs must be an integer of at least 1, found 0"),
        ({"cold": True, "n_batch_per_run": 3}, "cold=True times single calls"),
    ],
)
def test_bad_arguments(operator, arguments, words):
    if arguments.get("platform") == "gpu":
        operator.definition.rules.pop("reference")
    with pytest.raises(ValueError, match=re.escape(words)):
        quick(operator, **arguments)


def test_a_platform_without_a_device(operator):
    operator.def_kernel("pallas", "tpu", broken)
    with pytest.raises(ValueError, match="benchmark on 'tpu' needs such a device, and JAX finds none here"):
        quick(operator, platform="tpu")


def test_bad_benchmark_data(operator):
    operator.def_benchmark_data(lambda *, platform: [3])
    with pytest.raises(
        TypeError, match=r"data function returned a list with an int; return a list of brainevent\.BenchmarkConfig"
    ):
        quick(operator)
    for found, said in ((None, "None"), (7, "an int"), (BenchmarkConfig("a", ()), "a BenchmarkConfig")):
        operator.def_benchmark_data(lambda *, platform, found=found: found)
        with pytest.raises(
            TypeError, match=f"{operator.name!r}: the benchmark data function returned {said}; return a"
        ):
            quick(operator)
    with pytest.raises(brainevent.RegistrationTypeError, match="benchmark data function must be callable, found int"):
        operator.def_benchmark_data(3)


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({"name": 3}, TypeError, "BenchmarkConfig: name must be a string, found 3"),
        ({"args": jnp.ones(3)}, TypeError, "'a': args must be a tuple, found an array; for one operand pass (x,)"),
        ({"args": np.ones(3)}, TypeError, "args must be a tuple, found an array; for one operand pass (x,)"),
        ({"args": 3}, TypeError, "args must be a tuple, found an int; for one operand pass (x,)"),
        ({"kernel_kwargs": [("k", 1)]}, TypeError, "'a': kernel_kwargs must be a dictionary, found a list"),
        ({"data_kwargs": None}, TypeError, "BenchmarkConfig 'a': data_kwargs must be a dictionary, found a NoneType"),
        ({"bytes": 0}, ValueError, "BenchmarkConfig 'a': bytes must be a positive number or None, found 0"),
        ({"flops": float("nan")}, ValueError, "flops must be a positive number or None, found nan"),
        ({"flops": float("inf")}, ValueError, "flops must be a positive number or None, found inf"),
        ({"bytes": "12"}, TypeError, "bytes must be a positive number or None, found '12'"),
        ({"bytes": True}, TypeError, "bytes must be a positive number or None, found True"),
    ],
)  # fmt: skip
def test_invalid_configurations_are_refused(fields, error, words):
    with pytest.raises(error, match=re.escape(words)):
        BenchmarkConfig(**{"name": "a", "args": (), **fields})


def test_numpy_scalars_are_accepted_in_configurations():
    assert BenchmarkConfig("a", [1], bytes=np.int64(3), flops=np.float32(2)).args == [1]
