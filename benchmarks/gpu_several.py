# SPDX-License-Identifier: Apache-2.0
"""Large networks on one, two and four GPUs: time of a step, seconds to build them, memory, and rates."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "gpu_several"
_DT = 1e-4  # seconds of the network's time, in a step
GPUS = (1, 2, 4)
_BUILD, _BYTES = 5.0, 9.0  # seconds after compilation, and bytes of a synapse, at most


@dataclass(frozen=True)
class Large:
    """A network, and what is asked of it.

    Attributes:
        title: Its name in rows.
        scale: Which fraction of its neurons there is.
        steps: How many are timed, after half as many.
        within: Between which its mean rate is, in Hz.
        bars: By number of GPUs, the longest step with nothing recorded, in microseconds.
        factor: By number of GPUs, the largest real-time factor with rates recorded.
        gpus: On how many GPUs it runs.
    """

    title: str
    scale: float
    steps: int
    within: tuple[float, float]
    bars: dict[int, float]
    factor: dict[int, float]
    gpus: tuple[int, ...] = GPUS


# At scale 1, areas need more memory than one GPU has. Rates: of the microcircuit, of areas on a CPU with the same
# inputs or the same scale, and of network.cc.
RUNS = {
    ("areas", 0.1): Large("32 areas at 10 %", 0.1, 10_000, (1.5, 4.5), {}, {}),
    ("areas", 1.0): Large("32 areas", 1.0, 10_000, (2.5, 6), {}, {4: 0.45}, (2, 4)),
    ("pd14_four", 1.0): Large("PD14, four times", 1.0, 10_000, (2.9, 3.6), {1: 7.5, 4: 4.6}, {}),
    ("cuba_late", 1.0): Large("CUBA, 4 million, delays of 1.5 ms", 1.0, 2_000, (5.2, 6.1), {4: 4.6}, {}),
    ("cuba_16", 1.0): Large("CUBA, 16 million", 1.0, 1_000, (5.2, 6.1), {4: 18}, {}),
}


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """Each network on each number of GPUs; all must have the same numbers of spikes."""
    repeats = options.choose_rounds(full=3, quick=1)
    for (model, scale), large in RUNS.items():
        digests: dict[int, str] = {}
        for gpus in large.gpus:
            title = f"{large.title}, {gpus} GPU{'' if gpus == 1 else 's'}"
            arguments = {"model": model, "scale": scale, "steps": large.steps, "discard": large.steps // 2}
            try:
                answer = run_probe("network_large", {**arguments, "repeats": repeats, "devices": gpus}, platform="gpu")
            except ProbeError as error:
                yield Failed(title, last_line(error))
                continue
            yield from rows_of(title, large, gpus, answer)
            digests[gpus] = answer["digest"]
        if len(set(digests.values())) > 1:
            yield Failed(f"{large.title}: numbers of spikes", f"they differ between numbers of GPUs: {digests}")


def rows_of(title: str, large: Large, gpus: int, answer: dict[str, Any]) -> Iterator[Row | Failed]:
    """Make the rows of a network on a number of GPUs; say if it is another network."""
    low, high = large.within
    if not low <= answer["rate"] <= high:
        yield Failed(title, f"it fires at {answer['rate']:.2f} Hz, not at {low:g} to {high:g} Hz: another network")
        return
    rates = " ".join(f"{name} {rate:.2f}" for name, rate in list(answer["of"].items())[:8])
    said = f"{answer['neurons']} neurons, {answer['synapses']} synapses, {answer['rate']:.2f} Hz ({rates})"
    step = [1e6 * seconds / large.steps for seconds in answer["nothing"]]
    bar = Bar(large.bars[gpus], on="value") if gpus in large.bars else None
    yield make_row(NAME, f"{title}: a step, nothing recorded", "us", step, bar=bar, note=said)
    factors = [seconds / (large.steps * _DT) for seconds in answer["rates"]]
    bar = Bar(large.factor[gpus], on="value") if gpus in large.factor else None
    yield make_row(NAME, f"{title}: rates recorded", "RTF", factors, bar=bar, note=f"{large.steps} steps")
    first, again = answer["building"]
    described = f"described in {answer['described']:.2f} s"
    yield make_row(NAME, f"{title}: building, compiled before", "s", [again], bar=Bar(_BUILD, on="value"))
    yield make_row(NAME, f"{title}: building, compiling included", "s", [first], note=described)
    held = answer["bytes"] / answer["synapses"]
    yield make_row(NAME, f"{title}: memory of synapses", "bytes a synapse", [held], bar=Bar(_BYTES, on="value"))
