# SPDX-License-Identifier: Apache-2.0
"""Launch plans and their native handler, on a pretend driver."""

import ctypes
import json
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from programs import run_program

import brainevent
from brainevent._compat import ShapedArray
from brainevent.errors import CUDANotInstalledError, KernelArgumentError, KernelLoadError
from brainevent.ffi import last_words
from brainevent.ffi.call import native_call
from brainevent.ffi.launch import (
    Configuration,
    Launch,
    LaunchPlan,
    Limits,
    PlanTarget,
    Slot,
    check_limits,
    driver,
)
from brainevent.ffi.launch.host import host
from brainevent.ffi.launch.target import _packed, _unpacked


def axpy(binary, n, a=2.0, **changes):
    fields = {
        "binary": binary,
        "entry": "axpy",
        "title": "axpy",
        "grid": (2, 1, 1),
        "block": (64, 1, 1),
        "parameters": (bytes(8), bytes(8), bytes(8), np.int32(n).tobytes(), np.float64(a).tobytes()),
        "slots": (Slot(0, 0), Slot(1, 1), Slot(2, 2)),
    }
    return Launch(**{**fields, **changes})


def run(plan, operands, shapes):
    outs = [ShapedArray(shape, jnp.dtype(dtype)) for shape, dtype in shapes]
    return native_call(PlanTarget(plan, lambda *_: plan, "cpu"), operands, outs)


def call(binary, x, y, times=1, **changes):
    n = x.shape[-1]
    plan = LaunchPlan("axpy", 3, (axpy(binary, n, **changes),) * times, ((2, 4 * n),), in_graphs=False)
    return run(plan, [x, y], [(x.shape, x.dtype)])[0]


def told(pretend, shared):
    launch = Launch(pretend.binary, "tell", "tell", (1, 1, 1), (1, 1, 1), (bytes(8),), (Slot(0, 0),), shared)
    return run(LaunchPlan("tell", 1, (launch,), in_graphs=False), [], [((7,), "int32")])[0]


X, Y = jnp.arange(5.0), jnp.ones(5)


@pytest.mark.parametrize("times", [0, 1, 3])
def test_a_plan_zeroes_and_launches_in_order(pretend, times):
    np.testing.assert_array_equal(jax.jit(lambda x, y: call(pretend.binary, x, y, times))(X, Y), times * (2 * X + Y))
    assert list(pretend.calls) == [times, 1, 0]


def test_the_configuration_arrives(pretend):
    launch = Launch(pretend.binary, "tell", "tell", (3, 4, 5), (6, 7, 8), (bytes(8),), (Slot(0, 0),), 99)
    plan = LaunchPlan("tell", 1, (launch,), in_graphs=False)
    assert run(plan, [], [((7,), "int32")])[0].tolist() == [3, 4, 5, 6, 7, 8, 99]


@given(flags=st.lists(st.booleans(), max_size=4))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_each_launch_is_cooperative_or_not(pretend, flags):
    pretend.calls[0] = pretend.together.value = 0
    launches = tuple(axpy(pretend.binary, 4, together=together) for together in flags)
    plan = LaunchPlan("axpy", 3, launches, ((2, 16),), in_graphs=False)
    x, y = X[:4], Y[:4]
    np.testing.assert_array_equal(run(plan, [x, y], [((4,), "float32")])[0], len(flags) * (2 * x + y))
    assert (pretend.calls[0], pretend.together.value) == (len(flags), sum(flags))


def test_blocks_that_do_not_fit_together_are_reported(pretend):
    plan = LaunchPlan("axpy", 3, (axpy(pretend.binary, 5, grid=(133, 1, 1), together=True),), in_graphs=False)
    words = r"axpy<<<\(133, 1, 1\), \(64, 1, 1\), 0, together>>>: CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"
    with pytest.raises(jax.errors.JaxRuntimeError, match=words):
        run(plan, [X, Y], [((5,), "float32")])[0].block_until_ready()


def test_launches_of_older_programs_are_not_cooperative():
    plan = LaunchPlan("axpy", 3, (axpy(b"code", 5, together=True),), in_graphs=False)
    line, code = zlib.decompress(_packed(plan, False).tobytes()).split(b"\n", 1)
    header = json.loads(line)
    assert _unpacked(header, code).launches == plan.launches
    del header["launches"][0]["together"]
    assert _unpacked(header, code).launches == (axpy(b"code", 5),)


