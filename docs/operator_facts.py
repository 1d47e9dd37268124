# SPDX-License-Identifier: Apache-2.0
"""Find out about an operator what its page says: by tracing its calls, and from what is registered for it."""

import functools
import inspect
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

import brainevent
from brainevent.event.library import OPERATORS
from brainevent.event.table import TABLE
from brainevent.languages import language
from brainevent.operator.bind import split
from brainevent.operator.entry import REFERENCE
from brainevent.operator.sharding import ShardingRule
from brainevent.operator.variants import label
from docs.formulas import description_of

__all__ = ["Backend", "Cut", "Facts", "Way"]

_KINDS = {  # what is said where all of a kind are taken
    "bool": ("bool",),
    "any integer": tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
    "any real float": ("float16", "bfloat16", "float32", "float64"),
    "any complex": ("complex64", "complex128"),
}


@dataclass(frozen=True)
class Backend:
    """A kernel that is registered."""

    platform: str
    name: str
    language: str
    default: bool
    variants: tuple[str, ...]


@dataclass(frozen=True)
class Way:
    """A way to call an operator: types of its operands, and keyword arguments."""

    operands: tuple[jax.ShapeDtypeStruct, ...]
    keywords: tuple[tuple[str, Any], ...]

    @property
    def kind(self) -> str:
        """What makes this way differ from others: its switches, and whether there is one weight for all."""
        switches = [f"{name}={value}" for name, value in self.keywords if isinstance(value, bool)]
        return ", ".join([*switches, *(["one weight"] if self.operands[0].size == 1 else [])])


@dataclass(frozen=True)
class Cut:
    """A sharding rule in words."""

    rule: str
    shared: tuple[str, ...]
    summed: tuple[str, ...]
    whole: tuple[str, ...]


