# SPDX-License-Identifier: Apache-2.0
"""NVIDIA Warp: dtypes, and `warp_kernel` on the CPU, which runs what Warp has compiled without Python."""

import os
import re
import sys
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forked import run_forked
from hypothesis import given, settings
from hypothesis import strategies as st
from platforms import by_platform
from programs import run_program

import brainevent
from brainevent.errors import KernelArgumentError

wp = pytest.importorskip("warp")
import warp_kernels as wk  # noqa: E402
from warp_kernels import FLOATS, INTS, added, like, scattered  # noqa: E402

from brainevent.backends.warp import compiled as compiling  # noqa: E402
from brainevent.backends.warp import dtypes  # noqa: E402
from brainevent.backends.warp.plan import WarpTarget, _grid  # noqa: E402

X, Y = jnp.arange(5.0), jnp.ones(5)
VECTOR = like(X)
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
FLOATING = ["float16", "float32", "float64"]


def lowered(function, *operands):
    return jax.jit(function).lower(*operands).as_text()


# ---- dtypes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["bool", *INTEGERS, *FLOATING])
def test_every_dtype_has_its_warp_type(name):
    for dtype in (name, np.dtype(name), jnp.dtype(name)):
        assert brainevent.jaxtype_to_warptype(dtype) is getattr(wp, name)
    for ndim in (1, 2, 5):
        annotation = brainevent.jaxinfo_to_warpinfo(jax.ShapeDtypeStruct((2,) * ndim, np.dtype(name)))
        assert (annotation.dtype, annotation.ndim) == (getattr(wp, name), ndim)


@pytest.mark.parametrize("wrong", [jnp.bfloat16, jnp.float8_e4m3fn, "complex64", np.complex128, object, "floaty"])
def test_other_dtypes_are_refused(wrong):
    with pytest.raises(ValueError, match="Warp does not support computations with dtype"):
        brainevent.jaxtype_to_warptype(wrong)


def test_builtin_types_and_arrays_have_warp_types():
    assert [brainevent.jaxtype_to_warptype(kind) for kind in (float, int, bool)] == [wp.float64, wp.int64, wp.bool]
    assert brainevent.jaxinfo_to_warpinfo(X).dtype is wp.float32
    with pytest.raises(ValueError, match=r"Warp has no 0-D arrays; give the array one axis, x.reshape\(1\)"):
        brainevent.jaxinfo_to_warpinfo(jnp.float32(1))
    with pytest.raises(ValueError, match="does not support"):
        brainevent.jaxinfo_to_warpinfo(jax.ShapeDtypeStruct((3,), jnp.bfloat16))


def test_without_warp_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "warp", None)
    dtypes.the_warp.cache_clear()
    words = r"NVIDIA Warp cannot be imported \(.*\); run: pip install warp-lang"
    try:
        for call in (
            lambda: brainevent.jaxtype_to_warptype("floaty"),
            lambda: brainevent.jaxinfo_to_warpinfo(jnp.float32(1)),
            lambda: brainevent.warp_kernel(wk.add, VECTOR, launch_dims=-1),
        ):
            with pytest.raises(ImportError, match=words):
                call()
    finally:
        dtypes.the_warp.cache_clear()


@pytest.mark.thorough
def test_warp_is_imported_when_it_is_needed_and_is_quiet():
    source = """
        import sys, brainevent
        brainevent.jaxtype_to_warptype, brainevent.jaxinfo_to_warpinfo, brainevent.warp_kernel
        print("warp" in sys.modules)
        brainevent.jaxtype_to_warptype("float32")
        import warp
        warp.init()
        print(warp.config.quiet)
    """
    assert run_program(source).split() == ["False", "True"]


@pytest.mark.parametrize("adjoint", [False, True])
def test_types_of_outputs_are_those_of_the_moment_of_the_call(adjoint):
    x = np.arange(5.0)
    call = brainevent.warp_kernel(wk.copy, like(x), launch_dims=5, adjoint=adjoint)
    for x64 in (False, True):
        with jax.enable_x64(x64):
            found = call(jnp.asarray(x))
            assert found.dtype == (np.float64 if x64 else np.float32)
            np.testing.assert_array_equal(found, x)


# ---- kernels of Warp's own jax_kernel -------------------------------------------------------------------------------


