# SPDX-License-Identifier: Apache-2.0
"""Pallas kernels for the TPU, interpreted on the CPU: every promise of an operator, and one grid for a whole batch."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from meshes import P, close, cut, mesh, ramp, sent
from zoo import like

import brainevent
from brainevent import XLACustomKernel, doctor

ROWS, COLUMNS, BLOCK = 16, 4, 8
SMALL = jax.ShapeDtypeStruct((1, COLUMNS), jnp.float32)


@dataclass(frozen=True)
class Written:
    """A kernel, its twin in jax.numpy, and operands; `generator(interpret)` is the kernel generator."""

    name: str
    generator: Callable[[Any], Callable[..., Any]]
    twin: Callable[..., Any]
    operands: tuple[Any, ...]
    moving: tuple[int, ...]  # the operands with derivatives
    rule: str
    reduced: tuple[str, ...] = ()
    whole: tuple[str, ...] = ()

    def operator(self, name, interpret=True, *, sharded=False):
        op = XLACustomKernel(name)
        op.def_kernel("pallas", "cpu", self.generator(interpret))
        op.def_pallas_kernel("tpu", self.generator(False))
        op.def_reference(self.twin)
        if sharded:
            op.def_sharding_rule(self.rule, reduction_factors=self.reduced, need_replication_factors=self.whole)
        return op


def outs_of(outs):
    return [like(out)[0] for out in outs]


def rows_spec(size):
    return pl.BlockSpec((size, COLUMNS), lambda i: (i, 0))


def block_of(rows):
    """Return the rows of a block, of which there must be whole ones; a shard may be smaller than a block."""
    block = min(BLOCK, rows)
    if not rows or rows % block:
        raise ValueError(f"{rows} rows are not whole blocks of {BLOCK}")
    return block


ONE_ROW = pl.BlockSpec((1, COLUMNS), lambda i: (0, 0))


def in_blocks(interpret):
    """Elementwise, a block of rows at a time."""

    def kernel(x, y, out):
        out[...] = x[...] * y[...] + y[...]

    def generator(*, outs):
        block = block_of(outs[0].shape[0])
        spec = rows_spec(block)
        return pl.pallas_call(
            kernel,
            grid=(outs[0].shape[0] // block,),
            in_specs=[spec, spec],
            out_specs=[spec],
            out_shape=outs_of(outs),
            interpret=interpret,
        )

    return generator


def over_the_grid(interpret):
    """The sum of all rows: every step of the grid adds to one block."""

    def kernel(x, out):
        @pl.when(pl.program_id(0) == 0)
        def _():
            out[...] = jnp.zeros_like(out)

        out[...] += x[...].sum(0, keepdims=True)

    def generator(*, outs):
        def run(x):
            block = block_of(x.shape[0])
            return pl.pallas_call(
                kernel,
                grid=(x.shape[0] // block,),
                in_specs=[rows_spec(block)],
                out_specs=ONE_ROW,
                out_shape=outs_of(outs)[0],
                interpret=interpret,
            )(x)

        return run

    return generator


def with_scratch(interpret):
    """A matrix product in blocks, added up in memory of the TPU's."""

    def kernel(a, b, out, total):
        @pl.when(pl.program_id(1) == 0)
        def _():
            total[...] = jnp.zeros_like(total)

        total[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

        @pl.when(pl.program_id(1) == pl.num_programs(1) - 1)
        def _():
            out[...] = total[...]

    def generator(*, outs):
        def run(a, b):
            m, depth = block_of(a.shape[0]), a.shape[1]
            return pl.pallas_call(
                kernel,
                grid=(a.shape[0] // m, 1),
                in_specs=[
                    pl.BlockSpec((m, depth), lambda i, k: (i, k)),
                    pl.BlockSpec((depth, b.shape[1]), lambda i, k: (k, 0)),
                ],
                out_specs=pl.BlockSpec((m, b.shape[1]), lambda i, k: (i, 0)),
                out_shape=outs_of(outs)[0],
                scratch_shapes=[pltpu.VMEM((m, b.shape[1]), jnp.float32)],
                interpret=interpret,
            )(a, b)

        return run

    return generator


def several_outputs(interpret):
    """Two results, of different shapes and dtypes."""

    def kernel(x, positive, count):
        positive[...] = jnp.maximum(x[...], 0)
        count[...] = (x[...] > 0).astype(jnp.int32)

    def generator(*, outs):
        block = block_of(outs[0].shape[0])
        return pl.pallas_call(
            kernel,
            grid=(outs[0].shape[0] // block,),
            in_specs=[rows_spec(block)],
            out_specs=[rows_spec(block)] * 2,
            out_shape=outs_of(outs),
            interpret=interpret,
        )

    return generator


def active_rows(interpret):
    """The sum of some rows of a matrix; which, is known before the grid starts: no other row is read."""

    def kernel(active, row, out):
        @pl.when(pl.program_id(0) == 0)
        def _():
            out[...] = jnp.zeros_like(out)

        out[...] += row[0]

    def generator(*, outs):
        def run(active, weights):
            grid = pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=active.shape,
                in_specs=[pl.BlockSpec((1, 1, weights.shape[1]), lambda i, active: (active[i], 0, 0))],
                out_specs=pl.BlockSpec((1, weights.shape[1]), lambda i, active: (0, 0)),
            )
            call = pl.pallas_call(kernel, grid_spec=grid, out_shape=outs_of(outs)[0], interpret=interpret)
            return call(active, weights[:, None])

        return run

    return generator


X, Y = ramp(ROWS, COLUMNS, start=-4.0), ramp(ROWS, COLUMNS, start=1.0)
KERNELS = {
    kernel.name: kernel
    for kernel in (
        Written("in_blocks", in_blocks, lambda x, y: x * y + y, (X, Y), (0, 1), "i j, i j -> i j", whole=("j",)),
        Written("over_the_grid", over_the_grid, lambda x: x.sum(0, keepdims=True), (X,), (0,), "i j -> k j",
                whole=("i", "j", "k")),
        Written("with_scratch", with_scratch, jnp.matmul, (X, Y[:COLUMNS]), (0, 1), "i j, j k -> i k",
                whole=("j", "k")),
        Written("several_outputs", several_outputs,
                lambda x: (jnp.maximum(x, 0), (x > 0).astype(jnp.int32)), (X,), (0,), "i j -> i j, i j", whole=("j",)),
        Written("active_rows", active_rows, lambda active, w: w[active].sum(0, keepdims=True),
                (np.array([3, 0, 9], np.int32), Y), (1,), "n, i j -> k j", whole=("n", "i", "k")),
    )
}  # fmt: skip
EVERY = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


FIRST = ("active_rows",)


@pytest.mark.thorough  # tests of languages and of products hold Pallas to promises, too
@pytest.mark.parametrize(
    "kernel",
    [k if n in FIRST else pytest.param(k, marks=pytest.mark.thorough) for n, k in KERNELS.items()],
    ids=KERNELS,
)
def test_every_promise_is_kept(unique_name, kernel):
    operator = kernel.operator(unique_name(kernel.name), sharded=True)
    report = brainevent.check(operator, *kernel.operands)
    assert report.ok, str(report)
    ran = {row.promise: row.status for row in report.rows if row.backend == "pallas"}
    assert ran.pop("transpose") == "skipped"
    assert set(ran.values()) <= {"ok", "skipped"}
    assert {ran[name] for name in ("values", "jit", "nested vmap", "vjp", "sharded jit", "shard_map")} == {"ok"}


# ---- batches --------------------------------------------------------------------------------------------------------


def varied(x, *sizes):
    """Return a batch of variants of an operand; indices move, numbers grow."""
    x = np.asarray(x)
    for size in sizes:
        x = np.stack([(x + k) % ROWS if x.dtype == np.int32 else x * np.float32(1 + k) for k in range(size)])
    return x


def lowered_for_tpu(f, *operands):
    """Return how many kernels and loops a program for a TPU has; none is needed for this."""
    text = jax.jit(f).trace(*operands).lower(lowering_platforms=("tpu",)).as_text()
    return text.count("custom_call @tpu_custom_call"), text.count("stablehlo.while")


@EVERY
def test_a_batch_is_a_longer_grid_of_one_kernel(unique_name, kernel):
    call, (*rest, last) = kernel.operator(unique_name(kernel.name)), kernel.operands
    assert lowered_for_tpu(call, *kernel.operands) == (1, 0)
    one = jax.vmap(call, (*[None] * len(rest), 0))
    assert lowered_for_tpu(one, *rest, varied(last, 3)) == (1, 0)
    if kernel.name != "active_rows":
        every = jax.vmap(jax.vmap(call))
        assert lowered_for_tpu(every, *(varied(x, 3, 2) for x in kernel.operands)) == (1, 0)


def test_batched_prefetched_scalars_are_looped_over(unique_name):
    """Pallas has no grid that reads its scalars anew for each element, and makes a loop of its own."""
    kernel = KERNELS["active_rows"]
    call = jax.vmap(kernel.operator(unique_name(kernel.name)))
    batch = [varied(x, 3) for x in kernel.operands]
    assert lowered_for_tpu(call, *batch) == (1, 1)
    close(call(*batch), jax.vmap(kernel.twin)(*batch))


@pytest.fixture(scope="module", params=KERNELS.values(), ids=KERNELS)
def registered(request):
    """A kernel of the table and its operator, for many examples."""
    return request.param, request.param.operator(f"drawn_{request.param.name}")


@pytest.mark.covering(strength=0, times=2)
@settings(max_examples=6)
@given(data=st.data())
def test_any_nest_of_vmap_agrees_with_the_twin(registered, data):
    kernel, call = registered
    twin, operands = kernel.twin, list(kernel.operands)
    for size in data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3), "sizes"):
        mapped = data.draw(
            st.lists(st.booleans(), min_size=len(operands), max_size=len(operands)).filter(any), "mapped"
        )
        axes = tuple(data.draw(st.integers(0, x.ndim)) if m else None for x, m in zip(operands, mapped, strict=True))
        operands = [x if a is None else np.moveaxis(varied(x, size), 0, a) for x, a in zip(operands, axes, strict=True)]
        call, twin = jax.vmap(call, axes), jax.vmap(twin, axes)
    jax.tree.map(close, jax.jit(call)(*operands), jax.jit(twin)(*operands))


