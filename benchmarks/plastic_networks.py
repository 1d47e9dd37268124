# SPDX-License-Identifier: Apache-2.0
"""Networks that learn: inhibition that balances, beside Brian2 and NEST; and an hour of late rewards."""

from collections.abc import Iterator
from typing import Any, Literal

from benchmarks.brian import find_brian
from benchmarks.nest import find_nest
from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Bar, Failed, Row, make_row
from benchmarks.ways import last_line

_NEURONS, _STEPS = 10_000, 20_000
_OURS, _BRIAN, _NEST = "the network engine", "Brian2: C++ standalone", "NEST"
_APART = 0.15  # how far rates of two programs may be from each other, as a part
_VOGELS = f"Vogels 2011, {_NEURONS} neurons, 2 s"

_HOUR = 3_600_000  # steps of 1 ms
_REWARD = "Izhikevich 2007, 1000 neurons, an hour"
_EVERY = 20_000  # steps between rewards
_RIGHT = 0.4, 5.0  # Hz, of its neurons: 1.3 and 0.9 in the first six minutes
_LIMIT = 8.0  # seconds on a GPU


def measure_vogels_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """The first two seconds of inhibition that learns, in turns with other programs, with one thread and with two."""
    ways: dict[str, tuple[str, dict[str, Any], Any]] = {
        _OURS: ("network_example", {"example": "vogels", "options": {"n": _NEURONS}}, None)
    }
    for name, probe, find in ((_BRIAN, "vogels_brian", find_brian), (_NEST, "vogels_nest", find_nest)):
        try:
            if not options.peers:
                raise RuntimeError("--no-peers was given")
            ways[name] = (probe, {"n": _NEURONS}, find())
        except RuntimeError as error:
            yield Absent(name, last_line(error))
    for threads in (1, 2):
        yield from _in_turns(options, ways, threads)


def _in_turns(
    options: Options, ways: dict[str, tuple[str, dict[str, Any], Any]], threads: int
) -> Iterator[Row | Failed]:
    answers: dict[str, list[dict[str, Any]]] = {name: [] for name in ways}
    failed: dict[str, str] = {}
    for index in range(options.choose_rounds(full=5, quick=1)):
        for name in ways if index % 2 == 0 else reversed(ways):
            probe, more, python = ways[name]
            arguments = {**more, "steps": _STEPS, "repeats": 1, "threads": threads}
            try:
                if name not in failed:
                    answers[name].append(run_probe(probe, arguments, python=python))
            except ProbeError as error:
                failed[name] = last_line(error)
    title = f"{_VOGELS}, {threads} thread{'s'[: threads - 1]}"
    good = {name: found for name, found in answers.items() if name not in failed}
    failed |= _at_other_rates(good)
    clock = "processor" if threads == 1 else "seconds"  # whatever else runs beside one thread, it needs the same
    yield from _vogels_rows(title, clock, {name: found for name, found in good.items() if name not in failed})
    yield from (Failed(f"{title}: {name}", why) for name, why in failed.items())


def _at_other_rates(answers: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """Say of programs whose neurons fire at other rates than ours that they run another network."""
    ours = _rates(answers[_OURS]) if answers.get(_OURS) else {}
    failed = {}
    for name, found in answers.items():
        rates = _rates(found)
        far = [part for part, rate in ours.items() if abs(rates[part] / rate - 1) > _APART]
        if far:
            words = ", ".join(f"{part} fires at {rates[part]:.2f} Hz instead of {ours[part]:.2f} Hz" for part in far)
            failed[name] = f"it is another network: {words}"
    return failed


def _rates(answers: list[dict[str, Any]]) -> dict[str, float]:
    return {part: sum(a["rates"][part] for a in answers) / len(answers) for part in answers[0]["rates"]}


def _vogels_rows(title: str, clock: str, answers: dict[str, list[dict[str, Any]]]) -> Iterator[Row]:
    seconds = {name: [s for answer in found for s in answer[clock]] for name, found in answers.items()}
    for name, samples in seconds.items():
        rates = " ".join(f"{part} {rate:.2f} Hz" for part, rate in _rates(answers[name]).items())
        baseline = seconds.get(_OURS) if name != _OURS else None
        yield make_row(
            "vogels",
            f"{title}: {name}",
            "s of CPU time" if clock == "processor" else "s",
            samples,
            baseline=baseline,
            ratio_to=_OURS if baseline else "",
            bar=Bar(3, at_least=True) if baseline else None,
            note=rates,
        )


def measure_reward_rows(options: Options) -> Iterator[Row | Failed]:
    """An hour of 1 000 neurons and 100 000 synapses on the CPU."""
    yield _reward_row("reward", "cpu", options)


def measure_gpu_reward_rows(options: Options) -> Iterator[Row | Failed]:
    """The same on a GPU."""
    yield _reward_row("gpu_reward", "gpu", options)


def _reward_row(benchmark: str, platform: Literal["cpu", "gpu"], options: Options) -> Row | Failed:
    steps = _HOUR // 10 if options.quick else _HOUR
    title = _REWARD if steps == _HOUR else f"{_REWARD}, of which a tenth runs"
    repeats = options.choose_rounds(full=1 if platform == "cpu" else 3, quick=1)
    arguments = {"example": "reward", "options": {}, "steps": steps, "discard": 1000, "every": _EVERY}
    try:
        answer = run_probe("network_example", {**arguments, "repeats": repeats}, platform=platform)
    except ProbeError as error:
        return Failed(title, last_line(error))
    rates, (low, high) = answer["rates"], _RIGHT
    if not all(low < rate < high for rate in rates.values()):
        return Failed(title, f"it fires at {rates}, not at {low:g} to {high:g} Hz: another network")
    note = f"{steps} steps of 1 ms, counts recorded; " + " ".join(
        f"{name} {rate:.2f} Hz" for name, rate in rates.items()
    )
    bar = Bar(_LIMIT, on="value") if platform == "gpu" else None
    return make_row(benchmark, title, "s", [s * _HOUR / steps for s in answer["seconds"]], bar=bar, note=note)