def jax_kernel():
    """Return Warp's wrapper for JAX, under its present name or its former one."""
    if hasattr(wp, "jax_kernel"):
        return wp.jax_kernel
    from warp.jax_experimental import jax_kernel as former

    return former


def test_an_operator_may_use_warps_own_wrapper(unique_name):
    def relu_generator(*, outs):
        kind, [n] = brainevent.jaxinfo_to_warpinfo(outs[0]), outs[0].shape

        @wp.kernel
        def relu(x: kind, out: kind):
            i = wp.tid()
            out[i] = wp.max(x[i], kind.dtype(0.0))

        return lambda x: jax_kernel()(relu, launch_dims=[n], num_outputs=1, output_dims={"out": (n,)})(x)

    operator = brainevent.XLACustomKernel(unique_name("warp"))
    operator.def_kernel("warp", "cpu", relu_generator)
    call = lambda x: operator(x, outs=[like(x)])[0]
    x = X - 2
    np.testing.assert_array_equal(call(x), jnp.maximum(x, 0))
    np.testing.assert_array_equal(jax.jit(call)(x), jnp.maximum(x, 0))
    rows = jnp.stack([x, -x, x + 1])
    np.testing.assert_array_equal(jax.jit(jax.vmap(call))(rows), jnp.maximum(rows, 0))


def test_warps_own_wrapper_is_batched_by_elements_whatever_it_says(unique_name):
    """By itself it takes all elements for one long array, and scatters them all into the first."""

    def scatter_generator(*, outs):
        run = jax_kernel()(wk.scatter, launch_dims=[5], num_outputs=1, in_out_argnames=["out"])
        return lambda x, where: run(x, where, jnp.zeros(outs[0].shape, outs[0].dtype))

    operator = brainevent.XLACustomKernel(unique_name("warp"))
    operator.def_kernel("warp", "cpu", scatter_generator)
    where, rows = jnp.array([0, 2, 2, 1, 0]), jnp.stack([X, -X, X + 1])
    call = jax.vmap(lambda x: operator(x, where, outs=[jax.ShapeDtypeStruct((3,), jnp.float32)])[0])
    expected = jax.vmap(lambda x: jnp.zeros(3).at[where].add(x))
    np.testing.assert_allclose(call(rows), expected(rows))
    np.testing.assert_allclose(jax.jit(jax.vmap(call))(rows[None]), expected(rows)[None])


# ---- values ---------------------------------------------------------------------------------------------------------


@by_platform
def test_one_two_and_no_inputs():
    np.testing.assert_array_equal(added(X, Y), X + Y)
    np.testing.assert_array_equal(jax.jit(added)(X, Y), X + Y)
    x, y = jnp.arange(1024.0), jnp.arange(7.0)
    out = jax.ShapeDtypeStruct((1024, 7), jnp.float32)
    both = brainevent.warp_kernel(wk.outer, {"a": out, "b": out}, launch_dims=out.shape, block_dim=96)(x, y)
    np.testing.assert_array_equal(both["a"], x[:, None] * y)
    np.testing.assert_array_equal(both["b"], x[:, None] - y)
    shape = (2, 3, 4, 5)
    i, j, k, m = np.indices(shape)
    placed = brainevent.warp_kernel(wk.place, jax.ShapeDtypeStruct(shape, jnp.int32), launch_dims=shape)()
    np.testing.assert_array_equal(placed, 1000 * i + 100 * j + 10 * k + m)


@by_platform
@pytest.mark.parametrize("dtype", ["bool", *INTEGERS, *FLOATING, "bfloat16"])
def test_generic_kernels_take_every_dtype(dtype):
    with jax.enable_x64(True):
        x = jnp.asarray(np.arange(1000) % 2).astype(dtype)
        np.testing.assert_array_equal(brainevent.warp_kernel(wk.copy, like(x), launch_dims=1000)(x), x)


@by_platform
def test_numbers_go_by_value_and_in_the_order_of_the_parameters():
    call = brainevent.warp_kernel(wk.affine, VECTOR, launch_dims=5)
    np.testing.assert_array_equal(call(2.0, X, 1), 2 * X + 1)
    np.testing.assert_array_equal(call(np.float16(3), X, wp.float32(0.5)), 3 * X + 0.5)


@wp.kernel
def turned(x: wp.array2d(dtype=wp.vec2), turn: wp.mat22, out: wp.array2d(dtype=wp.vec2)):
    i, j = wp.tid()
    out[i, j] = turn * x[i, j]


