# SPDX-License-Identifier: Apache-2.0
"""Whole networks, CUBA and COBA: the time of a step, beside today's examples, C++, Brian2 and the PyPI package."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.brian import BRIAN_FOLDER, find_brian
from benchmarks.options import Options
from benchmarks.peer import PeerError, find_packages
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Bar, Failed, Row, make_row
from benchmarks.ways import last_line

_STEPS = {4_000: 10_000, 40_000: 2_000, 400_000: 500}
_REPEATS = 3
# Turns in a round on a CPU: what else the machine does weighs most on what is short.
_TURNS = {4_000: 3, 40_000: 1, 400_000: 1}
_UNROLL = {"cpu": 1, "gpu": 10}  # steps in one turn of the loop: on a GPU, each turn is launched
_OURS, _EXAMPLE, _OURS_TOO = "the network engine", "neurons as one operator", "neurons in jax.numpy"


@dataclass(frozen=True)
class Rates:
    """Rates of the right network in Hz, over seeds: their mean is in this range, and a seed's is so far from it."""

    low: float
    high: float
    deviation: float

    def hold(self, rate: float, runs: int) -> bool:
        """Tell whether the mean of some runs is right: within the range and two standard errors."""
        error = 2 * self.deviation / math.sqrt(runs)
        return self.low - error <= rate <= self.high + error


# At 4 000 neurons, of several simulators. With more neurons fewer steps run, and the first ones differ from later ones:
# there, of ten seeds of network.cc.
RIGHT = {
    ("cuba", 4_000): Rates(5.4, 5.9, 0.2),
    ("cuba", 40_000): Rates(5.75, 6.05, 0.1),
    ("cuba", 400_000): Rates(6.45, 6.65, 0.05),
    ("coba", 4_000): Rates(20.1, 23.0, 1.1),
    ("coba", 40_000): Rates(20.2, 21.5, 0.4),
    ("coba", 400_000): Rates(17.9, 18.9, 0.15),
}


@dataclass(frozen=True)
class _Contender:
    """What runs the network: a probe, its way, and what else it needs; on a host, a GPU's rounds are one turn."""

    name: str
    probe: str
    way: str | None = None
    python: Path | None = None
    packages: Path | None = None
    on_host: bool = False
    most_threads: int = 2


def measure_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """Networks on the CPU, with one thread and with two."""
    contenders = [
        _Contender(_OURS, "network_engine"),
        _Contender(f"today's example: {_EXAMPLE}", "network", "example"),
        _Contender(f"products alone: {_OURS_TOO}", "network", "jnp"),
        _Contender("C++: one loop", "network", "cpp", most_threads=1),
        _Contender("C++: a loop without branches", "network", "cpp_vector", most_threads=1),
    ]
    absent = []
    if options.peer is None:
        absent = [Absent("Brian2 and the PyPI package", "--no-peers was given, or it could not be installed")]
    else:
        contenders.append(_Contender("PyPI package: neurons in jax.numpy", "network", "jnp", python=options.peer))
        try:
            contenders.append(_Contender("Brian2: C++ standalone", "network_brian", python=find_brian()))
        except RuntimeError as error:
            absent = [Absent("Brian2", f"it could not be installed: {last_line(error)}")]
    sizes = [4_000] if options.quick else [4_000, 40_000, 400_000]
    yield from absent
    for threads in (1, 2):
        taking_part = [one for one in contenders if threads <= one.most_threads]
        yield from _measure(options, taking_part, sizes, "cpu", threads)


def measure_gpu_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """Networks on a GPU, beside programs for the processors of its host."""
    contenders = [
        _Contender(_EXAMPLE, "network", "example"),
        _Contender(_OURS_TOO, "network", "jnp"),
        _Contender("C++ on the host: one loop", "network", "cpp", on_host=True),
        _Contender("C++ on the host: a loop without branches", "network", "cpp_vector", on_host=True),
    ]
    others, absent = _others_beside_gpu(options)
    contenders += others
    yield from absent
    yield from _measure(options, contenders, list(_STEPS), "gpu", None)


