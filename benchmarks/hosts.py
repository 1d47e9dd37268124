# SPDX-License-Identifier: Apache-2.0
"""Measure the parts of a step of a network on several hosts, on one machine, and predict the time on many.

`python -m benchmarks.hosts` starts processes of `jax.distributed` on this machine, and writes a file of results. It
measures an all-gather for numbers of bytes and processes, a step without exchange, and runs with exchange. With `gpu`,
one to four processes have a GPU each, and two have two each. The rest, marked as a prediction, follows from
`predicted`: no network of several hosts was measured.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import platform
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
NEURONS, INPUTS, RATE = 20_000, 1000, 8.0  # of the network that is measured; spikes a second, about
SIZES = (1_024, 16_384, 262_144, 4_194_304)  # bytes of a process
DELAYS = (1, 2, 5, 15, 50)  # steps
HOSTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
LATENCY, BANDWIDTH = 20e-6, 10e9  # of a message between two hosts, in seconds, and bytes a second: assumed
GPU_SIZES, GPU_DELAYS = ((640_000, 1000),), (15, 1, 50, 5)  # neurons and inputs of each
GPU_COUNTS = (2, 1, 4)
GPU_LATENCY, GPU_BANDWIDTH = 5e-6, 40e9  # of a message between two GPUs of different hosts: assumed
SCALES = (1, 100)  # times the neurons of the largest of these networks
PADDING = 2  # messages of GPUs have room for a power of two of spikes


def predicted(
    hosts: int,
    delay: int,
    step: float,
    spikes: float,
    fixed: float,
    *,
    latency: float = LATENCY,
    bandwidth: float = BANDWIDTH,
    padding: float = 1,
    tree: bool = False,
) -> float:
    """Return the predicted time of a step, in seconds.

    Args:
        hosts: How many hosts share the network.
        delay: Steps between two exchanges.
        step: Time of a step of the whole network on one host, which hosts divide evenly.
        spikes: Spikes of the whole network in a step, of four bytes each.
        fixed: Time that an exchange takes in one host whatever it sends: JAX, and packing.
        latency: Of a message between two hosts, in seconds.
        bandwidth: Bytes a second.
        padding: How many times the bytes of all spikes are sent.
        tree: Whether messages go through a tree instead of a ring.
    """
    if hosts == 1:
        return step
    sent = padding * 4 * spikes * delay * (hosts - 1) / hosts  # a ring passes on all that others send
    turns = math.ceil(math.log2(hosts)) if tree else hosts - 1
    return step / hosts + (fixed + latency * turns + sent / bandwidth) / delay


def _on_gpus(number: int, count: int, address: str, apiece: int) -> None:
    """Measure one of some processes with some GPUs each."""
    import jax

    if count > 1:
        own = list(range(number * apiece, (number + 1) * apiece))
        jax.distributed.initialize(address, count, number, local_device_ids=own)
    import brainevent as be

    found: dict[str, Any] = {"processes": count, "gpus_each": apiece, "gather_us": {}, "run": []}
    how: dict[str, Any] = {"hosts": "all", "devices": "all" if apiece > 1 else None} if count > 1 else {}
    for neurons, inputs in GPU_SIZES:
        for delay in GPU_DELAYS:
            cells = be.models.lif_delta("cells", neurons, current=be.uniform(5, 25))
            rule = be.connect.in_degree(inputs, weight=be.normal(0.002, 0.0004))
            links = be.Projection(cells, cells, rule, into="syn", delay=0.1 * delay)
            network = be.Network([cells], [links], dt=0.1)
            began = time.perf_counter()
            sim = network.build(seed=1, backend="cuda", **how)
            built = time.perf_counter() - began
            if count > 1 and not found["gather_us"]:
                found["gather_us"], found["parts_us"] = _gathers(sim.engine), _pieces(sim.engine)
            row = {"neurons": neurons, "synapses": neurons * inputs, "delay": delay}
            row["build_s"] = round(built, 2)
            found["run"].append(row | _steps(sim, 1000 if delay < 15 else 3000))
            if delay == 15:
                found["run"][-1]["spikes_recorded_us"] = _steps(sim, 3000, "cells.spikes")["step_us"]
            del sim
    if number == 0:
        found["device"] = jax.local_devices()[0].device_kind
        print(json.dumps(found), flush=True)
    os._exit(0)


def _steps(sim: Any, steps: int, record: str = "cells.counts") -> dict[str, Any]:
    """Return the time of a step, in microseconds: the difference between long and short runs; and that of a run."""
    sim.run(300)
    short, times, rates = steps // 4, dict[int, list[float]](), list[float]()
    for count in (short, steps) * 3:
        began = time.perf_counter()
        found = sim.run(count, record)[record]
        times.setdefault(count, []).append(1e6 * (time.perf_counter() - began))
        rates += [float(found.mean()) / count * 1e4] if record.endswith("counts") else []
    each = [(after - before) / (steps - short) for before, after in zip(times[short], times[steps], strict=True)]
    step = sorted(each)[1]
    run = sorted(times[short])[1] - short * step
    known = {"step_us": round(step, 2), "all_us": [round(t, 2) for t in each], "run_us": round(run)}
    return known | ({"rate_hz": round(rates[-1], 2)} if rates else {})


def _gathers(engine: Any) -> dict[int, list[float]]:
    """Return how long an exchange takes, in microseconds: percentiles by bytes of a process."""
    own, found = engine._own, {}
    for size in SIZES:
        own._make_room(size // 4)
        times = []
        for _ in range(53):
            began = time.perf_counter()
            own.told(engine.step, engine.step, 0)
            times.append(1e6 * (time.perf_counter() - began))
        found[size] = [round(float(x), 1) for x in np.percentile(times[3:], (10, 50, 90))]
    own._make_room(1024)
    return found


def _pieces(engine: Any) -> dict[str, float]:
    """Return how long parts of an exchange take, in microseconds, of many that are launched at once."""
    own, found = engine._own, {}
    messages, many = own._messages, 200
    parts = {
        "message": lambda: own.gpus[0].told.tell(0, messages.addresses[0], own._room),
        "gather": lambda: messages.gather(lambda *_: None),
        "gather and deliver": lambda: own._exchange(engine.step, 1),
    }
    for name, act in parts.items():
        for repeats in (10, many):
            messages.wait()
            began = time.perf_counter()
            for _ in range(repeats):
                act()
            launched = time.perf_counter() - began
            messages.wait()
        found[name] = round(1e6 * (time.perf_counter() - began) / many, 2)
        found[f"launch of {name}"] = round(1e6 * launched / many, 2)
    return found


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


def _measured(count: int, *, gpu: bool = False, apiece: int = 1) -> dict[str, Any]:
    with contextlib.closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    of_gpu = {"JAX_PLATFORMS": "cuda,cpu", "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    environment = {**os.environ, **(of_gpu if gpu else {"JAX_PLATFORMS": "cpu"})}
    command = [sys.executable, "-m", "benchmarks.hosts", *(["gpu"] if gpu else [])]
    running = [
        subprocess.Popen([*command, *arguments], env=environment, stdout=subprocess.PIPE, text=True)
        for arguments in ((str(number), str(count), address, str(apiece)) for number in range(count))
    ]
    said = [process.communicate()[0] for process in running]
    return dict(json.loads(next(line for line in said[0].splitlines() if line.startswith("{"))))


def main() -> None:
    """Measure, predict, and write the file."""
    measured = [_measured(count) for count in (1, 2, 3)]
    prediction = prediction_on_cpus(measured)
    result = {
        "machine": {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()},
        "network": {"neurons": NEURONS, "synapses": NEURONS * INPUTS},
        "measured on one machine": measured,
        "predicted, not measured": prediction,
    }
    file = RESULTS / f"{datetime.now(UTC):%Y-%m-%d}-hosts-cpu.json"
    file.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(measured, indent=1))
    for line in prediction["steps"]:
        print(line)


def prediction_on_cpus(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the times of a step that follow for many hosts from what was measured in one process and in two.

    A step is that of one process with the longest delay, and an exchange is an all-gather of 1 kB.
    """
    alone, two = measured[0]["run"][-1], measured[1]
    fixed = two["gather_us"][str(SIZES[0])][1] * 1e-6
    step, spikes = alone["step_us"] * 1e-6, NEURONS * alone["rate_hz"] * 1e-4
    cases = {
        "the network that was measured": (step, spikes),
        "100 times as many neurons": (100 * step, 100 * spikes),
    }
    steps = [
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
    return {"latency_s": LATENCY, "bytes_a_second": BANDWIDTH, "fixed_s": fixed, "steps": steps}


def main_on_gpus() -> None:
    """Measure numbers of GPUs, predict, and write the file."""
    from brainevent.network.gpu.cuda_device import number_of_gpus

    measured = []
    for count in GPU_COUNTS:
        if count <= number_of_gpus():
            measured.append(_measured(count, gpu=True))
            print(json.dumps(measured[-1]), flush=True)
    measured.sort(key=lambda one: one["processes"])
    result = {"measured on one machine": measured, "predicted, not measured": prediction_of(measured)}
    if number_of_gpus() >= 4:
        result["measured with two GPUs in each of two processes"] = two_each = _measured(2, gpu=True, apiece=2)
        print(json.dumps(two_each), flush=True)
    file = RESULTS / f"{datetime.now(UTC):%Y-%m-%d}-nvidia-h200-hosts.json"
    file.write_text(json.dumps(result, indent=1) + "\n")


def prediction_of(measured: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the times of a step that follow for many GPUs from what was measured on one and two.

    What an exchange takes on two GPUs is the difference to half a step of one, with an exchange in each step. A step of
    one GPU is that with the same delay, if it was measured.
    """
    alone = max(measured[0]["run"], key=lambda run: run["neurons"])
    alone = next(r for r in measured[0]["run"] if r["neurons"] == alone["neurons"] and r["delay"] == 15)
    steps_of_one = {r["delay"]: 1e-6 * r["step_us"] for r in measured[0]["run"] if r["neurons"] == alone["neurons"]}
    of_two = {r["delay"]: 1e-6 * r["step_us"] for r in measured[1]["run"] if r["neurons"] == alone["neurons"]}
    step = steps_of_one[15]
    fixed = of_two[1] - steps_of_one.get(1, step) / 2
    spikes = alone["neurons"] * alone["rate_hz"] * 1e-4
    how = {"latency": GPU_LATENCY, "bandwidth": GPU_BANDWIDTH, "padding": PADDING}
    steps = [
        {
            "scale": scale,
            "delay": delay,
            "gpus": gpus,
            **{
                f"{name}_us": round(
                    1e6
                    * predicted(
                        gpus, delay, scale * steps_of_one.get(delay, step), scale * spikes, fixed, tree=tree, **how
                    ),
                    2,
                )
                for name, tree in (("ring", False), ("tree", True))
            },
        }
        for scale in SCALES
        for delay in (1, 15, 50)
        for gpus in HOSTS
    ]
    about = {"latency_s": GPU_LATENCY, "bytes_a_second": GPU_BANDWIDTH, "padding": PADDING, "fixed_s": round(fixed, 9)}
    return {**about, "neurons": alone["neurons"], "synapses": alone["synapses"], "steps": steps}


if __name__ == "__main__":
    asked = sys.argv[1:]
    on_gpus = asked[:1] == ["gpu"]
    given = asked[on_gpus:]
    if given:
        number, count, address, apiece = int(given[0]), int(given[1]), given[2], int(given[3])
        _on_gpus(number, count, address, apiece) if on_gpus else _worker(number, count, address)
    else:
        main_on_gpus() if on_gpus else main()
