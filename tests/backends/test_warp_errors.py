# SPDX-License-Identifier: Apache-2.0
"""What `warp_kernel` refuses, and what it says."""

import platform

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numba import njit

import brainevent
from brainevent.errors import KernelArgumentError, KernelCompilationError, UnsupportedOperationError

wp = pytest.importorskip("warp")
import warp_kernels as wk  # noqa: E402
from warp_kernels import FLOATS, like  # noqa: E402

from brainevent.ffi.launch.host import Host, host, pack_object  # noqa: E402

X, Y = jnp.arange(5.0), jnp.ones(5)
VECTOR = like(X)


@pytest.fixture
def ninety():
    """Compile for one architecture, whatever this machine has."""
    brainevent.config.set_compute_capability("9.0")
    yield
    brainevent.config.set_compute_capability(None)


def exported(call, *operands):
    checks = brainevent.export_checks()
    return jax.export.export(jax.jit(call), platforms=["cuda"], disabled_checks=checks)(*operands)


def test_old_releases_are_reported(monkeypatch):
    monkeypatch.setattr(wp, "__version__", "1.9.1")
    words = r"warp_kernel\(add\): it needs Warp 1.17 or newer, and 1.9.1 is installed; run: pip install -U warp-lang"
    with pytest.raises(ImportError, match=words):
        brainevent.warp_kernel(wk.add, VECTOR, launch_dims=5)


@wp.func
def helper(x: float):
    return x


@wp.kernel
def takes_handle(mesh: wp.uint64, out: FLOATS):
    i = wp.tid()
    out[i] = float(wp.mesh_get_index(mesh, i))


@wp.struct
class Holder:
    values: FLOATS


@wp.kernel
def takes_holder(holder: Holder, out: FLOATS):
    i = wp.tid()
    out[i] = holder.values[i]


@wp.kernel
def takes_lines(lines: wp.array(dtype=wk.Line), out: FLOATS):
    i = wp.tid()
    out[i] = lines[i].slope


@wp.kernel
def takes_indexed(x: wp.indexedarray(dtype=wp.float32), out: FLOATS):
    i = wp.tid()
    out[i] = x[i]


@wp.kernel
def wrong(x: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = x[i] + 1


@wp.kernel(cluster_dim=2)
def clustered(x: FLOATS, out: FLOATS):
    i = wp.tid()
    out[i] = x[i]


def plain(x, out):
    out[0] = x[0]


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (plain, "found function; decorate it with @warp.kernel"),
        (
            njit(plain),
            "found CPUDispatcher; it is compiled by Numba: decorate the function with @warp.kernel, or use",
        ),
        (helper, "found Function; it is decorated with @warp.func; call it from a function"),
        (3, "found int; pass a function decorated with @warp.kernel"),
    ],
    ids=["function", "numba", "func", "number"],
)
def test_what_is_no_kernel_is_reported(kernel, words):
    with pytest.raises(TypeError, match=rf"warp_kernel\(.*\): kernel must be a Warp kernel, {words}"):
        brainevent.warp_kernel(kernel, VECTOR, launch_dims=5)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"launch_dims": -1}, "launch_dims is -1; extents are from 0 to 2147483647"),
        ({"launch_dims": (1, 2, 3, 4, 5)}, "pass a whole number, or one to four of them"),
        ({"launch_dims": 2.5}, "launch_dims is 2.5; pass a whole number"),
        ({"launch_dims": ()}, "pass a whole number"),
        ({"launch_dims": "64"}, "launch_dims is '64'"),
        ({"launch_dims": 2**31}, "extents are from 0 to 2147483647"),
        ({"block_dim": 0}, "block_dim is 0; pass a whole number from 1 to 1024"),
        ({"block_dim": 2048}, "block_dim is 2048"),
        ({"vmap_method": "all"}, "unknown vmap_method 'all'"),
        (
            {"zeroed": "outs"},
            "zeroed: the kernel has no output 'outs'; did you mean 'out'[?]; the outputs are the last",
        ),
        ({"in_out_argnames": ["x"]}, "in_out_argnames: the kernel has no output 'x'.*one for each leaf of outs: out"),
        ({"in_out_argnames": ["out", "out"]}, "in_out_argnames names an output twice .out, out.; name it once"),
        ({"in_out_argnames": "out", "zeroed": "out"}, "'out' is named in zeroed and in in_out_argnames"),
        ({"outs": [VECTOR] * 4}, r"outs has 4 leaves, and the kernel has 3 array parameters \(x, y, out\)"),
        ({"outs": []}, "outs has 0 leaves"),
        ({"adjoint": True, "input_output_aliases": {0: 0}}, "use in_out_argnames instead"),
    ],
    ids=str,
)
def test_wrong_options_are_reported(changes, words):
    with pytest.raises(ValueError, match=rf"warp_kernel\(add\): .*{words}"):
        brainevent.warp_kernel(wk.add, **{"outs": VECTOR, "launch_dims": 5, **changes})


