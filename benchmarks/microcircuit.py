# SPDX-License-Identifier: Apache-2.0
"""PD14, the cortical microcircuit at full scale: the network engine beside C++ by hand, with Poisson and DC drive."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "microcircuit"
_DT = 1e-4  # seconds of the network's time, in a step
_DISCARD = 5_000
_BARS = {"poisson": 4.0, "dc": 2.5}  # of the real-time factor, with two threads
_GPU_BAR = 0.04  # with Poisson drive
_BY_HAND = "C++ by hand, 1 thread"
# Rates in Hz of another program, over two seeds, with DC drive of one; and how far those of a second may be from them.
RIGHT = {
    "poisson": {
        "L23E": 0.86, "L23I": 2.92, "L4E": 4.41, "L4I": 5.86, "L5E": 7.53, "L5I": 8.60, "L6E": 1.12, "L6I": 7.81
    },
    "dc": {"L23E": 0.88, "L23I": 2.87, "L4E": 4.17, "L4I": 5.66, "L5E": 7.69, "L5I": 8.38, "L6E": 1.10, "L6I": 7.59},
}  # fmt: skip
_TOLERANCE = {"poisson": 0.1, "dc": 0.15}


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """Real-time factors with each drive: ours with one thread and with two, and of a program in C++."""
    rounds = options.choose_rounds(full=3, quick=1)
    steps = 2_000 if options.quick else 10_000
    for drive, bar in _BARS.items():
        answers: dict[str, list[dict[str, Any]]] = {}
        failed: dict[str, str] = {}
        ways: dict[str, tuple[str, dict[str, Any]]] = {
            _BY_HAND: (NAME, {"drive": drive, "steps": steps, "discard": _DISCARD}),
            **{_ours(threads): ("network_engine", _arguments(drive, threads, steps)) for threads in (1, 2)},
        }
        for index in range(rounds):
            for name in ways if index % 2 == 0 else reversed(ways):
                if name not in failed:
                    _run(name, *ways[name], answers, failed)
        failed |= at_wrong_rates(drive, steps, {name: a for name, a in answers.items() if name not in failed})
        good = {name: found for name, found in answers.items() if name not in failed}
        yield from _rows(drive, steps, good, bars={_ours(2): Bar(bar, on="value")})
        yield from (Failed(f"PD14, {drive} drive: {name}", why) for name, why in failed.items())


def measure_gpu_rows(options: Options) -> Iterator[Row | Failed]:
    """Real-time factors on a GPU, of 10 s after half a second: until all spikes, or their numbers, are on the host."""
    repeats = options.choose_rounds(full=5, quick=2)
    steps = 100_000
    for drive in _BARS:
        for record in ("spikes", "counts"):
            name = f"the network engine, {record} recorded"
            answers: dict[str, list[dict[str, Any]]] = {}
            failed: dict[str, str] = {}
            arguments = {"model": f"pd14_{drive}", "n": 0, "steps": steps, "repeats": repeats, "discard": _DISCARD}
            _run(name, "network_engine", arguments | {"record_in": record}, answers, failed, platform="gpu")
            failed |= at_wrong_rates(drive, steps, {key: a for key, a in answers.items() if key not in failed})
            bar = Bar(_GPU_BAR, on="value") if (drive, record) == ("poisson", "spikes") else None
            good = {key: found for key, found in answers.items() if key not in failed}
            yield from _rows(drive, steps, good, benchmark="gpu_microcircuit", bars={name: bar})
            yield from (Failed(f"PD14, {drive} drive: {key}", why) for key, why in failed.items())


def _ours(threads: int) -> str:
    return f"the network engine, {threads} thread{'s'[: threads - 1]}"


def _arguments(drive: str, threads: int, steps: int) -> dict[str, Any]:
    return {"model": f"pd14_{drive}", "n": 0, "steps": steps, "repeats": 1, "threads": threads, "discard": _DISCARD}


def _run(
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


def at_wrong_rates(drive: str, steps: int, answers: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """Say of programs that run another network how its populations fire; short runs tell less."""
    tolerance = _TOLERANCE[drive] * (10_000 / steps) ** 0.5
    failed = {}
    for name, found in answers.items():
        rates = _mean_rates(found)
        wrong = [
            f"{layer} fires at {rates[layer]:.2f} Hz instead of {right:g} Hz"
            for layer, right in RIGHT[drive].items()
            if abs(rates[layer] / right - 1) > tolerance
        ]
        if wrong:
            failed[name] = f"it is another network: {', '.join(wrong)}"
    return failed


def _rows(
    drive: str,
    steps: int,
    answers: dict[str, list[dict[str, Any]]],
    *,
    benchmark: str = NAME,
    bars: Mapping[str, Bar | None],
) -> Iterator[Row]:
    """One row per program: its real-time factor, the ratio to C++, its rates and its memory."""
    factors = {name: [s / (steps * _DT) for a in found for s in a["seconds"]] for name, found in answers.items()}
    for name, samples in factors.items():
        baseline = factors.get(_BY_HAND) if name != _BY_HAND else None
        memory = max(answer["resident"] for answer in answers[name]) / 2**20
        rates = " ".join(f"{rate:.2f}" for rate in _mean_rates(answers[name]).values())
        yield make_row(
            benchmark,
            f"PD14, {drive} drive: {name}",
            "RTF",
            samples,
            baseline=baseline,
            ratio_to=_BY_HAND if baseline else "",
            bar=bars.get(name),
            note=f"{steps} steps after {_DISCARD}; {rates} Hz; {memory:.0f} MiB",
        )
