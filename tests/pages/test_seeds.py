# SPDX-License-Identifier: Apache-2.0
"""The seeds' programs for GPUs run as they are printed, emulated on the CPU."""

import pytest
from seeds import complete


@pytest.mark.thorough  # the tests of emulation hold each part of them
@pytest.mark.parametrize(("name", "needs"), [("001_warp", ["warp", "scipy"]), ("002_numba_cuda", ["numba"])])
def test_a_program_runs_to_its_end_and_is_right(name, needs, tmp_path):
    for package in needs:
        pytest.importorskip(package)
    good, said = complete(name, tmp_path, timeout=1200, BRAINEVENT_EMULATE="1", JAX_PLATFORMS="cpu")
    assert good, said
    assert "Numba's simulator" in said or name != "002_numba_cuda"


def test_without_emulation_a_program_is_not_complete(tmp_path):
    """The test above can fail: without a GPU, program 002 skips its sections."""
    environment = {"CUDA_VISIBLE_DEVICES": "", "BRAINEVENT_EMULATE": "0", "JAX_PLATFORMS": "cpu"}
    good, said = complete("002_numba_cuda", tmp_path, timeout=300, **environment)
    assert not good
    assert "002_numba_cuda: FAILED, 0 of 10 checked lines" in said
