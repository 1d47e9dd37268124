# SPDX-License-Identifier: Apache-2.0
"""GPU and TPU kernels on the CPU: chosen, run and switched off again; what cannot be emulated is told."""

import os
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.extend.core import Primitive
from programs import HELPERS, run_program

import brainevent
from brainevent import XLACustomKernel, config
from brainevent.backends.numba_cuda import emulation

V = jnp.arange(1.0, 9.0)
DECAY = jnp.array([0.5])
FOREIGN = ["warp", "pallas_gpu", "pallas_tpu"]


def leak(v, decay):
    return decay[0] * v


def pallas_generator(*, outs):
    def kernel(v, decay, out):
        out[...] = decay[0] * v[...]

    twice = pl.pallas_call(lambda v, out: out.__setitem__(..., 2 * v[...]), out_shape=outs[0])
    half = jax.jit(lambda v: pl.pallas_call(lambda v, out: out.__setitem__(..., v[...] / 2), out_shape=outs[0])(v))
    return lambda v, decay: half(twice(pl.pallas_call(kernel, out_shape=outs[0])(v, decay)))


def warp_generator(*, outs):
    import warp as wp

    @wp.kernel
    def kernel(v: wp.array(dtype=wp.float32), decay: wp.array(dtype=wp.float32), out: wp.array(dtype=wp.float32)):
        i = wp.tid()
        out[i] = decay[0] * v[i]

    return brainevent.warp_kernel(kernel, outs[0], launch_dims=outs[0].shape)


def told(what, factor):
    """Return a generator whose kernel multiplies, and the list of what was built."""
    built = []

    def generator(*, outs):
        built.append(what)
        return lambda v, decay: factor * v

    return generator, built


def with_kernel(operator, kind):
    backend, _, platform = kind.partition("_")
    if backend == "pallas":
        operator.def_pallas_kernel(platform, pallas_generator)
    else:
        pytest.importorskip("warp")
        operator.def_warp_kernel(warp_generator)
    return operator


@pytest.fixture
def emulating():
    config.emulate()
    yield
    config.emulate(False)


@pytest.fixture(autouse=True)
def off_again():
    assert not config.is_emulating()
    yield
    config.emulate(False)


@pytest.fixture
def operator(unique_name):
    return XLACustomKernel(unique_name("emulated"))


# ---- values under transformations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", FOREIGN)
def test_values_are_those_of_the_reference_under_each_transformation(operator, emulating, kind):
    with_kernel(operator, kind).def_reference(leak)
    backend = kind.partition("_")[0]

    def call(v, decay):
        return operator(v, decay, backend=backend)

    np.testing.assert_allclose(call(V, DECAY), leak(V, DECAY))
    np.testing.assert_allclose(jax.jit(call)(V, DECAY), leak(V, DECAY))
    rows = jnp.arange(48.0).reshape(2, 3, 8)
    twice = jax.vmap(jax.vmap(call, (0, None)), (1, None), 1)
    np.testing.assert_allclose(jax.jit(twice)(rows, DECAY), 0.5 * rows)
    slope = jax.grad(lambda v, decay: (call(v, decay) ** 2).sum(), (0, 1))(V, DECAY)
    np.testing.assert_allclose(slope[0], 0.5 * V)
    np.testing.assert_allclose(slope[1], [(V**2).sum()])


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize(
    "promises",
    [
        ["outputs written", "nested vmap", "vjp", "sharded jit"],
        pytest.param(None, marks=pytest.mark.thorough, id="all"),
    ],
)
def test_check_finds_every_promise_kept(operator, emulating, kind, promises):
    with_kernel(operator, kind).def_reference(leak)
    operator.def_sharding_rule("n, k -> n", need_replication_factors=("k",))
    report = brainevent.check(operator, V, DECAY, promises=promises)
    assert report.ok, report
    assert {row.backend for row in report.rows} == {kind.partition("_")[0]}


def test_emulated_kernels_run_side_by_side_and_in_loops(operator, emulating):
    with_kernel(operator, "pallas_tpu").def_reference(leak)

    @jax.jit
    def run(v):
        several = [operator(i * v, DECAY) for i in range(6)]
        return sum(several), jax.lax.fori_loop(0, 3, lambda _, v: operator(v, DECAY), v)

    side_by_side, in_turn = run(V)
    np.testing.assert_allclose(side_by_side, 7.5 * V)
    np.testing.assert_allclose(in_turn, V / 8)


