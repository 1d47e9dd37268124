# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/plots.md: `python -m docs.draw`, with `--measure` after measuring anew.

The first draws docs/_static/plots/*.svg from the JSON files beside them, so that pictures and numbers belong together.
"""

import argparse
from pathlib import Path

import jax.numpy as jnp
import numba
import numpy as np

import brainevent

FOLDER = Path(__file__).parent / "_static" / "plots"
SIZES = (100, 200, 400, 1000, 2000, 4000)
BATCHES = (1, 4, 16, 64, 256)
PICTURES = {
    "line": ("spike_input", {}),
    "bar": ("spike_input", {"kind": "bar"}),
    "speedup": ("spike_input", {"kind": "speedup", "baseline": "reference"}),
    "panels": ("binary_csrmv", {}),
    "roofline": ("spike_batches", {"kind": "roofline"}),
}
THEMES = ("light", "dark")

CPP = r"""
#include "brainevent/common.h"

// @BE spike_input arg arg ret
void spike_input(const BE::Tensor spikes, const BE::Tensor weights, BE::Tensor current) {
  const float* __restrict__ s = spikes.data_ptr<float>();
  const float* __restrict__ w = weights.data_ptr<float>();
  float* __restrict__ out = current.data_ptr<float>();
  const int64_t batch = current.shape(0), n = weights.shape(0), m = weights.shape(1);
  for (int64_t k = 0; k < batch * m; ++k) out[k] = 0;
  for (int64_t i = 0; i < n; ++i)  // outermost: a row of weights is read once for the whole batch
    for (int64_t b = 0; b < batch; ++b)
      if (s[b * n + i] != 0)
        for (int64_t j = 0; j < m; ++j) out[b * m + j] += s[b * n + i] * w[i * m + j];
}
"""


@numba.njit
def by_rows(spikes, weights, current):
    """Add the rows of neurons that spike, one after the other."""
    current[:] = 0
    for b in range(spikes.shape[0]):
        for i in range(spikes.shape[1]):
            if spikes[b, i] != 0:
                for j in range(current.shape[1]):
                    current[b, j] += spikes[b, i] * weights[i, j]


@numba.njit
def by_columns(spikes, weights, current):
    """Sum one column after the other."""
    for b in range(current.shape[0]):
        for j in range(current.shape[1]):
            total = np.float32(0)
            for i in range(spikes.shape[1]):
                total += spikes[b, i] * weights[i, j]
            current[b, j] = total


def spike_input() -> brainevent.XLACustomKernel:
    """Return the operator: the input that neurons get from those that spike, by four kernels."""
    operator = brainevent.XLACustomKernel("spike_input")
    compiled = brainevent.load_cpp_inline("spike_input", CPP, extra_cflags=["-O3", "-march=native"])
    operator.def_kernel("numba rows", "cpu", lambda *, outs: brainevent.numba_kernel(by_rows, outs=outs))
    operator.def_kernel("numba columns", "cpu", lambda *, outs: brainevent.numba_kernel(by_columns, outs=outs))
    operator.def_kernel("C++", "cpu", lambda *, outs: lambda *operands: compiled.spike_input(*operands, outs=outs))
    operator.def_reference(lambda spikes, weights: spikes @ weights)
    operator.def_call(operator)
    return operator


def config(shown: dict[str, int], n: int = 1000, batch: int = 1) -> brainevent.BenchmarkConfig:
    """Return data in which every tenth neuron spikes; its work is what the spikes need, and no more."""
    random = np.random.default_rng(n + batch)
    spikes = (random.random((batch, n)) < 0.1).astype(np.float32)
    numbers = int(spikes.any(axis=0).sum()) * n + 2 * batch * n
    return brainevent.BenchmarkConfig(
        ", ".join(f"{name}={value}" for name, value in shown.items()),
        (jnp.asarray(spikes), jnp.asarray(random.random((n, n), np.float32))),
        data_kwargs=dict(shown),
        bytes=4 * numbers,
        flops=2 * int(spikes.sum()) * n,
    )


def measure() -> None:
    """Measure all kernels, over sizes with warm caches and over batches with cold ones, and keep the results."""
    operator = spike_input()
    backends = ["numba rows", "numba columns", "C++", "reference"]
    for name, configs, cold in (
        ("spike_input", [config({"n": n}, n=n) for n in SIZES], False),
        ("spike_batches", [config({"batch": b}, batch=b) for b in BATCHES], True),
    ):
        operator.def_benchmark_data(lambda *, platform, configs=configs: configs)
        operator.benchmark(platform="cpu", backends=backends, n_runs=30, cold=cold).save(FOLDER / f"{name}.json")
    of_ours = brainevent.get_primitives_by_tags({"binary", "csr"})["binary_csrmv"]
    of_ours.benchmark(platform="cpu", n_runs=30).save(FOLDER / "binary_csrmv.json")


def draw(folder: Path = FOLDER) -> list[Path]:
    """Draw all pictures into a folder, and return their paths."""
    paths = []
    for picture, (name, keywords) in PICTURES.items():
        result = brainevent.BenchmarkResult.load(FOLDER / f"{name}.json")
        for theme in THEMES:
            paths.append(folder / f"{picture}-{theme}.svg")
            result.plot(theme=theme, **keywords).savefig(paths[-1])
    return paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Draw the pictures of docs/plots.md")
    parser.add_argument("--measure", action="store_true", help="measure anew before")
    if parser.parse_args().measure:
        measure()
    draw()
