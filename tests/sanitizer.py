# SPDX-License-Identifier: Apache-2.0
"""Run a program under a tool of compute-sanitizer, which is to find nothing."""

import shutil
import subprocess
import sys

import pytest
from programs import run_program

GPU = {"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
TOOLS = ("memcheck", "racecheck")
PORTS = 100  # to choose from: with ten, those that run beside one another find none


def sanitized(tool, folder, program, *arguments, kernel=None):
    """Return what the program printed; skip where the tool cannot run, or where the program says that it skipped.

    If `kernel` is part of names of kernels, it looks at those alone.
    """
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not on PATH")
    log, launcher = folder / "log", folder / "python"
    only = "" if kernel is None else f"--kernel-regex kns={kernel}"  # deprecated, but older ones know it too
    launcher.write_text(
        f'#!/bin/sh\nexec "{sanitizer}" --tool {tool} --error-exitcode 9 --max-connections {PORTS} {only} '
        f'--log-file "{log}" "{sys.executable}" "$@"\n'
    )
    launcher.chmod(0o755)
    # Every array in memory of its own, so that a step over its end is seen.
    environment = {**GPU, "XLA_PYTHON_CLIENT_ALLOCATOR": "platform"}
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "executable", str(launcher))
            printed = run_program(program, *arguments, timeout=500, **environment).strip()
    except (AssertionError, subprocess.TimeoutExpired) as error:
        said = log.read_text() if log.is_file() else ""
        if "not supported" in said:
            pytest.skip("compute-sanitizer does not support this device's driver")
        raise AssertionError(f"{said[-4000:] or 'compute-sanitizer said nothing'}\n{str(error)[-4000:]}") from None
    if printed.startswith("skipped"):
        pytest.skip(printed)
    assert "ERROR SUMMARY: 0 errors" in log.read_text() or "0 hazards" in log.read_text()
    return printed
