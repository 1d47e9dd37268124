# SPDX-License-Identifier: Apache-2.0
"""`Network`: populations, projections and couplings as one description, and how it is built."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..._system import why_not_compiled
from ...errors import NetworkError, did_you_mean
from ..plan.threads import parts_for
from .checks import is_number, named
from .coupling import Coupling
from .populations import Population, Projection, Value
from .units import plain

if TYPE_CHECKING:
    from ..run.simulation import Simulation

from ..._html import document, table

__all__ = ["Network", "shown"]


@dataclass(frozen=True, eq=False)
class Network:
    """Populations and what connects them: a description, from which `build` makes a simulation.

    Args:
        populations: All populations.
        projections: All projections and couplings, in one list.
        dt: Time step, in ms.
        couplings: More couplings, which are added to those in `projections`. The attributes hold the two kinds apart.

    Raises:
        NetworkError: Two populations, projections or couplings have the same name, a population of one of them is not
            in the list, or the step is not positive.

    Examples:
        >>> import brainevent as be
        >>> cells = be.Population("cells", 100, lambda s, arriving, p: (s, arriving.syn > 1))
        >>> be.Network([cells], dt=0.1)
        Network(100 neurons, 0 projections, dt=0.1)
    """

    populations: tuple[Population, ...]
    projections: tuple[Projection, ...] = ()  # couplings among them go to `couplings`
    dt: float = 0.1
    couplings: tuple[Coupling, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "populations", _all_of("populations", self.populations, Population))
        both = _all_of("projections", self.projections, Projection, Coupling)
        more = _all_of("couplings", self.couplings, Coupling)
        object.__setattr__(self, "projections", tuple(one for one in both if isinstance(one, Projection)))
        object.__setattr__(self, "couplings", (*(one for one in both if isinstance(one, Coupling)), *more))
        dt = plain("Network: dt", self.dt, "ms")
        if not is_number(dt) or not (math.isfinite(dt) and dt > 0):
            raise NetworkError(f"Network: dt is {self.dt!r}; pass a positive number of ms")
        object.__setattr__(self, "dt", float(dt))
        if not self.populations:
            raise NetworkError("Network: populations is empty; pass at least one")
        _check_different("populations", [population.name for population in self.populations])
        links = "projections and couplings" if self.couplings else "projections"
        _check_different(links, [p.name for p in self._links if p.name is not None])
        _check_different(
            f"populations, {links}" if self.couplings else "populations and projections",
            [*(p.name for p in self.populations), *self._names],
        )
        for link in self._links:
            self._check_ends(f"{type(link).__name__.lower()} {link.usual_name}", *link.populations)

    def _check_ends(self, where: str, *ends: Population) -> None:
        """Raise unless populations are in the network."""
        names = [population.name for population in self.populations]
        for end in ends:
            if not any(end is population for population in self.populations):
                same = "another population there has this name; pass the population itself"
                hint = same if end.name in names else did_you_mean(end.name, names)[2:]
                raise NetworkError(
                    f"{where}: population {end.name} is not in the network; {hint or 'pass it to Network'}"
                )

    def __repr__(self) -> str:
        neurons = sum(population.size for population in self.populations)
        links = _counted(self.projections, "projection")
        links += f", {_counted(self.couplings, 'coupling')}" if self.couplings else ""
        return f"Network({neurons} neurons, {links}, dt={self.dt:g})"

    def _repr_html_(self) -> str:
        """Return what notebooks show: tables of populations and projections."""
        return shown(self)

    @property
    def projection_names(self) -> tuple[str, ...]:
        """Names of the projections; the second of the same name ends with "#2"."""
        return self._names[: len(self.projections)]

    @property
    def coupling_names(self) -> tuple[str, ...]:
        """Names of the couplings, likewise; projections come first."""
        return self._names[len(self.projections) :]

    @property
    def _links(self) -> list[Projection | Coupling]:
        return [*self.projections, *self.couplings]

    @property
    def _names(self) -> tuple[str, ...]:
        taken = {one.name for one in self._links if one.name is not None}
        names: list[str] = []
        for one in self._links:
            name, number = one.usual_name, 1
            while one.name is None and name in taken:
                number += 1
                name = f"{one.usual_name}#{number}"
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
        devices: int | Iterable[Any] | Literal["all"] | None = None,
        hosts: Mapping[str, int] | Literal["all", "areas"] | None = None,
    ) -> Simulation:
        """Draw all random values and synapses, and return a simulation of the network.

        Args:
            seed: From 0 to 2**64 - 1. All random numbers are functions of the seed and of names.
            backend: What runs it: "cuda", "numba", "jax" or "interpreted"; None is "cuda" where JAX has such a GPU,
                else "numba". All but "jax" return the same bits.
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
            devices: With "cuda", the GPUs that run it together, of one kind and with access to each other's memory: how
                many, a list of their numbers or of devices of JAX, or "all". None is one. No result depends on it.
                `blocks` are then those of each GPU. `sweep` needs one GPU. With `hosts`, these are the GPUs of this
                process, of those that JAX has there; they need not be of one kind, nor have access to each other.
            hosts: With "numba" or "cuda", "all" lets all processes of `jax.distributed` run it together, on their CPUs
                or on the GPUs that `devices` names, of which None is one. Each of them calls the same methods of its
                simulation, in the same order, and gets the same results, which do not depend on their number. Each
                process owns a part of each population; a mapping such as `{"v1": 0, "v2": 1}` gives whole populations
                to processes by their numbers, and "areas" places whole ones itself, those with short delays between
                them together, on GPUs on one each. Spikes are exchanged once per least delay between processes, or
                between GPUs. `threads` are then those of each process, and `blocks` those of each GPU. Plastic synapses
                and couplings need one process.

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
        from ..engines import check_dtype, chosen_name, devices_of, hosts_of, make_engine, measure_of
        from ..plan.build import build_plan
        from ..run.simulation import Simulation

        check_dtype(dtype, backend)
        name = chosen_name(dtype) if backend is None else backend
        among = hosts_of(name, hosts, self, threads, devices, round_delays=round_delays)
        on = devices_of(name, devices) if among is None else None
        parts = parts_for(sum(population.size for population in self.populations), threads)
        parts = 1 if name in ("cuda", "jax") else parts  # those have threads of their own
        how: dict[str, Any] = {"round_delays": round_delays, "check_finite": check_finite, "dtype": dtype}
        how |= {"prints": name == "jax", "warn": name != "jax"}  # what is trained has weights that are given later
        if among is None:
            plan = build_plan(self, seed=seed, parts=parts, quantum=quantum, measure=measure_of(name, on), **how)
        else:
            plan = among.plan_of(self, seed=seed, quantum=quantum, **how)
        options = {"blocks": blocks, "shared_bytes": shared_bytes, "clocks": clocks or None}
        return Simulation(plan, make_engine(plan, name, devices=on, hosts=among, **options), network=self)


