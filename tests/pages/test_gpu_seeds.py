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
