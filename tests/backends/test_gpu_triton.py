# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: Triton kernels through jax-triton, tuned ones too, and Pallas kernels of both of its compilers."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from programs import run_program
from zoo import like

import brainevent
from brainevent import XLACustomKernel

pytestmark = pytest.mark.gpu
pytest.importorskip("triton")
pytest.importorskip("jax_triton", exc_type=ImportError)
import triton_kernels  # noqa: E402 - it needs both packages

KERNELS = triton_kernels.KERNELS
EVERY = pytest.mark.parametrize("name", KERNELS)
N = 1024
VECTOR = jnp.linspace(-1, 1, N)


def on_gpu(*arrays):
    return [jax.device_put(jnp.asarray(x), jax.devices("gpu")[0]) for x in arrays]


def close(found, expected):
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), rtol=2e-4, atol=2e-5)


def varied(x, size):
    return jnp.stack([x * (1 + k) for k in range(size)])


@EVERY
def test_values_under_every_transformation(unique_name, name):
    kernel = KERNELS[name]
    call, operands = kernel.operator(unique_name(name)), on_gpu(*kernel.operands)
    loss = lambda f: lambda *xs: sum((r**2).sum() for r in jax.tree.leaves(f(*xs)))
    moving = tuple(range(len(operands)))
    batch = [varied(x, 3) for x in operands]
    nest = [varied(x, 2) for x in batch]
    for transformed in (
        lambda f: f(*operands),
        lambda f: jax.vmap(f)(*batch),
        lambda f: jax.vmap(jax.vmap(f))(*nest),
        lambda f: jax.vmap(f, (*[None] * (len(operands) - 1), 0))(*operands[:-1], batch[-1]),
        lambda f: jax.value_and_grad(loss(f), moving)(*operands),
        lambda f: jax.vmap(jax.grad(loss(f), moving))(*batch),
        lambda f: jax.grad(loss(jax.vmap(f)), moving)(*batch),
    ):
        expected = transformed(kernel.twin)
        jax.tree.map(close, transformed(call), expected)
        jax.tree.map(close, jax.jit(lambda t=transformed: t(call))(), expected)


@EVERY
def test_every_promise_is_kept(unique_name, name):
    kernel = KERNELS[name]
    report = brainevent.check(kernel.operator(unique_name(name)), *on_gpu(*kernel.operands), tolerance=1e-4)
    to_the_bit = ("repeated calls", "calls at once", "outputs written")  # atomic additions come in any order
    bad = [row for row in report.failures if name != "active" or row.promise not in to_the_bit]
    assert not bad, str(report)
    assert {row.promise: row.status for row in report.rows}["values"] == "ok"


@pytest.mark.parametrize(
    "dtype",
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "bfloat16", "float32", "float64"],
)
def test_every_dtype(dtype):
    with jax.enable_x64(True):
        x = (jnp.arange(300) % 50).astype(dtype)
        call = triton_kernels.adding([jax.typeof(x)], None)
        np.testing.assert_array_equal(jax.jit(call)(x, x), x + x)


def test_in_loops_and_graphs(unique_name):
    call = KERNELS["adding"].operator(unique_name("looped"))
    (x,) = on_gpu(VECTOR)
    one = jnp.ones(N)
    close(jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, v: call(v, one), x))(x), x + 100)

    @jax.jit
    def chain(x):
        for _ in range(50):
            x = call(x, one)
        return x

    for shift in range(5):
        close(chain(x + shift), x + shift + 50)


def test_a_tuned_kernel_is_right_and_tells_which_configuration_won(unique_name):
    blocks = [config.kwargs["block"] for config in triton_kernels.CONFIGS]
    (x,) = on_gpu(jnp.arange(100_000.0))
    call = jax.jit(triton_kernels.halved)
    half, chosen = call(x)
    np.testing.assert_array_equal(half, x / 2)
    assert int(chosen) in blocks
    for _ in range(5):  # the choice stands
        again, same = call(x)
        np.testing.assert_array_equal(again, x / 2)
        assert int(same) == int(chosen)
    operator = XLACustomKernel(unique_name("tuned"))
    operator.def_triton_kernel(lambda *, outs: lambda x: triton_kernels.halved(x)[0])
    operator.def_reference(lambda x: x / 2)
    np.testing.assert_array_equal(jax.vmap(operator)(jnp.stack([x, -x])), jnp.stack([x, -x]) / 2)
    close(jax.grad(lambda x: operator(x).sum())(x), np.full(100_000, 0.5))


def mesh():
    devices = jax.devices("gpu")
    return jax.make_mesh((len(devices),), ("d",), devices=devices, axis_types=(jax.sharding.AxisType.Auto,))


