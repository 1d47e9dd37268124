# SPDX-License-Identifier: Apache-2.0
"""The energy of PD14 on a GPU, per synaptic event, with the power of an idle GPU and without it."""

from collections.abc import Iterator

from benchmarks.microcircuit import at_wrong_rates
from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "gpu_energy"
_TITLE = "PD14, poisson drive"
_SECONDS, _IDLE_SECONDS = 10.0, 3.0


def measure_rows(options: Options) -> Iterator[Row | Failed]:
    """Nanojoules per synaptic event, and the power while the network runs and before it does."""
    arguments = {"model": "pd14_poisson", "n": 0, "repeats": options.choose_rounds(full=5, quick=1)}
    try:
        answer = run_probe(
            "network_energy", arguments | {"seconds": _SECONDS, "idle_seconds": _IDLE_SECONDS}, platform="gpu"
        )
    except ProbeError as error:
        yield Failed(f"{_TITLE}: energy", last_line(error))
        return
    for name, why in at_wrong_rates("poisson", answer["steps"], {_TITLE: [answer]}).items():
        yield Failed(f"{name}: energy", why)
        return
    runs = list(zip(answer["joules"], answer["seconds"], answer["idle_watts"], answer["events"], strict=True))
    note = f"the GPU alone, without its host; {answer['field']} of nvidia-smi, {min(answer['samples'])} samples a run"
    for name, unit, samples in (
        ("energy per synaptic event, idle power included", "nJ", [1e9 * j / events for j, _, _, events in runs]),
        ("energy per synaptic event, idle power subtracted", "nJ", [1e9 * (j - w * s) / e for j, s, w, e in runs]),
        ("power while it runs", "W", [j / s for j, s, _, _ in runs]),
        ("power when idle, with the network on the GPU", "W", [watts for _, _, watts, _ in runs]),
    ):
        yield make_row(NAME, f"{_TITLE}: {name}", unit, samples, note=note)
