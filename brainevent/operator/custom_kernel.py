# SPDX-License-Identifier: Apache-2.0
"""`XLACustomKernel`, with which authors define an operator, and which users call."""

from __future__ import annotations

import functools
import keyword
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .. import config
from .._compat import ShapedArray, typeof
from .._html import document, facts, table
from ..errors import RegistrationTypeError, RegistrationValueError
from ..ffi.call import out_aval
from ..typing import ArrayLike, PyTree, TypesLike
from . import lowering, rules
from .batch import general_batching_rule
from .bind import CARRIED, RESERVED, Carried, check_operands, check_static
from .definition import Definition
from .entry import KernelEntry
from .kernel_methods import KernelMethods
from .raised import shortened
from .sharding import clash_of_call, sharding_rule
from .variants import label

if TYPE_CHECKING:
    from ..bench.result import BenchmarkResult
    from ..bench.tune import TuneResult

__all__ = ["XLACustomKernel", "defined"]

_newest: dict[str, XLACustomKernel] = {}  # of each name
_lock = threading.Lock()


def defined() -> dict[str, XLACustomKernel]:
    """Return the operators that were defined in this process, the newest of each name."""
    with _lock:
        return dict(_newest)


class XLACustomKernel(KernelMethods):
    """One operator for JAX, with any number of kernels: one for each backend and platform.

    It is called like a JAX function, under `jit`, `vmap`, `grad`, `shard_map` and `export` as well.

    Args:
        name: The name of the operator, an identifier. The newest operator of a name takes its place in the registry.
        doc: The docstring of the operator, which its page and `brainevent list` show.

    Raises:
        RegistrationTypeError: If the name is not a string.
        RegistrationValueError: If the name is not an identifier.

    Examples:
        >>> import jax, jax.numpy as jnp, numba, brainevent
        >>> @numba.njit
        ... def scale(x, out):
        ...     for i in range(x.size):
        ...         out[i] = 2 * x[i]
        >>> double = brainevent.XLACustomKernel("doc_double")
        >>> double.def_numba_kernel(lambda *, outs: brainevent.numba_kernel(scale, outs=outs))
        >>> x = jnp.arange(3.0)
        >>> jax.jit(lambda x: double(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype)))(x)
        Array([0., 2., 4.], dtype=float32)
        >>> _ = double.def_reference(lambda x: 2 * x)
        >>> double.def_call(lambda x: double(jnp.asarray(x)))
        >>> double.call([1.0, 2.0])
        Array([2., 4.], dtype=float32)
        >>> double.def_tags("doc", "elementwise")
        >>> "doc_double" in brainevent.get_primitives_by_tags({"doc"})
        True
    """

    def __init__(self, name: str, doc: str | None = None):
        if not isinstance(name, str):
            raise RegistrationTypeError(f"XLACustomKernel: name must be a string, found {type(name).__name__}")
        if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name):
            raise RegistrationValueError(
                f"XLACustomKernel: the name {name!r} is not an identifier; use letters, digits and underscores, "
                "for example 'my_operator'"
            )
        if doc is not None:
            self.__doc__ = doc
        self.name = name
        self.definition = Definition(name)
        self.primitive = self.definition.primitive
        self.definition.call = self
        rules.install(self.definition)
        lowering.install(self.definition)
        self._enter()

    def _enter(self) -> None:
        """Enter the operator; the newest of a name wins, with a warning."""
        with _lock:
            taken = self.name in _newest
            _newest[self.name] = self
        if taken:
            warnings.warn(
                f"an operator named {self.name!r} is already registered; the new one takes its place in the registry. "
                "Give each operator a name of its own.",
                UserWarning,
                stacklevel=3,
            )

    @property
    def _kernels(self) -> dict[str, dict[str, KernelEntry]]:
        """The kernels by platform and backend: programs print them by this name."""
        return self.definition.kernels

    def __repr__(self) -> str:
        kernels = {platform: list(table) for platform, table in self.definition.kernels.items()}
        return f"XLACustomKernel({self.name!r}, kernels={kernels})"

    def _repr_html_(self) -> str:
        """Return what notebooks show: kernels and rules."""
        return _html_of(self.definition)

    # ---- calling -----------------------------------------------------------------------------------------------------

    def __call__(self, /, *ins: ArrayLike, outs: TypesLike = None, **kwargs: Any) -> PyTree:
        """Call the operator.

        Args:
            *ins: The operands, arrays.
            outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
            **kwargs: `backend=` chooses the kernel for this call. All others reach the kernel generator, and must be
                hashable.

        Returns:
            The results, in the structure of `outs`; without it, in that of the reference.

        Raises:
            TypeError: If `outs` is missing and there is no reference, or a keyword is not hashable or reserved.
            KernelFallbackExhaustedError: If no kernel fits the platform or the backend.
            KernelCompilationError: If a kernel cannot be built.
            OperandError: If the reference or a rule cannot take the operands.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> power = brainevent.XLACustomKernel("doc_call_power")
            >>> _ = power.def_reference(lambda x, *, n: x**n)
            >>> power(jnp.array([1.0, 2.0]), n=3, backend="reference")
            Array([1., 8.], dtype=float32)
        """
        try:
            avals, tree, params = self._prepared(ins, outs, kwargs)
            if config.is_autotuning():
                self._tuning().autotune(self.definition, ins, avals, params)
            results = self.primitive.bind(*ins, outs=avals, **params)
        except Exception as error:
            shortened(error)
            raise
        return tree.unflatten(results)

    def tune(
        self,
        /,
        *ins: ArrayLike,
        outs: TypesLike = None,
        platform: str | None = None,
        seconds: float = 0.2,
        **kwargs: Any,
    ) -> TuneResult:
        """Measure every kernel, in every variant, and store the fastest correct one.

        Calls with the same shapes, dtypes and keyword arguments then use that kernel, in later processes too. Results
        are compared with the reference, or else with the first kernel.

        Args:
            *ins: Operands like those of the calls.
            outs: The types of the results: a tree of `jax.ShapeDtypeStruct`, or of arrays with these types.
            platform: The platform to run on; None for that of the operands.
            seconds: The time for each kernel and variant.
            **kwargs: The keyword arguments of the calls.

        Returns:
            All measurements; they print as a table.

        Raises:
            TypeError: If `outs` is missing and there is no reference.
            KernelFallbackExhaustedError: If the platform has no kernels.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> double = brainevent.XLACustomKernel("doc_tune_double")
            >>> _ = double.def_reference(lambda x: 2 * x)
            >>> double.def_kernel("jnp", "cpu", lambda *, outs: lambda x: x + x)
            >>> double.tune(jnp.ones(3), seconds=0.001).backend in ("jnp", "reference")
            True
        """
        avals, _, params = self._prepared(ins, outs, kwargs)
        found: TuneResult = self._tuning().tune(self.definition, ins, avals, params, platform=platform, seconds=seconds)
        return found

    @staticmethod
    def _tuning() -> Any:
        from . import tuning  # imported when used, so that `import brainevent` stays light

        return tuning

    def _prepared(
        self, ins: Sequence[Any], outs: Any, kwargs: dict[str, Any]
    ) -> tuple[tuple[ShapedArray, ...], Any, dict[str, Any]]:
        """Return the types of a call's results, their structure, and the parameters of its bind, or raise."""
        params = self._checked_params(kwargs)
        check_operands(self.name, ins)
        if outs is None:
            reference = self.definition.rule("reference")
            if reference is None:
                raise TypeError(
                    f"operator {self.name!r}: the keyword outs is missing; pass outs=jax.ShapeDtypeStruct(shape, "
                    "dtype) or a pytree of them, or define the operator's reference with def_reference"
                )
            outs = reference.infer_outs(ins, params, lambda: self._clash(ins, params))
        leaves, tree = jax.tree.flatten(outs)
        if not jax.tree_util.all_leaves(outs if isinstance(outs, (list, tuple)) else [outs]):
            params[CARRIED] = Carried(tree=(tree,))
        where = f"operator {self.name!r}: outs leaf"
        return tuple(out_aval(f"{where} {i}", leaf) for i, leaf in enumerate(leaves)), tree, params

    def _clash(self, ins: Sequence[Any], params: Mapping[str, Any]) -> str:
        """Return a line for an error about sizes of operands that contradict the sharding rule."""
        mine = {key: value for key, value in params.items() if key != "backend"}
        said = clash_of_call(self.definition.rules.get("sharding"), [typeof(x) for x in ins], mine)
        return f"  {said}" if said else ""

    def _checked_params(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        params = {}
        for key, value in kwargs.items():
            if key in RESERVED:
                raise TypeError(f"operator {self.name!r}: the keyword {key!r} is reserved; choose another name")
            if key == "backend":
                if value is not None:
                    params[key] = config.check_backend_name(value, f"operator {self.name!r}")
                continue
            check_static(self.name, key, value)
            params[key] = value
        return params

    # ---- the rest ----------------------------------------------------------------------------------------------------

    def def_call(self, fn: Callable[..., Any]) -> None:
        """Store the function that users call instead of the operator: it prepares operands and calls the operator.

        Args:
            fn: A function with any arguments.

        Raises:
            RegistrationTypeError: If it is not callable.
        """
        if not callable(fn):
            raise RegistrationTypeError(
                f"operator {self.name!r}: the call function must be callable, found {type(fn).__name__}"
            )
        self.definition.call = fn

    def call(self, *args: Any, **kwargs: Any) -> PyTree:
        """Call the function that `def_call` stored, or else the operator itself.

        Args:
            *args: Its positional arguments.
            **kwargs: Its keyword arguments.

        Returns:
            What it returns.
        """
        call = self if self.definition.call is None else self.definition.call
        return call(*args, **kwargs)

    def def_tags(self, *tags: str) -> None:
        """Replace the tags, by which `get_primitives_by_tags` finds operators.

        Args:
            *tags: The tags.

        Raises:
            RegistrationTypeError: If a tag is not a string.
        """
        for tag in tags:
            if not isinstance(tag, str):
                raise RegistrationTypeError(f"operator {self.name!r}: a tag must be a string, found {tag!r}")
        self.definition.tags = set(tags)

    # ---- rules -------------------------------------------------------------------------------------------------------

    def _def_rule(self, kind: str, fun: Callable[..., Any]) -> None:
        if not callable(fun):
            raise RegistrationTypeError(
                f"operator {self.definition.name!r}: the {kind} rule must be callable, found {type(fun).__name__}"
            )
        self.definition.set_rule(kind, fun)

    def def_batching_rule(self, fun: Callable[..., Any]) -> None:
        """Set the rule for `jax.vmap`.

        Args:
            fun: `fun(args, axes, **params)` returns the results and their batch axes.

        Raises:
            RegistrationTypeError: If it is not callable.
        """
        self._def_rule("batch", fun)

    def register_general_batching(self) -> None:
        """Batch by a scan over the mapped operands, and not by the batching of the kernels.

        Examples:
            >>> import jax, jax.numpy as jnp, brainevent
            >>> product = brainevent.XLACustomKernel("doc_rules")
            >>> _ = product.def_reference(lambda x, y: x * y)
            >>> product.def_batching_rule(lambda args, axes, **params: ([args[0] * args[1]], [0]))
            >>> jax.vmap(product)(jnp.ones((2, 3)), jnp.ones((2, 3))).shape
            (2, 3)
            >>> product.register_general_batching()
            >>> product.def_jvp_rule2(lambda t, x, y, *, outs: t * y, lambda t, x, y, *, outs: x * t)
            >>> jax.grad(lambda x: product(x, jnp.array(3.0)))(2.0)
            Array(3., dtype=float32)
            >>> product.def_sharding_rule("n, n -> n")
        """
        self._def_rule("batch", functools.partial(general_batching_rule, self.definition.primitive.bind))

    def def_jvp_rule(self, fun: Callable[..., Any]) -> None:
        """Set the rule for forward derivatives.

        Args:
            fun: `fun(primals, tangents, **params)` returns the results and their tangents.

        Raises:
            RegistrationTypeError: If it is not callable.

        Examples:
            >>> import jax, brainevent
            >>> double = brainevent.XLACustomKernel("doc_jvp_rule")
            >>> _ = double.def_reference(lambda x: 2 * x)
            >>> double.def_jvp_rule(lambda primals, tangents, *, outs: (double(*primals), double(*tangents)))
            >>> double.def_transpose_rule(lambda cotangents, x, *, outs: [double(*cotangents)])
            >>> jax.grad(lambda x: double(x))(1.0)
            Array(2., dtype=float32)
        """
        self._def_rule("jvp", fun)

    def def_jvp_rule2(self, *jvp_rules: Callable[..., Any] | None) -> None:
        """Set the rule for forward derivatives as one rule for each operand, as `defjvp` does.

        Args:
            *jvp_rules: `rule(tangent, *primals, **params)` returns the tangent of the result; None for no derivative.

        Raises:
            TypeError: If a rule is neither a function nor None.
        """
        rules.defjvp(self, *jvp_rules)

    def def_transpose_rule(self, fun: Callable[..., Any]) -> None:
        """Set the rule for reverse derivatives of an operator that is linear.

        Args:
            fun: `fun(cotangents, *args, **params)` returns one cotangent for each operand.

        Raises:
            RegistrationTypeError: If it is not callable.
        """
        self._def_rule("transpose", fun)

    def def_sharding_rule(
        self,
        rule: str | Callable[..., str],
        *,
        reduction_factors: Sequence[str] = (),
        need_replication_factors: Sequence[str] = (),
        permutation_factors: Sequence[str] = (),
        reduction: str = "sum",
        of_part: Callable[..., Sequence[Any]] | None = None,
        **factor_sizes: int,
    ) -> None:
        """Declare how operands and results are split over devices.

        Under `jax.jit` with sharded operands, the kernel then runs on each shard, on local shapes.

        Args:
            rule: Names for the dimensions of operands and results, as in "m k, k -> m", or a function `rule(*types,
                **kwargs)` that returns them for a call.
            reduction_factors: Names that do not occur in results, and over which partial results are combined, as in
                `("k",)`; other names that do not occur in results are not split.
            need_replication_factors: Names that are never split.
            permutation_factors: Names along which devices would exchange data; they are not split.
            reduction: How partial results are combined: "sum", "max" or "min".
            of_part: `of_part(places, *operands)` returns the operands of the kernel on one part, if the kernel must
                know its position: `places` gives, for each name, where the part begins and its length.
            **factor_sizes: Sizes of names that are nowhere a whole dimension.

        Raises:
            RegistrationValueError: If the rule cannot be read.
        """
        read = sharding_rule(
            rule,
            self.definition.name,
            reduction_factors=reduction_factors,
            need_replication_factors=need_replication_factors,
            permutation_factors=permutation_factors,
            reduction=reduction,
            of_part=of_part,
            **factor_sizes,
        )
        self.definition.set_rule("sharding", read)

    # ---- measurements ------------------------------------------------------------------------------------------------

    def def_benchmark_data(self, fn: Callable[..., Any]) -> None:
        """Store the function that makes data to measure with.

        Args:
            fn: `fn(*, platform)` returns a list of `BenchmarkConfig`.

        Raises:
            RegistrationTypeError: If it is not callable.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> halved = brainevent.XLACustomKernel("doc_halved")
            >>> halve = halved.def_reference(lambda x: x / 2)
            >>> halved.def_benchmark_data(lambda *, platform: [brainevent.BenchmarkConfig("n=3", (jnp.ones(3),))])
            >>> [record.label for record in halved.benchmark(platform="cpu", n_warmup=1, n_runs=3).records]
            ['n=3']
        """
        if not callable(fn):
            where = f"operator {self.definition.name!r}"
            raise RegistrationTypeError(
                f"{where}: the benchmark data function must be callable, found {type(fn).__name__}"
            )
        self.definition.benchmark_data = fn

    def benchmark(
        self,
        /,
        *operands: ArrayLike,
        platform: str | None = None,
        n_warmup: int = 5,
        n_runs: int = 20,
        n_batch_per_run: int = 1,
        compare_results: bool = True,
        rtol: float = 1e-3,
        atol: float = 1e-3,
        verbose: bool = False,
        catch_errors: bool = True,
        backends: Sequence[str] | None = None,
        cold: bool = False,
        n_configs: int | None = None,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Time the call function on each backend of a platform, for these operands, or else for the benchmark data.

        The call function is that of `def_call`, or the operator itself. Results are compared with those of the
        reference, or without one with those of the first backend that succeeds; differences are printed, and kept in
        the records.

        Args:
            *operands: What to call it with; without operands, the benchmark data are used.
            platform: The platform to run on; None for the default of JAX.
            n_warmup: Runs before those that are measured.
            n_runs: Runs that are measured.
            n_batch_per_run: Calls of a run, in one compiled loop in which each waits for the one before.
            compare_results: Whether to compare results.
            rtol: The relative tolerance of the comparison.
            atol: The absolute tolerance of the comparison.
            verbose: Whether to print each measurement.
            catch_errors: Whether a backend that fails gets a record that says so, or raises.
            backends: The backends to measure; None for all that are registered. "reference" measures the reference,
                too.
            cold: Whether to empty the caches of the processor before each run.
            n_configs: The number of configurations to measure, the first ones; None for all.
            **kwargs: The other keyword arguments of a call with these operands. Those of benchmark data are in each
                `BenchmarkConfig`, as are those with the name of an argument above.

        Returns:
            The records; they print as a table.

        Raises:
            BenchmarkDataFnNotProvidedError: If there are neither operands nor benchmark data.
            TypeError: If there are keyword arguments without operands, or the call function does not take them.
            ValueError: If a backend is unknown.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> negated = brainevent.XLACustomKernel("doc_negated")
            >>> negate = negated.def_reference(lambda x: -x)
            >>> result = negated.benchmark(jnp.ones(3), platform="cpu", n_warmup=1, n_runs=3)
            >>> [(record.backend, record.label, record.success) for record in result.records]
            [('reference', 'float32[3]', True)]
        """
        from .benchmarking import benchmark  # imported when used, so that `import brainevent` stays light

        return benchmark(
            self.definition,
            operands,
            platform=platform,
            backends=backends,
            counts={"n_warmup": n_warmup, "n_runs": n_runs, "n_batch_per_run": n_batch_per_run},
            cold=cold,
            tolerances=(rtol, atol) if compare_results else None,
            verbose=verbose,
            catch_errors=catch_errors,
            n_configs=n_configs,
            keywords=kwargs,
        )


XLACustomKernel.__module__ = "brainevent"


def _html_of(definition: Definition) -> str:
    """Return the kernels by platform, and the rules, as tables in HTML."""
    rows: list[tuple[str, ...]] = []
    marked: list[int] = []
    for platform, kernels in definition.kernels.items():
        for backend, entry in kernels.items():
            if definition.defaults.get(platform) == backend:
                marked.append(len(rows))
            variants = "; ".join(map(label, entry.variants))
            default = "default" if definition.defaults.get(platform) == backend else ""
            rows.append((platform, backend, entry.language or backend, variants, default))
    head = ("platform", "backend", "language", "variants", "")
    kernels_part = table(head, rows, marked=marked) if rows else ""
    known = {
        "kernels": None if rows else "none",
        "rules": ", ".join(sorted(definition.rules)) or "none",
        "tags": ", ".join(sorted(definition.tags)) or None,
        "benchmark data": "yes" if definition.benchmark_data is not None else None,
    }
    return document(f"operator {definition.name}", kernels_part, facts(known))
