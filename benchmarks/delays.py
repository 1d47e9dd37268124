# SPDX-License-Identifier: Apache-2.0
"""A step of spikes through synapses with a delay each, as many as PD14 delivers, beside a loop in C++."""

from collections.abc import Sequence
from typing import Any

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

# Neurons, spikes of a step, synapses of each, and the ring are those of PD14. Fewer rows have synapses: still far more
# than all caches hold.
_PD14 = {"neurons": 77_169, "synapses": 3_876, "active": 25, "slots": 64}
_CPP, _ALONE, _LAID = "C++ by hand", "the loop alone", "delay_layout, deliver"
_PLAIN = "delay_deliver"  # is quicker on a GPU


def measure_rows(options: Options) -> Sequence[Row | Failed]:
    """On a CPU, beside C++ for one thread over the same arrays."""
    rows, found = [], _measured(options, "cpu", rows=6_000, steps=300, cpp=True)
    if isinstance(found, Failed):
        return [found]
    for name, samples in found.items():
        ours = {"baseline": found[_CPP], "ratio_to": _CPP} if name != _CPP else {}
        bar = Bar(0.6) if name == _LAID else None
        rows.append(make_row("delays", name, "us a step", samples, bar=bar, **ours))
    return rows


def measure_gpu_rows(options: Options) -> Sequence[Row | Failed]:
    """On a GPU, less what the loop takes without deliveries."""
    found = _measured(options, "gpu", rows=10_000, steps=2_000, cpp=False)
    if isinstance(found, Failed):
        return [found]
    rows = [make_row("gpu_delays", _ALONE, "us a step", found[_ALONE])]
    for name, samples in found.items():
        if name != _ALONE:
            net = [sample - alone for sample, alone in zip(samples, found[_ALONE], strict=True)]
            bar = Bar(15.0, on="value") if name == _PLAIN else None
            rows.append(make_row("gpu_delays", f"{name}, less the loop", "us a step", net, bar=bar))
    return rows


def _measured(options: Options, platform: Any, **how: Any) -> dict[str, list[float]] | Failed:
    rounds = options.choose_rounds(full=9, quick=3)
    try:
        answer = run_probe("delays", {**_PD14, **how, "rounds": rounds}, platform=platform)
    except ProbeError as error:
        return Failed("deliveries of PD14", last_line(error))
    return {name: [1e6 * sample for sample in samples] for name, samples in answer.items()}
