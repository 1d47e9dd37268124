# SPDX-License-Identifier: Apache-2.0
"""Start: a kernel's first result in a new process, compiled and from filled caches, in every language for GPUs."""

import os
import statistics
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.gpu_overhead import NAMES, peer_label
from benchmarks.options import Options
from benchmarks.process import ProbeError, run_probe
from benchmarks.row import Absent, Failed, Row, make_row
from benchmarks.ways import last_line

NAME = "gpu_start"
# "jax" shows what any program costs.
WAYS = (
    "jax", "cuda", "module", "cuda_kernel", "numba_cuda", "callable", "warp_kernel", "triton", "pallas",
    "warp_jax",
)  # fmt: skip
PHASES = {"cold": "empty caches", "warm": "caches filled by an earlier process"}
_PEER_WAYS = ("numba_cuda",)
# Every cache that any of the languages has, the driver's own included.
_CACHES = {
    "BRAINEVENT_BENCH_BUILD": "build",
    "BRAINEVENT_CACHE_DIR": "brainevent",
    "CUDA_CACHE_PATH": "driver",
    "NUMBA_CACHE_DIR": "numba",
    "TRITON_CACHE_DIR": "triton",
    "WARP_CACHE_PATH": "warp",
}


@dataclass
class _Contender:
    """A way, whose packages come first, and what was measured of it so far."""

    way: str
    label: str
    packages: Path | None = None
    seconds: dict[str, list[float]] = field(default_factory=lambda: {phase: [] for phase in PHASES})
    imports: list[float] = field(default_factory=list)
    note: Absent | Failed | None = None

    def measure(self) -> None:
        """Start two processes, one after the other, with caches that are empty for the first."""
        if self.note:
            return
        try:
            with tempfile.TemporaryDirectory(prefix="brainevent-bench-") as folder:
                caches = {name: str(Path(folder, cache)) for name, cache in _CACHES.items()}
                environment = {**caches, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
                for path in caches.values():
                    Path(path).mkdir(mode=0o700)
                answers = [run_probe(NAME, {"way": self.way}, None, "gpu", self.packages, environment) for _ in PHASES]
        except ProbeError as error:
            self.note = Failed(self.label, last_line(error))
            return
        for phase, answer in zip(PHASES, answers, strict=True):
            for word, kind in (("missing", Absent), ("failed", Failed)):
                if word in answer:
                    self.note = kind(self.label, answer[word])
                    return
            self.seconds[phase].append(answer["first"])
            self.imports.append(answer["imports"])


def row_name(label: str, phase: str) -> str:
    """What a row is called; `phase` is "cold" or "warm"."""
    return f"{label}; {phase}"


def measure_rows(options: Options) -> Sequence[Row | Absent | Failed]:
    """A cold and a warm row per way."""
    contenders = [_Contender(way, NAMES[way]) for way in WAYS if options.warp or way != "warp_jax"]
    if options.peer_packages is not None:
        peer = options.peer_packages
        contenders += [_Contender(way, peer_label(options.peer_title, way), peer) for way in _PEER_WAYS]
    lanes = max(1, min(3, (os.cpu_count() or 1) // 4))
    with ThreadPoolExecutor(lanes) as pool:
        for _ in range(options.choose_rounds(full=3, quick=1)):
            list(pool.map(_Contender.measure, contenders))
    rows = [
        make_row(
            NAME,
            row_name(contender.label, phase),
            "s",
            contender.seconds[phase],
            note=f"{condition}; and {statistics.median(contender.imports):.2f} s of imports",
        )
        for phase, condition in PHASES.items()
        for contender in contenders
        if not contender.note
    ]
    return [*rows, *(contender.note for contender in contenders if contender.note)]
