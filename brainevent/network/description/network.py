# SPDX-License-Identifier: Apache-2.0
"""`Network`: populations and projections as one description, and how it is built."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..._system import why_not_compiled
from ...errors import NetworkError, did_you_mean
from ..plan.threads import parts_for
from .checks import is_number
from .populations import Population, Projection, Value
from .units import plain

if TYPE_CHECKING:
    from ..run.simulation import Simulation

from ..._html import document, table

__all__ = ["Network", "shown"]


@dataclass(frozen=True, eq=False)
class Network:
    """Populations and the projections between them: a description, from which `build` makes a simulation.

    Args:
        populations: All populations.
        projections: All projections.
        dt: Time step, in ms.

    Raises:
        NetworkError: Two populations or projections have the same name, a projection's population is not in the list,
            or the step is not positive.

    Examples:
        >>> from brainevent.network.description.network import Network, Population
        >>> cells = Population("cells", 100, lambda s, arriving, p: (s, arriving.syn > 1))
        >>> Network([cells], dt=0.1)
        Network(100 neurons, 0 projections, dt=0.1)
    """

    populations: tuple[Population, ...]
    projections: tuple[Projection, ...] = ()
    dt: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "populations", _all_of(Population, self.populations))
        object.__setattr__(self, "projections", _all_of(Projection, self.projections))
        dt = plain("Network: dt", self.dt, "ms")
        if not is_number(dt) or not (math.isfinite(dt) and dt > 0):
            raise NetworkError(f"Network: dt is {self.dt!r}; pass a positive number of ms")
        object.__setattr__(self, "dt", float(dt))
        if not self.populations:
            raise NetworkError("Network: populations is empty; pass at least one")
        _check_different("populations", [population.name for population in self.populations])
        _check_different("projections", [p.name for p in self.projections if p.name is not None])
        _check_different("populations and projections", [*(p.name for p in self.populations), *self.projection_names])
        names = [population.name for population in self.populations]
        for projection in self.projections:
            for end in (projection.source, projection.target):
                if not any(end is population for population in self.populations):
                    same = "another population there has this name; pass the population itself"
                    hint = same if end.name in names else did_you_mean(end.name, names)[2:]
                    raise NetworkError(
                        f"projection {projection.usual_name}: population {end.name} is not in the network; "
                        f"{hint or 'pass it to Network'}"
                    )

    def __repr__(self) -> str:
        neurons = sum(population.size for population in self.populations)
        return f"Network({neurons} neurons, {len(self.projections)} projections, dt={self.dt:g})"

    def _repr_html_(self) -> str:
        """Return what notebooks show: tables of populations and projections."""
        return shown(self)

    @property
    def projection_names(self) -> tuple[str, ...]:
        """Names of the projections; the second of the same name ends with "#2"."""
        taken = {p.name for p in self.projections if p.name is not None}
        names: list[str] = []
        for projection in self.projections:
            name, number = projection.usual_name, 1
            while projection.name is None and name in taken:
                number += 1
                name = f"{projection.usual_name}#{number}"
            taken.add(name)
            names.append(name)
        return tuple(names)

    def build(
        self,
        seed: int = 0,
        *,
        backend: str | None = None,
        threads: int | None = None,
        check_finite: bool = False,
        round_delays: bool = False,
        quantum: Value | Mapping[str, Value] | None = None,
        dtype: str = "float32",
        blocks: int | None = None,
        shared_bytes: int | None = None,
        clocks: bool = False,
    ) -> Simulation:
        """Draw all random values and synapses, and return a simulation of the network.

        Args:
            seed: From 0 to 2**64 - 1. All random numbers are functions of the seed and of names.
            backend: What runs it: "cuda", "numba", "jax" or "interpreted"; None is "cuda" where JAX has such a GPU,
                else "numba". All but "jax" return the same bits. Plastic synapses need "jax", which None chooses for
                them, or "interpreted".
            threads: How many threads run it; None takes one for each core that the process may use and each 5 000
                neurons, or what the environment variable BRAINEVENT_THREADS says. No result of a run depends on it,
                but where delays differ the order of `Simulation.connections` does.
            check_finite: Whether a state that becomes infinite or NaN raises `NotFiniteError`.
            round_delays: Whether delays that are not multiples of the step are rounded; else they raise an error.
            quantum: Weights become multiples of this number, and sums of them are exact: one number, or one by
                "population.receptor", such as `{"exc.syn": 2**-14}`. A weight changes by at most half of it. None
                chooses for each receptor: so finely that a weight changes by at most 2**-9 of itself.
            dtype: Of states, parameters, what arrives, and the rules: "float32", or "float64" on a CPU and in JAX.
                Only float32 promises the same bits on every machine.
            blocks: With "cuda", how many blocks run it, up to one a multiprocessor; None takes what suits its size.
            shared_bytes: With "cuda", how much shared memory a block may use; None takes all. No result depends on it.
            clocks: With "cuda", whether the kernel measures where the time of a step goes; `sim.report()` says it.

        Returns:
            The simulation, before its first step.

        Raises:
            NetworkError: A part of the description is wrong, or cannot be run; the message says which.
            RuleError: A rule cannot be run.
            MemoryError: Neurons or synapses do not fit in memory.

        Examples:
            >>> cells = Population("cells", 100, lambda s, arriving, p: (s, arriving.syn > 1))
            >>> Network([cells], dt=0.1).build(seed=1, threads=1, backend="numba")
            Simulation(100 neurons, 0 synapses, at step 0, numba on 1 thread)
        """
        if why := why_not_compiled("a network", "write its loop with operators"):
            raise NetworkError(f"build: {why}")
        from ..engines import check_dtype, chosen_name, make_engine, measure_of
        from ..plan.build import build_plan
        from ..run.simulation import Simulation

        check_dtype(dtype, backend)
        name = chosen_name(dtype) if backend is None else backend
        parts = parts_for(sum(population.size for population in self.populations), threads)
        parts = 1 if name in ("cuda", "jax") else parts  # those have threads of their own
        how: dict[str, Any] = {"round_delays": round_delays, "check_finite": check_finite, "dtype": dtype}
        how |= {"prints": name == "jax", "warn": name != "jax"}  # what is trained has weights that are given later
        plan = build_plan(self, seed=seed, parts=parts, quantum=quantum, measure=measure_of(name), **how)
        options = {"blocks": blocks, "shared_bytes": shared_bytes, "clocks": clocks or None}
        return Simulation(plan, make_engine(plan, name, **options), network=self)


def _all_of(kind: type, given: Iterable[Any]) -> tuple[Any, ...]:
    """Return all as a tuple, if each is what it should be."""
    what = f"{kind.__name__.lower()}s"
    if isinstance(given, (str, kind)) or not isinstance(given, Iterable):
        raise NetworkError(f"Network: {what} is {given!r}; pass a list of {kind.__name__}")
    found = tuple(given)
    for one in found:
        if not isinstance(one, kind):
            raise NetworkError(f"Network: {one!r} is among the {what}; pass {kind.__name__}")
    return found


def _check_different(what: str, names: list[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise NetworkError(f"Network: {count} {what} are named {name!r}; give each a name of its own")


def shown(network: Any) -> str:
    """Return tables in HTML."""
    populations = [
        (p.name, p.size, getattr(p.rule, "__name__", type(p.rule).__name__), _names(p.state), _names(p.params))
        for p in network.populations
    ]
    projections = [
        (name, p.source.name, p.target.name, p.into, _changing(p), _delay(p.delay))
        for name, p in zip(network.projection_names, network.projections, strict=True)
    ]
    parts = [table(("population", "neurons", "rule", "states", "parameters"), populations, right=[1])]
    if projections:
        parts.append(table(("projection", "from", "to", "into", "connections", "delay (ms)"), projections))
    neurons = sum(p.size for p in network.populations)
    return document(f"network of {neurons} neurons, dt {network.dt:g} ms", *parts)


def _names(values: Any) -> str:
    return ", ".join(values) or "none"


def _how(connect: Any) -> str:
    """Return a description as it is written; of a matrix, what it is."""
    if type(connect).__name__ == "Connect":
        return repr(connect)
    return f"{type(connect).__name__} {getattr(connect, 'shape', '')}".rstrip()


def _changing(projection: Projection) -> str:
    """Return how neurons are connected, and what changes the synapses."""
    how, plasticity = _how(projection.connect), projection.plasticity
    return how if plasticity is None else f"{how}, {plasticity!r}"


def _delay(delay: Any) -> str:
    if delay is None:
        return "one step"
    return f"{delay.dtype} {delay.shape}" if getattr(delay, "ndim", 0) else str(delay)
