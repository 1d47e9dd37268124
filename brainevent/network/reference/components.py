# SPDX-License-Identifier: Apache-2.0
"""`Component`: populations whose spikes return to them, which run together; and what a runner of one takes and returns.

The populations of a plan are the nodes of a graph, and its projections the edges. Its strongly connected components
run one after another, each over all steps. Only the projections within a component need a loop over steps; those
between components are products over all steps, outside of any loop, and so are the gradients of their weights.
Populations that a coupling joins run together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import jax

from ..plan.plan import Plan, PopulationPlan
from .carried import Carried
from .outputs import Outputs
from .products import Numbers, Product
from .quanta import Receptor

__all__ = ["Component", "Given", "Ran", "Runner", "components"]

Array = Any
Tree = Mapping[str, Mapping[str, Array]]


@dataclass(frozen=True, eq=False)
class Component:
    """Populations that run together, static.

    Attributes:
        populations: The populations, in the order of the plan.
        products: The projections between them, with their weights in whole numbers of quanta where none are given.
        outputs: What is recorded of them; `outputs.row` and `outputs.filled` record one step, `outputs.whole` all.
        sends: Populations whose spikes in all steps the caller needs: their rows are in `Ran.spikes`.
        surrogate: The derivative of a spike by its margin; None if spikes have none.
        dtype: That of floats: "float32" or "float64".
        couplings: All couplings of the populations; none has an end in another component.
        adjoints: What runners derived of rules, by what it depends on besides the component.
    """

    populations: tuple[PopulationPlan, ...]
    products: tuple[Product, ...]
    outputs: Outputs
    sends: tuple[str, ...]
    surrogate: Callable[[Array], Array] | None
    dtype: str
    couplings: tuple[Carried, ...] = ()
    adjoints: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    @property
    def timeless(self) -> bool:
        """Whether no step depends on another one: no state, no random numbers, and no synapses within it."""
        return not self.products and not self.couplings and not any(p.state or p.rule.random for p in self.populations)

    @cached_property
    def graded(self) -> frozenset[str]:
        """The populations whose spikes have values: what they send are these, or 0."""
        return frozenset(p.name for p in self.populations if p.rule.value)

    def size(self, population: str) -> int:
        """Return how many neurons a population has."""
        return next(p.size for p in self.populations if p.name == population)

    def depth(self, population: str) -> int:
        """Return the largest delay of projections within the component from a population; 0 if there are none."""
        own = (one for one in self.products if one.about.source == population)
        return max((one.depth for one in own), default=0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Given:
    """What a component runs with: a pytree of arrays of one element of a batch; `jax.vmap` adds the batch.

    In a step, what arrives at a receptor is the sum of `currents`, of the products within the component whose weights
    are given, and of the quantum times `whole` and the products whose weights are not given.

    Attributes:
        currents: By population and receptor, (steps, neurons) or (steps, 1), floats in the unit of the receptor: what
            does not come from spikes of this run of the component. Receptors may be missing.
        whole: By population and receptor, (steps, neurons), whole numbers of quanta, floats or int32: the same, where
            it must be added to the sums of products that are whole numbers. Often empty.
        weights: By projection within the component, (1,) or (entries,), floats in the unit of the receptor, in the
            order of the plan.
        params: By population and name, () or (neurons,).
        states: By population and name, (neurons,), before the first step.
        keys: By population, uint32 (2,): where its random numbers begin.
        step: The number of the first step, uint32 ().
        filled: Arrays that steps fill, by label; see `Outputs.start`.
        fine: None, or bool (): unless it holds, all floats that are recorded are NaN.
        quanta: By population and receptor, a number.
        numbers: By projection within the component whose weights are not given, those of the plan.
        coupled: By coupling its weights, floats (1,) or (entries,), in its order.
    """

    currents: Mapping[Receptor, Array]
    whole: Mapping[Receptor, Array]
    weights: Mapping[str, Array]
    params: Tree
    states: Tree
    keys: Mapping[str, Array]
    step: Array
    filled: Mapping[str, Array]
    fine: Array | None
    quanta: Mapping[Receptor, Array]
    numbers: Mapping[str, Numbers]
    coupled: Mapping[str, Array] = field(default_factory=dict)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Ran:
    """What a run of a component returns.

    Attributes:
        spikes: By population of `Component.sends`, floats (steps, neurons): 1, or the value of a spike, or 0.
        last: By population, floats (depth, neurons): its spikes in the last steps, the latest one last, where depth is
            `Component.depth`; 0 before the first step. Populations of depth 0 are missing.
        rows: What each step gives, by label, (steps, ...); see `Outputs.row`.
        filled: The arrays that steps filled, by label; see `Outputs.filled`.
        states: By population and name, (neurons,), after the last step.
    """

    spikes: Mapping[str, Array]
    last: Mapping[str, Array]
    rows: Mapping[str, Array]
    filled: Mapping[str, Array]
    states: Tree


class Runner(Protocol):
    """Runs a component over some steps, as a pure function of `given` that JAX differentiates and maps."""

    def __call__(self, component: Component, given: Given, steps: int) -> Ran:
        """Run `steps` steps."""


@dataclass
class _Search:
    """Tarjan's search for strongly connected components, without recursion."""

    edges: Mapping[str, Sequence[str]]
    place: dict[str, int] = field(default_factory=dict)
    low: dict[str, int] = field(default_factory=dict)
    open: list[str] = field(default_factory=list)
    found: list[set[str]] = field(default_factory=list)

    def visit(self, first: str) -> None:
        """Add all components that can be reached from a node, those at the end of edges first."""
        path = [(first, iter(self.edges[first]))]
        self._enter(first)
        while path:
            node, rest = path[-1]
            following = next(rest, None)
            if following is None:
                path.pop()
                self._leave(node, path[-1][0] if path else None)
            elif following not in self.place:
                self._enter(following)
                path.append((following, iter(self.edges[following])))
            elif following in self.open:
                self.low[node] = min(self.low[node], self.place[following])

    def _enter(self, node: str) -> None:
        self.place[node] = self.low[node] = len(self.place)
        self.open.append(node)

    def _leave(self, node: str, before: str | None) -> None:
        if before is not None:
            self.low[before] = min(self.low[before], self.low[node])
        if self.low[node] == self.place[node]:
            cut = self.open.index(node)
            self.found.append(set(self.open[cut:]))
            del self.open[cut:]


def components(plan: Plan) -> list[tuple[str, ...]]:
    """Return the names of populations that run together: each group after those whose spikes it receives.

    Examples:
        >>> from brainevent.network.plan.plan import Plan
        >>> components(Plan((), (), 0.1, 0, 1, ""))
        []
    """
    names = [p.name for p in plan.populations]
    ends = {(one.source, one.target) for one in plan.projections if one.entries}
    ends |= {pair for one in plan.couplings for pair in ((one.source, one.target), (one.target, one.source))}
    search = _Search({name: [target for target in names if (name, target) in ends] for name in names})
    for name in reversed(names):
        if name not in search.place:
            search.visit(name)
    return [tuple(name for name in names if name in group) for group in reversed(search.found)]
