# SPDX-License-Identifier: Apache-2.0
"""Measure the parts of a step of a network on several hosts, on one machine, and predict the time on many.

`python -m benchmarks.hosts` starts processes of `jax.distributed` on this machine, and writes a file of results. It
measures an all-gather for numbers of bytes and processes, a step without exchange, and runs with exchange. The rest,
marked as a prediction, follows from `predicted`: no network of several hosts was measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
NEURONS, INPUTS, RATE = 20_000, 1000, 8.0  # of the network that is measured; spikes a second, about
SIZES = (1_024, 16_384, 262_144, 4_194_304)  # bytes of a process
DELAYS = (1, 2, 5, 15, 50)  # steps
HOSTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
LATENCY, BANDWIDTH = 20e-6, 10e9  # of a message between two hosts, in seconds, and bytes a second: assumed


def predicted(hosts: int, delay: int, step: float, spikes: float, fixed: float) -> float:
    """Return the predicted time of a step, in seconds.

    Args:
        hosts: How many hosts share the network.
        delay: Steps between two exchanges.
        step: Time of a step of the whole network on one host, which hosts divide evenly.
        spikes: Spikes of the whole network in a step, of four bytes each.
        fixed: Time that an exchange takes in one host whatever it sends: JAX, and packing.
    """
    if hosts == 1:
        return step
    sent = 4 * spikes * delay * (hosts - 1) / hosts  # a ring passes on all that others send
    return step / hosts + (fixed + LATENCY * (hosts - 1) + sent / BANDWIDTH) / delay


def _worker(number: int, count: int, address: str) -> None:
    import jax

    if count > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(address, count, number)
    import brainevent as be
    from brainevent.network.hosts.processes import Processes

    found: dict[str, object] = {"processes": count, "gather_us": {}, "run": []}
    processes = Processes()
    for size in SIZES if count > 1 else ():
        words = np.zeros(size // 4, np.uint32)
        times = []
        for _ in range(30):
            began = time.perf_counter()
            processes.gathered(words)
            times.append(1e6 * (time.perf_counter() - began))
        found["gather_us"][size] = [round(float(x), 1) for x in np.percentile(times[3:], (10, 50, 90))]  # type: ignore[index]
    for delay in DELAYS:
        cells = be.models.lif_delta("cells", NEURONS, current=be.uniform(5, 25))
        rule = be.connect.in_degree(INPUTS, weight=be.normal(0.002, 0.0004))
        links = be.Projection(cells, cells, rule, into="syn", delay=0.1 * delay)
        sim = be.Network([cells], [links], dt=0.1).build(seed=1, backend="numba", threads=1, hosts="all")
        sim.run(500)
        gathers, waited = sim.engine.processes.gathers, sim.engine.processes.seconds  # type: ignore[attr-defined]
        began, used = time.perf_counter(), time.process_time()
        counts = sim.run(1000, "cells.counts")["cells.counts"]
        took, used = time.perf_counter() - began, time.process_time() - used
        joined = sim.engine.processes  # type: ignore[attr-defined]
        found["run"].append(  # type: ignore[attr-defined]
            {
                "delay": delay,
                "step_us": round(1e3 * took, 2),
                "cpu_us": round(1e3 * used, 2),
                "in_gathers_us": round(1e3 * (joined.seconds - waited), 2),
                "gathers": joined.gathers - gathers,
                "rate_hz": round(float(counts.mean()) / 0.1, 2),
            }
        )
    if number == 0:
        print(json.dumps(found), flush=True)
    os._exit(0)


def _measured(count: int) -> dict[str, object]:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "benchmarks.hosts"]
    running = [
        subprocess.Popen([*command, *arguments], env=environment, stdout=subprocess.PIPE, text=True)
        for arguments in ((str(number), str(count), address) for number in range(count))
    ]
    said = [process.communicate()[0] for process in running]
    return dict(json.loads(next(line for line in said[0].splitlines() if line.startswith("{"))))


def main() -> None:
    """Measure, predict, and write the file."""
    measured = [_measured(count) for count in (1, 2, 3)]
    alone, two = measured[0]["run"][-1], measured[1]  # type: ignore[index]
    fixed = two["gather_us"][str(SIZES[0])][1] * 1e-6  # type: ignore[index]
    step, spikes = alone["step_us"] * 1e-6, NEURONS * alone["rate_hz"] * 1e-4
    cases = {
        "the network that was measured": (step, spikes),
        "100 times as many neurons": (100 * step, 100 * spikes),
    }
    prediction = [
        {
            "network": name,
            "delay": delay,
            "hosts": hosts,
            "step_us": round(1e6 * predicted(hosts, delay, one, many, fixed), 2),
        }
        for name, (one, many) in cases.items()
        for delay in (1, 15, 100)
        for hosts in HOSTS
    ]
    result = {
        "machine": {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()},
        "network": {"neurons": NEURONS, "synapses": NEURONS * INPUTS},
        "measured on one machine": measured,
        "predicted, not measured": {
            "latency_s": LATENCY,
            "bytes_a_second": BANDWIDTH,
            "fixed_s": fixed,
            "steps": prediction,
        },
    }
    file = RESULTS / f"{datetime.now(UTC):%Y-%m-%d}-hosts-cpu.json"
    file.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(measured, indent=1))
    for line in prediction:
        print(line)


if __name__ == "__main__":
    _worker(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]) if len(sys.argv) > 1 else main()