def test_a_slot_may_point_within_a_buffer_and_within_a_parameter(pretend):
    launch = axpy(pretend.binary, 3, slots=(Slot(0, 0, shift=8), Slot(1, 1), Slot(2, 2, shift=4)))
    plan = LaunchPlan("axpy", 3, (launch,), ((2, 20),), in_graphs=False)
    np.testing.assert_array_equal(run(plan, [X, Y], [((5,), "float32")])[0], [0, 5, 7, 9, 0])


@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    mapped=st.lists(st.sampled_from([(0, None), (None, 0), (0, 0)]), min_size=3, max_size=3),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_nesting_of_vmap_is_one_native_loop(pretend, sizes, mapped):
    function, expected = (lambda x, y: call(pretend.binary, x, y)), (lambda x, y: 2 * x + y)
    x, y = X, Y
    for size, axes in zip(sizes, mapped, strict=False):
        function, expected = jax.vmap(function, axes), jax.vmap(expected, axes)
        x = jnp.stack([x + i for i in range(size)]) if axes[0] == 0 else x
        y = jnp.stack([y - i for i in range(size)]) if axes[1] == 0 else y
    jitted = jax.jit(function)
    np.testing.assert_array_equal(jitted(x, y), expected(x, y))
    assert jitted.lower(x, y).as_text().count("custom_call @") == 1


