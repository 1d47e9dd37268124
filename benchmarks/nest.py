# SPDX-License-Identifier: Apache-2.0
"""Find NEST: in an environment of its own, which a variable names."""

import os
from pathlib import Path

NEST_PYTHON = "BRAINEVENT_NEST_PYTHON"  # of the environment: an interpreter that has nest-simulator from PyPI


def find_nest() -> Path:
    """The Python of an environment with NEST."""
    named = os.environ.get(NEST_PYTHON)
    if not named:
        raise RuntimeError(f"{NEST_PYTHON} names no Python in whose environment nest-simulator is installed")
    if not Path(named).is_file():
        raise RuntimeError(f"{NEST_PYTHON} is {named}, which is no file")
    return Path(named)
