# SPDX-License-Identifier: Apache-2.0
"""Run a program under a tool of compute-sanitizer, which is to find nothing."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import textwrap

import pytest
from programs import HELPERS, program_environment

GPU = {"JAX_PLATFORMS": "cuda,cpu"}
TOOLS = ("memcheck", "racecheck")
PORTS = 100  # to choose from: with ten, those that run beside one another find none
ATTEMPTS = 4  # of thirty runs beside one another the sanitizer itself dies in about one, by a signal
SECONDS = 240  # for an attempt


def sanitized(tool, folder, program, *arguments, kernel=None):
    """Return what the program printed; skip where the tool cannot run, or where the program says that it skipped.

    If `kernel` is part of names of kernels, it looks at those alone. Let racecheck look at all with clusters of blocks:
    that of CUDA 13.0 breaks those that it leaves out, whatever they do, and counts a hazard.
    """
    sanitizer = shutil.which("compute-sanitizer")
    if sanitizer is None:
        pytest.skip("compute-sanitizer is not on PATH")
    log = folder / "log"
    options = {"tool": tool, "error-exitcode": 9, "max-connections": PORTS, "log-file": log}
    if kernel is not None:
        options["kernel-regex"] = f"kns={kernel}"  # deprecated, but older ones know it too
    command = [sanitizer, *(str(word) for name, value in options.items() for word in (f"--{name}", value))]
    command += [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    for _ in range(ATTEMPTS):
        log.unlink(missing_ok=True)
        status, printed, told = _run(command, folder)
        if status >= 0:
            break
    said = log.read_text() if log.is_file() else "compute-sanitizer said nothing"
    if "not supported" in said:
        pytest.skip("compute-sanitizer does not support this device's driver")
    if printed.startswith("skipped"):
        pytest.skip(printed)
    assert status == 0, f"exit status {status}\n{said[-4000:]}\n{printed[-1000:]}\n{told[-4000:]}"
    assert "ERROR SUMMARY: 0 errors" in said or "0 hazards" in said
    return printed


def _run(command, folder):
    """Return its exit status and what it printed and told, at once: nobody waits for what it left running."""
    # Every array in memory of its own, so that a step over its end is seen.
    environment = program_environment(**GPU, XLA_PYTHON_CLIENT_ALLOCATOR="platform")
    out, err = folder / "out", folder / "err"
    with out.open("w") as printed, err.open("w") as told:
        process = subprocess.Popen(
            command, stdout=printed, stderr=told, env=environment, cwd=HELPERS, start_new_session=True
        )
        try:
            status = process.wait(SECONDS)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return status, out.read_text().strip(), err.read_text().strip()