def test_what_the_driver_refuses_is_an_error_with_its_name(pretend, unique_name):
    words = r"INTERNAL: kernel 'axpy': axpy<<<\(2, 1, 1\), \(64, 1, 1\), 0>>>: CUDA_ERROR_INVALID_VALUE"
    bad = LaunchPlan("axpy", 3, (axpy(pretend.binary, 5), axpy(pretend.binary, -1)), in_graphs=False)
    with pytest.raises(jax.errors.JaxRuntimeError, match=words):
        run(bad, [X, Y], [((5,), "float32")])[0].block_until_ready()
    operator = brainevent.XLACustomKernel(name := unique_name("plan"))
    operator.def_kernel("plan", "cpu", lambda *, outs: lambda x, y: run(bad, [x, y], [((5,), "float32")]))
    with pytest.raises(jax.errors.JaxRuntimeError, match=f"operator '{name}', kernel 'axpy': axpy<<<"):
        operator(X, Y, outs=X).block_until_ready()
    assert any(f"operator '{name}', kernel 'axpy': axpy<<<" in text for text in last_words._said)
    pretend.failure.value = 1
    with pytest.raises(jax.errors.JaxRuntimeError, match="setting results to zero: CUDA_ERROR_INVALID_VALUE"):
        call(pretend.binary, X, Y).block_until_ready()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"binary": b"/nowhere.so\0"}, "loading the kernel 'axpy': CUDA_ERROR_INVALID_IMAGE; the driver may be older"),
        ({"entry": "axpi"}, "finding the kernel 'axpi': CUDA_ERROR_UNKNOWN"),
        (
            {"shared": 300 * 1024},
            "allowing 307200 bytes of shared memory to the kernel 'axpy': CUDA_ERROR_INVALID_VALUE",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_loaded_is_reported(pretend, changes, words):
    with pytest.raises(
        jax.errors.JaxRuntimeError, match=f"cannot load a kernel of this program: KernelLoadError: {words}"
    ):
        call(**{"binary": pretend.binary, "x": X, "y": Y, **changes}).block_until_ready()


def test_more_shared_memory_is_allowed_on_every_device(pretend):
    call(pretend.binary, X, Y, shared=100 * 1024).block_until_ready()
    assert pretend.calls[2] == 2


def test_shared_memory_that_was_allowed_stays_allowed(pretend):
    for shared in (100 * 1024, 60 * 1024, 100 * 1024):
        jax.block_until_ready(told(pretend, shared))
    assert pretend.calls[2] == 2


def test_ptx_of_a_newer_toolkit_is_loaded_in_the_version_of_the_driver(pretend):
    its = driver.driver()
    assert its.kernel(b".version 9.5\n// " + pretend.binary, "tell", 0) != 0
    assert its.kernel(b".version 9.5 /* eager */\n// " + pretend.binary, "tell", 0) != 0
    assert its.kernel(b".version 8.4\n// " + pretend.binary, "tell", 0) != 0  # an older one as it is
    versions = {11080: "7.8", 12040: "8.4", 12050: "8.5", 12060: "8.5", 12090: "8.8", 13000: "9.0", 13020: "9.2"}
    assert {cuda: driver.ptx_version(cuda) for cuda in versions} == versions


def test_a_device_that_refuses_shared_memory_does_not_stop_the_others(pretend):
    pretend.limits[:] = [64 * 1024, 227 * 1024]  # of the two devices, the second of which launches
    for shared in (101 * 1024, 61 * 1024):
        assert told(pretend, shared)[6] == shared
    assert pretend.allowed[:] == [61 * 1024, 101 * 1024]
    pretend.limits[:] = [64 * 1024, 64 * 1024]
    with pytest.raises(jax.errors.JaxRuntimeError, match="allowing 122880 bytes of shared memory to the kernel 'tell'"):
        jax.block_until_ready(told(pretend, 120 * 1024))


def test_clusters_are_counted(pretend):
    its = driver.driver()
    kernel = its.kernel(pretend.binary, "tell", 0)
    assert [its.clusters(kernel, 2, 1024, shared) for shared in (1000, 101_000)] == [4, 2]
    pretend.failure.value = 1
    with pytest.raises(KernelLoadError, match="counting clusters: CUDA_ERROR_INVALID_VALUE"):
        its.clusters(kernel, 2, 1024, 0)


@pytest.mark.parametrize("width", [0, 8, 16])
def test_clusters_of_more_than_eight_blocks_are_allowed(pretend, width):
    library = ctypes.CDLL(driver.LIBRARY)
    ctypes.c_int.in_dll(library, "pretend_width").value = width
    large = (ctypes.c_int * 2).in_dll(library, "pretend_large")
    large[:] = [0, 0]
    driver.driver().kernel(pretend.binary, "tell", 0)
    ctypes.c_int.in_dll(library, "pretend_width").value = 0
    assert large[:] == [width > 8] * 2


def test_a_report_that_fails_is_an_error_all_the_same(pretend, monkeypatch):
    def error_name(*_):
        raise KeyError(1)

    monkeypatch.setattr(driver.Driver, "error_name", error_name)
    bad = LaunchPlan("axpy", 3, (axpy(pretend.binary, -1),), in_graphs=False)
    words = r"INTERNAL: a kernel of this program failed with the code 1, and its report failed: KeyError\(1\)"
    with pytest.raises(jax.errors.JaxRuntimeError, match=words):
        run(bad, [X, Y], [((5,), "float32")])[0].block_until_ready()


def test_the_cpu_has_a_word_for_every_error():
    assert [host().error_name(code) for code in (1, 7)] == ["an assertion of the kernel failed", "error 7"]


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"grid": np.int64(3), "block": np.array([4, 5])}, Configuration((3, 1, 1), (4, 5, 1))),
        ({"launch_dims": [np.uint8(3)], "shared": np.int32(6)}, Configuration((1, 1, 1), (3, 1, 1), 6)),
        ({"launch_dims": np.array(10), "threads_per_block": np.uint8(4)}, Configuration((3, 1, 1), (4, 1, 1))),
        ({"launch_dims": jnp.int32(10)}, Configuration((1, 1, 1), (10, 1, 1))),
    ],
    ids=str,
)
def test_whole_numbers_of_any_kind_are_made_pythons(given, made):
    arguments = {"grid": None, "block": None, "launch_dims": None, "threads_per_block": 256, "shared": 0} | given
    found = Configuration.checked("here", **arguments)
    assert found == made
    assert {type(n) for n in (*found.grid, *found.block, found.shared)} == {int}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"launch_dims": np.ones(2)}, r"launch_dims is array\(\[1., 1.\]\); pass a whole number, or one to three"),
        ({"launch_dims": np.ones((2, 2), int)}, "(?s:launch_dims is array.*); pass a whole number"),
        ({"launch_dims": np.True_}, "launch_dims is .*True_?; pass a whole number"),
        ({"launch_dims": 3, "threads_per_block": np.float32(3)}, "threads_per_block is .*3.0.*; pass 1 or more"),
        ({"launch_dims": 3, "shared": np.float64(8)}, "shared_mem is .*8.0.*; pass a number of bytes"),
    ],
    ids=str,
)
def test_what_is_no_whole_number_is_reported(given, words):
    arguments = {"grid": None, "block": None, "launch_dims": None, "threads_per_block": 256, "shared": 0} | given
    with pytest.raises(ValueError, match=f"here: {words}"):
        Configuration.checked("here", **arguments)


