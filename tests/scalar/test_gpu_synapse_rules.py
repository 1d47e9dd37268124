# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: every random rule of synapses gives the bits of the interpreter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from many_synapse_rules import DTYPES, forms, values
from test_synapse_rule_engines import POINTER, check, statement

import brainevent
from brainevent.scalar.cuda_text import NVRTC_OPTIONS, cuda_text

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")
COUNT = 20_000


def test_rules_give_the_bits_of_the_interpreter():
    names, given = tuple(forms()), values(COUNT, 3)
    inputs = ", ".join(f"const {POINTER[dtype]}* {name}" for name, dtype in DTYPES.items())
    calls = "".join(statement(place, name) for place, name in enumerate(names))
    head = f'extern "C" __global__ void run({inputs}, float* out, int n)'
    source = cuda_text(forms().values())
    source += f"{head} {{ int k = blockIdx.x * blockDim.x + threadIdx.x; if (k < n) {{\n{calls}}} }}"
    shape = jax.ShapeDtypeStruct((len(names), 3, COUNT), jnp.float32)
    kernel = brainevent.cuda_kernel(source, "run", shape, launch_dims=COUNT, options=NVRTC_OPTIONS)
    check(np.asarray(kernel(*map(jnp.asarray, given.values()), n=COUNT)), names, given)
