# SPDX-License-Identifier: Apache-2.0
"""Whole networks, CUBA and COBA: wall time over the network's time, beside Brian2, C++ and the PyPI package."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.options import HERE, Options
from benchmarks.peer import PeerError, find_packages
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Bar, Failed, Row, make_row
from benchmarks.ways import last_line

BRIAN = "brian2==2.9.0"
BRIAN_FOLDER = "BRAINEVENT_BRIAN_PATH"  # of the environment, as that of the PyPI package
_FOLDER = HERE / ".brian-venv"
_DT = 1e-4  # seconds of the network's time, in a step
_STEPS = {4_000: 10_000, 40_000: 2_000, 400_000: 500}
_REPEATS = 3
# Turns in a round on a CPU: what else the machine does weighs most on what is short.
_TURNS = {4_000: 3, 40_000: 1, 400_000: 1}
_UNROLL = {"cpu": 1, "gpu": 10}  # steps in one turn of the loop: on a GPU, each turn is launched
# Rates, in Hz, that say whether it is the same network: of single seeds, and of the first 50 ms alone.
_PLAUSIBLE = {"coba": (15, 27), "cuba": (4.6, 7.5)}
_OURS, _OURS_TOO = "ours: neurons as one operator", "ours: neurons in jax.numpy"
_NOT_SLOWER = Bar(1, at_least=True)


@dataclass(frozen=True)
class _Contender:
    """Who runs the network: a probe, its way, and what else it needs; on a host, a GPU's rounds are one turn."""

    name: str
    probe: str
    way: str | None = None
    python: Path | None = None
    packages: Path | None = None
    on_host: bool = False


def measure_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """Networks on the CPU."""
    contenders = [
        _Contender(_OURS, "network", "ours"),
        _Contender(_OURS_TOO, "network", "jnp"),
        _Contender("C++: one loop", "network", "cpp"),
        _Contender("C++: a loop without branches", "network", "cpp_vector"),
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
    yield from _measure(options, contenders, sizes, "cpu")


def measure_gpu_rows(options: Options) -> Iterator[Row | Absent | Failed]:
    """Networks on a GPU, beside programs for the processors of its host."""
    contenders = [
        _Contender(_OURS, "network", "ours"),
        _Contender(_OURS_TOO, "network", "jnp"),
        _Contender("C++ on the host: one loop", "network", "cpp", on_host=True),
        _Contender("C++ on the host: a loop without branches", "network", "cpp_vector", on_host=True),
    ]
    others, absent = _others_beside_gpu(options)
    contenders += others
    yield from absent
    yield from _measure(options, contenders, list(_STEPS), "gpu")


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


def find_brian() -> Path:
    """The Python of an environment with Brian2, made on the first use."""
    stamp, python = _FOLDER / "installed", _FOLDER / "bin" / "python"
    receipt = f"{sys.version}\n{BRIAN}"
    if not (stamp.exists() and stamp.read_text() == receipt):
        print(f"installing {BRIAN} in {_FOLDER.name} ...", flush=True)
        for command in (
            [sys.executable, "-m", "venv", "--clear", str(_FOLDER)],
            [str(python), "-m", "pip", "install", "--quiet", BRIAN, "numpy<2", "setuptools"],  # it uses what 2 dropped
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
        stamp.write_text(receipt)
    return python


def _measure(
    options: Options, contenders: Sequence[_Contender], sizes: Sequence[int], platform: Any
) -> Iterator[Row | Failed]:
    rounds = options.choose_rounds(full=3, quick=1)
    for model in ("cuba", "coba"):
        for n in sizes:
            answers: dict[str, list[dict[str, Any]]] = {}
            failed: dict[str, str] = {}
            for index in range(rounds * (1 if options.quick or platform == "gpu" else _TURNS[n])):
                for one in contenders if index % 2 == 0 else reversed(contenders):
                    if one.name not in failed and not (one.on_host and index):
                        _run(one, model, n, platform, answers.setdefault(one.name, []), failed)
            yield from _rows(platform, model, n, {name: a for name, a in answers.items() if name not in failed})
            yield from (Failed(f"{model}, {n} neurons: {name}", why) for name, why in failed.items())


def _run(
    one: _Contender, model: str, n: int, platform: Any, answers: list[dict[str, Any]], failed: dict[str, str]
) -> None:
    """Add an answer, or why there is none."""
    arguments = {"model": model, "n": n, "steps": _STEPS[n], "repeats": _REPEATS}
    if one.way:
        arguments |= {"way": one.way, "unroll": _UNROLL[platform]}
    try:
        where = "cpu" if one.on_host else platform
        answer = run_probe(one.probe, arguments, python=one.python, platform=where, packages=one.packages)
    except ProbeError as error:
        failed[one.name] = last_line(error)
        return
    low, high = _PLAUSIBLE[model]
    if not low < answer["rate"] < high:
        failed[one.name] = f"it fires at {answer['rate']:.2f} Hz, which is another network"
        return
    answers.append(answer)


def _rows(platform: str, model: str, n: int, answers: dict[str, list[dict[str, Any]]]) -> list[Row | Failed]:
    """One row per contender: its real-time factor, and how many times slower than ours it is."""
    steps = _STEPS[n]
    factors = {name: [s / (steps * _DT) for a in found for s in a["seconds"]] for name, found in answers.items()}
    rows: list[Row | Failed] = []
    for name, samples in factors.items():
        memory = f"{max(answer['resident'] for answer in answers[name]) / 2**20:.0f} MiB"
        if on_gpu := [answer["on_gpu"] for answer in answers[name] if "on_gpu" in answer]:
            memory += f", {max(on_gpu) / 2**20:.0f} MiB on the GPU"
        rate = sum(answer["rate"] for answer in answers[name]) / len(answers[name])
        ours = factors.get(_OURS) if name != _OURS else None
        rows.append(
            make_row(
                "gpu_networks" if platform == "gpu" else "networks",
                f"{model}, {n} neurons: {name}",
                "RTF",
                samples,
                baseline=ours and ours[: len(samples)],
                ratio_to="slower than ours",
                bar=_NOT_SLOWER if name not in (_OURS, _OURS_TOO) else None,
                note=f"{steps} steps; {rate:.1f} Hz; {memory}",
            )
        )
    return rows