def test_without_a_driver_the_error_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(driver, "LIBRARY", "libno_such_driver.so.1")
    driver.driver.cache_clear()
    words = r"no CUDA driver \(libno_such_driver.so.1\) is found; install .* backend= of the CPU"
    with pytest.raises(CUDANotInstalledError, match=words):
        driver.driver()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"grid": (1, 70_000, 1)}, "grid.y is 70000, and must be from 1 to 65535"),
        ({"grid": (0, 1, 1)}, "grid.x is 0"),
        ({"block": (1, 1, 65)}, "block.z is 65, and must be from 1 to 64"),
        ({"block": (32, 32, 2)}, r"the block \(32, 32, 2\) has 2048 threads; use at most 1024"),
        ({"shared": 50_000}, "50000 bytes of dynamic shared memory; use at most 49152"),
        ({"shared": -1}, "-1 bytes of dynamic shared memory"),
        ({"parameters": (bytes(40_000),)}, "1 parameters of 40000 bytes in all"),
        ({"parameters": (bytes(8),) * 1025}, "1025 parameters of 8200 bytes"),
    ],
    ids=str,
)
def test_limits_are_checked_when_the_plan_is_made(changes, words):
    with pytest.raises(KernelArgumentError, match=f"here: {words}"):
        check_limits("here", axpy(b"", 1, **changes), Limits())
    check_limits("here", axpy(b"", 1), Limits())


def test_a_plan_of_the_largest_size_runs(pretend):
    filler = tuple(bytes(8) for _ in range(1019))
    launch = axpy(pretend.binary, 5)
    launch = axpy(pretend.binary, 5, parameters=(*launch.parameters, *filler))
    plan = LaunchPlan("axpy", 3, (launch,), ((2, 20),), in_graphs=False)
    np.testing.assert_array_equal(run(plan, [X, Y], [((5,), "float32")])[0], 2 * X + Y)


@pytest.mark.thorough
def test_an_exported_program_carries_its_plan(pretend, tmp_path, pretend_library):
    program = jax.export.export(
        jax.jit(lambda x, y: call(pretend.binary, x, y)), disabled_checks=brainevent.export_checks()
    )(X, Y)
    (tmp_path / "program").write_bytes(program.serialize())
    source = """
        import sys, jax, jax.numpy as jnp, brainevent
        from brainevent.ffi.launch import driver
        driver.LIBRARY = sys.argv[2]
        program = jax.export.deserialize(open(sys.argv[1], "rb").read())
        print(program.call(jnp.arange(5.0), jnp.ones(5)).tolist())
    """
    assert run_program(source, tmp_path / "program", pretend_library).strip() == "[1.0, 3.0, 5.0, 7.0, 9.0]"


def test_a_program_is_the_same_text_whatever_was_loaded_before(pretend):
    lower = lambda: jax.jit(lambda x, y: call(pretend.binary, x, y)).lower(X, Y).as_text()
    before = lower()
    call(pretend.binary, Y, X, a=3.0).block_until_ready()
    assert lower() == before


def test_a_plan_for_other_arrays_is_refused(pretend):
    plan = LaunchPlan("axpy", 4, (axpy(pretend.binary, 5),), in_graphs=False)
    with pytest.raises(
        jax.errors.JaxRuntimeError, match="kernel 'axpy': called with other arrays than it was made for"
    ):
        run(plan, [X, Y], [((5,), "float32")])[0].block_until_ready()
    with pytest.raises(
        KernelArgumentError, match="axpy: 129 operands, results and temporaries; a call takes at most 128"
    ):
        LaunchPlan("axpy", 129, ())
