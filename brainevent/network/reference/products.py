# SPDX-License-Identifier: Apache-2.0
"""`Product`: the synapses of one projection as a product of spikes and weights, of one step or of many."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero

from ..._compat import directly
from ...event.functions.csr import binary_csrmm, binary_csrmm_indexed, binary_csrmv, csrmm, csrmv
from ..plan.plan import Plan, SynapsePlan
from ..plan.projections import ProjectionPlan

__all__ = ["Numbers", "Operand", "Product", "Sums", "added", "along", "late", "products"]

Array = Any
_DENSE = 8  # a matrix has at most so many elements for each synapse, or
_SMALL = 2**16  # at most so many elements
_FEW = 8  # delays, of which each is a product of its own
_BLOCK = 32  # steps in a product of many delays
_EACH = -1  # in place of a delay: each one by itself
_BITS = 24  # of whole numbers that are exact in float32
_INDICES = 2**31  # elements that indices of int32 can name
_HIGHEST = jax.lax.Precision.HIGHEST


class Sums(NamedTuple):
    """What arrives, in two parts that add up: whole numbers of quanta, floats or int32; floats in the receptor's unit.

    None is nothing.
    """

    whole: Array | None = None
    floats: Array | None = None


class Numbers(NamedTuple):
    """Weights of the plan, whole numbers of quanta, as products take them.

    Attributes:
        planes: Floats whose sums are exact: digits of base 2**bits, the last one first, laid out for products.
        weights: The weights, int32 (1,) or (entries,).
        quantum: The quantum.
    """

    planes: tuple[Array, ...]
    weights: Array
    quantum: Array


Operand = tuple[Array] | Numbers  # weights that are given, laid out for products; or those of the plan


def added(sums: Iterable[Sums]) -> Sums:
    """Return the sum of several."""
    return _added([*sums])


@directly
def _added(sums: Iterable[Sums]) -> Sums:
    whole, floats = None, None
    for one in sums:
        whole = one.whole if whole is None else whole if one.whole is None else whole + one.whole
        floats = one.floats if floats is None else floats if one.floats is None else floats + one.floats
    return Sums(whole, floats)


def along(x: Array, other: Array) -> Array:
    """Return x, which `jax.vmap` maps wherever it maps another array of a shape that broadcasts to that of x.

    In programs that `jax.jit` or a loop has traced, JAX takes the batch of a tangent from the result of a
    `jax.custom_jvp`, so a result must depend on all that its tangent depends on.
    """
    return jnp.where(jnp.isnan(other), x, x)


@dataclass(frozen=True, eq=False)
class Product:
    """The synapses of one projection, static.

    Its weights are either given in a call, floats in the unit of the receptor; or those of a plan, whole numbers of
    quanta, whose sums are exact. Both are operands, so a program does not depend on them. Synapses are made, or drawn,
    only where more is asked for than `about` says.

    Attributes:
        about: What is known of the projection without its synapses.
        plan: The network.
        sources: How many neurons send.
        neurons: How many neurons receive.
        given: Whether weights are given in a call.
        dtype: That of floats of the plan.
        whole: The dtype of sums of whole numbers: "int32", or that of the plan if it holds all of them exactly.
        times: What multiplies spikes (steps, sources) with a given matrix (sources, neurons), for steps that are some
            number later; None: `jnp.matmul`.
        graded: Whether spikes are values: products with whole numbers of quanta are then rounded to such.
        as_matrix: Whether weights are a matrix also where there are few synapses.
    """

    about: ProjectionPlan
    plan: Plan
    sources: int
    neurons: int
    given: bool
    dtype: np.dtype[Any]
    whole: str
    times: Callable[[Array, Array, int], Array] | None = None
    graded: bool = False
    as_matrix: bool = False

    @cached_property
    def synapses(self) -> SynapsePlan:
        """The synapses, in the order of the plan."""
        return self.plan.synapses[self.plan.place(self.about.name)]

    @cached_property
    def starts(self) -> Array:
        """Where the synapses of each source begin, int32 (sources + 1,)."""
        return self.synapses.starts[:: self.plan.parts].astype(np.int32)

    @property
    def delayed_alike(self) -> bool:
        """Whether all synapses have one delay."""
        return self.about.delays[0] == self.about.delays[1]

    @cached_property
    def delays(self) -> tuple[int, ...]:
        """The different delays in steps, ascending."""
        if self.delayed_alike:
            return self.about.delays[:1]
        found = self.plan.fact("delays", self.about.name, lambda: np.unique(self.synapses.delays).tolist())
        return tuple(found)

    @cached_property
    def which(self) -> Array:
        """The place of each synapse's delay among them, int32 (entries,)."""
        places = np.searchsorted(self.delays, self.synapses.delays).astype(np.int32)
        return np.broadcast_to(places, self.about.entries)

    @property
    def place(self) -> tuple[str, str]:
        """The population and receptor where spikes arrive."""
        return self.about.target, self.about.receptor

    @property
    def depth(self) -> int:
        """The largest delay."""
        return self.about.delays[1]

    @cached_property
    def dense(self) -> bool:
        """Whether weights are a matrix (delays, sources, neurons) for products; else each synapse is visited."""
        elements = len(self.delays) * self.sources * self.neurons
        few = self.as_matrix or elements <= max(_SMALL, _DENSE * self.about.entries)
        return few and elements < _INDICES and len(self.delays) <= _FEW

    @cached_property
    def all_to_all(self) -> bool:
        """Whether there is one synapse from each source to each neuron, with one delay: in the order of a matrix."""
        if not self.delayed_alike or self.about.entries != self.sources * self.neurons:
            return False
        return bool(self.plan.fact("all to all", self.about.name, self._all_to_all))

    def _all_to_all(self) -> bool:
        rows = self.synapses.targets.reshape(self.sources, self.neurons)
        return bool((np.diff(self.starts) == self.neurons).all() and (rows == np.arange(self.neurons)).all())

    @cached_property
    def elements(self) -> Array:
        """The place of each synapse among the elements of a matrix (delays, sources, neurons)."""
        sources = np.repeat(np.arange(self.sources), np.diff(self.starts))
        return (self.which.astype(np.int64) * self.sources + sources) * self.neurons + self.synapses.targets

    def matrix(self, weights: Array) -> Array:
        """Return weights (1,) or (entries,) as a matrix (delays, sources, neurons); parallel synapses add up."""
        shape = (len(self.delays), self.sources, self.neurons)
        if self.all_to_all:
            return weights.reshape(shape) if weights.size > 1 else jnp.broadcast_to(weights, shape)
        if isinstance(weights, np.ndarray):
            of_each = np.broadcast_to(weights, self.about.entries)
            return np.bincount(self.elements, of_each, math.prod(shape)).astype(weights.dtype).reshape(shape)
        each = jnp.broadcast_to(weights, self.about.entries)
        zeros = jnp.zeros(math.prod(shape), each.dtype)
        places = self.elements.astype(np.int32)
        return zeros.at[places].add(each, unique_indices=self._unique, mode="promise_in_bounds").reshape(shape)

    @cached_property
    def _unique(self) -> bool:
        found = self.plan.fact("unique", self.about.name, lambda: np.unique(self.elements).size == self.elements.size)
        return bool(found)

    # ---- weights, as products take them

    def operand(self, weights: Array) -> Operand:
        """Return weights that are given for products."""
        return (self._laid_out(weights),)

    def numbers(self) -> Numbers:
        """Return the weights of the plan for products, as arrays of NumPy."""
        quantum = self.plan.population(self.about.target).quanta[self.about.receptor]
        planes = tuple(self._laid_out(plane) for plane in self._planes)
        return Numbers(planes, self.synapses.weights.astype(np.int32), quantum)

    def _laid_out(self, weights: Array) -> Array:
        if self.dense:
            return self.matrix(weights)
        return weights if weights.size == 1 or len(self.delays) == 1 else weights[self._by_delay]

    @cached_property
    def _planes(self) -> list[Array]:
        numbers, dtype = self.synapses.weights.astype(np.int64), self.dtype
        if self.whole != "int32":
            return [numbers.astype(dtype)]
        planes, base = list[Array](), 1 << self._bits
        while numbers.any() or not planes:
            digits = (numbers + base // 2) % base - base // 2
            planes.append(digits.astype(dtype))
            numbers = (numbers - digits) // base
        return planes

    @cached_property
    def _bits(self) -> int:
        """How many bits of a weight there are in a plane: sums of all synapses of a neuron are then exact."""
        most = int(np.bincount(self.synapses.targets).max())
        return max(1, _BITS - most.bit_length())

    @cached_property
    def _by_delay(self) -> Array:
        return np.argsort(self.which, kind="stable").astype(np.int32)

    @cached_property
    def _sparse(self) -> tuple[Array, Array]:
        """The columns of synapses by delay and source, and where the rows (delays * sources + 1,) begin."""
        rows = self.elements // self.neurons
        starts = np.searchsorted(rows[self._by_delay], np.arange(len(self.delays) * self.sources + 1))
        return self.synapses.targets[self._by_delay].astype(np.int32), starts.astype(np.int32)

    # ---- products

    def arriving(self, spikes: Array, operand: Operand) -> Sums:
        """Return what arrives in some steps because of the spikes (steps, sources) in them: (steps, neurons)."""
        steps = len(spikes)
        if len(self.delays) > _FEW:
            return jax.tree.map(lambda x: x[:steps], self._in_blocks(spikes, operand))
        if self.times is not None and self.dense and self.given:  # rows of spikes are long: they stay where they are
            sent = (self.times(spikes, operand[0][k], delay) for k, delay in enumerate(self.delays))
            return added(Sums(None, floats) for floats in sent)
        found = added(self._later(spikes, operand, k) for k, delay in enumerate(self.delays) if delay < steps)
        for _ in range(self._before if self.given and found.floats is not None else 0):
            found = jax.lax.optimization_barrier(found)
        return found

    @cached_property
    def _before(self) -> int:
        """How many projections before it have its receptor: behind as many barriers is what it sends in all steps.

        Gradients of the weights into a receptor are products with the same cotangents. On a GPU, XLA would merge such
        products if one is small, and copy the spikes of all of them for it.
        """
        others = [one for one in self.plan.projections if (one.target, one.receptor) == self.place]
        return [one.name for one in others].index(self.about.name)

    def _later(self, spikes: Array, operand: Operand, which: int) -> Sums:
        """Return the sums of one delay, in all steps.

        A product with a matrix has no axis of delays, for which `vmap` would move that of a batch. It has all steps,
        with zeros before the first spikes: to split it on a GPU, XLA would copy those of other numbers of steps.
        """
        delay = self.delays[which]
        sent = spikes[: len(spikes) - delay]
        if self.dense and not isinstance(operand, Numbers):
            return Sums(None, _sent(delay, sent, operand[0][which]))
        return _padded(self._sums(sent[None], operand, which), delay, 0)

    def pending(self, last: Array, operand: Operand, rows: int) -> Sums:
        """Return what arrives in the steps after the last ones, of whose spikes there are (depth, sources)."""
        if len(self.delays) > _FEW:
            after = jax.tree.map(lambda x: x[self.depth :], self._in_blocks(last, operand))
            return _padded(after, 0, rows - self.depth)
        parts = (self._sums(last[None, self.depth - delay :], operand, k) for k, delay in enumerate(self.delays))
        return added(_padded(one, 0, rows - delay) for one, delay in zip(parts, self.delays, strict=True))

    def within(self, past: Array, operand: Operand, count: int) -> Sums:
        """Return what arrives in the next steps, `count` of them, because of the spikes `past` of those before.

        There are (depth, sources) or more; `count` is at most the smallest delay.
        """
        return self._sums(self._windows(past, len(past), count), operand)

    def _windows(self, spikes: Array, end: int, count: int) -> Array:
        """Return the spikes of which each delay is due in the steps from `end` on: (delays, count, sources)."""
        first, last = end - self.depth, end - self.delays[0]
        if len(self.delays) == 1:
            return spikes[None, first : first + count]
        if count == 1 and len(self.delays) == last - first + 1:
            return jnp.flip(spikes[first : last + 1], 0)[:, None]
        return jnp.stack([spikes[end - delay : end - delay + count] for delay in self.delays])

    def _in_blocks(self, spikes: Array, operand: Operand) -> Sums:
        """Return what arrives because of the spikes (steps, sources), in these steps and later: (steps + depth, ...).

        What one block of steps sends is a product, of which each delay is columns of its own; these are shifted by it.
        """
        steps, blocks = len(spikes), -(-len(spikes) // _BLOCK)
        spikes = jnp.pad(spikes, ((0, blocks * _BLOCK - steps), (0, 0))).reshape(blocks, _BLOCK, self.sources)

        def shifted(sent: Array) -> Array:
            by_delay = sent.reshape(_BLOCK, len(self.delays), self.neurons)
            ends = ((delay, self.depth - delay) for delay in self.delays)
            return sum(jnp.pad(by_delay[:, k], (rows, (0, 0))) for k, rows in enumerate(ends))

        def block(sums: Sums, both: Any) -> tuple[Sums, None]:
            first, some = both
            parts = jax.tree.map(shifted, self._sums(some[None], operand, _EACH))
            return jax.tree.map(lambda x, part: _added_at(x, first, part), sums, parts), None

        shape = jax.eval_shape(lambda some: jax.tree.map(shifted, self._sums(some[None], operand, _EACH)), spikes[0])
        start = jax.tree.map(lambda x: jnp.zeros((blocks * _BLOCK + self.depth, self.neurons), x.dtype), shape)
        firsts = jnp.arange(blocks, dtype=np.int32) * _BLOCK
        found, _ = jax.lax.scan(block, start, (firsts, spikes))
        return jax.tree.map(lambda x: x[: steps + self.depth], found)

    def _sums(self, windows: Array, operand: Operand, delay: int | None = None) -> Sums:
        """Return sums (count, neurons) of spikes (delays, count, sources), of all delays or of one, (1, ...).

        With `_EACH` in place of a delay, sums are those of each one, (count, delays * neurons), for the same spikes.
        """
        if not isinstance(operand, Numbers):
            return Sums(None, self._multiplied(windows, operand[0], delay, None))
        if self.graded:
            sums = self._rounded(jax.lax.stop_gradient(windows), operand.weights, delay)
            return Sums(sums, _shadow(self, delay, windows, operand))
        found = [self._multiplied(windows, plane, delay, _HIGHEST) for plane in operand.planes]
        if self.whole != "int32":
            return Sums(found[0], None)
        digits = (one.astype(np.int32) << (self._bits * k) for k, one in enumerate(found))
        whole = functools.reduce(jnp.add, digits)
        return Sums(whole, _shadow(self, delay, windows, operand))

    def _rounded(self, windows: Array, numbers: Array, delay: int | None) -> Array:
        """Visit all synapses: each sends its weight times a value, a whole number of quanta."""
        chosen = slice(None) if delay in (None, _EACH) else np.flatnonzero(self.which == delay)
        which = self.which[chosen] if delay is None else 0
        sources = np.repeat(np.arange(self.sources, dtype=np.int32), np.diff(self.starts))[chosen]
        targets = self.synapses.targets[chosen].astype(np.int32)
        numbers = numbers if numbers.size == 1 else numbers[chosen]
        columns, size = (self._columns[0], len(self.delays)) if delay == _EACH else (targets, 1)

        def of_step(values: Array) -> Array:
            amounts = jnp.rint(numbers.astype(self.dtype) * values[which, sources])
            return jnp.zeros(size * self.neurons, self.whole).at[columns].add(amounts.astype(self.whole))

        of_steps = windows.swapaxes(0, 1)
        return of_step(of_steps[0])[None] if len(of_steps) == 1 else jax.lax.map(of_step, of_steps)

    def _multiplied(self, windows: Array, weights: Array, delay: int | None, precision: Any) -> Array:
        if delay == _EACH:
            return self._visited_each(windows[0], weights)
        if not self.dense:
            return self._visited(windows, weights, delay)
        if delay is not None and len(weights) > 1:
            weights = weights[delay : delay + 1]
        if self.times is not None and self.given:
            one = len(windows) == 1
            rows = windows[0] if one else windows.transpose(1, 0, 2).reshape(windows.shape[1], -1)
            return self.times(rows, weights.reshape(-1, self.neurons), 0)
        if windows.shape[1] == 1:  # a vector, which `vmap` makes a matrix, not a stack of them
            return jnp.matmul(windows.reshape(-1), weights.reshape(-1, self.neurons), precision=precision)[None]
        if len(windows) == 1:
            return jnp.matmul(windows[0], weights[0], precision=precision)
        return jnp.tensordot(windows, weights, ((0, 2), (0, 1)), precision=precision)

    def _visited(self, windows: Array, weights: Array, delay: int | None) -> Array:
        """Visit only the synapses of neurons that spiked."""
        targets, starts = self._sparse
        if delay is not None and len(self.delays) > 1:
            starts = starts[delay * self.sources : (delay + 1) * self.sources + 1]
            some = slice(int(starts[0]), int(starts[-1]))
            targets, starts = targets[some], starts - starts[0]
            weights = weights[some] if weights.size > 1 else weights
        delays, count, sources = windows.shape
        shape = (delays * sources, self.neurons)
        if count == 1:
            flat = windows.reshape(delays * sources)
            vector = csrmv if self.graded else binary_csrmv
            return vector(weights, targets, starts, flat, shape=shape, transpose=True)[None]
        columns = windows.transpose(0, 2, 1).reshape(delays * sources, count)
        matrix = csrmm if self.graded else binary_csrmm
        return matrix(weights, targets, starts, columns, shape=shape, transpose=True).T

    def _visited_each(self, spikes: Array, weights: Array) -> Array:
        """Return what spikes (count, sources) send, by delay: (count, delays * neurons)."""
        columns, places = self._columns
        shape = (self.sources, len(self.delays) * self.neurons)
        if weights.size == 1 or self.graded:
            each = weights if weights.size == 1 else weights[places]
            matrix = csrmm if self.graded else binary_csrmm
            return matrix(each, columns, self.starts, spikes.T, shape=shape, transpose=True).T
        return binary_csrmm_indexed(weights, columns, self.starts, places, spikes.T, shape=shape, transpose=True).T

    @cached_property
    def _columns(self) -> tuple[Array, Array]:
        """The columns of synapses by delay and target, and the place of each one's weight among those by delay."""
        places = np.empty(self.about.entries, np.int32)
        places[self._by_delay] = np.arange(places.size, dtype=np.int32)
        return self.which * np.int32(self.neurons) + self.synapses.targets.astype(np.int32), places


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _sent(delay: int, spikes: Array, matrix: Array) -> Array:
    """Return what spikes (steps, sources) send, some steps later, and zeros before: (delay + steps, neurons)."""
    return jnp.matmul(jnp.pad(spikes, ((delay, 0), (0, 0))), matrix)


def _sent_jvp(delay: int, primals: Any, tangents: Any) -> tuple[Array, Array]:
    """Read other spikes for the gradients of weights on a GPU: all of them times 1, which is known after the sums.

    If they are made of smaller numbers, such as inputs of 8 bits, XLA makes them once more, instead of keeping them.
    """
    (spikes, matrix), (of_spikes, of_matrix) = primals, tangents
    one = np.ones((), spikes.dtype)
    sums, late = jax.lax.optimization_barrier((_sent(delay, spikes, matrix), one))
    late = jax.lax.platform_dependent(late, cuda=lambda late: late, default=lambda late: one)
    parts = [] if isinstance(of_spikes, SymbolicZero) else [_sent(delay, of_spikes, matrix)]
    parts += [] if isinstance(of_matrix, SymbolicZero) else [_sent(delay, spikes * late, of_matrix)]
    return sums, functools.reduce(jnp.add, parts) if parts else jnp.zeros_like(sums)


_sent.defjvp(_sent_jvp, symbolic_zeros=True)


def _added_at(sums: Array, first: Array, part: Array) -> Array:
    """Add a part to the rows of sums that begin at the first one."""
    before = jax.lax.dynamic_slice_in_dim(sums, first, len(part))
    return jax.lax.dynamic_update_slice_in_dim(sums, before + part, first, 0)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1))
