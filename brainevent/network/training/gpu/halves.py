# SPDX-License-Identifier: Apache-2.0
"""Products of all spikes of a run with a dense matrix, on a GPU: in floats of 16 bits, with the digits that JAX keeps.

XLA multiplies matrices of float32 with 11 bits unless it is asked for more. In 16 bits a spike has half as many bytes,
and other factors keep 11 bits where the largest of them is scaled to the largest numbers of 16 bits.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...._compat import directly
from ....backends.nvrtc.kernel import cuda_kernel
from ..times import earlier, lower_on, plain_outer, plain_times, times
from .weights import power_of_two

__all__ = ["multiplied", "times"]

Array = Any

_LARGEST, _SMALLEST = 2.0**15, 2.0**-14  # numbers of 16 bits with 11 digits, about
_DIGITS = 2.0**4  # the largest factor is at least this: factors 2^18 smaller have 11 digits, too
_ALIGNED = 8  # numbers of 16 bits that are read at once
_THREADS = 2**19

# Where nothing changes, sums are not read.
_RESCALE = """
extern "C" __global__ void rescale(const float* given, const float* unit, float* sums, unsigned long long count) {
    const float factor = *unit;
    if (factor == 1.0f) return;
    const unsigned long long begin = blockIdx.x * (unsigned long long)blockDim.x + threadIdx.x;
    for (unsigned long long k = begin; k < count; k += (unsigned long long)gridDim.x * blockDim.x) sums[k] *= factor;
}
"""


def _padded(x: Array, axis: int) -> Array:
    """Return an array whose rows of 16 bits begin where many bytes are read at once."""
    if x.shape[axis] % _ALIGNED == 0:
        return x
    widths = [(0, 0)] * x.ndim
    widths[axis] = (0, -x.shape[axis] % _ALIGNED)
    return jnp.pad(x, widths)


def _sent(spikes: Array, delay: int, value: Array | float = 1.0) -> Array:
    """Return spikes that arrive some steps later in 16 bits: a value, or 0."""
    return _padded((earlier(spikes, delay) * value).astype(np.float16), 3)


def multiplied(spikes: Array, matrix: Array, delay: int) -> tuple[Array, Array]:
    """Return spikes times matrices, and what sums of each network are multiplied with to be right: nearly always 1.

    A spike is a power of two, by which the matrix is divided, as long as there is such a number of 16 bits.
    """
    above = power_of_two(jnp.max(jnp.abs(matrix), (1, 2), keepdims=True, initial=0))
    is_near = (above / _SMALLEST >= _DIGITS) & (above <= _LARGEST * _LARGEST)
    unit = jnp.where(is_near, 1, above)
    value = jnp.clip(above / unit / _LARGEST, _SMALLEST, _LARGEST)
    halves = _padded((matrix / unit / value).astype(np.float16), 1)
    sent = _sent(spikes, delay, value[..., None])
    return jnp.einsum("gbti,gij->gbtj", sent, halves, preferred_element_type=np.float32), unit


@directly
def _times(spikes: Array, matrix: Array, *, delay: int, exact: bool) -> Array:
    if exact:
        return plain_times(spikes, matrix, delay=delay, exact=exact)
    sums, unit = multiplied(spikes, matrix, delay)
    if unit.size > 1 or sums.size == 0:
        return sums * unit[..., None]
    out = jax.ShapeDtypeStruct(sums.shape, sums.dtype)
    run = cuda_kernel(_RESCALE, "rescale", out, launch_dims=min(_THREADS, sums.size), input_output_aliases={0: 0})
    return run(sums, unit.reshape(1), count=sums.size)


def _alone(halves: Array, sources: int, delay: int) -> tuple[Array, Array]:
    """Return a factor of the products of some spikes; and 1, by which these are multiplied to be made after it.

    XLA does not see that factors of several products are the same. Otherwise it would merge those into a receptor if
    they are small, and copy all their spikes for it.
    """
    number = np.int32((sources * 2**10 + delay) % 2**31)
    halves, same = jax.lax.optimization_barrier((halves, number))
    return halves, jnp.where(same == number, np.float32(1), np.float32(0))


@directly
def _outer(spikes: Array, arrived: Array, *, delay: int, exact: bool) -> Array:
    if exact:
        return plain_outer(spikes, arrived, delay=delay, exact=exact)
    scale = power_of_two(jnp.max(jnp.abs(arrived), (1, 2), keepdims=True, initial=0)) / _LARGEST
    halves, late = _alone((arrived / scale).astype(np.float16), spikes.shape[3], delay)
    found = jnp.einsum("gbti,gbtj->gij", _sent(spikes, delay, late), halves, preferred_element_type=np.float32)
    return found[:, : spikes.shape[3]] * scale[:, 0]


lower_on("cuda", _times, _outer)
