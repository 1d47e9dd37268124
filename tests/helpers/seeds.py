# SPDX-License-Identifier: Apache-2.0
"""The programs of the public pages that describe the system, where a machine has them, and what they check."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from programs import ROOT

CHECKED = {"001_warp": 6, "002_numba_cuda": 10, "003_cuda": 3}  # lines that a complete run checks


def programs() -> Path:
    """Return their folder: $BRAINEVENT_SEEDS, or ../shared/seeds/programs; skip where there is none."""
    folder = Path(os.environ.get("BRAINEVENT_SEEDS") or ROOT.parent / "shared" / "seeds" / "programs")
    if not (folder / "run.py").is_file():
        pytest.skip(f"the programs are not at {folder}; BRAINEVENT_SEEDS says where they are")
    return folder.resolve()


def complete(
    name: str, working_directory: Path, timeout: float, changed: tuple[str, str] = ("", ""), **environment: str
) -> tuple[bool, str]:
    """Run a program, and tell whether it checked all its lines and found them right; and what it said.

    `changed` is a text in it, and what replaces that.
    """
    folder = programs()
    if changed[0]:
        for file in ("run.py", f"{name}.py"):
            (working_directory / file).write_text((folder / file).read_text().replace(*changed))
        folder = working_directory
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    finished = subprocess.run(
        [sys.executable, str(folder / "run.py"), name],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=working_directory,
        check=False,
    )
    said = finished.stdout + finished.stderr
    right = f"\n{name}: ok, {CHECKED[name]} of {CHECKED[name]} checked lines\n" in finished.stdout
    return finished.returncode == 0 and right, said
