# SPDX-License-Identifier: Apache-2.0
"""The network of examples/networks/vogels.py in Brian2, built as a C++ program of its own: seconds and rates."""

import resource
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.probes.network import limit_processors
from benchmarks.probes.network_brian import run_program

_NEURON = """
    dv/dt = (-60*mV + 20*mV - v + exc * (0*mV - v) + inh * (-80*mV - v)) / (20*ms) : volt (unless refractory)
    dexc/dt = -exc / (5*ms) : 1
    dinh/dt = -inh / (10*ms) : 1
"""
_SYNAPSE = """
    w : 1
    dx/dt = -x / (20*ms) : 1 (event-driven)
    dy/dt = -y / (20*ms) : 1 (event-driven)
"""
_ON_PRE = "inh_post += w; w = clip(w + eta * (y - 0.12), 0, 10); x += 1"
_ON_POST = "w = clip(w + eta * x, 0, 10); y += 1"


def measure(n: int, steps: int, repeats: int, threads: int) -> dict[str, Any]:
    """Build the program once, and run it several times; it reports itself how long its steps took.

    Of the CPU time of the program, its steps have the same part as of its time.
    """
    limit_processors(threads)
    import setuptools  # noqa: F401, I001 - first: it brings distutils, which Brian2 imports and Python 3.12 lacks
    import brian2
    from brian2 import ms

    with tempfile.TemporaryDirectory() as folder:
        brian2.set_device("cpp_standalone", directory=folder, build_on_run=False)
        brian2.prefs.devices.cpp_standalone.openmp_threads = 0 if threads == 1 else threads  # 0: no OpenMP
        brian2.prefs.core.default_float_dtype = brian2.float32
        brian2.defaultclock.dt = 0.1 * ms
        neurons = brian2.NeuronGroup(
            n, _NEURON, threshold="v > -50*mV", reset="v = -60*mV", refractory=5 * ms, method="exponential_euler"
        )
        neurons.v = "-60*mV + rand() * 10*mV"
        exc, inh = neurons[: n * 4 // 5], neurons[n * 4 // 5 :]
        fixed = brian2.Synapses(exc, neurons, on_pre="exc += 0.03"), brian2.Synapses(inh, inh, on_pre="inh += 0.3")
        balance = brian2.Synapses(inh, exc, _SYNAPSE, on_pre=_ON_PRE, on_post=_ON_POST, namespace={"eta": 0.005})
        for synapses in (*fixed, balance):
            synapses.connect(p=200 / n)
            synapses.delay = 0.1 * ms
        monitors = [brian2.SpikeMonitor(part, record=False) for part in (exc, inh)]
        network = brian2.Network(neurons, *fixed, balance, *monitors)
        network.run(steps * 0.1 * ms)
        device = brian2.get_device()
        device.build(run=False, compile=True, directory=folder)
        seconds, processor = [], []
        for _ in range(repeats):
            begin, used = time.perf_counter(), _used()
            run_program(Path(folder))
            part = 1 / (time.perf_counter() - begin)
            seconds.append(float(Path(folder, "results", "last_run_info.txt").read_text().split()[0]))
            processor.append((_used() - used) * seconds[-1] * part)
        device.has_been_run = True
        spikes = [float(monitor.num_spikes) for monitor in monitors]
    sizes = n * 4 // 5, n - n * 4 // 5
    rates = [count / (size * steps * 1e-4) for count, size in zip(spikes, sizes, strict=True)]
    return {"seconds": seconds, "processor": processor, "rates": dict(zip(("exc", "inh"), rates, strict=True))}


def _used() -> float:
    """CPU seconds of programs that have ended."""
    found = resource.getrusage(resource.RUSAGE_CHILDREN)
    return found.ru_utime + found.ru_stime