class Facts:
    """What there is to say about an operator."""

    def __init__(self, operator: brainevent.XLACustomKernel):
        self.operator = operator
        self.name = operator.name
        self.call: Callable[..., Any] = operator.definition.call or operator
        self.reference = operator.definition.reference.fn if operator.definition.reference else None
        self.is_public = getattr(brainevent, getattr(self.call, "__name__", ""), None) is self.call
        self.public_name = next((name for name in brainevent.__all__ if getattr(brainevent, name) is operator), None)
        written = self.call.__doc__ if self.is_public else vars(operator).get("__doc__")
        self.doc = inspect.cleandoc(written or "")
        self.tags = sorted(operator.definition.tags)
        self.family = sys.modules[_family(operator, self.reference or self.call)]

    @property
    def summary(self) -> str:
        """The first sentence of its docstring."""
        return self.doc.partition("\n\n")[0].replace("\n", " ")

    # ---- how it is called

    @functools.cached_property
    def ways(self) -> list[Way]:
        """A way to call it of each kind in its benchmark data."""
        data = self.operator.definition.benchmark_data
        if data is None:
            raise ValueError(
                f"operator {self.name!r}: its page needs benchmark data; store some with def_benchmark_data"
            )
        found: dict[str, Way] = {}
        for config in data(platform="cpu"):
            operands = tuple(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in config.args)
            way = Way(operands, tuple(config.kernel_kwargs.items()))
            found.setdefault(way.kind, way)
        return list(found.values())

    @property
    def _signature(self) -> inspect.Signature:
        return inspect.signature(self.call if self.is_public or self.reference is None else self.reference)

    @functools.cached_property
    def operands(self) -> list[str]:
        """The names of the operands."""
        if not self.is_public and hasattr(self.reference, "operands"):
            return list(self.reference.operands)
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        named = [p.name for p in self._signature.parameters.values() if p.kind in positional]
        count = len(self.ways[0].operands)
        return named if len(named) == count else [f"operand {i}" for i in range(count)]

    @property
    def keywords(self) -> list[inspect.Parameter]:
        """The keyword arguments."""
        return [p for p in self._signature.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]

    def used_values(self, keyword: str) -> str:
        """Return the values of a keyword argument in the benchmark data."""
        return " or ".join(
            dict.fromkeys(f"`{value}`" for way in self.ways for k, value in way.keywords if k == keyword)
        )

    @functools.cached_property
    def shapes(self) -> list[list[str]]:
        """The shapes of each operand and then of each result, by letters where a sharding rule names them."""
        found: list[dict[str, None]] = []
        of = description_of(self.operator)
        pointers = "k + 1" if of is not None and of.indexed and of.post else "m + 1"  # to columns, or to rows
        for way in self.ways:
            rule, types = self._rule(way), [*way.operands, *self._results(way)]
            sides = rule.operands + rule.results if rule else [x.shape for x in types]
            found = found or [{} for _ in types]
            for said, dims, x in zip(found, sides, types, strict=True):
                named = [pointers if dim == "p" else dim for dim in dims]
                said[_sizes(x.shape if x.size == 1 else named)] = None
        return [list(said) for said in found]

    # ---- dtypes, by trying them

    def dtypes(self, position: int) -> str:
        """Return in words which dtypes an operand may have: those that its function takes."""
        if not self.is_public:  # nothing checks what reaches an operator
            return " or ".join(dict.fromkeys(way.operands[position].dtype.name for way in self.ways))
        taken = {dtype for kind in _KINDS.values() for dtype in kind if self._result_dtype(position, dtype)}
        whole = [words for words, kind in _KINDS.items() if taken.issuperset(kind)]
        rest = [dtype for kind in _KINDS.values() if not taken.issuperset(kind) for dtype in kind if dtype in taken]
        *words, last = [*whole, *rest]
        return f"{', '.join(words)} or {last}" if words else last

    def result_dtype(self, number: int = 0) -> str:
        """Return in words which dtype a result has."""
        for position, name in enumerate(self.operands):
            if all(self._result_dtype(position, dtype, number) == dtype for dtype in ("float32", "float64")):
                return f"that of `{name}`"
        return " or ".join(dict.fromkeys(self._results(way)[number].dtype.name for way in self.ways))

    @functools.cache  # noqa: B019 - a few operators, while pages are written
    def _result_dtype(self, position: int, dtype: str, number: int = 0) -> str | None:
        """Return the dtype of a result where an operand has a dtype; None where it may not have that."""
        way = self.ways[0]
        with jax.enable_x64(True):
            operands = [jax.ShapeDtypeStruct(x.shape, dtype if i == position else x.dtype) for i, x in _each(way)]
            try:
                out = jax.tree.leaves(jax.eval_shape(self._function(way), *operands))[number]
            except (TypeError, ValueError):
                return None
        return out.dtype.name

    def _function(self, way: Way) -> Callable[..., Any]:
        return functools.partial(self.call, **dict(way.keywords))

    def _results(self, way: Way) -> list[Any]:
        return jax.tree.leaves(jax.eval_shape(self._function(way), *way.operands))

    # ---- kernels

    @property
    def backends(self) -> list[Backend]:
        """The kernels that are registered, and the reference on each other platform."""
        return [
            Backend(
                platform,
                name,
                _title(entry.language),
                name == self.operator.get_default(platform),
                _labels(entry.variants),
            )
            for platform, table in sorted(self.operator.definition.kernels.items())
            for name, entry in table.items()
        ] + [Backend("any", REFERENCE, "jax.numpy", False, ())] * (self.reference is not None)

    # ---- transformations, by tracing them

    def derivatives(self, position: int) -> tuple[list[str], list[str]] | None:
        """Return which operators a tangent needs, and which a cotangent; None where there is no derivative."""
        forward: dict[str, None] = {}
        backward: dict[str, None] = {}
        moves = False
        for way in self.ways:
            x = _as_float(way.operands[position])
            if x is None or (self.is_public and not self._result_dtype(position, x.dtype.name)):
                return None
            one = self._of_one(way, position)
            tangents = _equations(lambda x, t, one=one: jax.jvp(one, (x,), (t,))[1], x, x)
            if tangents is None:
                continue
            moves = True
            forward.update(dict.fromkeys(_names(tangents)))
            results = self._results(way)
            cotangents = _equations(lambda x, *cts, one=one: jax.vjp(one, x)[1](list(cts))[0], x, *results)
            backward.update(dict.fromkeys(_names(cotangents or [])))
        return (list(forward), list(backward)) if moves else None

    def batches(self, position: int) -> list[str]:
        """Return the operators that take a batch of an operand in one call, or in words how their kernels do."""
        said: dict[str, None] = {}
        for way in self.ways:
            x = way.operands[position]
            batch = jax.ShapeDtypeStruct((3, *x.shape), x.dtype)
            for equation in _equations(jax.vmap(self._of_one(way, position)), batch) or []:
                name = equation.primitive.name
                if name in OPERATORS:
                    levels = split(equation.params)[1].levels
                    said[f"one call, in which the kernel of `{name}` goes through the batch" if levels else name] = None
        return list(said)

    def _of_one(self, way: Way, position: int) -> Callable[[Any], list[Any]]:
        """Return the operator as a function of one operand."""

        def function(x: Any) -> Any:
            others = [jnp.zeros(other.shape, other.dtype) for other in way.operands]
            return jax.tree.leaves(self._function(way)(*others[:position], x, *others[position + 1 :]))

        return function

    def _rule(self, way: Way) -> ShardingRule | None:
        rule = self.operator.definition.rules.get("sharding")
        if rule is None:
            return None
        rule = rule.of_call(way.operands, (), dict(way.keywords))
        return rule.written_out([len(x.shape) for x in way.operands], [len(x.shape) for x in self._results(way)])

    @property
    def cuts(self) -> dict[Cut, list[str]]:
        """How devices may share the work, with the kinds of calls that may be shared so."""
        found: dict[Cut, list[str]] = {}
        for way in self.ways:
            if (rule := self._rule(way)) is not None:
                factors = dict.fromkeys(f for dims in rule.operands for f in dims)
                written = " -> ".join(
                    ", ".join(" ".join(dims) for dims in side) for side in (rule.operands, rule.results)
                )
                shared = tuple(f for f in factors if f not in (*rule.replicated, *rule.reduced))
                cut = Cut(written, shared, rule.reduced, tuple(f for f in factors if f in rule.replicated))
                found.setdefault(cut, []).append(way.kind)
        return found

    # ---- the reference

    @property
    def fixed(self) -> dict[str, Any]:
        """What the reference has been given for this operator: switches that its text names."""
        values = inspect.getclosurevars(self.reference).nonlocals if self.reference else {}
        return {name: value for name, value in sorted(values.items()) if isinstance(value, (bool, int, str))}

    @property
    def source(self) -> str:
        """The text of the reference, and of the functions of this package that it calls."""
        return "\n\n\n".join(textwrap.dedent(inspect.getsource(part)).rstrip() for part in _called(self.reference))


