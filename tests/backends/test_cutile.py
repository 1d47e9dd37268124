# SPDX-License-Identifier: Apache-2.0
"""cuTile kernels, compiled here without a GPU: the parameters of their code, launch plans, exports, errors."""

import functools
import importlib
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import brainevent
from brainevent import KernelArgumentError, KernelCompilationError, UnsupportedArchError
from brainevent.ffi import portable
from brainevent.languages import language

ct = pytest.importorskip("cuda.tile")
compiler = importlib.import_module("brainevent.backends.cutile.compiler")
kernels = importlib.import_module("brainevent.backends.cutile.kernel")
plans = importlib.import_module("brainevent.backends.cutile.plan")

X = jnp.arange(1000.0)


@ct.kernel
def scale(x, out, factor, shift, tile: ct.Constant[int]):
    i = ct.bid(0)
    ct.store(out, index=(i,), tile=factor * ct.load(x, index=(i,), shape=(tile,)) + shift)


@ct.kernel
def halve(x, tile: ct.Constant[int]):
    ct.store(x, index=(ct.bid(0),), tile=ct.load(x, index=(ct.bid(0),), shape=(tile,)) / 2)


@ct.kernel
def add(x, y, out, tile: ct.Constant[int]):
    i, j = ct.bid(0), ct.bid(1)
    a = ct.load(x, index=(i, j), shape=(tile, tile))
    ct.store(out, index=(i, j), tile=a + ct.load(y, index=(j,), shape=(tile,)))


@ct.kernel
def broken(x, out):
    ct.store(out, index=(0,), tile=ct.load(x, index=(0,), shape=(3,)))


@pytest.fixture(autouse=True)
def ninety(monkeypatch):
    """Pretend that all GPUs have compute capability 9.0; skip without cuTile's compiler."""
    monkeypatch.setattr(plans, "cuda_capabilities", lambda: ("9.0",))
    why = language("cutile").why_missing() or ""
    if "tileiras" in why or "not installed" in why:
        pytest.skip(why)


def called(kernel, outs, *operands, grid=4, numbers=None, **options):
    """Return the plan of a call, without a run, and which outputs have the memory of inputs."""
    seen = []

    def catch(target, operands, avals, aliases):
        seen.append((target.plan, dict(aliases)))
        return list(outs if isinstance(outs, (list, tuple)) else [outs])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "native_call", catch)
        brainevent.cutile_kernel(kernel, outs, grid=grid, **options)(*operands, **(numbers or {}))
    return seen[0]


def plan_of(*args, **options):
    return called(*args, **options)[0]


NUMBERS = {"factor": 0.5, "shift": 3, "tile": 256}


def test_the_parameters_are_those_of_the_code():
    plan = plan_of(scale, X, X, numbers=NUMBERS)
    [launch] = plan.launches
    assert (launch.grid, launch.block, launch.shared) == ((4, 1, 1), (1, 1, 1), 0)
    assert [(slot.parameter, slot.buffer, slot.alignment) for slot in launch.slots] == [(0, 0, 16), (3, 1, 16)]
    values = [*([8, 4, 4] * 2), 4, 4]
    assert [len(value) for value in launch.parameters] == values
    assert [int.from_bytes(value, "little") for value in launch.parameters[1:3]] == [1000, 1]
    assert np.frombuffer(launch.parameters[6], "float32") == 0.5
    assert np.frombuffer(launch.parameters[7], "int32") == 3
    [code] = compiler.read("here", launch.binary)
    assert (code.capability, code.is_ptx) == ((9, 0), False)
    assert code.entry("here", launch.entry).sizes == tuple(values)


@pytest.mark.parametrize(
    ("shape", "dtype", "alignment"),
    [
        ((64, 32), "float32", 16),
        ((64, 33), "float32", 16),
        ((3, 5), "float32", 4),
        ((3, 5), "float16", 2),
        ((5, 5), "int8", 1),
    ],
)
def test_what_is_assumed_of_addresses_holds_for_elements_of_a_batch(shape, dtype, alignment):
    x, row = jnp.zeros(shape, dtype), jnp.zeros(shape[1], dtype)
    [launch] = plan_of(add, x, x, row, numbers={"tile": 16}).launches
    assert launch.slots[0].alignment == launch.slots[2].alignment == alignment
    [code] = compiler.read("here", launch.binary)
    assert code.entry("here", launch.entry).sizes == (8, 4, 4, 4, 4, 8, 4, 4, 8, 4, 4, 4, 4)
    assert int.from_bytes(launch.parameters[3], "little") == shape[1]  # the stride of the first axis


