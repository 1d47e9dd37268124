# SPDX-License-Identifier: Apache-2.0
"""The adjoint of a rule is a rule: a step that also returns what the step back reads, and the step back, as forms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp

from ..errors import RuleError
from .cut import ENDLESS, smallest_cut
from .differentiable import check_draws
from .form import Assign, Form, Line, Name, Operand, boxed
from .lines import defined, names_in, needed, read, without_repetitions
from .lower import Lowering
from .margin import as_events, with_margin
from .trace import TracedRule, flat_rule

__all__ = ["Adjoint", "adjoint_of"]

Scalar = Any
Surrogate = Callable[[Scalar], Scalar]


@dataclass(frozen=True)
class Adjoint:
    """One step of a rule, and the step back.

    `forward` has the inputs of the rule, and its outputs: new states, the spike; then the residuals. `backward` has
    as inputs the residuals, the spike, the parameters and the random inputs of the rule, and the cotangents of new
    float states and of the spike; its outputs are the cotangents of float states before the step, of what arrives, and
    of the parameters in `params`.

    `margin` is the residual that is the margin of the spike, if one is. `spiking` says whether the spike has a
    derivative, and `reads` which inputs `backward` reads: it may read the spike, which is stored anyway, or not.
    """

    forward: Form
    backward: Form
    residuals: tuple[Name, ...]
    spike: Name
    cotangents: tuple[Name, ...]
    params: tuple[Name, ...]
    margin: Name | None
    spiking: bool

    @property
    def reads(self) -> frozenset[Name]:
        """The inputs of `backward` that it reads."""
        names = {output for output in self.backward.outputs if isinstance(output, Name)}
        return frozenset(names.union(*map(read, self.backward.lines)).intersection(self.backward.inputs))


def adjoint_of(
    traced: TracedRule,
    surrogate: Surrogate | None,
    params: Collection[str] | None = None,
    *,
    rounded: bool = False,
    name: str = "rule",
) -> Adjoint:
    """Return the adjoint of a rule, whose spike has a surrogate for its derivative with respect to its margin.

    The forward step returns the bits of the rule. Residuals are the fewest bytes from which, with parameters, the step
    back can be computed: for a leaky neuron the potential before its reset. Comparisons are stored as bools.

    The step back does, operation by operation, what JAX does without `jit`, in float32 with denormals as zeros: it
    returns a NaN where JAX's formula has one, and loses what the formula loses. The derivative of x / y by y, which
    has a factor 1 / y**2, is 0 where y**2 overflows, beyond 2e19. Under `jit`, XLA may rearrange operations, so there
    such numbers may be NaN or finite where these are not; others differ by rounding.

    Args:
        traced: The rule, of float32, as `trace` returns it.
        surrogate: The derivative of a spike as a function of the margin; None: spikes have no derivative.
        params: The parameters with respect to which the rule is differentiated, by name; all floats by default.
        rounded: Whether residuals are stored in fewer bits. Then the step back decides as the forward step did: it
            gets the results of comparisons, and margins rather than what they are differences of.
        name: What the names of the two forms begin with.

    Returns:
        Forms for `interpret` and for the printers.

    Raises:
        RuleError: The rule has no adjoint: it contains a while_loop through which gradients pass, draws random numbers
            from a distribution that depends on states or on what arrives, is of float64, returns the value of its
            spike, or its derivative uses what no engine has.

    Examples:
        >>> import jax.numpy as jnp
        >>> import brainevent as be
        >>> from brainevent.scalar.trace import trace
        >>> def leak(s, arriving, p):
        ...     v = s.v * p.decay + arriving.syn
        ...     return s.replace(v=jnp.where(v > 1, 0.0, v)), v > 1
        >>> found = adjoint_of(trace(leak, {"v": 0.0}, ["syn"], {"decay": 0.9}), be.surrogate.fast_sigmoid(), params=[])
        >>> [residual.dtype for residual in found.residuals], len(found.backward.outputs)
        (['float32'], 2)
    """
    if traced.value:
        raise RuleError(
            f"rule {traced.name}: returns the value of its spike, which has no adjoint; build the network with "
            'backend="jax"'
        )
    if traced.dtype != "float32":
        raise RuleError(
            f"rule {traced.name}: is of {traced.dtype}, which has no adjoint; build the network with dtype='float32', "
            'or with backend="jax"'
        )
    assert traced.function is not None
    floats = [place for place, one in enumerate(_names(traced)) if one.dtype == "float32"]
    wanted = [place for place in floats if _is_wanted(traced, place, params)]
    with jax.enable_x64(False):
        pullback = _Pullback(traced, surrogate, wanted)
        jaxprs = pullback.jaxprs()
    lowering = Lowering(traced.name, prints=True)
    inputs = (*_names(traced), *traced.random)
    results = _outputs(lowering, jaxprs[0], inputs)
    lowering.draws.clear()  # the same draws, in the same lines
    *back, margin = _outputs(lowering, jaxprs[1], (*inputs, *pullback.cotangents))
    lines, outputs = without_repetitions(lowering.writer.lines, [*results, *back, margin])
    both = _Both(
        traced,
        needed(lines, outputs[:-1], ()),
        tuple(outputs[: len(results)]),
        tuple(outputs[len(results) : -1]),
        outputs[-1],
        pullback.cotangents,
        tuple(lowering.writer.functions.values()),
    )
    made = tuple(_names(traced)[place] for place in wanted if place >= len(traced.states) + len(traced.arriving))
    residuals, reads_spike = both.residuals(rounded=rounded)
    return both.adjoint(name, residuals, reads_spike, made, spiking=pullback.spiking)


def _names(traced: TracedRule) -> tuple[Name, ...]:
    return (*traced.states, *traced.arriving, *traced.params)


def _is_wanted(traced: TracedRule, place: int, params: Collection[str] | None) -> bool:
    own = place - len(traced.states) - len(traced.arriving)
    return own < 0 or params is None or traced.params[own].text[2:] in params


def _outputs(lowering: Lowering, jaxpr: Any, inputs: Sequence[Name]) -> list[Operand]:
    return [value.item() for value in lowering.jaxpr(jaxpr, [boxed(name) for name in inputs])]


class _Pullback:
    """The step of a rule, and the function of its inputs and of cotangents that returns cotangents of inputs."""

    def __init__(self, traced: TracedRule, surrogate: Surrogate | None, wanted: Sequence[int]):
        self.traced, self.surrogate, self.wanted = traced, surrogate, wanted
        self.new = [place for place, one in enumerate(traced.states) if one.dtype == "float32"]
        names = [traced.states[place].text for place in self.new]
        self.cotangents = tuple(Name(f"d_{name}", "float32") for name in (*names, "spike"))
        self.flat = flat_rule(traced.function, traced)  # type: ignore[arg-type]
        self.spiking = surrogate is not None

    def jaxprs(self) -> tuple[Any, Any]:
        """Trace the step and the step back."""
        dtypes = [name.dtype for name in (*_names(self.traced), *self.traced.random)]
        inputs = [jax.ShapeDtypeStruct((), dtype) for dtype in dtypes]
        cotangents = [jax.ShapeDtypeStruct((), name.dtype) for name in self.cotangents]
        step = jax.make_jaxpr(self.flat)(*inputs)
        check_draws(self.traced, step)
        if self.spiking:
            try:
                jax.eval_shape(with_margin(self.flat), *inputs)
            except RuleError:  # no comparison decides: spikes have no derivative
                self.spiking = False
        try:
            return step, jax.make_jaxpr(self.back)(inputs, cotangents)
        except (ValueError, NotImplementedError, TypeError) as error:
            raise self._refused(error) from error

    def back(self, inputs: Sequence[Scalar], cotangents: Sequence[Scalar]) -> Any:
        """Return the cotangents of the inputs that are wanted, and the margin."""

        def step(*chosen: Scalar) -> tuple[list[Scalar], Scalar]:
            given = list(inputs)
            for place, value in zip(self.wanted, chosen, strict=True):
                given[place] = value
            if not self.spiking or self.surrogate is None:
                new = self.flat(*given)[:-1]
                return [*(new[place] for place in self.new), jnp.float32(0)], jnp.float32(0)
            (*new, spike), margin, gate = with_margin(self.flat)(*given)
            return [*(new[place] for place in self.new), as_events(self.surrogate, spike, margin, gate)], margin

        _, pull, margin = jax.vjp(step, *(inputs[place] for place in self.wanted), has_aux=True)
        return *pull(list(cotangents)), margin

    def _refused(self, error: Exception) -> RuleError:
        said = " ".join(str(error).split())
        if "Reverse-mode differentiation does not work" in said:
            return RuleError(
                f"rule {self.traced.name}: differentiated values pass through a while_loop, whose number of steps is "
                "known only when it runs, so the rule has no adjoint; use fori_loop with constant bounds, or scan"
            )
        return RuleError(f"rule {self.traced.name}: JAX cannot differentiate it, so it has no adjoint: {said}")


_BYTE = 2**12  # the cost of storing one: more than that of all lines of a rule that are computed again
_SPIKE = 4  # the cost of the spike, which is stored anyway, but has to be read
_QUICK = {
    *("add", "sub", "mul", "neg", "abs", "max", "min", "floor", "ceil", "round", "and", "or", "xor", "not", "copy"),
    *("lt", "le", "gt", "ge", "eq", "ne", "select", "convert", "bitcast", "shift_left", "shift_right_logical"),
    *("shift_right_arithmetic", "bit_count", "mul_high"),
}


def _cost(line: Line) -> int:
    """Return about how many instructions a line takes."""
    if not isinstance(line, Assign):
        return 128
    return 1 if line.op in _QUICK else 8 if line.op in ("div", "sqrt", "rem") else 32


@dataclass(frozen=True)
class _Both:
    """The lines of a step and of the step back in one list, and the outputs of each."""

    traced: TracedRule
    lines: Sequence[Line]
    results: tuple[Operand, ...]
    back: tuple[Operand, ...]
    margin: Operand
    cotangents: tuple[Name, ...]
    functions: tuple[Form, ...]

    def residuals(self, *, rounded: bool) -> tuple[tuple[Name, ...], bool]:
        """Return what the step stores for the step back; and whether that reads the spike, which is stored anyway."""
        inputs = [*self.traced.states, *self.traced.arriving]
        before, back = _divided(self.lines, self.cotangents)
        stepped = set(needed(before, self.results, ()))
        varying = set(_divided(before, inputs)[1] if rounded else ())
        spike = self.results[-1]

        def stored(name: Name) -> int:
            if name == spike:
                return _SPIKE
            return _BYTE * (1 if name.dtype == "bool" else 4) - (name == self.margin)

        def again(line: Line) -> int:
            if line in varying and any(name.dtype == "bool" for name in defined(line)):
                return ENDLESS
            return _cost(line) if line in stepped else 0  # else it is computed once in any case

        own = {*self.cotangents, *(name for line in back for name in defined(line))}
        wanted = names_in(self.back).union(*map(read, back)) - own
        chosen = smallest_cut(before, inputs, wanted, stored, again)
        order = [*inputs, *(name for line in before for name in defined(line))]
        return tuple(sorted(chosen - {spike}, key=order.index)), spike in chosen

    def adjoint(
        self, name: str, residuals: tuple[Name, ...], reads_spike: bool, params: tuple[Name, ...], *, spiking: bool
    ) -> Adjoint:
        """Return both steps apart."""
        traced, spike = self.traced, self.results[-1]
        known = (*traced.params, *traced.random)
        spike_in = spike if reads_spike and isinstance(spike, Name) else Name("spike", "bool")
        inputs = (*traced.states, *traced.arriving, *known)
        forward = self._form(f"{name}_forward", inputs, (*self.results, *residuals))
        backward = self._form(f"{name}_backward", (*residuals, spike_in, *known, *self.cotangents), self.back)
        margin = self.margin if isinstance(self.margin, Name) and self.margin in residuals else None
        return Adjoint(forward, backward, residuals, spike_in, self.cotangents, params, margin, spiking)

    def _form(self, name: str, inputs: tuple[Name, ...], outputs: tuple[Operand, ...]) -> Form:
        form = Form(name, inputs, tuple(needed(self.lines, outputs, inputs)), outputs)
        called = {line.op for line in form.all_lines() if isinstance(line, Assign)}
        called |= {inner.name for one in self.functions if one.name in called for inner in one.functions}
        return replace(form, functions=tuple(one for one in self.functions if one.name in called))


def _divided(lines: Sequence[Line], names: Sequence[Name]) -> tuple[list[Line], list[Line]]:
    """Return the lines that do not depend on names, and those that do."""
    moving, sides = set(names), (list[Line](), list[Line]())
    for line in lines:
        depends = not moving.isdisjoint(read(line))
        sides[depends].append(line)
        if depends:
            moving.update(defined(line))
    return sides