def _family(operator: brainevent.XLACustomKernel, defined: Callable[..., Any]) -> str:
    """Return the package of an operator's format, or that of the functions of its law."""
    for of in (of for of, known in TABLE.items() if known is operator):
        own = {"updates": "plasticity", "values": "synapses"}.get(of.law.kind)
        return f"brainevent.event.{own}" if own else of.format.elements.__module__.rpartition(".")[0]
    home = sys.modules[defined.__module__]
    return home.__package__ or home.__name__


def _sizes(dims: Sequence[Any]) -> str:
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"


def _each(way: Way) -> Iterator[tuple[int, jax.ShapeDtypeStruct]]:
    return enumerate(way.operands)


def _title(name: str) -> str:
    known = language(name)
    return known.title if known else "JAX"


def _labels(variants: Sequence[Any]) -> tuple[str, ...]:
    return tuple(filter(None, map(label, variants)))


def _as_float(x: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct | None:
    """Return the type with numbers that have derivatives; None for indices."""
    if jnp.issubdtype(x.dtype, jnp.floating):
        return x
    return jax.ShapeDtypeStruct(x.shape, jnp.float32) if x.dtype == bool else None


def _equations(function: Callable[..., Any], *types: Any) -> list[Any] | None:
    """Return the steps that a function's result needs, in order; None if it does not need the last operand."""
    jaxpr = jax.make_jaxpr(function)(*types).jaxpr
    needed = _variables(jaxpr.outvars)
    found = []
    for equation in reversed(jaxpr.eqns):
        if needed.intersection(equation.outvars):
            needed |= _variables(equation.invars)
            found.append(equation)
    return found[::-1] if jaxpr.invars[-1] in needed else None


def _variables(values: Sequence[Any]) -> set[Any]:
    return {value for value in values if not hasattr(value, "val")}  # the others are numbers


def _names(equations: Sequence[Any]) -> list[str]:
    return [equation.primitive.name for equation in equations if equation.primitive.name in OPERATORS]


def _called(function: Any) -> list[Any]:
    """Return a function and those of this package that it calls, directly or not, each once."""
    found: dict[Any, None] = {}

    def visit(function: Any) -> None:
        function = inspect.unwrap(getattr(function, "fun", function))
        if function in found:
            return
        found[function] = None
        names = function.__code__.co_names
        for name in names:
            value = function.__globals__.get(name)
            inside = [getattr(value, other, None) for other in names] if inspect.ismodule(value) else [value]
            for part in inside:
                plain = inspect.unwrap(getattr(part, "fun", part)) if callable(part) else None
                if inspect.isfunction(plain) and plain.__module__.startswith("brainevent."):
                    visit(plain)

    visit(function)
    return list(found)
