# SPDX-License-Identifier: Apache-2.0
"""CUBA and COBA in Brian2, built as a C++ program of its own: seconds, rate and memory as in `network`."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.probes.network import limit_processors

_STATE = {
    "cuba": """
        dv/dt = (exc + inh - (v + 49*mV)) / (20*ms) : volt (unless refractory)
        dexc/dt = -exc / (5*ms) : volt
        dinh/dt = -inh / (10*ms) : volt
    """,
    "coba": """
        dv/dt = (-60*mV + 20*mV - v + exc * (0*mV - v) + inh * (-80*mV - v)) / (20*ms) : volt (unless refractory)
        dexc/dt = -exc / (5*ms) : 1
        dinh/dt = -inh / (10*ms) : 1
    """,
}
_METHOD = {"cuba": "exact", "coba": "exponential_euler"}
_ON_SPIKE = {"cuba": ("exc += 1.62*mV", "inh -= 9*mV"), "coba": ("exc += 0.6", "inh += 6.7")}


def measure(model: str, n: int, steps: int, repeats: int, threads: int | None = None) -> dict[str, Any]:
    """Build the program once, and run it several times; it reports itself how long its steps took.

    Each run draws another network; the rate is that of the last. `threads` is the number of processors to use.
    """
    limit_processors(threads)
    import setuptools  # noqa: F401, I001 - first: it brings distutils, which Brian2 imports and Python 3.12 lacks
    import brian2
    from brian2 import ms

    with tempfile.TemporaryDirectory() as folder:
        brian2.set_device("cpp_standalone", directory=folder, build_on_run=False)
        brian2.prefs.devices.cpp_standalone.openmp_threads = 0 if threads in (None, 1) else threads  # 0: no OpenMP
        brian2.prefs.core.default_float_dtype = brian2.float32
        brian2.defaultclock.dt = 0.1 * ms
        neurons = brian2.NeuronGroup(
            n, _STATE[model], threshold="v > -50*mV", reset="v = -60*mV", refractory=5 * ms, method=_METHOD[model]
        )
        neurons.v = "-60*mV + rand() * 10*mV" if model == "cuba" else "-55*mV + randn() * 5*mV"
        if model == "coba":
            neurons.exc, neurons.inh = "4 + 1.5 * randn()", "20 + 12 * randn()"
        parts = neurons[: n * 4 // 5], neurons[n * 4 // 5 :]
        synapses = []
        for part, effect in zip(parts, _ON_SPIKE[model], strict=True):
            synapses.append(brian2.Synapses(part, neurons, on_pre=effect))
            synapses[-1].connect(p=80 / n)
        monitor = brian2.SpikeMonitor(neurons)
        network = brian2.Network(neurons, *synapses, monitor)
        network.run(steps * 0.1 * ms)
        device = brian2.get_device()
        device.build(run=False, compile=True, directory=folder)
        seconds, resident = [], 0
        for _ in range(repeats):
            resident = run_program(Path(folder))
            seconds.append(float(Path(folder, "results", "last_run_info.txt").read_text().split()[0]))
        device.has_been_run = True
        rate = float(monitor.num_spikes) / (n * steps * 1e-4)
    return {"seconds": seconds, "rate": rate, "resident": resident}


def run_program(folder: Path) -> int:
    """Run the program, and return the most memory that was resident."""
    program = subprocess.Popen([str(folder / "main")], cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(program.pid, 0)
    program.returncode = os.waitstatus_to_exitcode(status)
    if program.returncode:
        raise RuntimeError(f"Brian2's program: exit status {program.returncode}")
    return used.ru_maxrss * 1024