@by_platform
def test_vectors_matrices_and_structs():
    x = jnp.arange(24.0).reshape(3, 4, 2)
    turn = np.array([[0, -1], [1, 0.5]], np.float32)
    for value in (wp.mat22(turn), tuple(turn.ravel().tolist())):
        result = brainevent.warp_kernel(turned, like(x), launch_dims=(3, 4))(x, value)
        np.testing.assert_allclose(result, x @ turn.T)
    line = wk.Line()
    line.slope, line.offset = 3.0, wp.vec2(7.0, 8.0)
    np.testing.assert_allclose(brainevent.warp_kernel(wk.on_line, VECTOR, launch_dims=5)(line, X), 3 * X + 8)


def test_static_values_are_those_of_the_declaration():
    kernels = []
    for factor in (1.0, 2.0, 3.0):

        @wp.kernel
        def scaled(x: FLOATS, out: FLOATS):
            i = wp.tid()
            out[i] = x[i] * wp.static(factor)  # noqa: B023 - which value it takes is what this test asks

        @wp.kernel
        def generic(x: wp.array(dtype=Any), out: wp.array(dtype=Any)):
            i = wp.tid()
            out[i] = x[i] * x.dtype(wp.static(factor))  # noqa: B023

        kernels += [scaled, generic]
    x = jnp.ones(1)
    found = [float(brainevent.warp_kernel(kernel, like(x), launch_dims=1)(x)[0]) for kernel in kernels]
    assert found == [1.0, 1.0, 2.0, 2.0, 3.0, 3.0]


@wp.struct
class Inner:
    data: wp.float32


@wp.struct
class Outer:
    inner: Inner


