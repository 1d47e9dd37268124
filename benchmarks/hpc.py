# SPDX-License-Identifier: Apache-2.0
"""A benchmark of plastic synapses, of which each neuron has 9 000: real-time factors, and memory of a synapse."""

from collections.abc import Iterator
from typing import Any, Literal

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "hpc"
_DT = 1e-4  # seconds of the network's time, in a step
# As published. At scale 1, where neurons share their inputs, oscillations grow after about half a second.
_STEPS, _DISCARD = 2_500, 500
_RATES = 6.0, 25.0  # Hz, of NEST at scale 1 in the same time: 8 to 13, and of several seeds of ours
_BARS = {1.0: 0.08, 20.0: 0.6}  # of the real-time factor on a GPU, by scale
_BYTES = 12.0  # of a plastic synapse on a GPU
_SMALL = 0.1  # on a CPU: a tenth of the neurons, with a tenth of the inputs


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """A tenth of it on the CPU, with one thread and with two; or what `--scale` asks for."""
    repeats = options.choose_rounds(full=5, quick=2)
    for scale in options.scales or (_SMALL,):
        for threads in (1, 2):
            more = {"threads": threads}
            yield from _rows(NAME, scale, min(scale, 1.0), "cpu", repeats, more)


def measure_gpu_rows(options: Options) -> Iterator[Row | Failed]:
    """All of it on a GPU, at scale 1 and 20; or at those of `--scale`, with fewer inputs below 1."""
    repeats = options.choose_rounds(full=5, quick=2)
    for scale in options.scales or tuple(_BARS):
        yield from _rows(f"gpu_{NAME}", scale, min(scale, 1.0), "gpu", repeats, {})


def _rows(
    benchmark: str, scale: float, inputs: float, platform: Literal["cpu", "gpu"], repeats: int, more: dict[str, Any]
) -> Iterator[Row | Failed]:
    threads = more.get("threads")
    title = f"hpc benchmark, scale {scale:g}" + (f", {threads} thread{'s'[: threads - 1]}" if threads else "")
    arguments = {"example": "hpc", "options": {"scale": scale, "inputs": inputs}, "steps": _STEPS, **more}
    try:
        answer = run_probe("network_example", {**arguments, "discard": _DISCARD, "repeats": repeats}, platform=platform)
    except ProbeError as error:
        yield Failed(title, last_line(error))
        return
    low, high = _RATES
    rate = answer["rates"]["exc"]
    if not low < rate < high:
        yield Failed(title, f"it fires at {rate:.2f} Hz, not at {low:g} to {high:g}: another network")
        return
    if answer["changed"] < 0.5:
        yield Failed(title, f"{100 * answer['changed']:.0f} % of the weights changed: nothing was learnt")
        return
    bar = Bar(_BARS[scale], on="value") if platform == "gpu" and scale in _BARS else None
    spikes = sum(answer["rates"][name] * size for name, size in answer["sizes"].items()) * _STEPS * _DT
    note = f"{_STEPS} steps after {_DISCARD}; {rate:.2f} Hz, {spikes:.0f} spikes; {answer['plastic']} plastic synapses"
    yield make_row(benchmark, title, "RTF", [s / (_STEPS * _DT) for s in answer["seconds"]], bar=bar, note=note)
    yield make_row(benchmark, f"{title}: building it, and its first step", "s", answer["building"])
    if answer["bytes"]:
        name = f"{title}: memory on the GPU"
        yield make_row(benchmark, name, "bytes a plastic synapse", [answer["bytes"]], bar=Bar(_BYTES, on="value"))