@pytest.mark.parametrize(
    ("kernel", "operands", "words"),
    [
        (
            wk.add,
            (X,),
            r"1 arguments are passed, and it takes 2: \(x, y\); pass no outputs, except those in in_out_argnames",
        ),
        (wk.add, (X, Y.astype(jnp.int32)), r"'y' is declared as an array of float32 with ndim=1, and int32\[5\] is"),
        (wk.add, (X, Y[None]), r"'y' is declared .*, and float32\[1, 5\] is passed; change one of them"),
        (wk.add, (X, jnp.float32(1)), r"'y' .*Warp has no 0-D arrays; give the array one axis, x.reshape\(1\), or"),
        (wk.add, (X, 2.0), r"'y' is declared as an array .*, and 2.0 is passed; pass an array"),
        (wk.affine, (X, X, 1.0), "'scale' is declared as float32, and an array is passed; numbers are part of the"),
        (wk.affine, (1.0, X, "one"), "'shift' is 'one', of str; pass a number"),
        (wk.lengths, (jnp.ones((5, 2)), range(9)), r"an array of vec3f with ndim=1 \(in JAX 2 axes, the last \[3\]\)"),
        (wk.lengths, (jnp.ones((5, 3)), range(8)), "'m' is declared as mat33f, and range"),
        (wk.on_line, (3.0, X), "'line' is declared as Line, and 3.0 is passed: an instance of Line is needed"),
        (wk.copy, (jnp.ones(5, jnp.complex64),), r"'x': complex64\[5\] is passed, and Warp has no such dtype"),
    ],
    ids=range(11),
)
def test_wrong_operands_are_reported(kernel, operands, words):
    with pytest.raises(KernelArgumentError, match=words):
        brainevent.warp_kernel(kernel, VECTOR, launch_dims=5)(*operands)


@wp.kernel
def overwriting(x: wk.FLOATS, out: wk.FLOATS):
    i = wp.tid()
    out[i] = x[i]
    x[i] = 0.0


@wp.kernel
def accumulating(x: wk.FLOATS, out: wk.FLOATS):
    i = wp.tid()
    out[i] = 1.0
    wp.atomic_add(x, 0, 1.0)


@pytest.mark.parametrize("kernel", [overwriting, accumulating])
def test_a_kernel_must_not_write_to_an_input(kernel):
    x = jnp.arange(5.0)
    with pytest.raises(KernelArgumentError, match=r"writes to its input 'x', .* name it in in_out_argnames"):
        brainevent.warp_kernel(kernel, VECTOR, launch_dims=5)(x)
    np.testing.assert_array_equal(x, np.arange(5.0))
    call = brainevent.warp_kernel(kernel, [VECTOR, VECTOR], launch_dims=5, in_out_argnames="x")
    np.testing.assert_array_equal(x, np.arange(5.0))
    np.testing.assert_array_equal(call(x)[1], x if kernel is overwriting else np.ones(5))


def test_an_output_that_no_thread_writes_is_found(unique_name):
    operator = brainevent.XLACustomKernel(unique_name("short"))
    operator.def_kernel("warp", "cpu", lambda *, outs: brainevent.warp_kernel(wk.copy, outs[0], launch_dims=4))
    operator.def_reference(lambda x: x)
    report = brainevent.check(operator, jnp.zeros(5), promises=["outputs written"])
    [row] = [row for row in report.rows if row.promise == "outputs written"]
    assert row.status == "failed"
    assert "element [4] keeps what its memory held before the call" in row.detail


@wp.kernel
def of_two_axes(x: wk.FLOATS, out: wk.FLOATS):
    i, j = wp.tid()
    out[2 * i + j] = x[2 * i + j]


def test_threads_are_counted_along_the_axes_that_the_kernel_asks_for():
    with pytest.raises(KernelArgumentError, match=r"wp.tid\(\) returns 2 numbers, but launch_dims is \(4,\)"):
        brainevent.warp_kernel(of_two_axes, jax.ShapeDtypeStruct((4,), jnp.float32), launch_dims=4)(jnp.arange(4.0))