def _shadow(product: Product, delay: int | None, windows: Array, operand: Numbers) -> Array:
    """Return zeros in place of sums of integers, which have no derivatives: this has those by the spikes."""
    columns = product.neurons * (len(product.delays) if delay == _EACH else 1)
    return along(jnp.zeros((windows.shape[1], columns), product.dtype), windows[0, :, :1])


@_shadow.defjvp
def _shadow_jvp(product: Product, delay: int | None, primals: Any, tangents: Any) -> tuple[Array, Array]:
    windows, operand = primals

    def floats(spikes: Array) -> Array:
        parts = (product._multiplied(spikes, plane, delay, _HIGHEST) for plane in operand.planes)
        scaled = (float(1 << (product._bits * k)) * part for k, part in enumerate(parts))
        return functools.reduce(jnp.add, scaled) * operand.quantum

    return _shadow(product, delay, windows, operand), jax.jvp(floats, (windows,), (tangents[0],))[1]


def late(sums: Array, steps: int) -> Array:
    """Return sums (steps, neurons) as they arrive some steps later."""
    return jnp.pad(sums[: max(0, len(sums) - steps)], ((min(steps, len(sums)), 0), (0, 0)))


def _padded(sums: Sums, before: int, after: int) -> Sums:
    """Return sums with steps before and after them in which nothing arrives."""
    return jax.tree.map(lambda x: jnp.pad(x, ((before, after), (0, 0))), sums) if before or after else sums


def products(
    plan: Plan,
    given: Container[str],
    whole: Mapping[tuple[str, str], str],
    times: Callable[[Array, Array, int], Array] | None = None,
) -> list[Product]:
    """Return the projections of a plan that have synapses; weights of some are given, sums of others have a dtype."""
    found = (about for about in plan.projections if about.entries)
    made = (_product(plan, one, one.name in given, whole[one.target, one.receptor]) for one in found)
    return [one if one.graded else replace(one, times=times) for one in made]


def _product(plan: Plan, about: ProjectionPlan, given: bool, whole: str) -> Product:
    source, target = plan.population(about.source), plan.population(about.target)
    own = source.size, target.size, given, target.quanta[about.receptor].dtype, whole
    return Product(about, plan, *own, graded=source.rule.value)
