# SPDX-License-Identifier: Apache-2.0
"""The arrays of a running network, and the tables by which native code finds its part of them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ..._pieces import copied_in_pieces
from ...scalar.primitives import flushed
from ..pages import aligned
from ..plan.bundles import Bundle, bundled_anyhow, bundles_of, sum_places
from ..plan.couplings import CouplingPlan
from ..plan.plan import Plan, PopulationPlan, SynapsePlan
from ..plan.plastic import PlasticPlan
from ..run.finite import SynapseFault
from ..state import NetworkState
from .native import bundle_address, bundle_function, coupling_address, delivery_address
from .plastic import PlasticArrays, kept_of
from .plastic_text import ARRIVE, FINISH
from .tables import BUNDLE, COUPLING, DELIVERY, FINITE, LINE, STRETCHES, Table, address, lines
from .updates import PopulationArrays, Updates
from .waiting import Ring, SpikeLists

__all__ = ["Memory"]

Array = Any


class Memory:
    """States, parameters, sums and lists of spikes, and the tables of all that native code runs.

    Spikes wait in lists until they arrive, and what arrives is added to the sums of one step. Only sums that were
    given, and those of synapses that no bundle has, wait themselves: then the ring has more than one slot. Unless they
    are `watched`, states that are not finite let no run stop. Of a plan of one of several processes, spikes of the
    others come every `apart` steps: each population has a list of them after those of its parts.
    """

    def __init__(self, plan: Plan, *, watched: bool = True, apart: int = 0):
        self.plan, self.watched = plan, watched and plan.check_finite
        self.clock = lines(1)  # of which the first word is the step that comes next
        self.leg = 1  # how many steps native code should run at a time: the last estimate
        self.fed_by: object = None  # a prepared run whose inputs tables point to; None if that is not known
        self.torn = False  # whether a run was interrupted within a step
        self.fresh = True  # whether no step ran since states were given: they may have denormals
        synapses = bundled_anyhow(plan)
        self.apart = apart
        self.places, self._merged = sum_places(plan.populations, plan.parts, plan.owned), bundles_of(synapses)
        self._held = [one for one in synapses.held.values() if one.targets.size]
        delays = [int(synapses.delays.max()) for synapses in self._held]
        delays += [one.pending_rows for one in plan.plastic if not one.at_axon]
        self._least = max(delays, default=0)  # steps that sums wait
        self._until = 0  # the step before which all that was given has arrived
        self.ring = Ring(self.places, self._least)
        self.lists = {p.name: self._lists(p) for p in plan.populations}
        self.arrays = {p.name: _arrays(plan, p) for p in plan.populations}
        self.kept = kept_of(plan)
        for name, kept in self.kept.items():
            kept.read(self.arrays[name].states)
        self.updates = {
            p.name: Updates(p, self.arrays[p.name], self.lists[p.name], self.ring, self.kept.get(p.name))
            for p in plan.populations
        }
        self._alive: list[Any] = []  # what tables point to
        self.bundles = [(bundle_address(one, self._values(one.source)), self._bundle(one)) for one in self._merged]
        self.deliveries = [
            (delivery_address(one, self._values(one.source)), self._deliveries(one)) for one in self._held
        ]
        self.afar = [(function, self._from_afar(tables)) for function, tables in self.deliveries if plan.owned]
        self.plastic = {
            one.name: PlasticArrays(plan, one, self.kept, self.arrays[one.target].states, watched=self.watched)
            for one in plan.plastic
        }
        self._follow_ring()
        self.couplings = [(coupling_address(coupling), self._coupling(coupling)) for coupling in plan.couplings]
        self.finite = [self._float_states(part) if watched else [] for part in range(plan.parts)]

    @property
    def step(self) -> int:
        """The number of the step that comes next."""
        return self.clock.item(0)

    @step.setter
    def step(self, step: int) -> None:
        self.clock[0, 0] = step

    @property
    def neurons(self) -> dict[str, dict[str, Array]]:
        """The states themselves, by population."""
        return {name: dict(arrays.states) for name, arrays in self.arrays.items()}

    @property
    def state(self) -> NetworkState:
        """A copy of the state, in the layout that all engines share."""
        neurons = {name: {key: a.copy() for key, a in arrays.states.items()} for name, arrays in self.arrays.items()}
        arriving = {
            p.name: {key: np.zeros((self.plan.rows(p.name, key), p.size), np.int32) for key in p.quanta}
            for p in self.plan.populations
        }
        self._add_waiting(arriving)
        plastic = {name: one.read(self.step) for name, one in self.plastic.items()}
        synapses, traces = ({name: parts[k] for name, parts in plastic.items()} for k in range(2))
        past = {name: self.kept[name].past(self.step) for name in self.plan.pasts}
        return NetworkState(np.uint32(self.step), neurons, arriving, self.plan.quanta, synapses, traces, past)

    @property
    def steps_left(self) -> int:
        """How many steps may run before `settle` is called."""
        return max(self._until - self.step, 0) or 2**62

    @property
    def settled(self) -> bool:
        """Whether the ring has no slots that only sums needed that were given, and have arrived."""
        return not 0 < self._until <= self.step

    @property
    def ahead(self) -> int:
        """For how many steps spikes may wait in lists."""
        return max((int(bundle.delays[-1]) for bundle in self._merged), default=0)

    def faults(self) -> list[SynapseFault]:
        """Return the first synapse of each plastic projection that its rules made infinite or NaN in the last step."""
        return [fault for one in self.plastic.values() if (fault := one.fault()) is not None]

    def plastic_calls(self, name: str) -> list[tuple[int, list[Table]]]:
        """Return the functions of plastic projections that do one of both things, with their tables."""
        assert name in (ARRIVE, FINISH)
        return [(one.functions[name], one.tables) for one in self.plastic.values() if name in one.functions]

    @property
    def shared(self) -> list[Array]:
        """The arrays of synapses, which nobody writes."""
        found = [array for one in self._merged for array in (one.starts, one.places, one.weights)]
        found += [array for coupling in self.plan.couplings for array in coupling.by_target]
        found += [array for one in self.plastic.values() for array in one.shared]
        return found + [array for one in self._held for array in (one.starts, one.targets, one.weights, one.delays)]

    def hold(self, steps: int) -> None:
        """Give the ring slots for sums that wait a number of steps, which it keeps."""
        self._least = max(self._least, steps)
        self._use_ring(self._least)

    def settle(self) -> None:
        """Give the ring the slots that are still needed, after steps were run."""
        if not self.settled:
            self._use_ring(self._least)
            self._until = 0

    def give(self, inputs: Mapping[tuple[str, str], Array]) -> None:
        """Let native code read inputs, (steps, neurons) or (steps, 1): they must live until others are given."""
        self.fed_by = None
        for updates in self.updates.values():
            updates.give(inputs)

    def load(self, state: NetworkState) -> None:
        """Copy a state into the arrays."""
        self.step, self.torn, self.fresh = int(state.step), False, True
        for name, arrays in self.arrays.items():
            self.lists[name].clear()
            for key, array in arrays.states.items():
                array[...] = state.neurons[name][key]
        given = [(name, key, rows) for name, keys in state.arriving.items() for key, rows in keys.items()]
        left = max((_last(rows) for _, _, rows in given), default=0)
        self._until = self.step + left if left else 0
        self.ring = Ring(self.places, 1)  # empty
        self._use_ring(max(left, self._least))
        for name, key, rows in given:
            self.ring.write(name, key, self.step, rows)
        for plastic in self.plastic.values():
            plastic.load(state)
        for name, kept in self.kept.items():
            kept.load(state.past.get(name, {}), self.step)

    def set(self, name: str, param: str, value: Array) -> None:
        """Copy a parameter, of a population or of a plastic projection, into its array."""
        if name in self.plastic:
            self.plastic[name].set(param, value, self.step)
            return
        array = self.arrays[name].params[param]
        array[...] = flushed(np.asarray(value, array.dtype))
        self.fed_by = None  # new tables have no inputs
        self.updates[name].follow_params()

    def set_keys(self, plan: Plan) -> None:
        """Draw random numbers with the keys of a plan that differs in nothing else that native code knows."""
        self.plan = plan
        for population in plan.populations:
            self.updates[population.name].set_key(population)

    def with_weights(self, plan: Plan, state: NetworkState) -> Memory:
        """Return the memory of a plan that differs only in weights and quanta, with a state in these."""
        other = Memory(plan, apart=self.apart)
        params = {name: arrays.params for name, arrays in self.arrays.items()}
        for name, own in (params | {name: one.params for name, one in self.plastic.items()}).items():
            for key, array in own.items():
                other.set(name, key, array)
        other.load(state)
        return other

    def flush(self) -> None:
        """Flush denormals of states that were given, as a rule does with its inputs: it returns none.

        Couplings then read these states.
        """
        if self.fresh:
            for arrays in self.arrays.values():
                for array in arrays.states.values():
                    array[...] = flushed(array)
                for key, shown in arrays.shown.items():
                    shown[...] = arrays.states[key]
        self.fresh = False

    def _use_ring(self, steps: int) -> None:
        """Give the ring slots for a number of steps; it keeps its sums."""
        ring = Ring(self.places, steps)
        for name, receptor in self.plan.receptors():
            rows = np.zeros((min(ring.slots, self.ring.slots), self.plan.population(name).size), np.int32)
            self.ring.read(name, receptor, self.step, rows)
            ring.write(name, receptor, self.step, rows)
        self.ring = ring
        for updates in self.updates.values():
            updates.follow_ring(ring)
        for deliveries in (self.deliveries, self.afar):
            for synapses, (_, tables) in zip(self._held, deliveries, strict=False):
                for part, table in enumerate(tables):
                    table.update(self._ring_words(synapses, part))
        for _, tables in self.bundles:
            for part, table in enumerate(tables):
                table.update(ring.words(part))
        self._follow_ring()

    def _follow_ring(self) -> None:
        """Let plastic synapses add to the sums of the ring of now."""
        for one in self.plastic.values():
            one.follow_ring([self._ring_words(one.plastic, part) for part in range(self.plan.parts)])

    def _add_waiting(self, arriving: dict[str, dict[str, Array]]) -> None:
        """Add pending input: sums, and the weights of spikes that wait in lists."""
        for name, keys in arriving.items():
            for key, rows in keys.items():
                self.ring.read(name, key, self.step, rows)
        empty = Ring(self.places, 1)
        for ahead in range(self.ahead):
            for function, tables in self.bundles:
                for part, table in enumerate(tables):
                    of_step = table.changed(empty.words(part))
                    bundle_function(function)(of_step.address, self.step + ahead, self.step)
            for name, keys in arriving.items():
                for key, rows in keys.items():
                    empty.read(name, key, 0, rows[ahead : ahead + 1])
            for sums in empty.parts:
                sums[...] = 0

    def _lists(self, population: PopulationPlan) -> SpikeLists:
        delays = [int(b.delays[-1]) for b in self._merged if b.source == population.name]
        bounds = [int(bound) for bound in self.places.bounds[population.name]]
        others = population.size - (bounds[-1] - bounds[0]) if self.plan.owned else None
        steps = max(1 + max(delays, default=1), self.apart)
        return SpikeLists(bounds, steps, self._values(population.name), others)

    def _values(self, population: str) -> str | None:
        """Return the dtype of the values of spikes; None if they have none."""
        rule = self.plan.population(population).rule
        return rule.dtype if rule.value else None

    def _bundle(self, bundle: Bundle) -> list[Table]:
        """Return the tables of a bundle, one for each part."""
        weights, delays = _wide(bundle.weights, np.int32), bundle.delays.astype(np.int64)
        found = [aligned((STRETCHES,), np.int64) for _ in range(self.plan.parts)]
        self._alive += [bundle, weights, delays, found]
        words = {
            "parts": self.plan.parts,
            "listed": len(self.lists[bundle.source].lines),
            "lists": address(self.lists[bundle.source].lines),
            "sources": self.plan.population(bundle.source).size,
            "delays": address(delays),
            "many": delays.size,
            "starts": address(bundle.starts),
            "places": address(bundle.places),
            "weights": address(weights),
        }
        return [
            Table(BUNDLE._fields, words | self.ring.words(part) | {"part": part, "found": address(found[part])})
            for part in range(self.plan.parts)
        ]

    def _deliveries(self, synapses: SynapsePlan) -> list[Table]:
        """Return the tables of a projection that no bundle has, one for each part."""
        entries = (
            np.ascontiguousarray(synapses.starts),
            np.ascontiguousarray(synapses.targets),
            _wide(synapses.weights, np.int32),
            _wide(synapses.delays, np.uint16),
        )
        self._alive.append(entries)
        words = {
            "parts": self.plan.parts,
            "listed": self.plan.parts,
            "lists": address(self.lists[synapses.source].lines),
            "sources": self.plan.population(synapses.source).size,
            **dict(zip(("starts", "targets", "weights", "delays"), map(address, entries), strict=True)),
        }
        return [
            Table(DELIVERY._fields, words | self._ring_words(synapses, part) | {"part": part})
            for part in range(self.plan.parts)
        ]

    def _from_afar(self, tables: list[Table]) -> list[Table]:
        """Return tables by which spikes of other processes are delivered, in place of those of the own parts."""
        own = self.plan.parts
        return [table.changed({"lists": table["lists"] + 8 * LINE * own, "listed": 1}) for table in tables]

    def _coupling(self, coupling: CouplingPlan) -> list[Table]:
        """Return the tables of a coupling, one for each part."""
        arrays, source = self.arrays[coupling.target], self.arrays[coupling.source].shown[coupling.state]
        starts, sources, weights = coupling.by_target
        own = self.arrays[coupling.target].shown.get(coupling.state) if coupling.difference else None
        out = arrays.coupled[coupling.receptor]
        words = {
            "begins": self.plan.coupled[coupling.place][0] is coupling,
            "sources": address(sources),
            "weights": address(weights),
            "values": address(source),
            "row": source.strides[0],
        }
        tables = []
        for low, high in pairwise(arrays.bounds):
            # Where nothing is subtracted, own states are read, and not used: any memory of this size will do.
            at = (address(out), 0) if own is None else (address(own), own.strides[0])
            places = {
                "size": high - low,
                "starts": address(starts) + low * starts.itemsize,
                "own": at[0] + low * out.itemsize,
                "own_row": at[1],
                "out": address(out) + low * out.itemsize,
            }
            tables.append(Table(COUPLING._fields, words | places))
        return tables

    def _ring_words(self, synapses: SynapsePlan | PlasticPlan, part: int) -> dict[str, int]:
        """Return where the sums of a part lie, and how far from there those of a target would begin with neuron 0."""
        shift = int(self.places.shifts(synapses.target, synapses.receptor)[part])
        return self.ring.words(part) | {"shift": 4 * shift}

    def _float_states(self, part: int) -> list[Table]:
        tables = []
        for name, arrays in self.arrays.items():
            graded = self._values(name) is not None
            if not (self.plan.check_finite or graded):
                continue
            low, high = arrays.bounds[part : part + 2]
            for array in (array for array in arrays.states.values() if array.dtype.kind == "f"):
                at = address(array) + array.itemsize * low
                words = {"state": at, "size": high - low, "itemsize": array.itemsize}
                tables.append(Table(FINITE._fields, words | {"nan": not self.plan.check_finite}))
        return tables


def _arrays(plan: Plan, population: PopulationPlan) -> PopulationArrays:
    return PopulationArrays(
        {key: _copied(array) for key, array in population.state.items()},
        {key: _copied(flushed(array)) for key, array in population.params.items()},
        {key: np.array([quantum]) for key, quantum in population.quanta.items()},
        [int(bound) for bound in plan.bounds(population.name)],
        {r: aligned((population.size,), plan.dtype) for r in population.quanta if (population.name, r) in plan.coupled},
        {key: aligned((2, population.size), plan.dtype) for key in plan.shown(population.name)},
    )


def _last(rows: Array) -> int:
    """Return how many rows there are up to the last one that is not all zero."""
    found = np.flatnonzero(rows.any(1))
    return int(found[-1]) + 1 if found.size else 0


def _wide(values: Array, dtype: Any) -> Array:
    """Return the entries of synapses: one that is the same for all has the widest dtype, all others have their own."""
    return values.astype(dtype) if values.size == 1 else np.ascontiguousarray(values)


def _copied(array: Array) -> Array:
    return copied_in_pieces(array, into=aligned(array.shape, array.dtype))