def test_outputs_and_numbers_are_held_to_what_is_declared():
    ints = jax.ShapeDtypeStruct((5,), jnp.int32)
    with pytest.raises(
        KernelArgumentError, match=r"'out' is declared as an array of float32 with ndim=1, and int32\[5"
    ):
        brainevent.warp_kernel(wk.add, ints, launch_dims=5)(X, Y)
    call = brainevent.warp_kernel(wk.scatter, VECTOR, launch_dims=5, in_out_argnames="out")
    with pytest.raises(
        KernelArgumentError, match=r"'out' is in in_out_argnames, and \[4\] is passed where outs says \[5"
    ):
        call(X, jnp.zeros(5, jnp.int32), X[:4])
    with pytest.raises(ValueError, match="input_output_aliases names an output of in_out_argnames; leave it out"):
        brainevent.warp_kernel(wk.scatter, VECTOR, launch_dims=5, in_out_argnames="out", input_output_aliases={2: 0})(
            X, jnp.zeros(5, jnp.int32), X
        )


@pytest.mark.parametrize(
    ("kernel", "words"),
    [
        (takes_holder, "the parameter 'holder' is the struct Holder, whose field 'values' is an array; make that a"),
        (takes_lines, "the parameter 'lines' is an array of the struct Line; JAX has arrays of numbers"),
        (takes_indexed, "the parameter 'x' is of the type indexedarray; of Warp's arrays, only warp.array"),
    ],
    ids=["holder", "lines", "indexed"],
)
def test_parameters_that_xla_cannot_give_are_reported(kernel, words):
    with pytest.raises(UnsupportedOperationError, match=words):
        brainevent.warp_kernel(kernel, VECTOR, launch_dims=5)


def test_kernels_that_cannot_be_carried_are_reported(ninety):
    with pytest.raises(
        UnsupportedOperationError,
        match="uses a Warp mesh, whose handle is an address that is valid only in this process",
    ):
        brainevent.warp_kernel(takes_handle, VECTOR, launch_dims=5)(7)
    with pytest.raises(UnsupportedOperationError, match="cluster_dim=2, and XLA cannot launch clusters of blocks"):
        exported(brainevent.warp_kernel(clustered, VECTOR, launch_dims=5), X)
    call = brainevent.warp_kernel(wk.tile_squares, jax.ShapeDtypeStruct((4,), jnp.float32), launch_dims=4, block_dim=64)
    with pytest.raises(KernelArgumentError, match=r"the last of launch_dims must be block_dim, 64; launch_dims is"):
        call(jnp.ones(32))
    call = brainevent.warp_kernel(twice_indexed, jax.ShapeDtypeStruct((2, 2**30), jnp.float32), launch_dims=5)
    with pytest.raises(KernelArgumentError, match="counts bytes along an axis in 32 bits; split the array"):
        jax.eval_shape(call, X)


@wp.kernel
def twice_indexed(x: FLOATS, out: wp.array2d(dtype=wp.float32)):
    i = wp.tid()
    out[0, i] = x[i]


def test_what_does_not_compile_is_reported_in_warps_words(unique_name):
    with pytest.raises(
        KernelCompilationError, match=r"warp_kernel\(wrong\): Warp cannot compile the kernel:\n  .*\n.*x.i. . 1\n"
    ):
        brainevent.warp_kernel(wrong, VECTOR, launch_dims=5)(X)
    operator = brainevent.XLACustomKernel(name := unique_name("warp"))
    operator.def_kernel("warp", "cpu", lambda *, outs: brainevent.warp_kernel(wrong, outs[0], launch_dims=5))
    with pytest.raises(KernelCompilationError, match=r"warp_kernel\(wrong\): Warp cannot compile"):
        operator(X, outs=VECTOR)
    assert name


def test_code_for_another_cpu_is_refused():
    code = pack_object(b"", {"f": 2}, native=True, alone=False)
    other = code.replace(platform.machine().encode(), b"riscv64")
    more = code.replace(b'"features": [', b'"features": ["x9", ')
    for what, changed in (("riscv64", other), ("lacks x9", more)):
        with pytest.raises(
            brainevent.KernelLoadError, match=f"the kernel 'f' was compiled for a CPU .*{what}.*compile"
        ):
            host().kernel(changed, "f", 0)


def test_code_that_calls_what_is_not_there_is_refused():
    import llvmlite.binding as llvm

    Host()  # makes LLVM ready
    text = "declare void @nowhere()\ndefine void @f(ptr %a, ptr %b) {\n  call void @nowhere()\n  ret void\n}"
    machine = llvm.Target.from_default_triple().create_target_machine(codemodel="large", reloc="pic")
    code = machine.emit_object(llvm.parse_assembly(text))
    words = r"loading the kernel 'f': Failed to materialize.*; it calls a function that is neither in"
    for _ in range(2):  # what failed once fails in the same words again
        with pytest.raises(brainevent.KernelLoadError, match=words):
            host().kernel(pack_object(code, {"f": 2}, native=False, alone=False), "f", 0)
