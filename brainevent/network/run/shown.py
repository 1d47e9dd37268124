# SPDX-License-Identifier: Apache-2.0
"""`Shown`: a simulation as text: its report, its rules and its repr."""

from __future__ import annotations

from ..engine import Engine
from ..engines import engine_name
from ..plan.plan import Plan
from ..plan.replaced import Weights
from .explain import explained
from .report import Text, reported

__all__ = ["Shown"]


class Shown:
    """The part of `Simulation` that describes it in words."""

    plan: Plan
    engine: Engine
    _weights: Weights

    @property
    def steps(self) -> int:
        """How many steps ran: the number of the step that comes next."""
        return self.engine.step

    @property
    def time(self) -> float:
        """How long the network ran, in milliseconds."""
        return self.steps * self.plan.dt

    def report(self) -> Text:
        """Return the network in tables: populations, synapses, memory, and by how much weights are rounded.

        Weights that were replaced are named, and quanta that changed with them.

        Returns:
            A string that prints as it is.
        """
        weights = self._weights
        return reported(weights.plan, engine_name(self.engine), self.steps, *self._where(), weights.said)

    def explain(self) -> Text:
        """Return each rule, line by line, with the lines that are run for it.

        Returns:
            A string that prints as it is.
        """
        return Text(explained(self.plan, engine_name(self.engine)))

    def __repr__(self) -> str:
        neurons = sum(population.size for population in self.plan.populations)
        synapses = sum(projection.entries for projection in self.plan.projections)
        backend, units = engine_name(self.engine), self._where()[0]
        return f"Simulation({neurons} neurons, {synapses} synapses, at step {self.steps}, {backend} on {units})"

    def _repr_html_(self) -> str:
        """Return what notebooks show: the report."""
        return self.report()._repr_html_()

    def _where(self) -> tuple[str, str | None]:
        """Return what runs the network, and where its memory is, if the engine reports it."""
        threads = f"{self.plan.parts} thread{'' if self.plan.parts == 1 else 's'}"
        return getattr(self.engine, "units", threads), getattr(self.engine, "placement", None)
