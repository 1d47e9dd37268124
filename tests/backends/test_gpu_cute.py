# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: CuTe DSL kernels run, in batches, in CUDA graphs, exported; and every promise of an operator."""

import pytest
from scaling_kernels import check_every_promise, check_runs_batches_and_graphs

import brainevent
from brainevent.languages import language

pytestmark = pytest.mark.gpu
pytest.importorskip("cutlass.cute")  # wheels: nvidia-cutlass-dsl and its libs, apache-tvm-ffi
from test_cute import ARGUMENTS, launch  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def here():
    if why := language("cute").why_missing():
        pytest.skip(why)


def scaled(x, factor):
    return brainevent.cute_kernel(launch, x, arguments=ARGUMENTS)(x, factor=factor)


def test_runs_batches_and_graphs():
    check_runs_batches_and_graphs(scaled)


def test_every_promise():
    check_every_promise("cute", scaled)
