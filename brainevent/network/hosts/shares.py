# SPDX-License-Identifier: Apache-2.0
"""`Shares`: which process owns which neurons of a network, as `build(hosts=...)` asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from ...errors import NetworkError, did_you_mean
from ..description.checks import is_integer
from ..description.populations import Population, whole_name
from .areas import links_of, placed_areas

__all__ = ["Shares", "check_hosts", "chosen_shares", "shares_of_gpus"]

_PASS = 'pass "all", "areas", or the numbers of processes by population, such as {"exc": 0, "inh": 1}'

Array = Any


@dataclass(frozen=True, eq=False)
class Shares:
    """Which neurons the processes own, of which this is one.

    `edges` says for each population where the neurons of each process begin and end: int64 (count + 1,).

    On GPUs, `gpus` are the shares of those of this process, among all, and `begins` says which is the first of each
    process: int64 (count,).
    """

    number: int
    count: int
    edges: Mapping[str, Array]
    gpus: tuple[Shares, ...] = ()
    begins: Array = None

    def of(self, number: int) -> dict[str, tuple[int, int]]:
        """Return the neurons of a process by population, from the first number to before the second."""
        return {name: (int(edges[number]), int(edges[number + 1])) for name, edges in self.edges.items()}

    @property
    def own(self) -> dict[str, tuple[int, int]]:
        """The neurons of this process."""
        return self.of(self.number)

    def owners(self, population: str, neurons: Array) -> list[Array]:
        """Return for each process which of some neurons it owns, as places among them."""
        return [np.flatnonzero((neurons >= low) & (neurons < high)) for low, high in pairwise(self.edges[population])]

    def placed(self, number: int) -> list[str]:
        """Return the populations that a process owns as a whole."""
        return [name for name, edges in self.edges.items() if edges[number + 1] - edges[number] == edges[-1] > 0]

    def neurons(self, number: int) -> int:
        """Return how many neurons a process owns."""
        return sum(high - low for low, high in self.of(number).values())


def shares_of_gpus(number: int, apiece: Sequence[int], edges: Mapping[str, Array]) -> Shares:
    """Return the shares of processes, of which one has this number, given how many GPUs each has, and their edges."""
    begins = np.cumsum([0, *apiece])
    count = int(begins[-1])
    gpus = tuple(Shares(k, count, edges) for k in range(int(begins[number]), int(begins[number + 1])))
    whole = {name: one[begins] for name, one in edges.items()}
    return Shares(number, len(apiece), whole, gpus, begins[:-1])


def check_hosts(hosts: Any, backend: str) -> None:
    """Raise if a backend does not run on several hosts, or these are not named in one of the ways."""
    if backend not in ("numba", "cuda"):
        raise NetworkError(
            f"build: hosts is an option of backend='numba' and backend='cuda', but the backend is {backend!r}; leave "
            "it out, or pass one of these"
        )
    if not isinstance(hosts, Mapping) and not (isinstance(hosts, str) and hosts in ("all", "areas")):
        raise NetworkError(f"build: hosts is {hosts!r}; {_PASS}")


def chosen_shares(
    hosts: Any, network: Any, apiece: Sequence[int] | None = None, *, round_delays: bool = False
) -> Shares:
    """Return the shares of the processes of `jax.distributed`.

    Args:
        hosts: "all", which divides each population; "areas", which places whole ones; or the number of a process for
            some populations, which it owns, while the others are divided.
        network: The network.
        apiece: How many GPUs each process has, among which its neurons are divided; None on CPUs.
        round_delays: Whether its delays are rounded.

    Returns:
        The shares, the same in each process but for its number.

    Raises:
        NetworkError: The argument is none of these, or names what is not there.
    """
    populations: Sequence[Population] = network.populations
    given = hosts if isinstance(hosts, Mapping) else {}
    placed = {whole_name("build: hosts", key, "a process owns or shares those"): one for key, one in given.items()}
    count, names = jax.process_count(), [population.name for population in populations]
    begins = np.cumsum([0, *([1] * count if apiece is None else apiece)])
    places = int(begins[-1])  # processes, or GPUs
    owners: dict[str, tuple[int, int]] = {}  # the places of a population, from one to before another
    if hosts == "areas":
        links = links_of(network, round_delays=round_delays)
        found = placed_areas({population.name: population.size for population in populations}, links, places)
        owners = {name: (place, place + 1) for name, place in found.items()}
    for name, number in placed.items():
        if name not in names:
            raise NetworkError(
                f"build: hosts has {name!r}, and the network has no such population{did_you_mean(str(name), names)}; "
                f"populations: {', '.join(names)}"
            )
        if not is_integer(number) or not 0 <= number < count:
            have = "is one process" if count == 1 else f"are {count} processes"
            raise NetworkError(
                f"build: hosts has {number!r} for {name}, and there {have} of jax.distributed, numbered from 0; {_PASS}"
            )
        owners[str(name)] = int(begins[number]), int(begins[number + 1])
    edges = {}
    for population in populations:
        first, end = owners.get(population.name, (0, places))
        own = end - first
        edges[population.name] = np.clip(np.arange(places + 1) - first, 0, own) * population.size // own
    if apiece is None:
        return Shares(jax.process_index(), count, edges)
    return shares_of_gpus(jax.process_index(), apiece, edges)