@wp.kernel
def by_inner(holder: Outer, whole: wp.vec2i, x: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = x[i] * holder.inner.data + float(whole[1])


def test_structs_in_structs_may_call_a_number_data():
    holder = Outer()
    holder.inner.data = 2.0
    call = brainevent.warp_kernel(by_inner, like(jnp.ones(2)), launch_dims=2)
    np.testing.assert_array_equal(call(holder, (1, 5), jnp.ones(2)), [7.0, 7.0])
    with pytest.raises(KernelArgumentError, match=r"'whole' is declared as vec2i.*which int32 cannot represent"):
        call(holder, (1, 2**40), jnp.ones(2))


@by_platform
def test_outputs_start_as_zeros_or_as_an_argument():
    where = jnp.array([0, 2, 2, 1, 0])
    for _ in range(3):
        np.testing.assert_array_equal(scattered(X, where, 3), [4, 3, 3])
    np.testing.assert_array_equal(
        brainevent.warp_kernel(wk.scatter, VECTOR, launch_dims=5, zeroed="out")(X, where), [4, 3, 3, 0, 0]
    )
    start = jnp.full(5, 10.0)
    call = brainevent.warp_kernel(wk.scatter, VECTOR, launch_dims=5, in_out_argnames=["out"])
    np.testing.assert_array_equal(call(X, where, start), [14, 13, 13, 10, 10])
    np.testing.assert_array_equal(start, jnp.full(5, 10.0))
    aliased = brainevent.warp_kernel(wk.scatter_onto, VECTOR, launch_dims=5, input_output_aliases={2: 0})
    np.testing.assert_array_equal(aliased(X, where, start), [14, 13, 13, 10, 10])


@by_platform
@pytest.mark.parametrize("dims", [0, (3, 0), [0, 2, 2, 2]], ids=str)
def test_nothing_to_launch_gives_zeros_or_the_argument(dims):
    np.testing.assert_array_equal(brainevent.warp_kernel(wk.sine, VECTOR, launch_dims=dims)(X), np.zeros(5))
    call = brainevent.warp_kernel(wk.sine, VECTOR, launch_dims=dims, in_out_argnames="out")
    np.testing.assert_array_equal(call(X, Y), Y)
    none = jnp.zeros((0,))
    assert brainevent.warp_kernel(wk.sine, like(none), launch_dims=none.shape)(none).shape == (0,)


@settings(max_examples=6)
@given(
    sizes=st.lists(st.integers(1, 3), min_size=1, max_size=3),
    mapped=st.lists(st.sampled_from([(0, None), (None, 0), (0, 0)]), min_size=3, max_size=3),
    in_out=st.booleans(),
)
def test_any_nesting_of_vmap_is_one_native_loop(sizes, mapped, in_out):
    where = jnp.array([0, 2, 2, 1, 0])
    options = {"in_out_argnames": "out"} if in_out else {"input_output_aliases": {2: 0}}
    kernel = wk.scatter if in_out else wk.scatter_onto
    function = lambda x, y: brainevent.warp_kernel(kernel, VECTOR, launch_dims=5, **options)(x, where, y)
    expected = lambda x, y: y.at[where].add(x)
    x, y = X, Y
    for size, axes in zip(sizes, mapped, strict=False):
        function, expected = jax.vmap(function, axes), jax.vmap(expected, axes)
        x = jnp.stack([x + i for i in range(size)]) if axes[0] == 0 else x
        y = jnp.stack([y - i for i in range(size)]) if axes[1] == 0 else y
    np.testing.assert_array_equal(function(x, y), expected(x, y))
    assert lowered(function, x, y).count("custom_call @") == 1


@settings(max_examples=6)
@given(shape=st.lists(st.integers(1, 7), min_size=1, max_size=4), method=st.sampled_from([None, "broadcast_all"]))
def test_every_shape_and_every_vmap_method(shape, method):
    flat = int(np.prod(shape))
    x = jnp.arange(3.0 * flat).reshape(3, flat)
    call = brainevent.warp_kernel(
        wk.sine, like(x[0]), launch_dims=shape if len(shape) == 1 else flat, vmap_method=method
    )
    np.testing.assert_allclose(jax.vmap(call)(x), jnp.sin(x), atol=1e-6)


# ---- no Python at run time ------------------------------------------------------------------------------------------


def test_a_program_holds_our_target_and_nothing_of_this_process():
    text = lowered(added, X, Y)
    assert re.findall(r"custom_call @(\w+)", text) == ["brainevent_portable"]
    jax.clear_caches()
    compiling._codes.clear()
    assert lowered(lambda x, y: added(x, y), X, Y).partition("{")[2] == text.partition("{")[2]


@pytest.mark.parametrize("own", [True, False])
def test_running_a_program_calls_no_python(own):
    """Warp's own wrapper is the proof that calls would be seen."""
    warp_add = jax_kernel()(wk.add)
    step = (lambda v: added(v, Y)) if own else (lambda v: warp_add(v, Y)[0])
    program = jax.jit(lambda x: jax.lax.fori_loop(0, 20, lambda _, v: step(v), x)).lower(X).compile()
    program(X).block_until_ready()
    called = []
    threading.setprofile(lambda frame, event, _: called.append(frame.f_code.co_filename))
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_filename))
    try:
        result = program(X).block_until_ready()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    np.testing.assert_array_equal(result, X + 20)
    assert any(f"{os.sep}warp{os.sep}" in name or "brainevent" in name for name in called) == (not own)


@pytest.mark.thorough
def test_an_operator_keeps_its_promises(unique_name):
    operator = brainevent.XLACustomKernel(unique_name("warp"))
    operator.def_kernel(
        "warp", "cpu", lambda *, outs: brainevent.warp_kernel(wk.add, outs[0], launch_dims=outs[0].shape)
    )
    operator.def_reference(lambda x, y: x + y)
    operator.def_sharding_rule("i, i -> i")
    report = brainevent.check(operator, jnp.arange(8.0), jnp.ones(8))
    assert report.ok, str(report)


def test_what_no_thread_writes_is_found(unique_name):
    operator = brainevent.XLACustomKernel(unique_name("warp"))
    operator.def_kernel("warp", "cpu", lambda *, outs: brainevent.warp_kernel(wk.add, outs[0], launch_dims=6))
    operator.def_reference(lambda x, y: x + y)
    report = brainevent.check(operator, jnp.arange(8.0), jnp.ones(8), promises=["outputs written"])
    assert "outputs written" in {row.promise for row in report.failures}


def test_one_operator_runs_emulated_kernels_for_gpus(unique_name):
    operator = brainevent.XLACustomKernel(unique_name("warp"))
    operator.def_warp_kernel(lambda *, outs: brainevent.warp_kernel(wk.add, outs[0], launch_dims=outs[0].shape))
    brainevent.config.emulate()
    try:
        np.testing.assert_array_equal(operator(X, Y, outs=VECTOR), X + Y)
    finally:
        brainevent.config.emulate(False)