# ---- derivatives ----------------------------------------------------------------------------------------------------


@pytest.mark.covering(strength=0)
@EVERY
def test_derivatives_of_batches_and_batches_of_derivatives(unique_name, kernel):
    call = kernel.operator(unique_name(kernel.name))

    def scalar(f):
        return lambda *xs: sum((r**2).sum() for r in jax.tree.leaves(f(*xs)) if r.dtype == jnp.float32)

    batch = [varied(x, 3) for x in kernel.operands]
    tangents = [np.cos(x) if x.dtype == np.float32 else np.zeros(x.shape, jax.dtypes.float0) for x in kernel.operands]
    for transformed in (
        lambda f: jax.grad(scalar(f), kernel.moving)(*kernel.operands),
        lambda f: jax.vmap(jax.grad(scalar(f), kernel.moving))(*batch),
        lambda f: jax.grad(scalar(jax.vmap(f)), kernel.moving)(*batch),
        lambda f: [
            t for t in jax.tree.leaves(jax.jvp(f, kernel.operands, tuple(tangents))[1]) if t.dtype == jnp.float32
        ],
    ):
        jax.tree.map(close, jax.jit(lambda t=transformed: t(call))(), transformed(kernel.twin))


# ---- several devices ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["in_blocks", "with_scratch", pytest.param("several_outputs", marks=pytest.mark.thorough)]
)
def test_a_sharding_rule_cuts_the_grid_and_gathers_nothing(unique_name, name):
    kernel, m = KERNELS[name], mesh()
    call = kernel.operator(unique_name(name), sharded=True)
    specs = [("d",), () if name == "with_scratch" else ("d",)]
    placed = [cut(m, x, *spec) for x, spec in zip(kernel.operands, specs, strict=False)]
    jax.tree.map(close, jax.jit(call)(*placed), kernel.twin(*kernel.operands))
    assert sent(call, *placed) == {}
    batch = [cut(m, varied(x, 4), "d") for x in kernel.operands]  # the batch is cut, its elements are whole
    jax.tree.map(close, jax.jit(jax.vmap(call))(*batch), jax.vmap(kernel.twin)(*batch))
    assert sent(jax.vmap(call), *batch) == {}


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("check_vma", [True, False])
def test_in_shard_map_each_device_runs_the_grid_of_its_part(unique_name, check_vma):
    kernel, m = KERNELS["over_the_grid"], mesh()
    call = kernel.operator(unique_name(kernel.name))
    total = jax.shard_map(
        lambda x: jax.lax.psum(call(x), "d"), mesh=m, in_specs=P("d"), out_specs=P(), check_vma=check_vma
    )
    close(jax.jit(total)(X), kernel.twin(X))
    assert sent(total, cut(m, X, "d")) == {"all-reduce": 1}
    slope = jax.grad(lambda x: (total(x) ** 2).sum())(X)
    close(slope, jax.grad(lambda x: (kernel.twin(x) ** 2).sum())(X))