def scratch(v):
    """Add up the blocks of v, in memory of the TPU's."""

    def kernel(v, out, total):
        @pl.when(pl.program_id(0) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += v[...]
        out[...] = total[...]

    return pl.pallas_call(
        kernel,
        grid=(4,),
        in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((8, 128), v.dtype),
        scratch_shapes=[pltpu.VMEM((8, 128), v.dtype)],
    )(v)


def copied(v):
    """Copy v to the TPU's memory, and add it up there."""

    def kernel(v, out, near, done):
        copy = pltpu.make_async_copy(v, near, done)
        copy.start()
        copy.wait()
        out[...] = near[...].reshape(4, 8, 128).sum(0)

    return pl.pallas_call(
        kernel,
        in_specs=[pl.BlockSpec(memory_space=pl.ANY)],
        out_shape=jax.ShapeDtypeStruct((8, 128), v.dtype),
        scratch_shapes=[pltpu.VMEM(v.shape, v.dtype), pltpu.SemaphoreType.DMA],
    )(v)


@pytest.mark.parametrize("kernel", [scratch, copied])
def test_a_tpus_memory_is_emulated(operator, emulating, kernel):
    operator.def_pallas_kernel("tpu", lambda *, outs: kernel)
    blocks = jnp.arange(4.0 * 8 * 128).reshape(32, 128)
    out = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    batch = jnp.stack([blocks, -blocks])
    found = jax.jit(jax.vmap(lambda v: operator(v, outs=out)))(batch)
    np.testing.assert_allclose(found, batch.reshape(2, 4, 8, 128).sum(1), rtol=1e-6)


def test_the_interpreter_with_a_tpus_memory_runs_within_an_operator(operator):
    """It orders what it does by tokens of JAX's, which an operator must give it."""

    def generator(*, outs):
        def run(v, decay):
            with pltpu.force_tpu_interpret_mode(pltpu.InterpretParams()):
                return pallas_generator(outs=outs)(v, decay)

        return run

    operator.def_kernel("pallas", "cpu", generator)
    np.testing.assert_allclose(jax.jit(lambda v: operator(v, DECAY, outs=v))(V), 0.5 * V)


# ---- which kernel runs ----------------------------------------------------------------------------------------------


def test_the_advice_to_switch_works_when_it_is_followed(operator, emulating, unique_name):
    def broken(*, outs):
        raise OSError("no such table")

    operator.def_kernel("numba", "cpu", broken)
    operator.def_pallas_kernel("gpu", broken)
    operator.def_pallas_kernel("tpu", pallas_generator)
    advice = rf"to switch: backend='pallas' in the call, {operator.name}.set_default\('cpu', 'pallas'\), or brainevent"
    with pytest.raises(brainevent.KernelError, match=advice):
        operator(V, DECAY, outs=V)
    operator.set_default("cpu", "pallas_tpu")
    np.testing.assert_allclose(operator(V, DECAY, outs=V), leak(V, DECAY))
    lone = XLACustomKernel(unique_name("lone"))
    lone.def_pallas_kernel("gpu", broken)
    lone.def_reference(leak)
    with pytest.raises(brainevent.KernelError, match=rf"{lone.name}.set_default\('cpu', 'reference'\), or brainevent"):
        lone(V, DECAY)
    lone.set_default("cpu", "reference")
    np.testing.assert_allclose(lone(V, DECAY), leak(V, DECAY))


def test_switching_retraces_and_going_back_finds_what_was_compiled(operator):
    generator, built = told("pallas", 2)
    operator.def_pallas_kernel("gpu", generator)
    operator.def_reference(leak)
    traces = []

    @jax.jit
    def call(v):
        traces.append(config.is_emulating())
        return operator(v, DECAY)

    for on in (False, True, False, True):
        config.emulate(on)
        assert call(V)[0] == (2 if on else 0.5)
    assert traces == [False, True]
    assert built == ["pallas"]


def test_jitted_functions_follow_the_emulation_setting():
    call = jax.jit(lambda: jnp.array(config.is_emulating()))
    found = []
    for on in (False, True, False):
        config.emulate(on)
        found.append(bool(call()))
    assert found == [False, True, False]


def test_own_kernels_come_before_emulated_ones_and_these_before_the_reference(operator, emulating):
    pytest.importorskip("warp")
    for backend, platform, factor in [("warp", "gpu", 3), ("pallas", "gpu", 4), ("pallas", "tpu", 5)]:
        operator.def_kernel(backend, platform, told(backend, factor)[0], asdefault=backend == "pallas")
    operator.def_reference(leak)

    def factor(**choice):
        return float(operator(V, DECAY, **choice)[0])

    assert operator.available_backends("cpu") == ["pallas", "warp", "pallas_tpu"]
    assert factor() == 4  # the GPU's default
    assert [factor(backend=name) for name in ("pallas", "warp", "pallas_tpu", "reference")] == [4, 3, 5, 0.5]
    with brainevent.use_backend("cpu", "warp"):
        assert factor() == 3
    operator.set_default("cpu", "warp")
    assert factor() == 3
    operator.def_kernel("numba", "cpu", told("numba", 6)[0], asdefault=True)
    assert factor() == 6
    assert factor(backend="warp") == 3
    assert operator.available_backends("gpu") == ["warp", "pallas"]
    config.emulate(False)
    assert operator.available_backends("cpu") == ["numba"]


def test_a_kernel_of_the_cpu_keeps_its_name(operator, emulating):
    operator.def_warp_kernel(told("gpu", 3)[0])
    operator.def_kernel("warp", "cpu", told("cpu", 2)[0])
    assert operator.available_backends("cpu") == ["warp"]
    assert operator(V, DECAY, outs=V)[0] == 2


def test_kernels_for_cuda_alone_replace_those_for_any_gpu(operator, emulating):
    operator.def_pallas_kernel("gpu", told("gpu", 3)[0])
    operator.def_kernel("pallas", "cuda", told("cuda", 2)[0])
    assert operator(V, DECAY, outs=V)[0] == 2


# ---- what is told ---------------------------------------------------------------------------------------------------


def test_off_by_default_and_the_advice(operator):
    operator.def_warp_kernel(told("warp", 2)[0])
    words = "has no kernel for the platform 'cpu'; platforms that have kernels: gpu"
    advice = r"call brainevent.config.emulate\(\) to run its gpu kernel 'warp' on the CPU"
    with pytest.raises(brainevent.KernelFallbackExhaustedError, match=f"{words}.*{advice}"):
        operator(V, DECAY, outs=V)
    operator.def_reference(leak)
    with pytest.raises(brainevent.KernelFallbackExhaustedError, match=f"no backend 'warp' for.*{advice}"):
        operator(V, DECAY, backend="warp")
    with pytest.raises(brainevent.KernelFallbackExhaustedError, match="no backend 'wrap' for") as caught:
        operator(V, DECAY, backend="wrap")
    assert "config.emulate" not in str(caught.value)
    with pytest.raises(brainevent.KernelFallbackExhaustedError) as caught:
        jax.export.export(jax.jit(lambda v: operator(v, DECAY, backend="warp")), platforms=["tpu"])(V)
    assert "config.emulate" not in str(caught.value)


@pytest.mark.parametrize(("backend", "title"), [("cuda_raw", r"CUDA C\+\+"), ("triton", "Triton")])
def test_what_cannot_be_emulated_is_reported(operator, emulating, backend, title):
    operator.def_kernel(backend, "gpu", told(backend, 2)[0])
    words = rf"its gpu kernel '{backend}' \({title}\) cannot be emulated on the CPU"
    with pytest.raises(brainevent.KernelFallbackExhaustedError, match=words):
        operator(V, DECAY, outs=V)
    with pytest.raises(brainevent.KernelFallbackExhaustedError, match=words):
        operator(V, DECAY, outs=V, backend=backend)


def test_what_an_interpreter_does_not_know_is_reported(operator, emulating):
    primitive = Primitive("only_on_a_gpu")
    primitive.def_abstract_eval(lambda x: x)

    def kernel(v, out):
        out[...] = primitive.bind(v[...])

    operator.def_pallas_kernel("gpu", lambda *, outs: pl.pallas_call(kernel, out_shape=outs[0]))
    words = "interpreter cannot run the gpu kernel 'pallas' on the CPU:\n.*only_on_a_gpu.*\nIt does not support all"
    with pytest.raises(brainevent.KernelCompilationError, match=words):
        operator(V, outs=V)


def test_a_generator_that_returns_no_kernel_is_reported_while_emulating(operator, emulating):
    operator.def_pallas_kernel("gpu", lambda *, outs: 3)
    with pytest.raises(brainevent.KernelCompilationError, match="the kernel generator returned int"):
        operator(V, outs=V)


def test_numba_cuda_imported_before_is_reported(operator, emulating, monkeypatch):
    real = types.ModuleType("numba.cuda")
    real.jit = types.SimpleNamespace(__module__="numba.cuda.decorators")
    monkeypatch.setitem(sys.modules, "numba.cuda", real)
    operator.def_numba_cuda_kernel(told("numba_cuda", 2)[0])
    words = (
        "Numba-CUDA cannot be emulated by Numba's simulator: numba.cuda was imported before emulation was switched on; "
        r"start Python with BRAINEVENT_EMULATE=1, or call brainevent.config.emulate\(\) before"
    )
    with pytest.raises(brainevent.KernelNotAvailableError, match=words):
        operator(V, DECAY, outs=V)
    real.jit.__module__ = "numba.cuda.simulator.api"
    assert emulation.is_simulated() is True
    assert operator(V, DECAY, outs=V)[0] == 2


def test_a_wrong_switch_is_reported():
    with pytest.raises(TypeError, match=r"config\.emulate: on must be True or False, found 'yes'"):
        config.emulate("yes")
    assert not config.is_emulating()


# ---- the environment ------------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize(("value", "on"), [("1", True), ("on", True), ("True", True), ("0", False), ("", False)])
def test_the_environment_switches_it(value, on):
    source = """
        import os, sys, brainevent
        print(brainevent.config.is_emulating(), os.environ.get("NUMBA_ENABLE_CUDASIM"), "numba" in sys.modules)
    """
    found = run_program(source, BRAINEVENT_EMULATE=value)
    assert found.split() == [str(on), "1" if on else "None", "False"]


@pytest.mark.thorough
def test_an_odd_value_in_the_environment_is_reported():
    source = """
        try:
            import brainevent
        except ValueError as error:
            print(error)
    """
    said = run_program(source, BRAINEVENT_EMULATE="maybe")
    assert said == "BRAINEVENT_EMULATE is 'maybe' in the environment; set it to 1 or 0\n"


@pytest.mark.thorough
def test_numbas_variable_is_set_and_taken_back():
    source = """
        import os, brainevent
        import numba
        config, found = brainevent.config, []
        for on in (True, True, False, False, True):
            config.emulate(on)
            found.append((os.environ.get("NUMBA_ENABLE_CUDASIM"), numba.config.ENABLE_CUDASIM))
        print(found)
        from numba import cuda
        config.emulate(False)
        print(os.environ.get("NUMBA_ENABLE_CUDASIM"), brainevent.backends.numba_cuda.emulation.is_simulated())
    """
    environment = {name: value for name, value in os.environ.items() if name == "NUMBA_ENABLE_CUDASIM"}
    assert not environment
    found, after = run_program(source).splitlines()
    assert found == str([("1", 1), ("1", 1), (None, 0), (None, 0), ("1", 1)])
    assert after == "1 True"


@pytest.mark.thorough
def test_processes_that_are_started_do_the_same():
    source = """
        import os, subprocess, sys, brainevent
        asks = "import os, brainevent; print(brainevent.config.is_emulating(), os.environ.get('NUMBA_ENABLE_CUDASIM'))"
        for on in (True, False, True):
            brainevent.config.emulate(on)
            print(subprocess.check_output([sys.executable, "-c", asks], text=True), end="")
        print(os.environ["BRAINEVENT_EMULATE"])
    """
    assert run_program(source).splitlines() == ["True 1", "False None", "True 1", "1"]


@pytest.mark.thorough
def test_the_simulator_setting_of_the_user_is_restored():
    source = """
        import os, brainevent
        brainevent.config.emulate()
        brainevent.config.emulate(False)
        print(os.environ["NUMBA_ENABLE_CUDASIM"])
    """
    assert run_program(source, NUMBA_ENABLE_CUDASIM="0") == "0\n"


# ---- Numba-CUDA, in a process whose numba.cuda is the simulator -----------------------------------------------------


@pytest.mark.parametrize("which", ["threads", pytest.param("", id="all", marks=pytest.mark.thorough)])
@pytest.mark.thorough
def test_numba_cuda_runs_in_its_simulator(which):
    source = """
        import sys, pytest
        sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", sys.argv[2], sys.argv[1]]))
    """
    said = run_program(source, HELPERS / "simulated.py", which, BRAINEVENT_EMULATE="1")
    assert " passed" in said
    assert "skipped" not in said


@pytest.mark.thorough
def test_a_real_numba_cuda_is_reported_through_an_operator():
    pytest.importorskip("numba_cuda", reason="needs numba-cuda")
    source = """
        from numba import cuda
        import jax.numpy as jnp, brainevent
        brainevent.config.emulate()

        @cuda.jit
        def copy(x, out):
            out[0] = x[0]

        op = brainevent.XLACustomKernel("copy")
        op.def_numba_cuda_kernel(lambda *, outs: brainevent.numba_cuda_kernel(copy, outs=outs[0], launch_dims=1))
        x = jnp.ones(1)
        try:
            op(x, outs=x)
        except brainevent.KernelNotAvailableError as error:
            print(error)
        try:
            brainevent.numba_cuda_kernel(copy, outs=x, launch_dims=1)(x)
        except brainevent.GpuArchDetectionError as error:
            print(str(error).splitlines()[-1])
        op.def_reference(lambda x: x)
        print(op(x, backend="reference"), brainevent.check(op, x).rows[0].status)
    """
    said = run_program(source, CUDA_VISIBLE_DEVICES="", PATH="")
    assert "numba.cuda was imported before emulation was switched on; start Python with BRAINEVENT_EMULATE=1" in said
    assert "To run the kernel on the CPU, in Numba's simulator: start Python with BRAINEVENT_EMULATE=1, or call" in said
    assert said.splitlines()[-1] == "[1.] skipped"
