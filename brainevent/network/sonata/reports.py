# SPDX-License-Identifier: Apache-2.0
"""Membrane reports of a config: which states of which nodes to record, how often, and into which file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import NetworkError, did_you_mean
from ..run.requests import Every, every
from .nodes import Nodes

__all__ = ["Report", "read_report"]

_MODULES = ("membrane_report", "multimeter_report", "multimeter", "compartment", "compartment_report")
_SECTIONS = ("soma", "all", None)
_STATES = {"V_m": "v", "I_syn_ex": "exc", "I_syn_in": "inh", "g_ex": "exc", "g_in": "inh"}  # names of NEST
_STATES |= {"threshold_spike": "raised", "threshold_voltage": "adapted"}

Array = Any


@dataclass(frozen=True, eq=False)
class Report:
    """One report of a config.

    Attributes:
        name: Its name.
        file: Name of its file.
        record: What `Simulation.run` takes as `record=`: a request for each population.
        start: Time in ms after which samples are written.
        stop: Time in ms until which samples are written; None for all.
    """

    name: str
    file: str
    record: tuple[Every, ...]
    start: float
    stop: float | None


def read_report(
    name: str, given: Any, masks: Mapping[str, Array], nodes: Mapping[str, Nodes], dt: float, duration: float | None
) -> Report:
    """Read one report; `masks` are the nodes of its cells, by population."""
    where = f"reports {name}"
    module = given.get("module", given.get("type"))
    if module not in _MODULES:
        raise NetworkError(
            f"{where}: module {module!r} cannot be recorded; only membrane_report and multimeter_report can: set "
            '"enabled": false to leave the report out'
        )
    for key, known in (("sections", _SECTIONS), ("transform", (None, "none", "None"))):
        if given.get(key) not in known:
            raise NetworkError(f"{where}: {key} is {given[key]!r}; point neurons have one potential: leave {key} out")
    variable = _variable(where, given)
    start, stop = _times(where, given, duration)
    steps = _steps(where, given, dt)
    requests = []
    for population, mask in masks.items():
        for part in nodes[population].parts:
            numbers = np.flatnonzero(mask[part.nodes])
            if part.population is None or not numbers.size:
                continue
            state = _state(where, variable, part.name, part.population.state)
            some = None if numbers.size == part.nodes.size else numbers
            requests.append(every(steps, f"{part.name}.{state}", some, label=f"{name}:{part.name}"))
    if not requests:
        raise NetworkError(f"{where}: cells are virtual, and have no {variable}; choose point neurons")
    file = given.get("file_name") or f"{name}.h5"
    return Report(name, Path(str(file)).name, tuple(requests), start, stop)


def _variable(where: str, given: Mapping[str, Any]) -> str:
    """Return the name of what is recorded, which may be alone in a list."""
    variable = given.get("variable_name")
    if isinstance(variable, list) and len(variable) == 1:
        variable = variable[0]
    if not isinstance(variable, str) or not variable:
        raise NetworkError(f"{where}: variable_name is {variable!r}; it must be one name, such as V_m")
    return variable


def _steps(where: str, given: Mapping[str, Any], dt: float) -> int:
    """Return the number of time steps between samples."""
    interval = given.get("dt", dt)
    if not isinstance(interval, (int, float)) or not interval > 0:
        raise NetworkError(f"{where}: dt is {interval!r}; it must be a positive number of ms")
    steps = interval / dt
    if abs(steps - round(steps)) > 1e-6 * max(1, steps) or round(steps) < 1:
        raise NetworkError(f"{where}: dt is {interval:g} ms, no multiple of the time step, {dt:g} ms; pass a multiple")
    return round(steps)


def _times(where: str, given: Mapping[str, Any], duration: float | None) -> tuple[float, float | None]:
    """Return between which times samples are written."""
    start, stop = given.get("start_time", 0.0), given.get("end_time", duration)
    for key, value in (("start_time", start), ("end_time", stop)):
        if value is not None and not (isinstance(value, (int, float)) and np.isfinite(value) and value >= 0):
            raise NetworkError(f"{where}: {key} is {value!r}; it must be a number of ms, 0 or later")
    if stop is not None and not start < stop:
        raise NetworkError(f"{where}: start_time is {start:g} ms and end_time {stop:g} ms; the end must be later")
    return float(start), None if stop is None else float(stop)


def _state(where: str, variable: str, population: str, states: Mapping[str, Any]) -> str:
    """Return the state that a variable is."""
    for name in (variable, _STATES.get(variable, variable)):
        if name in states:
            return name
    known = [*(name for name, state in _STATES.items() if state in states), *states]
    raise NetworkError(
        f"{where}: neurons of {population} have no variable {variable!r}{did_you_mean(variable, known)}; they have "
        f"{', '.join(known)}"
    )
