# SPDX-License-Identifier: Apache-2.0
"""Triton kernels, as far as this can be seen without a GPU: what is lowered, batched, cut, exported, and missing."""

import importlib.util
import re
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir
from meshes import P, close, cut, mesh

import brainevent
from brainevent import XLACustomKernel
from brainevent._content import content_name
from brainevent.languages import language

H200 = 90  # a compute capability: code is made for it without a device
NAMES = ["adding", "softmaxed", "parted", "active", "leaking"]  # of triton_kernels.KERNELS
EVERY = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="session")
def written():
    """The kernels, where the packages are: triton, jax_triton, and JAX's plugin for CUDA; no GPU is needed."""
    pytest.importorskip("triton", reason="needs triton")
    pytest.importorskip("jax_triton", reason="needs jax-triton and a jax-cuda plugin", exc_type=ImportError)
    import triton_kernels

    return triton_kernels


def lowered(f, *operands):
    """Return how many Triton kernels and loops a program for a GPU has."""
    text = jax.jit(f).trace(*operands).lower(lowering_platforms=("cuda",)).as_text()
    return text.count("custom_call @triton_kernel_call"), text.count("stablehlo.while")


# ---- for a GPU that is not here -------------------------------------------------------------------------------------


def test_every_kernel_of_the_table_is_tested(written):
    assert list(written.KERNELS) == NAMES


@EVERY
def test_a_kernel_is_one_custom_call(written, unique_name, name):
    kernel = written.KERNELS[name]
    operator = kernel.operator(unique_name(name), H200)
    assert lowered(operator, *kernel.operands) == (1, 0)
    types = jax.eval_shape(operator, *kernel.operands)
    expected = jax.eval_shape(kernel.twin, *kernel.operands)
    assert jax.tree.map(lambda x: (x.shape, x.dtype), types) == jax.tree.map(lambda x: (x.shape, x.dtype), expected)


@EVERY
def test_a_batch_is_a_loop_of_launches_or_one_if_its_author_says_how(written, unique_name, name):
    kernel = written.KERNELS[name]
    operator = kernel.operator(unique_name(name), H200)
    batch = [np.stack([x] * 3) for x in kernel.operands]
    nest = [np.stack([x] * 2) for x in batch]
    loops = 0 if name in written.IN_ONE_LAUNCH else 1
    assert lowered(jax.vmap(operator), *batch) == (1, loops)
    assert lowered(jax.vmap(jax.vmap(operator)), *nest) == (1, 2 * loops)
    only_last = (*[None] * (len(batch) - 1), 0)
    assert lowered(jax.vmap(operator, only_last), *kernel.operands[:-1], batch[-1]) == (1, loops)


@EVERY
def test_derivatives_come_from_the_reference(written, unique_name, name):
    """JAX knows no derivative of a Triton kernel: what is differentiated is the operator."""
    kernel = written.KERNELS[name]
    operator = kernel.operator(unique_name(name), H200)
    loss = lambda *xs: sum((r**2).sum() for r in jax.tree.leaves(operator(*xs)))
    assert lowered(jax.value_and_grad(loss), *kernel.operands)[0] == 1  # forwards; backwards is the reference's
    loops = 0 if name in written.IN_ONE_LAUNCH else 1
    batch = [np.stack([x] * 3) for x in kernel.operands]
    assert lowered(jax.vmap(jax.value_and_grad(loss)), *batch) == (1, loops)


@EVERY
def test_shards(written, unique_name, name):
    kernel, m = written.KERNELS[name], mesh()
    operator = kernel.operator(unique_name(name), H200)
    batch = [np.stack([x] * 4) for x in kernel.operands]
    on_shard = jax.shard_map(
        lambda *xs: jax.tree.map(lambda r: r[None], operator(*(x[0] for x in xs))), mesh=m, in_specs=P("d"),
        out_specs=P("d"),
    )  # fmt: skip
    assert lowered(on_shard, *batch) == (1, 0)
    jitted = jax.jit(jax.vmap(operator)).trace(*(cut(m, x, "d") for x in batch))
    text = jitted.lower(lowering_platforms=("cuda",)).as_text()
    assert text.count("CustomSPMDPartitioning") == 1  # XLA cuts it by the rule