def test_on_every_device(unique_name):
    call = KERNELS["adding"].operator(unique_name("everywhere"))
    m = mesh()
    x = jax.device_put(jnp.arange(8.0 * N), NamedSharding(m, P("d")))
    jitted = jax.jit(call)
    close(jitted(x, x), 2 * x)
    assert "all-gather" not in jitted.lower(x, x).compile().as_text()
    close(jax.jit(jax.shard_map(call, mesh=m, in_specs=P("d"), out_specs=P("d")))(x, x), 2 * x)
    for device in jax.devices("gpu"):
        here = jax.device_put(VECTOR, device)
        result = jitted(here, here)
        assert result.devices() == {device}
        close(result, 2 * VECTOR)


def test_an_exported_program_needs_neither_package(tmp_path, unique_name):
    kernel = KERNELS["leaking"]
    call = jax.jit(jax.vmap(kernel.operator(unique_name("exported"))))
    operands = on_gpu(*(np.stack([x] * 2) for x in kernel.operands))
    with pytest.raises(ValueError, match="no compatibility guarantees"):
        jax.export.export(call)(*operands)
    program = jax.export.export(call, disabled_checks=brainevent.export_checks())(*operands)
    (tmp_path / "program").write_bytes(program.serialize())
    source = """
        import sys, jax, jax.numpy as jnp
        program = jax.export.deserialize(open(sys.argv[1], "rb").read())
        print(program.call(jnp.ones((2, 300)), jnp.array([[0.5], [2.0]])).sum(1), "triton" in sys.modules)
    """
    printed = run_program(source, tmp_path / "program", JAX_PLATFORMS="cuda,cpu")
    assert printed.split() == ["[150.", "600.]", "False"]


# ---- Pallas ---------------------------------------------------------------------------------------------------------


def whole_blocks(size):
    if size % 128:
        raise ValueError(f"{size} elements are not whole blocks of 128")
    return 128


def pallas_in_blocks(outs):
    from jax.experimental.pallas import triton as pltriton

    def kernel(x, y, out):
        out[...] = x[...] * y[...] + y[...]

    block = whole_blocks(outs[0].shape[0])
    spec = pl.BlockSpec((block,), lambda i: (i,))
    return pl.pallas_call(
        kernel,
        grid=(outs[0].shape[0] // block,),
        in_specs=[spec, spec],
        out_specs=spec,
        out_shape=like(outs[0])[0],
        compiler_params=pltriton.CompilerParams(num_warps=2),
    )


def mosaic_in_blocks(outs):
    from jax.experimental.pallas import mosaic_gpu as plgpu

    block = whole_blocks(outs[0].shape[0])

    def kernel(x, y, out):
        here = pl.ds(jax.lax.axis_index("block") * block, block)
        out[here] = x[here] * y[here] + y[here]

    return plgpu.kernel(kernel, out_type=like(outs[0])[0], grid=(outs[0].shape[0] // block,), grid_names=("block",))


@pytest.mark.parametrize(
    ("generator", "target"), [(pallas_in_blocks, "__gpu$xla.gpu.triton"), (mosaic_in_blocks, "mosaic_gpu_v2")]
)
def test_pallas(unique_name, generator, target):
    operator = XLACustomKernel(unique_name("pallas"))
    operator.def_pallas_kernel("gpu", lambda *, outs: generator(outs))
    twin = operator.def_reference(lambda x, y: x * y + y)
    x, y = on_gpu(VECTOR, 2 + VECTOR)
    rows = varied(x, 3)
    nest = jnp.stack([rows, -rows])
    close(operator(x, y), twin(x, y))
    close(jax.jit(jax.vmap(operator, (0, None)))(rows, y), twin(rows, y))
    twice = jax.jit(jax.vmap(jax.vmap(operator, (0, None)), (0, None)))
    close(twice(nest, y), twin(nest, y))
    text = twice.lower(nest, y).as_text()
    assert (text.count(f"@{target}("), text.count("stablehlo.while")) == (1, 0)  # one more axis of the grid
    close(jax.grad(lambda x, y: operator(x, y).sum(), (0, 1))(x, y)[1], x + 1)
    close(jax.vmap(jax.grad(lambda x: operator(x, y).sum()))(rows), jnp.stack([y] * 3))
    m = mesh()
    placed = [jax.device_put(jnp.stack([v] * len(jax.devices("gpu"))), NamedSharding(m, P("d"))) for v in (x, y)]
    on_shard = jax.shard_map(lambda x, y: operator(x[0], y[0])[None], mesh=m, in_specs=P("d"), out_specs=P("d"))
    close(jax.jit(on_shard)(*placed), twin(*placed))
    report = brainevent.check(operator, x, y)
    assert report.ok, str(report)
