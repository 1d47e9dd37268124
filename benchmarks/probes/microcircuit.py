# SPDX-License-Identifier: Apache-2.0
"""PD14 by hand, in C++: the seconds of some steps, the rate of each population in Hz, and the memory."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.probes.network import build_program

SOURCE = Path(__file__).with_name("microcircuit.cc")
LAYERS = ("L23E", "L23I", "L4E", "L4I", "L5E", "L5I", "L6E", "L6I")


def measure(drive: str, steps: int, discard: int, seed: int = 0, percent: int = 100) -> dict[str, Any]:
    """Run it once, on one processor; `neurons` are the seconds of the loop over neurons, with their drive."""
    os.sched_setaffinity(0, [max(os.sched_getaffinity(0))])
    with tempfile.TemporaryDirectory() as folder:
        command = [build_program(SOURCE, folder), drive, str(steps), str(discard), str(seed), str(percent)]
        seconds, neurons, memory, *rates = subprocess.check_output(command, text=True).split()
    found = dict(zip(LAYERS, map(float, rates), strict=True))
    return {"seconds": [float(seconds)], "neurons": float(neurons), "rates": found, "resident": int(memory)}
