# SPDX-License-Identifier: Apache-2.0
"""PD14 on a GPU: real-time factors at full scale and scaled down, and what it costs before its first step."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.microcircuit import DISCARD, at_wrong_rates, make_rows, run_one, title_of
from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Bar, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "gpu_microcircuit"
_STEPS = 100_000
_BAR = 0.04  # of the real-time factor at full scale, with Poisson drive and all spikes on the host
# Drives and per cent of the full scale, with what is recorded.
_RUNS = (
    ("poisson", 100, ("spikes", "counts", "nothing")),
    ("dc", 100, ("spikes", "counts")),
    ("poisson", 50, ("spikes", "nothing")),
    ("poisson", 10, ("spikes", "nothing")),
)
_KEPT = ("nothing kept", "code kept by an earlier process")
_CACHES = {"BRAINEVENT_CACHE_DIR": "brainevent", "CUDA_CACHE_PATH": "driver"}


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """Real-time factors of 10 s after half a second, until what is recorded is on the host; then the start."""
    for drive, percent, recorded in _RUNS:
        for record in recorded:
            yield from _factor(options, drive, percent, record)
    try:
        yield from _start(options)
    except ProbeError as error:
        yield Failed(f"{title_of('poisson')}: start", last_line(error))


def _factor(options: Options, drive: str, percent: int, record: str) -> Iterator[Row | Failed]:
    name = f"the network engine, {record} recorded"
    answers: dict[str, list[dict[str, Any]]] = {}
    failed: dict[str, str] = {}
    arguments = {"model": f"pd14_{drive}", "n": percent, "steps": _STEPS, "discard": DISCARD, "record_in": record}
    arguments |= {"repeats": options.choose_rounds(full=5, quick=2)}
    run_one(name, "network_engine", arguments, answers, failed, platform="gpu")
    failed |= at_wrong_rates(drive, _STEPS, answers, percent)
    bar = Bar(_BAR, on="value") if (drive, percent, record) == ("poisson", 100, "spikes") else None
    good = {} if failed else answers
    yield from make_rows(drive, _STEPS, good, benchmark=NAME, percent=percent, bars={name: bar})
    yield from (Failed(f"{title_of(drive, percent)}: {key}", why) for key, why in failed.items())


def _start(options: Options) -> Iterator[Row]:
    """New processes: the first of a pair compiles and keeps the code, the second finds it."""
    found: dict[str, list[dict[str, Any]]] = {kept: [] for kept in _KEPT}
    for _ in range(options.choose_rounds(full=5, quick=2)):
        with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as folder:
            caches = {name: str(Path(folder, cache)) for name, cache in _CACHES.items()}
            for answers in found.values():
                arguments = {"model": "pd14_poisson", "n": 100}
                answers.append(run_probe("network_on_device", arguments, platform="gpu", environment=caches))
    title = title_of("poisson")
    for (kept, answers), limit in zip(found.items(), (3, 0.1), strict=True):
        seconds = [answer["compiling"] for answer in answers]
        yield make_row(NAME, f"{title}: compiling, {kept}", "s", seconds, bar=Bar(limit, on="value"))
    everything = [answer for answers in found.values() for answer in answers]
    first, again = ([answer["building"][k] for answer in everything] for k in (0, 1))
    name = f"{title}: building it from its description"
    yield make_row(NAME, f"{name}, compiled before", "s", again, bar=Bar(0.5, on="value"))
    yield make_row(NAME, f"{name}, for the first time, compiling included", "s", first)
    held, most = ([answer[key] / answer["synapses"] for answer in everything] for key in ("held", "most"))
    note = f"all that the engine holds; {max(most):.2f} while it is built"
    yield make_row(NAME, f"{title}: memory on the GPU", "bytes a synapse", held, bar=Bar(7, on="value"), note=note)
