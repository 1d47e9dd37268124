# SPDX-License-Identifier: Apache-2.0
"""Import: `import brainevent` after `import jax`, in fresh processes."""

from pathlib import Path

from benchmarks.options import Options
from benchmarks.peer import PEER_NAME
from benchmarks.process import run_probe
from benchmarks.row import Bar, Row, make_row

_BAR = Bar(0.10, on="value")


def measure_rows(options: Options) -> list[Row]:
    """Ours and the peer's, in turns."""
    pythons: dict[str, Path | None] = {"ours": None}
    if options.peer:
        pythons["peer"] = options.peer
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in pythons}
    for python in pythons.values():
        run_probe("import_time", {}, python)  # writes the bytecode
    for _ in range(options.choose_rounds(full=9, quick=3)):
        for name, python in pythons.items():
            samples[name].append(run_probe("import_time", {}, python))
    ours = [sample["brainevent"] for sample in samples["ours"]]
    numba = [sample["numba_afterwards"] for sample in samples["ours"]]
    along = any(sample["numba_came_along"] for sample in samples["ours"])
    note = "numba came along with brainevent" if along else "paid by the first Numba kernel"
    rows = []
    if options.peer:
        theirs = [sample["brainevent"] for sample in samples["peer"]]
        rows.append(make_row("import", "import brainevent", "s", ours, baseline=theirs, ratio_to="peer", bar=_BAR))
        rows.append(make_row("import", f"{PEER_NAME}: import brainevent", "s", theirs))
    else:
        rows.append(make_row("import", "import brainevent", "s", ours, bar=_BAR))
    rows.append(make_row("import", "import numba, afterwards", "s", numba, note=note))
    return rows
