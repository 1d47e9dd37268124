# SPDX-License-Identifier: Apache-2.0
"""How PD14 fires, of one seed: rates, irregularity and correlations of each population, and some of its spikes."""

import hashlib
from typing import Any

import numpy as np

from benchmarks.probes.network_described import DT, LAYERS, SIZES, ours

_LEAST = 3  # intervals of a neuron whose irregularity counts
_PAIRED = 200  # neurons of a population that are correlated with each other
_BIN = 2.0  # ms
SHOWN = 20  # every how many-th neuron is in the picture
SHOWN_FOR = 300.0  # ms


def measure(drive: str, seed: int, steps: int, discard: int, threads: int | None = None) -> dict[str, Any]:
    """Run the network, and return numbers of each population in the order of `LAYERS`.

    `digest` is one of all spikes: it is the same in every engine and on every machine.
    """
    simulation = ours(f"pd14_{drive}", 0, threads, seed)
    simulation.run(discard)
    result = simulation.run(steps, record=[f"{name}.spikes" for name in LAYERS])
    spikes = [result[f"{name}.spikes"] for name in LAYERS]
    found = [_statistics(one) for one in spikes]
    return {
        "statistics": {name: [one[name] for one in found] for name in found[0]},
        "digest": _digest(spikes),
        "raster": [_some(one, size) for one, size in zip(spikes, SIZES, strict=True)],
    }


def _statistics(spikes: Any) -> dict[str, float]:
    rates = spikes.rates()
    variations = coefficients_of_variation(spikes.times, spikes.neurons)
    pairs = correlations(spikes.times - spikes.first * DT, spikes.neurons, spikes.duration)
    return {
        "rate": float(rates.mean()),
        "sd of rates": float(rates.std()),
        "CV": float(variations.mean()),
        "sd of CV": float(variations.std()),
        "correlation": float(pairs.mean()),
        "sd of correlation": float(pairs.std()),
    }


def coefficients_of_variation(times: np.ndarray, neurons: np.ndarray) -> np.ndarray:
    """Standard deviation over mean of the intervals of each neuron that has at least three."""
    order = np.lexsort((times, neurons))
    of, intervals = neurons[order], np.diff(times[order])
    same = of[1:] == of[:-1]
    of, intervals = of[1:][same], intervals[same]
    size = int(neurons.max(initial=0)) + 1
    counts = np.bincount(of, minlength=size)
    many = counts >= _LEAST
    means = np.bincount(of, intervals, size)[many] / counts[many]
    squares = np.bincount(of, intervals**2, size)[many] / counts[many]
    return np.sqrt(np.maximum(squares - means**2, 0)) / means


def correlations(times: np.ndarray, neurons: np.ndarray, duration: float) -> np.ndarray:
    """Correlation of spike counts in bins of 2 ms, of each pair among the first 200 neurons that spike.

    Times are in milliseconds from the beginning; silent bins count.
    """
    active = np.unique(neurons)[:_PAIRED]
    chosen = np.isin(neurons, active)
    bins = (times[chosen] / _BIN + 1e-6).astype(int)
    rows = np.searchsorted(active, neurons[chosen])
    counts = np.zeros((active.size, round(duration / _BIN)))
    np.add.at(counts, (rows, bins), 1)
    return np.corrcoef(counts)[np.triu_indices(active.size, 1)]


def _digest(spikes: list[Any]) -> str:
    digest = hashlib.sha256()
    for one in spikes:
        digest.update(np.rint(one.times / DT).astype(np.uint32).tobytes() + one.neurons.astype(np.uint32).tobytes())
    return digest.hexdigest()[:16]


def _some(spikes: Any, size: int) -> dict[str, list[int]]:
    """The last spikes of every twentieth neuron: tenths of a millisecond since then, and numbers among those shown."""
    last = spikes.first * DT + spikes.duration
    some = spikes.of(slice(0, size, SHOWN)).between(last - SHOWN_FOR, last)
    steps = np.rint((some.times - last + SHOWN_FOR) / DT).astype(int)
    return {"steps": steps.tolist(), "neurons": (some.neurons // SHOWN).tolist()}
