# SPDX-License-Identifier: Apache-2.0
"""One operator with several kernels, what it can do, and the kernel languages of this machine: run by `make demo`."""

import os

# JAX treats the CPU as one device, unless this flag is set before it starts.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"
os.environ.setdefault("COLUMNS", "79")

import textwrap
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numba
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import brainevent
from brainevent.languages import known_languages, language
from examples.networks import coba
from examples.networks.report import show

CPUS = jax.devices("cpu")
jax.config.update("jax_default_device", CPUS[0])


@numba.njit
def add_active_rows(spikes, weights, current):
    current[:] = 0
    for i in range(spikes.size):
        if spikes[i] != 0:
            for j in range(current.size):
                current[j] += spikes[i] * weights[i, j]


def matrix_product(spikes, weights):
    return spikes @ weights


spike_input = brainevent.XLACustomKernel("spike_input")
spike_input.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(add_active_rows, outs=outs))
spike_input.def_kernel("dense", "cpu", lambda *, outs: matrix_product)
spike_input.def_reference(matrix_product)  # gives shapes and derivatives, and the values that kernels are compared with
spike_input.def_sharding_rule("n, n m -> m", reduction_factors=("n",))


CPP = """
#include "brainevent/common.h"

// @BE add_active_rows arg arg ret
void add_active_rows(const BE::Tensor spikes, const BE::Tensor weights, BE::Tensor current) {
  const float *s = spikes.data_ptr<float>(), *w = weights.data_ptr<float>();
  float* out = current.data_ptr<float>();
  const int64_t n = weights.size(0), m = weights.size(1);
  for (int64_t j = 0; j < m; ++j) out[j] = 0;
  for (int64_t i = 0; i < n; ++i)
    if (s[i] != 0)
      for (int64_t j = 0; j < m; ++j) out[j] += s[i] * w[i * m + j];
}
"""
HAS_CPP = language("cpp").why_missing() is None
if HAS_CPP:
    library = brainevent.load_cpp_inline("demo", CPP)  # compiled the first time, then from the cache
    spike_input.def_cpp_kernel(lambda *, outs: lambda s, w: library.add_active_rows(s, w, outs=outs))


def loss(op, weights, spikes):
    return (op(spikes, weights) ** 2).sum()


def show_transformations(spikes, weights):
    trains = jnp.stack([spikes, 1 - spikes, spikes[::-1]])
    functions = {
        "jit": lambda op: jax.jit(op)(spikes, weights),
        "vmap": lambda op: jax.vmap(op, in_axes=(0, None))(trains, weights),
        "grad": lambda op: jax.grad(loss, argnums=1)(op, weights, spikes),
        "vmap of grad": lambda op: jax.vmap(lambda s: jax.grad(loss, argnums=1)(op, weights, s))(trains),
        "hessian": lambda op: jax.hessian(loss, argnums=2)(op, weights, spikes),
    }
    for name, run in functions.items():
        result = run(spike_input)
        same = "equal to" if np.allclose(result, run(matrix_product)) else "NOT equal to"
        print(f"  {name:<14}{list(result.shape)!s:<12}{same} jax.numpy")


def show_switching(spikes, weights):
    traces = []
    current = jax.jit(lambda *operands: traces.append("one more") or spike_input(*operands))
    for backend in (None, "dense", None):
        brainevent.set_backend("cpu", backend)
        values = np.asarray(current(spikes, weights))
        print(f"  set_backend('cpu', {backend!r:<7})  {values}  traced so far: {len(traces)}")


def show_devices(spikes, weights):
    mesh = jax.make_mesh((4,), ("x",), axis_types=(AxisType.Auto,), devices=CPUS[:4])
    cuts = {"columns": (PartitionSpec(), PartitionSpec(None, "x")), "rows": (PartitionSpec("x"), PartitionSpec("x"))}
    for what, specs in cuts.items():
        operands = [jax.device_put(x, NamedSharding(mesh, s)) for x, s in zip((spikes, weights), specs, strict=True)]
        program = jax.jit(spike_input).lower(*operands).compile()
        counts = [f"{program.as_text().count(f' {name}(')} {name}s" for name in ("all-gather", "all-reduce")]
        print(f"  weights cut by {what:<8}  {np.asarray(program(*operands))}  {', '.join(counts)}")


def show_speed(spikes, weights, count=10_000):
    def product(*operands):
        return np.matmul(*map(np.asarray, operands))

    calls = {"Numba kernel": spike_input}
    if HAS_CPP:
        calls["C++ kernel"] = lambda s, w: spike_input(s, w, backend="cpp")
    calls |= {"jax.pure_callback": lambda s, w: jax.pure_callback(product, s, s, w)}
    for name, call in calls.items():
        loop = jax.jit(lambda s, w, call=call: jax.lax.fori_loop(0, count, lambda _, s: call(s, w), s))
        loop(spikes, weights).block_until_ready()
        start = time.perf_counter()
        loop(spikes, weights).block_until_ready()
        print(f"  {name:<18}{(time.perf_counter() - start) / count * 1e6:8.2f} us")


ELSEWHERE = {"triton": "triton_call", "pallas": "pallas_call"}  # wrappers in other packages


def show_languages():
    print(f"  {'language':<17}{'platforms':<11}{'wrapper':<18}on this machine")
    for row in known_languages():
        wrappers = [name for name in row.wrappers if name.endswith(("_kernel", "_inline"))]
        wrapper = wrappers[0] if wrappers else ELSEWHERE[row.name]
        cells = f"  {row.title:<17}{', '.join(row.platforms):<11}{wrapper:<18}"
        print(textwrap.fill(cells + (row.why_missing() or "installed"), 79, subsequent_indent=" " * len(cells)))


def main():
    spikes, weights = jnp.array([1.0, 0, 0, 1, 0, 0, 1, 0]), jnp.arange(32.0).reshape(8, 4)
    print("One operator, spikes (n,) and weights (n, m) -> current (m,), with kernels")
    print("that visit the rows of active neurons only, 'numba' and 'cpp', and one in jax.numpy, 'dense'.")
    print("\nUnder the transformations of JAX:")
    show_transformations(spikes, weights)
    print("\nA jitted function follows the choice of a kernel; switching back needs no new trace:")
    show_switching(spikes, weights)
    print("\nOn four devices, the kernel runs on each part of the weights:")
    show_devices(spikes, weights)
    print("\nOne call in a jitted loop, 8 neurons:")
    show_speed(spikes, jnp.eye(8))
    print("\nLanguages for kernels, and what is missing on this machine:")
    show_languages()
    kernels = ["numba", "cpp"] if HAS_CPP else ["numba"]
    print(f"\nbrainevent.check of these kernels: {', '.join(kernels)}\n")
    print(brainevent.check(spike_input, spikes, weights, backends=kernels))
    print("\nA network of neurons, simulated for one second (examples/networks/coba.py).")
    print("The first time, its native code is compiled, which takes some seconds:\n", flush=True)
    show("COBA", coba.network(), picture=Path("build/coba.svg"))


if __name__ == "__main__":
    main()
