# SPDX-License-Identifier: Apache-2.0
"""The steps of a component as a primitive of JAX, with its derivative and its batches.

Its derivative is another primitive, which is linear in the tangents of currents, states and parameters; its transpose
is the call of the steps back. Tangents of weights enter as those of currents: one product over all steps. Nested
`jax.vmap`s become one axis of samples. Arrays that samples share have fewer rows than there are samples, and samples
that follow each other share a row: so weights of several networks with several samples each have one row a network,
and the gradients of each network are one product, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import (
    Primitive,
    ShapedArray,
    Zero,
    abstract_result,
    directly,
    is_undefined_primal,
    mlir,
    new_primitive,
    primitive_batchers,
    primitive_jvps,
    primitive_transposes,
    symbolic_zero_like,
)
from ...errors import NetworkError
from ..reference.products import Product
from .cells import Cells, cells_of
from .change import Change

__all__ = ["Engine", "run_back", "run_steps"]

Array = Any
Arrays = Mapping[str, Array]
Shapes = Mapping[str, tuple[tuple[int, ...], str]]


class Engine(Protocol):
    """What runs components natively: forward and backward, each as one call for all samples.

    Of all arrays the first axis is that of samples; arrays that all samples share have one row. If it `shares`, other
    numbers of rows that divide that of samples are possible, too: samples that follow each other then share a row.
    If weights are `matrices`, so are the gradients from which those of few synapses are taken.
    """

    title: str
    shares: bool
    matrices: bool

    def refusal(self, cells: Cells, *, drawn: bool = True) -> str:
        """Say what it cannot run; nothing if it can run it.

        Unless synapses are `drawn`, none are made for this, and the delays that they may have count as theirs.
        """

    def rounding(self, cells: Cells) -> str:
        """Say how weights, and numbers of the steps back, are rounded; nothing if they have all bits of float32."""

    def as_asked(self) -> Engine:
        """Return the engine in the precision of products that JAX is asked for when a program is traced."""

    def times(self, spikes: Array, matrix: Array, delay: int = 0) -> Array:
        """Multiply spikes (steps, sources) with a matrix (sources, neurons), in a way that JAX differentiates.

        A step gets the sums of `delay` steps before it, and zeros if there is none.
        """

    def outputs(self, cells: Cells, steps: int) -> Shapes:
        """Return `cells.outputs(steps)`; residuals, which only the steps back read, may be other arrays."""

    def forward(self, cells: Cells, steps: int, size: int, given: Arrays) -> dict[str, Array]:
        """Run all steps of some samples."""

    def backward(self, cells: Cells, steps: int, size: int, given: Arrays) -> dict[str, Array]:
        """Run all steps back."""

    def sent(self, cells: Cells, place: int, results: Arrays, fine: Array | None) -> Array:
        """Return the spikes of a population, (..., steps, neurons), of what steps forward returned.

        They have zeros and ones, or NaN where `fine` (..., 1), if it is given, does not hold.
        """

    def along_synapses(self, one: Product, values: Array, change: Change, spikes: Array) -> Array:
        """Return values of the synapses of a projection after some steps; see `Change`.

        Values are (values, delays, sources, neurons) if the product is dense, else (values, entries); spikes (depth +
        steps, sources) are uint8, 0 or 1, those of the steps before included.
        """


@dataclass(frozen=True)
class _Call:
    """What a call is, besides its arrays: static.

    `labels` name the arrays; those in `batched` have an axis of `size` samples, or of fewer rows that samples share.
    All results have an axis of `size` samples. Without samples, `size` is None.
    """

    engine: Engine
    cells: Cells
    steps: int
    labels: tuple[str, ...]
    size: int | None = None
    batched: frozenset[str] = frozenset()

    def results(self, shapes: Shapes) -> list[ShapedArray]:
        """Return the types of results."""
        samples = () if self.size is None else (self.size,)
        return [ShapedArray((*samples, *shape), np.dtype(dtype)) for shape, dtype in shapes.values()]

    def run(self, run: Callable[..., dict[str, Array]], arrays: Sequence[Array], shapes: Shapes) -> list[Array]:
        """Run native code, which has at least one sample."""
        if self.size == 0:
            return [jnp.zeros(one.shape, one.dtype) for one in self.results(shapes)]
        given = {k: x if k in self.batched else x[None] for k, x in zip(self.labels, arrays, strict=True)}
        if not self.engine.shares:
            given = {k: x if len(x) == 1 else self.of_each(x) for k, x in given.items()}
        found = run(self.cells, self.steps, self.size or 1, given)
        return [found[label] if self.size is not None else found[label][0] for label in shapes]

    def of_each(self, x: Array) -> Array:
        """Return an array with an axis of rows as one of all samples."""
        return x if len(x) == self.size else jnp.repeat(x, (1 if self.size is None else self.size) // len(x), axis=0)

    def with_labels(self, labels: Collection[str], batched: Collection[str]) -> _Call:
        """Return a call with other arrays."""
        found = frozenset(batched) if self.size is not None else frozenset[str]()
        return replace(self, labels=tuple(labels), batched=found)


def run_steps(engine: Engine, cells: Cells, steps: int, given: Arrays) -> dict[str, Array]:
    """Run all steps of a component; `cells` describes the arrays that it takes and returns, by label."""
    call = _Call(engine, cells, steps, tuple(given))
    return dict(zip(_outputs(call), _steps.bind(*given.values(), call=call), strict=True))


def run_back(engine: Engine, cells: Cells, steps: int, given: Arrays) -> dict[str, Array]:
    """Run all steps of a component back; `cells` describes the arrays that it takes and returns, by label."""
    call = _Call(engine, cells, steps, tuple(given))
    return dict(zip(_cotangents(call), _back.bind(*given.values(), call=call), strict=True))


def _outputs(call: _Call) -> Shapes:
    return call.engine.outputs(call.cells, call.steps)


def _floats(call: _Call) -> Shapes:
    """Return what has tangents: floats that are no residuals."""
    return {label: of for label, of in _outputs(call).items() if of[1] == "float32" and label[0] != "r"}


def _cotangents(call: _Call) -> Shapes:
    return call.cells.cotangents(call.steps)


# ---- batches


def _batch(primitive: Primitive, operands: Sequence[Array], axes: Sequence[Any], *, call: _Call) -> Any:
    """Merge a new axis with that of samples."""
    outer = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    arrays, batched = [], set()
    for label, x, axis in zip(call.labels, operands, axes, strict=True):
        if axis is None and label not in call.batched:
            arrays.append(x)
            continue
        mapped = _outermost(x, axis, outer)
        arrays.append(mapped.reshape(outer * mapped.shape[1], *mapped.shape[2:]) if label in call.batched else mapped)
        batched.add(label)
    size = outer if call.size is None else outer * call.size
    results = primitive.bind(*arrays, call=replace(call, size=size, batched=frozenset(batched)))
    samples = (outer,) if call.size is None else (outer, call.size)
    return [x.reshape(*samples, *x.shape[1:]) for x in results], [0] * len(results)


@directly
def _outermost(x: Array, axis: int | None, size: int) -> Array:
    """Return an array whose first axis is one that is mapped, of a size, or has copies of what is not mapped."""
    return jnp.broadcast_to(x, (size, *x.shape)) if axis is None else jnp.moveaxis(x, axis, 0)


# ---- derivatives


def _jvp(primals: Sequence[Array], tangents: Sequence[Any], *, call: _Call) -> tuple[list[Array], list[Any]]:
    """Run the steps with residuals, and return their results with tangents that are linear in those given."""
    if any(cell.adjoint is not None for cell in call.cells.cells):
        _no_second(call=call)
    given = dict(zip(call.labels, primals, strict=True))
    rates = {k: t for k, t in zip(call.labels, tangents, strict=True) if not isinstance(t, Zero)}
    places = {cell.place: cell.population.name for cell in call.cells.cells}
    trained = [(name, k.partition("_")[2]) for p, name in places.items() for k in rates if k.startswith(f"q{p}_")]
    cells = cells_of(call.cells.component, trained)
    forward = replace(call, cells=cells)
    results = dict(zip(_outputs(forward), _steps.bind(*primals, call=forward), strict=True))

    moved = {f"t{label}": rate for label, rate in rates.items() if label[0] in "chxq"}
    batched = {f"t{label}" for label in call.batched}
    for j, one in enumerate(cells.products):
        if f"w{j}" in rates:
            label = f"t{cells.arriving(j)}"
            fine = call.of_each(given["fine"]) if "fine" in call.batched else given.get("fine")
            spikes = call.engine.sent(cells, cells.place(one.about.source), results, fine)
            made = replace(one, as_matrix=call.engine.matrices)
            sums = _sums(made, call, spikes, rates[f"w{j}"], batched=f"w{j}" in call.batched)
            if sums is not None:
                if label in moved:
                    each = call.size is not None and label in batched
                    sums = sums + (call.of_each(moved[label]) if each else moved[label])
                moved[label] = sums
                batched.add(label)
    known = {label: x for label, x in given.items() if label[0] not in "chxf"}
    known |= {label: x for label, x in results.items() if label[0] in "zr"}
    linear = forward.with_labels((*known, *moved), (call.batched | set(results) | batched) & {*known, *moved})
    along = dict(zip(_floats(linear), _linear.bind(*known.values(), *moved.values(), call=linear), strict=True))
    outputs = {label: results[label] for label in _outputs(call)}
    return list(outputs.values()), [along.get(k, symbolic_zero_like(x)) for k, x in outputs.items()]


def _sums(one: Product, call: _Call, spikes: Array, weights: Array, *, batched: bool) -> Array | None:
    """Return what arrives in all steps because of spikes, with other weights; None if nothing does."""

    def sums(spikes: Array, weights: Array) -> Array | None:
        return one.arriving(spikes, one.operand(weights)).floats

    if call.size is None:
        return sums(spikes, weights)
    if not batched:
        return jax.vmap(sums, (0, None))(spikes, weights)
    networks = spikes.reshape(len(weights), call.size // max(1, len(weights)), *spikes.shape[1:])
    found = jax.vmap(jax.vmap(sums, (0, None)))(networks, weights)
    return None if found is None else found.reshape(call.size, *found.shape[2:])


def _transpose(cotangents: Sequence[Any], *operands: Any, call: _Call) -> list[Any]:
    """Run the steps back."""
    known = {k: x for k, x in zip(call.labels, operands, strict=True) if not is_undefined_primal(x)}
    found = {f"d{k}": x for k, x in zip(_floats(call), cotangents, strict=True) if not isinstance(x, Zero)}
    back = call.with_labels((*known, *found), (call.batched & known.keys()) | found.keys())
    results: Arrays = dict(zip(_cotangents(call), _back.bind(*known.values(), *found.values(), call=back), strict=True))
    returned: list[Any] = []
    for label, x in zip(call.labels, operands, strict=True):
        if not is_undefined_primal(x):
            returned.append(None)
            continue
        found_one = _cotangent(call, {**known, **results}, label)
        if label in call.batched:
            rows = x.aval.shape[0]
            found_one = found_one.reshape(rows, len(found_one) // max(1, rows), *found_one.shape[1:]).sum(1)
        elif call.size is not None:
            found_one = found_one.sum(0)
        shared = found_one.shape != x.aval.shape  # a parameter of all neurons
        returned.append(found_one.sum(-1, keepdims=True) if shared else found_one)
    return returned


def _cotangent(call: _Call, found: Arrays, label: str) -> Array:
    """Return the cotangent of what a tangent is of; whole numbers are added to currents as multiples of a quantum."""
    if label[1] != "h":
        return found[f"d{label[1:]}"]
    quantum, of = found[f"u{label[2:]}"], f"u{label[2:]}"
    return found[f"dc{label[2:]}"] * (call.of_each(quantum)[:, :, None] if of in call.batched else quantum)


def _forward_mode(*_: Any, call: _Call) -> Any:
    raise NetworkError(
        f"simulate: a derivative in forward mode (jvp, jacfwd, linearize), which backend={call.engine.title!r} does "
        'not have; use reverse mode (grad, vjp, jacrev), or build the network with backend="jax"'
    )


def _no_second(*_: Any, call: _Call) -> Any:
    raise NetworkError(
        f"simulate: a second derivative, which backend={call.engine.title!r} does not have, nor derivatives of what "
        'eprop returns; build the network with backend="jax"'
    )


def _run_steps(*arrays: Array, call: _Call) -> list[Array]:
    return call.run(call.engine.forward, arrays, _outputs(call))


def _run_back(*arrays: Array, call: _Call) -> list[Array]:
    return call.run(call.engine.backward, arrays, _cotangents(call))


def _primitive(name: str, shapes: Callable[[_Call], Shapes], run: Callable[..., Any]) -> Primitive:
    def results(*operands: Any, call: _Call) -> list[ShapedArray]:
        return [abstract_result(name, operands, one.shape, one.dtype) for one in call.results(shapes(call))]

    primitive = new_primitive(name, results)
    primitive_batchers[primitive] = functools.partial(_batch, primitive)
    mlir.register_lowering(primitive, mlir.lower_fun(run))
    return primitive


_steps = _primitive("network_steps", _outputs, _run_steps)
_linear = _primitive("network_tangents", _floats, _forward_mode)
_back = _primitive("network_steps_back", _cotangents, _run_back)
primitive_jvps[_steps] = _jvp
primitive_jvps[_linear] = primitive_jvps[_back] = lambda primals, tangents, *, call: _no_second(call=call)
primitive_transposes[_linear] = _transpose