def test_a_parameter_that_is_input_and_output():
    plan, aliases = called(halve, X, X, inout={"x": 0}, numbers={"tile": 256})
    assert [(slot.parameter, slot.buffer) for slot in plan.launches[0].slots] == [(0, 1)]
    assert aliases == {0: 0}  # it starts as the input
    with pytest.raises(KernelArgumentError, match="inout names 'y'; the parameters are: x, tile"):
        brainevent.cutile_kernel(halve, X, grid=1, inout={"y": 0})
    zeroed = plan_of(scale, X, X, numbers=NUMBERS, zeroed=True)
    assert zeroed.zeroed == ((1, 4000),)
    assert plan_of(scale, X, X, numbers=NUMBERS, zeroed=True, input_output_aliases={0: 0}).zeroed == ()


def test_constants_of_other_types_are_other_code():
    codes = {plan_of(scale, X, X, numbers={**NUMBERS, "tile": tile}).launches[0].binary for tile in (256, 128, 256)}
    assert len(codes) == 2
    assert compiler.constant(1) != compiler.constant(1.0) != compiler.constant(True)
    assert compiler.constant(1) == compiler.constant(1)


def test_nothing_is_launched_for_no_blocks():
    plan = plan_of(scale, X, X, grid=lambda x, out: 0, numbers=NUMBERS)
    assert (plan.launches, plan.zeroed) == ((), ((1, 4000),))


def test_exported_programs_contain_the_machine_code():
    kernel = brainevent.cutile_kernel(scale, X, grid=4)
    call = jax.jit(jax.vmap(lambda x: kernel(x, **NUMBERS)))
    text = export.export(call, platforms=["cuda"], disabled_checks=brainevent.export_checks())(jnp.ones((3, 1000)))
    assert text.mlir_module().count(portable.GRAPH_TARGET) == 1
    assert "cutile_launch" not in text.mlir_module()


@pytest.mark.parametrize(
    ("numbers", "operands", "words"),
    [
        (
            {**NUMBERS, "tiles": 3},
            1,
            "the kernel has no number 'tiles'; did you mean 'tile'?; its parameters are: x, out",
        ),
        ({"factor": 1.0, "shift": 1}, 1, "missing constants: tile; pass them by name"),
        (
            {"factor": 1.0, "tile": 8},
            1,
            "the parameters x, out, shift are arrays, and there are 1 inputs and 1 outputs",
        ),
        (NUMBERS, 2, "the parameters x, out are arrays, and there are 2 inputs and 1 outputs"),
        ({**NUMBERS, "shift": 2**31}, 1, "which int32 cannot represent"),
        ({**NUMBERS, "tile": "8"}, 1, "the constant 'tile' is str; pass a Python number"),
    ],
)
def test_what_does_not_fit(numbers, operands, words):
    with pytest.raises(KernelArgumentError, match=re.escape(words)):
        brainevent.cutile_kernel(scale, X, grid=4)(*[X] * operands, **numbers)


def test_other_errors(monkeypatch):
    with pytest.raises(TypeError, match=re.escape("found function; decorate the function with @cuda.tile.kernel")):
        brainevent.cutile_kernel(lambda x: None, X, grid=1)
    with pytest.raises(
        KernelCompilationError, match=re.escape("cutile_kernel(broken): the kernel does not compile for")
    ):
        brainevent.cutile_kernel(broken, X, grid=1)(X)
    monkeypatch.setattr(plans, "cuda_capabilities", lambda: ("8.0", "9.0"))
    with pytest.raises(UnsupportedArchError, match=r"compute capability 8.0, 9.0, and there is only a cubin for"):
        brainevent.cutile_kernel(scale, X, grid=4)(X, **NUMBERS)


def test_a_layout_that_is_not_known(monkeypatch):
    wider = compiler.index_bytes
    monkeypatch.setattr(compiler, "index_bytes", lambda *given: 2 * wider(*given))
    monkeypatch.setattr(compiler, "array", functools.partial(assumed_with_four_bytes, compiler.array))
    words = r"this cuda-tile passes parameters of \(8, 4, 4\) bytes, and \(8, 8, 8\) are known"
    with pytest.raises(KernelArgumentError, match=words):
        plan_of(halve, X, X, inout={"x": 0}, numbers={"tile": 256})


def assumed_with_four_bytes(array, where, name, x, index, group):
    return array(where, name, x, 4, group)
