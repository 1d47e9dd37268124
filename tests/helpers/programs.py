# SPDX-License-Identifier: Apache-2.0
"""Run a program in a process of its own."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELPERS = ROOT / "tests" / "helpers"
ROOMS = sorted({path.parent for path in (ROOT / "tests").rglob("test_*.py")})  # the folders that hold tests


def program_environment(**changes: str) -> dict[str, str]:
    """Return this process's environment for a program that finds the package and the tests, and runs on the CPU."""
    paths = [*map(str, (ROOT, HELPERS, *ROOMS)), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu", **changes}


def run_program(source: str, *arguments: object, timeout: float = 120, **environment: str) -> str:
    """Run Python source and return what it prints; fail with all that it said if it fails, hangs or is killed."""
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *map(str, arguments)],
        env=program_environment(**environment),
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=HELPERS,
        check=False,
    )
    assert finished.returncode == 0, f"exit status {finished.returncode}\n{finished.stdout}\n{finished.stderr}"
    return finished.stdout
