# SPDX-License-Identifier: Apache-2.0
"""Keep Brian2 in a virtual environment of its own."""

import os
import subprocess
import sys
from pathlib import Path

from benchmarks.options import HERE

BRIAN = "brian2==2.9.0"
BRIAN_PYTHON = "BRAINEVENT_BRIAN_PYTHON"  # of the environment: an interpreter that has Brian2 already
BRIAN_FOLDER = "BRAINEVENT_BRIAN_PATH"  # of the environment, as that of the PyPI package
_FOLDER = HERE / ".brian-venv"


def find_brian() -> Path:
    """The Python of an environment with Brian2: the one that is named, or one made on the first use."""
    if named := os.environ.get(BRIAN_PYTHON):
        return Path(named)
    stamp, python = _FOLDER / "installed", _FOLDER / "bin" / "python"
    receipt = f"{sys.version}\n{BRIAN}"
    if not (stamp.exists() and stamp.read_text() == receipt):
        print(f"installing {BRIAN} in {_FOLDER.name} ...", flush=True)
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(_FOLDER)],
            [str(python), "-m", "pip", "install", "--quiet", BRIAN, "numpy<2", "setuptools"],  # it uses what 2 dropped
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
        stamp.write_text(receipt)
    return python
