# SPDX-License-Identifier: Apache-2.0
"""`build_plan`: from the description of a network to what engines run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from ..._pieces import copied_in_pieces
from ..._warned import warn_each_time
from ...errors import NetworkError
from ...event.room import check_room
from ...scalar.threefry import SCHEME
from ...scalar.trace import TracedRule
from ..description.coupling import Coupling
from ..description.populations import Population, Projection
from ..description.values import Values
from .bundles import bundled
from .distribution import Distribution
from .drawing import Description, Measure, placed_synapses
from .drawn_couplings import coupling_wirings, drawn_couplings
from .drawn_values import array_of
from .ends import parts_of
from .fingerprint import fingerprint, repeats_of
from .graded import delivered_at_most, reach
from .keys import DRAWING, checked_seed, key_of
from .pairs import looked_at
from .plan import Plan, PopulationPlan, Synapses
from .plastic import PlasticPlan
from .plastic_drawing import bounded, check_plastic, plastic_plan
from .plasticity import PlasticRules, plastic_rules
from .projections import ProjectionPlan
from .quantum import LARGEST_SUM, Bounded, RoundedWeightsWarning, choose_quantum, given_quanta, rounding_of_bounds
from .rules import all_traced, check_names, check_receptor, receptors_of, with_step
from .wiring import Wiring, check_whole, is_matrix, wiring_of

__all__ = ["build_plan", "redrawn_plan", "reseeded_plan", "wirings_of"]

Receptor = tuple[str, str]  # population and name
Array = Any
T = TypeVar("T")


class Described(Protocol):
    """A `Network`, as far as a plan needs it."""

    @property
    def populations(self) -> tuple[Population, ...]: ...
    @property
    def projections(self) -> tuple[Projection, ...]: ...
    @property
    def projection_names(self) -> tuple[str, ...]: ...
    @property
    def couplings(self) -> tuple[Coupling, ...]: ...
    @property
    def coupling_names(self) -> tuple[str, ...]: ...
    @property
    def dt(self) -> float: ...


def build_plan(
    network: Described,
    *,
    seed: int = 0,
    parts: int = 1,
    round_delays: bool = False,
    check_finite: bool = False,
    quantum: Any = None,
    dtype: str = "float32",
    prints: bool = False,
    warn: bool = True,
    measure: Measure | None = None,
    described: Callable[[str], object] | None = None,
) -> Plan:
    """Trace the rules, draw states, parameters and synapses, and return the plan.

    Args:
        network: The description.
        seed: From 0 to 2**64 - 1: all random numbers follow from it and from names.
        parts: Into how many parts each population is divided; nothing but the order of synapses depends on it.
        round_delays: Whether delays that are no multiples of the step are rounded; else they raise.
        check_finite: Whether a state that becomes infinite or NaN raises when the network runs.
        quantum: Of what weights are multiples: a number for all receptors, or by "population.receptor". None chooses.
        dtype: Of floats: float32 or float64.
        prints: Whether rules may use `jax.debug.print`, as the reference lets them.
        warn: Whether to warn of weights that are rounded by much; else the plan does, when they are used.
        measure: Draws synapses on a device, and measures them there: the plan then holds what that cannot draw alone.
        described: Called with the fingerprint of the description before synapses are drawn.

    Returns:
        The plan.

    Raises:
        NetworkError: The description does not fit, or cannot be run; the message says where.
        RuleError: A rule cannot be run.
        MemoryError: There is no room for neurons or synapses.

    Examples:
        >>> from brainevent.network.plan.build import build_plan
        >>> import brainevent as be
        >>> cells = be.Population("cells", 100, lambda s, arriving, p: (s, arriving.syn > 1))
        >>> float(build_plan(be.Network([cells]), seed=1).populations[0].quanta["syn"])
        1.0
    """
    seed = checked_seed(seed)
    for name, flag in (("round_delays", round_delays), ("check_finite", check_finite)):
        if not isinstance(flag, bool):
            raise NetworkError(f"build: {name} is {flag!r}; pass True or False")
    rules = all_traced(network.populations, dtype, prints=prints)
    for population in network.populations:
        check_names(population, rules[population.name], network.dt)
    wirings = _wirings(network, rules, dtype, round_delays=round_delays)
    coupled = coupling_wirings(_named_couplings(network), network.dt, rules, dtype)
    ruled = _ruled(wirings, rules, network.dt, dtype)
    fixed = [wiring for wiring in wirings if wiring.name not in ruled]
    groups = _by_receptor(network, rules, [(_receptor(wiring), wiring) for wiring in fixed])
    bounds = _by_receptor(
        network, rules, [(_receptor(w), bounded(w, ruled[w.name])) for w in wirings if w.name in ruled]
    )
    given = given_quanta(quantum, {place: [*groups[place], *bounds[place]] for place in groups}, dtype)
    quanta = {
        place: given[place] if place in given else choose_quantum(group, dtype, bounds[place])
        for place, group in groups.items()
    }
    populations = tuple(_population(p, rules[p.name], quanta, network.dt, seed) for p in network.populations)
    named = _fingerprint(populations, [*wirings, *coupled], network, seed, dtype, ruled)
    if described is not None:
        described(named)
    sums = _Sums(quanta, given, warn=warn)
    how_drawn = sums, seed, parts
    synapses = _held(fixed, populations, *how_drawn) if measure is None else _on_device(fixed, measure, *how_drawn)
    plastic = _plastic(wirings, ruled, sums, seed, parts, dtype, measure)
    sums.check()
    how = named, check_finite, dtype, tuple(given), repeats_of(fixed), sums.largest, sums.rounded
    couplings = drawn_couplings(coupled, seed, dtype)
    plan = Plan(populations, synapses, network.dt, seed, parts, *how, couplings=couplings, plastic=plastic)
    return _with_ends(plan, [*wirings, *coupled])


def _with_ends(plan: Plan, wirings: list[Wiring]) -> Plan:
    """Add the numbers of sources and targets between parts of populations, which pairs were looked at, and facts."""
    found = {wiring.name: parts_of(wiring.projection) for wiring in wirings}
    ends = {name: one for name, one in found.items() if one is not None}
    made = replace(plan, ends=ends, looked=looked_at(wirings))
    for wiring in filter(is_matrix, wirings):  # so that programs need not make the synapses to find out
        made.facts["all to all", wiring.name, 1] = True  # in one part
    return made


def reseeded_plan(plan: Plan, network: Described, seed: int) -> Plan:
    """Return a plan whose initial states, parameters and random numbers are those of another seed; synapses stay."""
    seed = checked_seed(seed)
    return replace(plan, populations=tuple(_reseeded(plan.population(p.name), p, seed) for p in network.populations))


def _reseeded(own: PopulationPlan, population: Population, seed: int) -> PopulationPlan:
    """Return neurons whose drawn states and parameters are those of another seed."""
    arrays = []
    for kind, given, held in (("state", population.state, own.state), ("params", population.params, own.params)):
        drawn = {
            key: array_of(f"{kind} {key}", value, f"{kind} {own.name}.{key}", own.size, held[key].dtype.name, seed)
            for key, value in given.items()
            if isinstance(value, Values)
        }
        arrays.append({**held, **drawn})
    return replace(own, state=arrays[0], params=arrays[1], key=key_of(seed, own.name))


def redrawn_plan(plan: Plan, network: Described, wirings: list[Wiring], seed: int) -> Plan:
    """Return the plan that a build with another seed makes, whose synapses are drawn from the wirings of this one."""
    many = len(network.projections)
    wirings, coupled = wirings[:many], wirings[many:]
    reseeded = reseeded_plan(plan, network, seed)
    quanta = {(p.name, receptor): quantum for p in plan.populations for receptor, quantum in p.quanta.items()}
    sums, measure = _Sums(quanta, plan.given, warn=True), plan.synapses.measure
    ruled = {name: one.rules for name, one in plan.plastic_by_name.items()}
    fixed = [wiring for wiring in wirings if wiring.name not in ruled]
    if measure is None:
        synapses = _held(fixed, reseeded.populations, sums, seed, plan.parts)
    else:
        synapses = _on_device(fixed, measure, sums, seed, plan.parts)
    plastic = _plastic(wirings, ruled, sums, seed, plan.parts, plan.dtype, measure)
    sums.check()
    couplings = drawn_couplings(coupled, seed, plan.dtype)
    links = replace(reseeded, synapses=synapses, plastic=plastic, couplings=couplings)
    return replace(links, seed=seed, loads=sums.largest, looked=looked_at([*wirings, *coupled]))


def wirings_of(network: Described, plan: Plan) -> list[Wiring]:
    """Return the wirings from which a plan was built, again: those of projections, then those of couplings.

    Raise if the description has changed since.
    """
    # Delays that are multiples of the step stay what they are.
    named = zip(network.projection_names, network.projections, strict=True)
    wirings = [wiring_of(name, projection, network.dt, round_delays=True) for name, projection in named]
    wirings += coupling_wirings(_named_couplings(network), network.dt)
    ruled = {name: one.rules for name, one in plan.plastic_by_name.items()}
    if _fingerprint(plan.populations, wirings, network, plan.seed, plan.dtype, ruled) != plan.fingerprint:
        raise NetworkError(
            "set: the network was changed since it was built, such as an array of weights in its description; pass "
            "copies of arrays that change later, and build the network again"
        )
    return wirings


def _fingerprint(
    populations: Sequence[PopulationPlan],
    wirings: Sequence[Wiring],
    network: Described,
    seed: int,
    dtype: str,
    ruled: Mapping[str, PlasticRules],
) -> str:
    states = {w.name: w.projection.plasticity.state for w in wirings if w.projection.plasticity is not None}
    plastic = [(name, rules, states[name]) for name, rules in ruled.items()]
    at = {p.name: p.at for p in network.populations if p.at}
    others = [*([plastic] if plastic else []), *([at] if at else [])]
    return fingerprint(populations, wirings, network.dt, seed, DRAWING, SCHEME, dtype, *others)


def _wirings(network: Described, rules: dict[str, TracedRule], dtype: str, *, round_delays: bool) -> list[Wiring]:
    """Return the wiring of each projection, all of which end in receptors that are there."""
    named = list(zip(network.projection_names, network.projections, strict=True))
    for name, projection in named:
        target = projection.populations[1].name
        check_receptor(f"projection {name}", target, projection.into, receptors_of(rules[target]))
        check_whole(f"projection {name}", projection, dtype)
    return [wiring_of(name, projection, network.dt, round_delays=round_delays) for name, projection in named]


def _named_couplings(network: Described) -> list[tuple[str, Coupling]]:
    return list(zip(network.coupling_names, network.couplings, strict=True))


def _ruled(wirings: list[Wiring], rules: dict[str, TracedRule], dt: float, dtype: str) -> dict[str, PlasticRules]:
    """Return the rules of plastic projections by name; raise if their weights do not fit."""
    found = {}
    for wiring in wirings:
        if wiring.projection.plasticity is not None:
            found[wiring.name] = plastic_rules(wiring.name, wiring.projection, rules, dt, dtype)
            check_plastic(wiring, found[wiring.name])
    return found


def _by_receptor(
    network: Described, rules: dict[str, TracedRule], ending: Iterable[tuple[Receptor, T]]
) -> dict[Receptor, list[T]]:
    groups: dict[Receptor, list[T]] = {
        (p.name, r): [] for p in network.populations for r in receptors_of(rules[p.name])
    }
    for receptor, one in ending:
        groups[receptor].append(one)
    return groups


def _population(
    population: Population, rule: TracedRule, quanta: dict[Receptor, np.floating[Any]], dt: float, seed: int
) -> PopulationPlan:
    """Return neurons with their states and parameters."""
    name, size = population.name, population.size
    what = f"states of {size} neurons"
    check_room(f"population {name}", what, 4 * size * max(1, len(population.state)), on_host=True)
    arrays: list[dict[str, Array]] = []
    params = with_step(population.params, rule, dt)
    for kind, given, dtypes in (("state", population.state, rule.states), ("params", params, rule.params)):
        found = {}
        for (key, value), typed in zip(given.items(), dtypes, strict=True):
            where = f"population {name}: {kind} {key}"
            exact = rule.as_floats.get(key) if kind == "params" else None
            found[key] = array_of(where, value, f"{kind} {name}.{key}", size, typed.dtype, seed, exact)
        arrays.append(found)
    state = {key: copied_in_pieces(np.broadcast_to(value, size)) for key, value in arrays[0].items()}
    own = {receptor: quanta[name, receptor] for receptor in receptors_of(rule)}
    return PopulationPlan(name, size, rule, state, arrays[1], own, key_of(seed, name), population.units)


class _Sums:
    """Sums of |weight| into all neurons, in quanta, while synapses are drawn.

    `accepted` are the receptors whose quanta the user gave, and with them the rounding. `rounded` are the warnings that
    are left for later, by projection. Into the receptors in `graded`, spikes deliver weights times values.
    """

    def __init__(self, quanta: dict[Receptor, np.floating[Any]], accepted: Container[Receptor], *, warn: bool):
        self.quanta, self.accepted, self.warn = quanta, accepted, warn
        self.rounded: dict[str, str] = {}
        self.graded: set[Receptor] = set()
        self._sums: dict[Receptor, Any] = defaultdict(int)
        self._plastic: dict[Receptor, list[PlasticPlan]] = defaultdict(list)

    def add(self, wiring: Wiring, loads: Array, rounded: int, entries: int) -> None:
        """Add those of a projection; warn if many of its weights were rounded by much."""
        if rounded and not isinstance(wiring.weights, Distribution) and wiring.weights.size == 1:
            rounded = entries  # all have this weight
        receptor = _receptor(wiring)
        self._sums[receptor] = self._sums[receptor] + loads
        if wiring.value_range is not None:
            self.graded.add(receptor)
        if rounded and receptor not in self.accepted:
            quantum, name = self.quanta[receptor], ".".join(receptor)
            text = (
                f"projection {wiring.name}: {rounded} of {entries} weights were rounded "
                f"by more than 2**-9 of their value, to multiples of {quantum:g}: weights into "
                f"{name} differ too much in size; set a smallest weight (low=), use another receptor, or accept the "
                f"rounding with build(quantum={{'{name}': {quantum:g}}})"
            )
            self._warn(wiring.name, text)

    def _warn(self, name: str, text: str) -> None:
        if self.warn:
            warn_each_time(text, RoundedWeightsWarning)
        else:
            self.rounded[name] = text

    @property
    def largest(self) -> dict[Receptor, int]:
        """The largest sum into a neuron, by receptor."""
        return {receptor: int(self._sums[receptor].max()) if receptor in self._sums else 0 for receptor in self.quanta}

    def add_bounds(self, plastic: PlasticPlan, first: float) -> None:
        """Add the largest sums of a plastic projection, of which |weights| are at most `first` at the beginning."""
        receptor = plastic.target, plastic.receptor
        self._sums[receptor] = self._sums[receptor] + plastic.loads(self.quanta[receptor])
        self._plastic[receptor].append(plastic)
        about = Bounded(plastic.name, plastic.largest_weight, plastic.largest_sum, plastic.rules.value_range, first)
        if plastic.graded:
            self.graded.add(receptor)
        where = f"projection {plastic.name}"
        if text := rounding_of_bounds(where, about, self.quanta[receptor], receptor, self.accepted):
            self._warn(plastic.name, text)

    def check(self) -> None:
        """Raise if sums may leave 32 bits."""
        for (population, name), sums in self._sums.items():
            if sums.max() > LARGEST_SUM:
                place = population, name
                what, advice = "weights", "weights that differ less"
                if place in self.graded:
                    what, advice = "weights times the largest values", "a smaller value_range="
                if plastic := self._plastic[place]:
                    highs = ", ".join(f"{one.name} to {one.largest_weight:g}" for one in plastic)
                    raise NetworkError(
                        f"population {population}: {what} into neuron {int(sums.argmax())} by {name} may add up to "
                        f"{sums.max()} times their quantum, {self.quanta[place]:g}, when plastic ones rise "
                        f"to their bounds ({highs}), but sums have 32 bits, up to {LARGEST_SUM}: "
                        f"{sums.max() / LARGEST_SUM:.3g} times too much; pass a smaller high=, fewer synapses, or a "
                        "larger quantum="
                    )
                raise NetworkError(
                    f"population {population}: {what} into neuron {int(sums.argmax())} by {name} add up to "
                    f"{sums.max()} times their quantum, {self.quanta[place]:g}, but sums have 32 bits, up "
                    f"to {LARGEST_SUM}; pass fewer synapses, {advice}, or a larger quantum="
                )


def _receptor(wiring: Wiring) -> Receptor:
    return wiring.projection.populations[1].name, wiring.projection.into


def _held(
    wirings: list[Wiring], populations: tuple[PopulationPlan, ...], sums: _Sums, seed: int, parts: int
) -> Synapses:
    """Draw all synapses, those from one population after each other: so they can be bundled."""
    by_source = defaultdict(list)
    for place, wiring in enumerate(wirings):
        by_source[wiring.projection.populations[0].name].append((place, wiring))
    groups = ({place: _drawn(wiring, sums, seed, parts)[0] for place, wiring in group} for group in by_source.values())
    return bundled(populations, parts, groups)


def _on_device(wirings: list[Wiring], measure: Measure, sums: _Sums, seed: int, parts: int) -> Synapses:
    """Let a device draw all synapses that it can, and draw the others."""
    found = [_drawn(wiring, sums, seed, parts, measure) for wiring in wirings]
    return Synapses([about for _, about in found], [source for source, _ in found], None, measure)


def _plastic(
    wirings: list[Wiring],
    ruled: Mapping[str, PlasticRules],
    sums: _Sums,
    seed: int,
    parts: int,
    dtype: str,
    measure: Measure | None,
) -> tuple[PlasticPlan, ...]:
    """Draw the synapses of plastic projections; those that a device draws are measured there."""
    found = []
    for wiring in wirings:
        if wiring.name not in ruled:
            continue
        rules = ruled[wiring.name]
        on_device = measure is not None and parts == 1 and dtype == "float32"
        one = measure.plastic(wiring, rules, seed) if measure is not None and on_device else None
        found.append(plastic_plan(wiring, rules, seed, parts, dtype) if one is None else one)
        sums.add_bounds(found[-1], wiring.largest_weight)
    if measure is not None:
        measure.done()
    return tuple(found)


def _drawn(
    wiring: Wiring, sums: _Sums, seed: int, parts: int, measure: Measure | None = None
) -> tuple[Any, ProjectionPlan]:
    """Draw the synapses of a projection, on a device if there is one that can."""
    quantum = sums.quanta[_receptor(wiring)]
    placed = None if measure is None else measure(Description(wiring, quantum, seed, parts))
    placed = placed_synapses(wiring, quantum, seed, parts) if placed is None else placed
    factor = reach(wiring.value_range, placed.about.least)
    sums.add(wiring, delivered_at_most(placed.loads, factor), placed.rounded, placed.about.entries)
    return placed.synapses, placed.about