def _others_beside_gpu(options: Options) -> tuple[list[_Contender], list[Absent]]:
    """Other packages, as far as they are installed."""
    if not options.peers:
        return [], [Absent("Brian2 and the PyPI package", "--no-peers was given")]
    found, absent = [], []
    if options.peer_packages is None:
        absent.append(Absent("the PyPI package", "it is not installed"))
    else:
        name = "PyPI package: neurons in jax.numpy"
        found.append(_Contender(name, "network", "jnp", packages=options.peer_packages))
    try:
        folder, version = find_packages(BRIAN_FOLDER, "brian2")
        name = f"Brian2 {version} on the host: C++ standalone"
        found.append(_Contender(name, "network_brian", packages=folder, on_host=True))
    except PeerError as error:
        absent.append(Absent("Brian2", str(error)))
    return found, absent


def _measure(
    options: Options, contenders: Sequence[_Contender], sizes: Sequence[int], platform: Any, threads: int | None
) -> Iterator[Row | Failed]:
    rounds = options.choose_rounds(full=3, quick=1)
    ours = contenders[0].name
    for model in ("cuba", "coba"):
        for n in sizes:
            title = f"{model}, {n} neurons" + (f", {threads} thread{'s'[: threads - 1]}" if threads else "")
            answers: dict[str, list[dict[str, Any]]] = {}
            failed: dict[str, str] = {}
            for index in range(rounds * (1 if options.quick or platform == "gpu" else _TURNS[n])):
                for one in contenders if index % 2 == 0 else reversed(contenders):
                    if one.name not in failed and not (one.on_host and index):
                        _run(one, model, n, platform, threads, answers.setdefault(one.name, []), failed)
            failed |= _at_wrong_rates(model, n, {name: a for name, a in answers.items() if name not in failed})
            good = {name: found for name, found in answers.items() if name not in failed}
            yield from _rows(platform, title, model, n, good, ours)
            yield from (Failed(f"{title}: {name}", why) for name, why in failed.items())


def _run(
    one: _Contender,
    model: str,
    n: int,
    platform: Any,
    threads: int | None,
    answers: list[dict[str, Any]],
    failed: dict[str, str],
) -> None:
    """Add an answer, or why there is none."""
    arguments = {"model": model, "n": n, "steps": _STEPS[n], "repeats": _REPEATS}
    if one.way:
        arguments |= {"way": one.way, "unroll": _UNROLL[platform]}
    if threads:
        arguments |= {"threads": threads}
    try:
        where = "cpu" if one.on_host else platform
        answers.append(run_probe(one.probe, arguments, python=one.python, platform=where, packages=one.packages))
    except ProbeError as error:
        failed[one.name] = last_line(error)


def _rate(answers: Sequence[dict[str, Any]]) -> float:
    return sum(answer["rate"] for answer in answers) / len(answers)


def _at_wrong_rates(model: str, n: int, answers: dict[str, list[dict[str, Any]]]) -> dict[str, str]:
    """Say of programs that run another network how it fires."""
    right = RIGHT[model, n]
    return {
        name: f"it fires at {_rate(found):.2f} Hz, not at {right.low:g} to {right.high:g}: another network"
        for name, found in answers.items()
        if not right.hold(_rate(found), min(len(answer["seconds"]) for answer in found))
    }


def _bar(name: str, n: int, platform: str) -> Bar | None:
    """Say how long we may take, relative to another program."""
    if platform == "cpu" and _EXAMPLE in name:
        return Bar(0.6 if n == 4_000 else 0.45)
    return None if _OURS_TOO in name and "PyPI" not in name else Bar(1)


def _rows(
    platform: str, title: str, model: str, n: int, answers: dict[str, list[dict[str, Any]]], ours: str
) -> list[Row]:
    """One row per contender: the time of its steps, and how much of that we take."""
    steps = _STEPS[n]
    times = {name: [1e6 * s / steps for a in found for s in a["seconds"]] for name, found in answers.items()}
    rows: list[Row] = []
    for name, samples in times.items():
        memory = f"{max(answer['resident'] for answer in answers[name]) / 2**20:.0f} MiB"
        if on_gpu := [answer["on_gpu"] for answer in answers[name] if "on_gpu" in answer]:
            memory += f", {max(on_gpu) / 2**20:.0f} MiB on the GPU"
        baseline = times.get(ours) if name != ours else None
        rows.append(
            make_row(
                "gpu_networks" if platform == "gpu" else "networks",
                f"{title}: {name}",
                "us a step",
                samples,
                baseline=baseline and baseline[: len(samples)],
                ratio_to=f"{ours} / this",
                inverse=True,
                bar=_bar(name, n, platform) if baseline else None,
                note=f"{steps} steps; {_rate(answers[name]):.1f} Hz; {memory}",
            )
        )
    return rows
