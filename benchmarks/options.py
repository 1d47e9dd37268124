# SPDX-License-Identifier: Apache-2.0
"""What one run of the benchmarks was asked to do, and with which peers."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HERE = ROOT / "benchmarks"


@dataclass(frozen=True)
class Options:
    """`rounds` is None when each benchmark chooses its own number; without `peers`, other packages are left out.

    `peer` is the Python of the peer's environment; for GPUs, `peer_packages` is the folder that it was installed
    in, and `peer_title` its name and version. `sizes` are those of matrices, neurons and connections of each, that
    products are measured with; none are all. `scales` are those of the hpc benchmark; none are its own.
    """

    rounds: int | None = None
    quick: bool = False
    warp: bool = False
    peer: Path | None = None
    peer_packages: Path | None = None
    peer_title: str = ""
    sizes: tuple[tuple[int, int], ...] = ()
    peers: bool = True
    scales: tuple[float, ...] = ()

    def choose_rounds(self, full: int, quick: int) -> int:
        """Take the number of rounds asked for, or the benchmark's own for a full or a quick run."""
        return self.rounds or (quick if self.quick else full)
