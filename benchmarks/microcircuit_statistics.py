# SPDX-License-Identifier: Apache-2.0
"""How PD14 fires, over ten seeds: rates, irregularity and correlations of each population, beside other programs."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.options import Options
from benchmarks.probes.microcircuit import LAYERS
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Band, Data, Failed, Row, make_row
from benchmarks.ways import last_line

_DISCARD = 5_000
_STEPS = {"poisson": 40_000, "dc": 20_000}  # as long as the other program ran
_BY_HAND = "C++ by hand"


@dataclass(frozen=True)
class Other:
    """What another program found, as means over some seeds: a number of each population, to some decimals."""

    program: str
    values: tuple[float, ...]
    decimals: int
    seeds: int = 1

    def band(self, layer: int, samples: Sequence[float], scale: float) -> Band:
        """Where our median is if both run one network: three standard errors of the difference around, and rounding."""
        error = statistics.stdev(samples) * (1 / self.seeds + 1 / len(samples)) ** 0.5
        away = 3 * error + scale * 0.5 * 10**-self.decimals
        return Band(scale * self.values[layer] - away, scale * self.values[layer] + away)


@dataclass(frozen=True)
class Within:
    """Between which values all populations are, in another program."""

    program: str
    low: float
    high: float
    decimals: int

    def band(self, layer: int, samples: Sequence[float], scale: float) -> Band:
        """The same for all populations, with rounding."""
        rounded = 0.5 * 10**-self.decimals
        return Band(scale * (self.low - rounded), scale * (self.high + rounded))


# The published rates are of one run. C++ by hand ran for 4 s with Poisson and for 2 s with DC drive.
PUBLISHED_RATES = (0.903, 2.965, 4.414, 5.876, 7.569, 8.633, 1.105, 7.829)
OTHERS: dict[tuple[str, str], tuple[Other | Within, ...]] = {
    ("poisson", "rate"): (
        Other("published", PUBLISHED_RATES, 3),
        Other(_BY_HAND, (0.86, 2.92, 4.41, 5.86, 7.53, 8.60, 1.12, 7.81), 2, seeds=2),
    ),
    ("poisson", "sd of rates"): (Other(_BY_HAND, (0.9, 2.1, 3.1, 3.8, 4.8, 4.9, 1.4, 4.5), 1),),
    ("poisson", "CV"): (Other(_BY_HAND, (0.73, 0.78, 0.79, 0.79, 0.78, 0.76, 0.74, 0.76), 2),),
    ("poisson", "sd of CV"): (Within(_BY_HAND, 0.16, 0.25, 2),),
    ("poisson", "correlation"): (Other(_BY_HAND, (0.0019, 0.0011, 0.0022, 0.0014, 0.0040, 0.0008, 0.0006, 0.0005), 4),),
    ("poisson", "sd of correlation"): (Within(_BY_HAND, 0.023, 0.032, 3),),
    ("dc", "rate"): (Other(_BY_HAND, (0.88, 2.87, 4.17, 5.66, 7.69, 8.38, 1.10, 7.59), 2),),
    ("dc", "CV"): (Other(_BY_HAND, (0.66, 0.69, 0.70, 0.71, 0.69, 0.67, 0.68, 0.66), 2),),
    ("dc", "correlation"): (Other(_BY_HAND, (0.0049, 0.0031, 0.0038, 0.0022, 0.0071, 0.0014, 0.0007, 0.0012), 4),),
}
_UNITS = {"rate": ("Hz", 1.0), "sd of rates": ("Hz", 1.0), "CV": ("", 1.0), "sd of CV": ("", 1.0)}
_THOUSANDTHS = ("x 0.001", 1e3)


def measure_rows(options: Options) -> Iterator[Row | Failed | Data]:
    """Each statistic of each population, a sample for each seed; and the spikes of the first seed for a picture."""
    yield from _measure("microcircuit_statistics", options, "cpu", {"threads": 2})


def measure_gpu_rows(options: Options) -> Iterator[Row | Failed | Data]:
    """The same on a GPU."""
    yield from _measure("gpu_microcircuit_statistics", options, "gpu", {})


def _measure(
    benchmark: str, options: Options, platform: Literal["cpu", "gpu"], more: dict[str, Any]
) -> Iterator[Row | Failed | Data]:
    seeds = max(2, options.choose_rounds(full=10, quick=2))
    for drive, steps in _STEPS.items():
        answers = []
        for seed in range(seeds):
            arguments = {"drive": drive, "seed": seed, "steps": steps, "discard": _DISCARD, **more}
            try:
                answers.append(run_probe("network_statistics", arguments, platform=platform))
            except ProbeError as error:
                yield Failed(f"PD14, {drive} drive, seed {seed}", last_line(error))
        if len(answers) > 1:
            yield from _rows(benchmark, drive, steps, [answer["statistics"] for answer in answers])
        if answers:
            yield Data(f"PD14, {drive} drive: digests", [answer["digest"] for answer in answers])
        if answers and drive == "poisson":
            yield Data(f"PD14, {drive} drive: raster", answers[0]["raster"])


def _rows(benchmark: str, drive: str, steps: int, found: Sequence[dict[str, Any]]) -> Iterator[Row]:
    """A row for each other program, or one without a bar where none says how it fires."""
    for name in found[0]:
        unit, scale = _UNITS.get(name, _THOUSANDTHS)
        for other in OTHERS.get((drive, name), (None,)):
            for layer, title in enumerate(LAYERS):
                samples = [scale * one[name][layer] for one in found]
                yield make_row(
                    benchmark,
                    f"PD14, {drive} drive: {name}, {title}{f', beside {other.program}' if other else ''}",
                    unit,
                    samples,
                    bar=other.band(layer, samples, scale) if other else None,
                    note=f"{len(found)} seeds of {steps} steps after {_DISCARD}",
                )