def _all_of(what: str, given: Iterable[Any], *kinds: type) -> tuple[Any, ...]:
    """Return all as a tuple, if each is of one of these kinds."""
    names = " or ".join(kind.__name__ for kind in kinds)
    if isinstance(given, (str, *kinds)) or not isinstance(given, Iterable):
        raise NetworkError(f"Network: {what} is {given!r}; pass a list of {names}")
    found = tuple(given)
    for one in found:
        if not isinstance(one, kinds):
            raise NetworkError(f"Network: {one!r} is among the {what}; pass {names}")
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
    couplings = [
        (name, p.source.name, p.target.name, p.into, _how(p.connect), _carried(p))
        for name, p in zip(network.coupling_names, network.couplings, strict=True)
    ]
    parts = [table(("population", "neurons", "rule", "states", "parameters"), populations, right=[1])]
    if projections:
        parts.append(table(("projection", "from", "to", "into", "connections", "delay (ms)"), projections))
    if couplings:
        parts.append(table(("coupling", "from", "to", "into", "connections", "carries"), couplings))
    neurons = sum(p.size for p in network.populations)
    return document(f"network of {neurons} neurons, dt {network.dt:g} ms", *parts)


def _counted(values: Sized, what: str) -> str:
    return f"{len(values)} {what}{'s' * (len(values) != 1)}"


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


def _carried(coupling: Coupling) -> str:
    return f"difference of {coupling.of}" if coupling.difference else coupling.of


def _delay(delay: Any) -> str:
    if delay is None:
        return "one step"
    if callable(delay):
        return named(delay)
    return f"{delay.dtype} {delay.shape}" if getattr(delay, "ndim", 0) else str(delay)
