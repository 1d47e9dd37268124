# SPDX-License-Identifier: Apache-2.0
"""One operator for all neurons of a network, made of one formula: for NumPy-like arrays, in Numba, and in CUDA C++.

A neuron's state is four numbers: its potential `v`, what its synapses did, `exc` and `inh`, and the steps `pause` that
it has still to wait after a spike.
"""

import functools
from collections.abc import Callable, Mapping

import jax.numpy as jnp
import numba
import numpy as np

import brainevent

CUDA = """
__global__ void neurons(const float* v_before, const float* exc_before, const float* inh_before,
                        const float* pause_before, const float* arrived, float* v_after, float* exc_after,
                        float* inh_after, float* pause_after, bool* spikes, float w_e, float w_i, int n) {
  const int k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k >= n) return;
  const float from_e = arrived[k], from_i = arrived[n + k];
  float v = v_after[k], exc = exc_after[k], inh = inh_after[k], pause = pause_after[k];  // the same memory as before
  bool spike;
  FORMULA
  v_after[k] = v, exc_after[k] = exc, inh_after[k] = inh, pause_after[k] = pause, spikes[k] = spike;
}
"""
IN_PLACE = {0: 0, 1: 1, 2: 2, 3: 3}  # the next state takes the place of the state
# A division by zero is not tested for, so that many neurons go at a time; a product and a sum are one instruction.
QUICK = {"error_model": "numpy", "fastmath": {"contract"}}


def neurons(name: str, formula: Callable, cuda: str, constants: Mapping[str, float]) -> brainevent.XLACustomKernel:
    """Return `operator(v, exc, inh, pause, arrived, w_e=..., w_i=...)` -> the next state, and who spikes.

    `formula(v, exc, inh, pause, from_e, from_i, w_e, w_i)` is that for one neuron, or for arrays. `cuda` is the same in
    CUDA C++, and assigns the state and `spike`. There the `constants` have the values given.
    """

    def reference(v, exc, inh, pause, arrived, *, w_e, w_i):
        return formula(v, exc, inh, pause, *jnp.split(arrived, 2), np.float32(w_e), np.float32(w_i))

    @functools.cache
    def loop(w_e, w_i):
        one = numba.njit(formula, **QUICK)

        @numba.njit(**QUICK)
        def over_all(v_, exc_, inh_, pause_, arrived, v, exc, inh, pause, spikes):
            from_e, from_i = arrived[: v.size], arrived[v.size :]
            for k in range(v.size):
                v[k], exc[k], inh[k], pause[k], spikes[k] = one(
                    v[k], exc[k], inh[k], pause[k], from_e[k], from_i[k], w_e, w_i
                )

        return over_all

    def on_cpu(*, outs, w_e, w_i):
        return brainevent.numba_kernel(loop(np.float32(w_e), np.float32(w_i)), outs, input_output_aliases=IN_PLACE)

    def on_gpu(*, outs, w_e, w_i):
        n = outs[0].size
        values = tuple(f"-D{name}={float(value)!r}f" for name, value in constants.items())
        source = CUDA.replace("FORMULA", cuda)
        kernel = brainevent.cuda_kernel(
            source, "neurons", outs, launch_dims=n, options=values, input_output_aliases=IN_PLACE
        )
        return lambda *operands: kernel(*operands, w_e=w_e, w_i=w_i, n=n)

    operator = brainevent.XLACustomKernel(name)
    operator.def_reference(reference)
    operator.def_numba_kernel(on_cpu)
    operator.def_kernel("nvrtc", "gpu", on_gpu)
    return operator
