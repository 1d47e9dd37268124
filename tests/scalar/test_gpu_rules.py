# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: every rule gives the bits of the interpreter."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_rule_engines import INPUTS, NAMES, POINTER, differing, flushed, forms, hard_values

import brainevent
from brainevent.scalar.cuda_text import NVRTC_OPTIONS, cuda_text
from brainevent.scalar.interpret import interpret

pytestmark = pytest.mark.gpu
pytest.importorskip("cuda.bindings.nvrtc")
COUNT = 100_000


def by_nvrtc(names, values):
    """Run rules in one kernel."""
    inputs = ", ".join(f"const {POINTER[dtype]}* {name}" for name, dtype in INPUTS.items())
    outs = ", ".join(f"{POINTER[forms()[name].outputs[0].dtype]}* o{place}" for place, name in enumerate(names))
    calls = "".join(
        f"o{place}[k] = be_rule_{name}(x[k], y[k], i[k], j[k], u[k], b[k]);\n" for place, name in enumerate(names)
    )
    head = f'extern "C" __global__ void run({inputs}, {outs}, int n)'
    source = cuda_text(forms()[name] for name in names)
    source += f"{head} {{ int k = blockIdx.x * blockDim.x + threadIdx.x; if (k < n) {{\n{calls}}} }}"
    shapes = [jax.ShapeDtypeStruct((COUNT,), forms()[name].outputs[0].dtype) for name in names]
    kernel = brainevent.cuda_kernel(source, "run", shapes, launch_dims=COUNT, options=NVRTC_OPTIONS)
    return [np.asarray(out) for out in kernel(*map(jnp.asarray, flushed(values)), n=COUNT)]


@pytest.mark.parametrize("half", [0, 1])
def test_rules_give_the_bits_of_the_interpreter(half):
    names, values = NAMES[half::2], hard_values(COUNT, 3)  # a call takes at most 128 arrays
    found = dict(zip(names, by_nvrtc(names, values), strict=True))
    wrong = {name: differing(found[name], interpret(forms()[name], values)[0], values) for name in names}
    assert {name: where for name, where in wrong.items() if where} == {}