# ---- the interpreter with a TPU's memory ----------------------------------------------------------------------------

WITH_MEMORY = pltpu.InterpretParams(detect_races=True)


@pytest.mark.covering(strength=0, times=2)
@EVERY
def test_kernels_are_right_in_a_tpus_memory(kernel):
    """Memory that no one has written is NaN there, and reading beyond an array is an error."""
    outs = jax.tree.leaves(jax.eval_shape(kernel.twin, *kernel.operands))
    call = kernel.generator(WITH_MEMORY)(outs=outs)
    flat = lambda f: lambda *xs: jax.tree.leaves(f(*xs))
    close_all = lambda found, expected: [close(a, b) for a, b in zip(found, expected, strict=True)]
    close_all(flat(call)(*kernel.operands), flat(kernel.twin)(*kernel.operands))
    batch = [varied(x, 2) for x in kernel.operands]
    close_all(jax.jit(jax.vmap(flat(call)))(*batch), jax.vmap(flat(kernel.twin))(*batch))


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("name", ["over_the_grid", "with_scratch"])
def test_it_runs_within_an_operator_one_call_after_the_other(unique_name, name):
    kernel = KERNELS[name]
    operator = kernel.operator(unique_name(name), WITH_MEMORY)
    report = brainevent.check(operator, *kernel.operands, backends=["pallas"], promises=["nested vmap", "vjp"])
    assert report.ok, str(report)
    assert [row.status for row in report.rows if row.backend == "pallas"] == ["ok"] * 4


