# SPDX-License-Identifier: Apache-2.0
"""`SonataNetwork`: a network from files of SONATA, with what these say besides."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..description.network import Network
from ..description.populations import Population, Value
from ..run.requests import Every
from ..run.result import Result
from ..run.simulation import Simulation
from .report_file import write_sonata_report
from .reports import Report
from .writing import write_sonata_spikes

__all__ = ["SonataNetwork"]

Array = Any


@dataclass(frozen=True, eq=False, repr=False)
class SonataNetwork:
    """A network from files of SONATA, as `read_sonata` returns it.

    Attributes:
        network: The network: its populations have the names of those in the files. Nodes of one population that follow
            several models become several populations, such as "v1:iaf_psc_alpha".
        nodes: For each population, the name of its population in the files, and the node id of each neuron.
        duration: How long the config runs, in ms; None if it does not say so.
        reports: The membrane reports of the config, by name.
        quanta: What `build` rounds weights to, by receptor, if it is not told otherwise: those of a network that
            `write_sonata` wrote.

    Examples:
        >>> import brainevent as be
        >>> exc = be.models.lif_current("exc", 2, current=500.0)
        >>> model = be.SonataNetwork(be.Network([exc], dt=0.1), {"exc": ("cortex", [7, 9])}, 100.0)
        >>> model.dt, model.spikes
        (0.1, ['exc.spikes'])
    """

    network: Network
    nodes: Mapping[str, tuple[str, Array]]
    duration: float | None
    reports: Mapping[str, Report] = field(default_factory=dict)
    quanta: Mapping[str, float] = field(default_factory=dict)

    @property
    def dt(self) -> float:
        """The time step, in ms."""
        return self.network.dt

    @property
    def populations(self) -> dict[str, Population]:
        """The populations by name."""
        return {one.name: one for one in self.network.populations if one.name in self.nodes}

    @property
    def spikes(self) -> list[str]:
        """What `record=` takes for the spikes of all populations but virtual ones."""
        return [f"{name}.spikes" for name, one in self.populations.items() if "begin" not in one.state]

    @property
    def record(self) -> list[str | Every]:
        """What `record=` takes for the same spikes, and for all reports of the config."""
        return [*self.spikes, *(request for report in self.reports.values() for request in report.record)]

    def build(self, seed: int = 0, *, quantum: Value | Mapping[str, Value] | None = None, **options: Any) -> Simulation:
        """Return a simulation: `network.build`, with its options.

        Args:
            seed: The seed; files of SONATA leave nothing to be drawn.
            quantum: As for `Network.build`; None takes `quanta`.
            **options: Such as `backend`, `threads` and `round_delays`.

        Returns:
            The simulation, before its first step.

        Examples:
            >>> import brainevent as be
            >>> exc = be.models.lif_current("exc", 2, current=500.0)
            >>> model = be.SonataNetwork(be.Network([exc], dt=0.1), {"exc": ("cortex", [7, 9])}, 100.0)
            >>> sim = model.build(backend="numba")
            >>> bool(sim.run(ms=model.duration, record=model.spikes)["exc.spikes"].counts.all())
            True
        """
        return self.network.build(seed, quantum=(self.quanta or None) if quantum is None else quantum, **options)

    def write_spikes(
        self, path: str | os.PathLike[str], result: Mapping[str, Any], *, sorting: str = "by_time"
    ) -> None:
        """Write the spikes of a run by populations and node ids of the files that were read.

        Args:
            path: File to write; an existing one is replaced.
            result: What a run returned.
            sorting: The order of the spikes: "by_time" or "by_id".

        Raises:
            NetworkError: There are no spikes, or `sorting` is unknown.
            ImportError: h5py is not installed.

        Examples:
            >>> import pathlib, tempfile, brainevent as be
            >>> exc = be.models.lif_current("exc", 2, current=500.0)
            >>> model = be.SonataNetwork(be.Network([exc], dt=0.1), {"exc": ("cortex", [7, 9])}, 100.0)
            >>> result = model.build(backend="numba").run(ms=model.duration, record=model.spikes)
            >>> path = pathlib.Path(tempfile.mkdtemp()) / "spikes.h5"
            >>> try:
            ...     model.write_spikes(path, result)
            ... except ImportError:  # h5py is missing
            ...     path.touch()
            >>> path.exists()
            True
        """
        write_sonata_spikes(path, result, nodes=self.nodes, sorting=sorting)

    def write_reports(self, folder: str | os.PathLike[str], result: Result) -> list[Path]:
        """Write what a run recorded for the reports of the config, each as a file of SONATA.

        Args:
            folder: Folder of the files; it is made if it is not there. Files have the names that the config gives, and
                replace those that are there.
            result: What a run with `record=model.record` returned.

        Returns:
            The paths of the files.

        Raises:
            NetworkError: A report was not recorded, or no sample of it is between its start and its end.
            ImportError: h5py is not installed.

        Examples:
            >>> import tempfile, brainevent as be
            >>> exc = be.models.lif_current("exc", 2, current=500.0)
            >>> model = be.SonataNetwork(be.Network([exc], dt=0.1), {"exc": ("cortex", [7, 9])}, 100.0)
            >>> result = model.build(backend="numba").run(ms=model.duration, record=model.record)
            >>> model.write_reports(tempfile.mkdtemp(), result)  # its config has no reports
            []
        """
        paths = []
        Path(folder).mkdir(parents=True, exist_ok=True)
        for report in self.reports.values():
            labels = [request.label for request in report.record]
            path = Path(folder) / report.file
            write_sonata_report(path, result, labels, nodes=self.nodes, start=report.start, stop=report.stop)
            paths.append(path)
        return paths

    def __repr__(self) -> str:
        how_long = "" if self.duration is None else f", {self.duration:g} ms"
        sizes = ", ".join(f"{name} ({one.size})" for name, one in self.populations.items())
        return f"SonataNetwork({sizes}; {len(self.network.projections)} projections, dt={self.dt:g}{how_long})"
