# SPDX-License-Identifier: Apache-2.0
"""What tests of loops share."""

import pytest

from brainevent import config


@pytest.fixture
def for_a_gpu():
    """Compile for a GPU with clusters; there need not be one."""
    config.set_compute_capability("9.0")
    yield
    config.set_compute_capability(None)