@EVERY
def test_a_program_that_is_exported_carries_the_kernel(written, unique_name, name):
    kernel = written.KERNELS[name]
    call = jax.jit(kernel.operator(unique_name(name), H200))
    with pytest.raises(ValueError, match="no compatibility guarantees"):
        jax.export.export(call, platforms=["cuda"])(*kernel.operands)
    both = jax.export.export(call, platforms=["cuda", "cpu"], disabled_checks=brainevent.export_checks())
    program = both(*kernel.operands)
    assert program.mlir_module().count("@triton_kernel_call") == 1
    jax.tree.map(close, program.call(*kernel.operands), kernel.twin(*kernel.operands))  # the reference, on the CPU


def test_a_tuned_kernel_carries_every_configuration(written):
    program = jax.jit(lambda x: written.halved(x, H200)).trace(written.X).lower(lowering_platforms=("cuda",))
    main = program.compiler_ir("stablehlo").body.operations[0]
    [call] = [op for op in main.entry_block.operations if op.name == "stablehlo.custom_call"]
    carried = zlib.decompress(call.attributes["backend_config"].value_bytes).decode(errors="replace")
    assert re.findall(r"block: (\d+), num_warps: (\d+)", carried) == [("64", "2"), ("256", "4"), ("1024", "8")]


def test_kernels_are_named_by_content(written):
    """So that a sharded program is found in JAX's compilation cache by another process."""
    names = {content_name(kernel.generator) for kernel in written.KERNELS.values()}
    assert len(names) == len(NAMES)
    assert names == {content_name(kernel.generator) for kernel in written.KERNELS.values()}
    assert content_name(written.halved) == content_name(written.halved)


# ---- without any of the packages ------------------------------------------------------------------------------------


def without_vmap():
    """Return a function with what jax-triton's primitive is: results, no rule for vmap, none for derivatives."""
    primitive = Primitive("triton_kernel_call")
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, mlir.lower_fun(lambda x: 2 * x, multiple_results=False))

    def refuse(*_, **__):
        raise NotImplementedError("jax_triton.triton_call does not support batching with jax.vmap. Use ...")

    batching.primitive_batchers[primitive] = refuse
    return primitive.bind


def test_what_refuses_vmap_is_looped_over(unique_name):
    operator = XLACustomKernel(unique_name("looped"))
    call = without_vmap()
    operator.def_kernel("triton", "cpu", lambda *, outs: call)
    twice = lambda x: operator(x, outs=x)
    rows = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    nested = jax.vmap(jax.vmap(twice, 1, 1))
    np.testing.assert_array_equal(jax.jit(nested)(rows), 2 * rows)
    assert jax.jit(nested).lower(rows).as_text().count("stablehlo.while") == 2


class Kernel:
    """A Triton kernel, as far as its content goes."""

    def __init__(self, fn):
        self.fn = fn


Kernel.__module__ = "triton.runtime.jit"


def test_triton_kernels_are_named_by_what_they_compute():
    def generator(fn):
        kernel = Kernel(fn)
        return lambda *, outs: kernel

    double, triple = (lambda x: 2 * x), (lambda x: 3 * x)
    assert content_name(generator(double)) == content_name(generator(double))
    assert content_name(generator(double)) != content_name(generator(triple))


@pytest.mark.parametrize("package", ["jax_triton", "triton"])
def test_a_missing_package_is_one_sentence(unique_name, monkeypatch, package):
    find_spec = importlib.util.find_spec
    missing = lambda name, *rest: (
        None if name == package else object() if name in ("triton", "jax_triton") else find_spec(name, *rest)
    )
    monkeypatch.setattr(importlib.util, "find_spec", missing)
    sentence = f"the package {package!r} is not installed; run: pip install jax-triton triton"
    assert language("triton").why_missing() == sentence

    def generator(*, outs):
        raise ModuleNotFoundError(f"No module named {package!r}")

    operator = XLACustomKernel(unique_name("missing"))
    operator.def_triton_kernel(generator)
    x = jnp.ones(3)
    with pytest.raises(brainevent.KernelNotAvailableError, match=re.escape(sentence)):
        jax.jit(lambda x: operator(x, outs=x)).trace(x).lower(lowering_platforms=("cuda",))


def test_a_machine_without_a_gpu_is_reported(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: object())
    assert language("triton").why_missing() == (
        "JAX sees no GPU; on a machine with one, run: pip install 'jax[cuda13]'"
    )


def test_export_checks_name_tritons_target():
    assert jax.export.DisabledSafetyCheck.custom_call("triton_kernel_call") in brainevent.export_checks()