def test_threads_run_one_kernel_side_by_side():
    """Kernels with tiles keep something in static variables, and are entered by one thread at a time."""
    outs = jax.ShapeDtypeStruct((64,), jnp.float32)
    call = brainevent.warp_kernel(wk.tile_squares, outs, launch_dims=(64, 32), block_dim=32, zeroed=True)
    call, results = jax.jit(call), {}
    x = jnp.arange(512.0)

    def work(number):
        for _ in range(30):
            results[number] = call(x + number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(8):
        np.testing.assert_allclose(results[number], ((x + number) ** 2).reshape(64, 8).sum(1), rtol=1e-6)


def test_over_devices():
    mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    cut = jax.sharding.PartitionSpec("d")
    x = jnp.arange(32.0)
    sharded = jax.jit(jax.shard_map(added, mesh=mesh, in_specs=(cut, cut), out_specs=cut))
    np.testing.assert_array_equal(sharded(x, 2 * x), 3 * x)


# ---- other processes ------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_an_exported_program_needs_no_warp(tmp_path):
    program = jax.export.export(jax.jit(jax.vmap(added)), disabled_checks=brainevent.export_checks())(X[None], Y[None])
    (tmp_path / "program").write_bytes(program.serialize())
    source = """
        import sys, jax, jax.numpy as jnp, brainevent
        program = jax.export.deserialize(open(sys.argv[1], "rb").read())
        print(program.call(jnp.arange(5.0)[None], jnp.ones((1, 5)))[0].tolist(), "warp" in sys.modules)
    """
    assert run_forked(source, tmp_path / "program").strip() == "[1.0, 2.0, 3.0, 4.0, 5.0] False"


CACHED = """
    import sys, jax, jax.numpy as jnp
    from warp_kernels import added
    jax.config.update("jax_compilation_cache_dir", sys.argv[1])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    hits = []
    jax.monitoring.register_event_listener(lambda name, **_: "cache_hits" in name and hits.append(name))
    x = jnp.arange(5.0)
    before = len(hits)
    result = jax.jit(added)(x, x).block_until_ready()
    print(len(hits) - before, result[-1])
"""


@pytest.mark.thorough
def test_the_persistent_compilation_cache_serves_another_process(tmp_path):
    runs = [run_forked(CACHED, tmp_path).split() for _ in range(2)]
    assert runs == [["0", "8.0"], ["1", "8.0"]]


@wp.kernel(module="warp_debugged")
def asserts(x: FLOATS, out: FLOATS):
    i = wp.tid()
    assert x[i] > 0.0, "positive"
    out[i] = x[i]


def test_a_failed_assertion_is_an_error_and_the_process_lives_on():
    asserts.module.options["mode"] = "debug"
    call = jax.jit(brainevent.warp_kernel(asserts, VECTOR, launch_dims=5))
    np.testing.assert_array_equal(call(X + 1), X + 1)
    failure = (jax.errors.JaxRuntimeError, ValueError)  # the latter from jaxlib's quick way into a compiled function
    with pytest.raises(failure, match=r"kernel 'asserts': .*: an assertion of the kernel failed"):
        call(X).block_until_ready()
    np.testing.assert_array_equal(call(X + 2), X + 2)


@wp.kernel
def numbers(x: FLOATS, out: INTS):
    i = wp.tid()
    out[i] = int(wp.isnan(x[i])) + 2 * int(wp.isinf(x[i])) + 4 * int(wp.isfinite(x[i]))


def test_what_warp_asks_about_numbers_is_there():
    x = jnp.array([1.0, jnp.nan, jnp.inf, -jnp.inf, -0.0])
    result = brainevent.warp_kernel(numbers, jax.ShapeDtypeStruct((5,), jnp.int32), launch_dims=5)(x)
    np.testing.assert_array_equal(result, [4, 1, 2, 2, 4])


# ---- GPUs, for which no GPU is needed -------------------------------------------------------------------------------


@pytest.fixture
def ninety():
    """Compile for one architecture, whatever this machine has."""
    brainevent.config.set_compute_capability("9.0")
    yield
    brainevent.config.set_compute_capability(None)


def exported(call, *operands, platforms=("cuda",)):
    checks = brainevent.export_checks()
    return jax.export.export(jax.jit(call), platforms=platforms, disabled_checks=checks)(*operands)


@pytest.fixture
def launches(monkeypatch):
    """Note the launches on GPUs that are laid out."""
    noted, lay_out = [], WarpTarget._on_gpu
    monkeypatch.setattr(WarpTarget, "_on_gpu", lambda self, code: noted.append(lay_out(self, code)) or noted[-1])
    return noted


@wp.kernel
def scaled_lengths(x: wp.array(dtype=wp.vec3), factor: wp.float32, m: wp.mat33, out: FLOATS):
    i = wp.tid()
    out[i] = factor * wp.length(m * x[i])


def sizes_in_ptx(launch):
    """Return the bytes of each parameter, as the PTX declares them."""
    text = launch.binary.decode()
    entry = text[text.index(f".entry {launch.entry}(") :].partition(")")[0]
    found = re.findall(r"\.param .*\.(\w+) \w+(?:\[(\d+)\])?", entry)
    return [int(size) if size else {"f32": 4}[kind] for kind, size in found]


@pytest.mark.parametrize("adjoint", [False, True])
def test_parameters_are_those_that_the_ptx_declares(ninety, launches, adjoint):
    call = brainevent.warp_kernel(scaled_lengths, VECTOR, launch_dims=600, adjoint=adjoint)
    function = lambda x: call(x, 2.0, tuple(range(9)))
    text = exported(jax.grad(lambda x: function(x).sum()) if adjoint else function, jnp.ones((5, 3))).mlir_module()
    assert set(re.findall(r"custom_call @(\w+)", text)) == {"brainevent_portable_graph"}
    launch = launches[-1]
    assert [len(parameter) for parameter in launch.parameters] == sizes_in_ptx(launch)
    assert launch.entry.endswith("_cuda_kernel_backward" if adjoint else "_cuda_kernel_forward")
    assert (launch.grid, launch.block, launch.binary[-1:]) == ((3, 1, 1), (256, 1, 1), b"\0")
    x, out = [(1, 0, 0)], [(4, 1, 0)]
    if adjoint:  # each array's adjoint stands in two places
        x, out = [*x, (1, 3, 8), (5, 3, 0)], [*out, (4, 4, 8), (8, 4, 0)]
    assert [(slot.parameter, slot.buffer, slot.byte) for slot in launch.slots] == x + out


def test_a_cubin_is_made_where_all_gpus_are_of_one_kind(ninety, launches, monkeypatch):
    monkeypatch.setattr(compiling, "cuda_capabilities", lambda: ("9.0", "9.0"))
    compiling._codes.clear()
    exported(added, X, Y)
    assert launches[0].binary.startswith(b"\x7fELF")
    compiling._codes.clear()


def test_a_program_for_both_platforms_chooses_where_it_runs(ninety, tmp_path):
    program = exported(added, X, Y, platforms=("cpu", "cuda"))
    assert sorted(set(re.findall(r"custom_call @(\w+)", program.mlir_module()))) == [
        "brainevent_portable",
        "brainevent_portable_graph",
    ]
    np.testing.assert_array_equal(program.call(X, Y), X + Y)


def test_a_program_for_the_cpu_compiles_nothing_for_gpus(launches):
    np.testing.assert_array_equal(jax.jit(added)(X, Y), X + Y)
    assert launches == []
    with pytest.raises(
        NotImplementedError, match=r"the kernel 'add' runs on CPUs and NVIDIA GPUs, and is called in .*tpu"
    ):
        exported(added, X, Y, platforms=("tpu",))


@pytest.mark.parametrize(
    ("threads", "block", "strided", "grid"),
    [
        (1, 256, True, (1, 1, 1)),
        (2**40, 256, True, (2**31 - 1, 1, 1)),
        (600, 256, False, (3, 1, 1)),
        (2**25, 256, False, (2**16, 2, 1)),
        (2**42, 256, False, (2**16, 65_535, 5)),
    ],
)
def test_grids_are_those_of_warp(threads, block, strided, grid):
    assert _grid(threads, block, strided) == grid
    assert strided or np.prod(grid, dtype=object) * block >= threads


def test_kernels_without_a_stride_and_with_shared_memory(ninety, launches):
    outs = jax.ShapeDtypeStruct((4,), jnp.float32)
    exported(brainevent.warp_kernel(wk.tile_squares, outs, launch_dims=(4, 64), block_dim=64), jnp.ones(32))
    assert launches[0].block == (64, 1, 1)
    assert launches[0].shared >= 32
