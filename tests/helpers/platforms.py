# SPDX-License-Identifier: Apache-2.0
"""One test for both platforms: on the CPU in `make test`, and marked `gpu`, with the kernels of that platform."""

import jax
import pytest
from hypothesis import settings

__all__ = ["by_platform", "every_backend", "every_kernel", "few_examples", "platform"]

_CUDA = pytest.param("cuda_raw", marks=pytest.mark.gpu)
by_platform = pytest.mark.usefixtures("platform")
every_kernel = pytest.mark.parametrize("backend", ["numba", _CUDA])
every_backend = pytest.mark.parametrize("backend", ["numba", "reference", _CUDA])


@pytest.fixture(scope="module", params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)])
def platform(request: pytest.FixtureRequest) -> str:
    """Return the platform on which a test that takes this runs: that on which JAX places all by default."""
    return request.param


def few_examples(number: int, *, on_gpu: int = 10) -> settings:
    """Let Hypothesis draw few examples on the CPU, where kernels are compiled for each kind, and more on a GPU."""
    return settings(max_examples=number if jax.config.jax_platforms == "cpu" else on_gpu)