def test_it_finds_a_sum_that_starts_from_nothing():
    def kernel(x, out):
        out[...] += x[...].sum(0, keepdims=True)

    def call(interpret):
        return pl.pallas_call(
            kernel, grid=(2,), in_specs=[rows_spec(BLOCK)], out_specs=ONE_ROW, out_shape=SMALL, interpret=interpret
        )(X)

    assert np.isnan(call(WITH_MEMORY)).all()


# ---- programs for a TPU ---------------------------------------------------------------------------------------------


@EVERY
def test_a_program_for_a_tpu_is_exported_here(unique_name, kernel):
    """JAX vouches for its TPU kernels: no check has to be disabled, and both platforms get their kernel."""
    call = jax.jit(jax.vmap(kernel.operator(unique_name(kernel.name))))
    batch = [varied(x, 2) for x in kernel.operands]
    program = jax.export.export(call, platforms=("tpu", "cpu"))(*batch)
    assert program.mlir_module().count("@tpu_custom_call") == 1
    jax.tree.map(close, program.call(*batch), jax.vmap(kernel.twin)(*batch))


def test_doctor_names_what_jax_deprecates():
    sections = {
        section.title: {line.label: line.text for line in section.lines} for section in doctor.report().sections
    }
    text = sections["Emulation on the CPU"]["pallas on GPUs"]
    assert text.startswith("JAX deprecates Pallas's Triton compiler")
    pytest.importorskip("absl", reason="Mosaic GPU of older releases of JAX needs absl-py")
    assert hasattr(importlib.import_module("jax.experimental.pallas.mosaic_gpu"), "kernel")  # what it advises
