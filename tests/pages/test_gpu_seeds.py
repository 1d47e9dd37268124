# SPDX-License-Identifier: Apache-2.0
"""On a real GPU: the seeds' programs run as they are printed."""

import pytest
from seeds import CHECKED, complete

pytestmark = pytest.mark.gpu

ENVIRONMENT = {"JAX_PLATFORMS": "cuda,cpu"}


@pytest.mark.parametrize("name", CHECKED)
def test_a_program_runs_to_its_end_and_is_right(name, tmp_path):
    if name == "001_warp":
        pytest.importorskip("warp")
    good, said = complete(name, tmp_path, timeout=550, **ENVIRONMENT)
    assert good, said
    assert "JAX backend    : cpu" not in said


def test_a_program_of_numba_cuda_runs_with_its_successor(tmp_path):
    """One line differs: the import."""
    pytest.importorskip("numba_cuda_mlir")
    imports = "from numba import cuda", "from numba_cuda_mlir import cuda"
    good, said = complete("002_numba_cuda", tmp_path, timeout=550, changed=imports, **ENVIRONMENT)
    assert good, said
    assert "MLIRDispatcher" in said


def test_a_program_of_numba_cuda_runs_unchanged_with_its_successor(tmp_path):
    pytest.importorskip("numba_cuda_mlir")
    environment = {**ENVIRONMENT, "BRAINEVENT_NUMBA_CUDA": "numba-cuda-mlir"}
    good, said = complete("002_numba_cuda", tmp_path, timeout=550, **environment)
    assert good, said
