# SPDX-License-Identifier: Apache-2.0
"""PD14, the cortical microcircuit, at full scale and at 10 %: the network engine beside C++ by hand."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from benchmarks.options import Options
from benchmarks.probes.microcircuit import LAYERS
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "microcircuit"
_DT = 1e-4  # seconds of the network's time, in a step
DISCARD = 5_000
# Of the real-time factor with two threads, by drive and per cent of the full scale.
_BARS = {("poisson", 100): 4.0, ("dc", 100): 2.5, ("poisson", 10): None}
_BY_HAND = "C++ by hand, 1 thread"


@dataclass(frozen=True)
class Rates:
    """Rates of the populations in Hz, of another program, and how far ours may be from them, as a part.

    `short` is of runs of 10 000 steps: in longer ones it is smaller, as the error of a count is. `least` is of runs of
    any length: with other synapses, a population fires at another rate however long it runs, and rates of the other
    program are means of few seeds, with few digits.
    """

    of: dict[str, float]
    short: float
    least: float

    def tolerance(self, steps: int) -> float:
        """How far a rate may be from the right one after this many steps."""
        return max(self.least, self.short * (10_000 / steps) ** 0.5)


def _of_layers(*rates: float) -> dict[str, float]:
    return dict(zip(LAYERS, rates, strict=True))


# By the drive and per cent of the full scale, each after half a second: of microcircuit.cc, with 2 seeds at full scale,
# and 1 with DC drive. From seed to seed of ours, rates of a layer differ by up to 1.5 % in runs of 4 s (standard
# deviation), and by 2.2 % with DC drive. So one seed differs from these by up to 5.5 % and 9.1 % (three standard
# errors), and half of their last digit is up to 0.6 %.
RIGHT = {
    ("poisson", 100): Rates(_of_layers(0.86, 2.92, 4.41, 5.86, 7.53, 8.60, 1.12, 7.81), 0.1, 0.06),
    ("dc", 100): Rates(_of_layers(0.88, 2.87, 4.17, 5.66, 7.69, 8.38, 1.10, 7.59), 0.15, 0.1),
    # Of 1 seed, 10 s. Ours differ by up to 1.8 %.
    ("poisson", 50): Rates(_of_layers(0.733, 2.742, 4.416, 5.744, 7.197, 8.468, 1.090, 7.690), 0.12, 0.08),
    # Of 10 seeds, 10 s each. They differ by up to 3.7 %, and a seed differs from their mean by up to 12 %.
    ("poisson", 10): Rates(_of_layers(0.476, 2.092, 3.976, 5.007, 6.478, 7.807, 0.838, 6.987), 0.2, 0.12),
}


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """Real-time factors of each network: ours with one thread and with two, and of a program in C++."""
    rounds = options.choose_rounds(full=3, quick=1)
    steps = 2_000 if options.quick else 10_000
    for (drive, percent), bar in _BARS.items():
        answers: dict[str, list[dict[str, Any]]] = {}
        failed: dict[str, str] = {}
        ways: dict[str, tuple[str, dict[str, Any]]] = {
            _BY_HAND: (NAME, {"drive": drive, "steps": steps, "discard": DISCARD, "percent": percent}),
            **{_ours(threads): ("network_engine", _arguments(drive, percent, threads, steps)) for threads in (1, 2)},
        }
        for index in range(rounds):
            for name in ways if index % 2 == 0 else reversed(ways):
                if name not in failed:
                    run_one(name, *ways[name], answers, failed)
        failed |= at_wrong_rates(drive, steps, {name: a for name, a in answers.items() if name not in failed}, percent)
        good = {name: found for name, found in answers.items() if name not in failed}
        bars = {_ours(2): Bar(bar, on="value") if bar else None}
        yield from make_rows(drive, steps, good, percent=percent, bars=bars)
        yield from (Failed(f"{title_of(drive, percent)}: {name}", why) for name, why in failed.items())


def title_of(drive: str, percent: int = 100) -> str:
    """Name the network."""
    return f"PD14{'' if percent == 100 else f' at {percent} %'}, {drive} drive"


def _ours(threads: int) -> str:
    return f"the network engine, {threads} thread{'s'[: threads - 1]}"


def _arguments(drive: str, percent: int, threads: int, steps: int) -> dict[str, Any]:
    what = {"model": f"pd14_{drive}", "n": percent, "steps": steps, "repeats": 1}
    return what | {"threads": threads, "discard": DISCARD}


def run_one(
    name: str,
    probe: str,
    arguments: dict[str, Any],
    answers: dict[str, list[dict[str, Any]]],
    failed: dict[str, str],
    platform: Literal["cpu", "gpu"] = "cpu",
) -> None:
    """Add an answer, or why there is none."""
    try:
        answers.setdefault(name, []).append(run_probe(probe, arguments, platform=platform))
    except ProbeError as error:
        failed[name] = last_line(error)


def _mean_rates(answers: list[dict[str, Any]]) -> dict[str, float]:
    return {layer: sum(a["rates"][layer] for a in answers) / len(answers) for layer in answers[0]["rates"]}


def at_wrong_rates(
    drive: str, steps: int, answers: dict[str, list[dict[str, Any]]], percent: int = 100
) -> dict[str, str]:
    """Say of programs that run another network how its populations fire; short runs tell less."""
    right = RIGHT[drive, percent]
    failed = {}
    for name, found in answers.items():
        rates = _mean_rates(found)
        wrong = [
            f"{layer} fires at {rates[layer]:.2f} Hz instead of {rate:g} Hz"
            for layer, rate in right.of.items()
            if abs(rates[layer] / rate - 1) > right.tolerance(steps)
        ]
        if wrong:
            failed[name] = f"it is another network: {', '.join(wrong)}"
    return failed


def make_rows(
    drive: str,
    steps: int,
    answers: dict[str, list[dict[str, Any]]],
    *,
    benchmark: str = NAME,
    percent: int = 100,
    bars: Mapping[str, Bar | None],
) -> Iterator[Row]:
    """Make a row per program: its real-time factor, the ratio to C++, its rates and its memory."""
    factors = {name: [s / (steps * _DT) for a in found for s in a["seconds"]] for name, found in answers.items()}
    for name, samples in factors.items():
        baseline = factors.get(_BY_HAND) if name != _BY_HAND else None
        memory = max(answer["resident"] for answer in answers[name]) / 2**20
        rates = " ".join(f"{rate:.2f}" for rate in _mean_rates(answers[name]).values())
        yield make_row(
            benchmark,
            f"{title_of(drive, percent)}: {name}",
            "RTF",
            samples,
            baseline=baseline,
            ratio_to=_BY_HAND if baseline else "",
            bar=bars.get(name),
            note=f"{steps} steps after {DISCARD}; {rates} Hz; {memory:.0f} MiB",
        )
