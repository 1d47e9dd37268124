# SPDX-License-Identifier: Apache-2.0
"""`XLACustomKernel`, with which authors define an operator, and which users call."""

from __future__ import annotations

import keyword
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .. import config
from .._compat import ShapedArray, typeof
from ..errors import RegistrationTypeError, RegistrationValueError
from ..ffi.call import out_aval
from ..typing import ArrayLike, PyTree, TypesLike
from . import lowering, rules
from .benchmark_methods import BenchmarkMethods
from .bind import CARRIED, RESERVED, Carried
from .definition import Definition
from .entry import KernelEntry
from .kernel_methods import KernelMethods
from .keywords import check_operands, check_static
from .raised import shortened
from .rule_methods import RuleMethods
from .rule_sizes import clash_of_call
from .shown import shown

if TYPE_CHECKING:
    from ..bench.tune import TuneResult

__all__ = ["XLACustomKernel", "defined"]

_newest: dict[str, XLACustomKernel] = {}  # of each name
_lock = threading.Lock()


def defined() -> dict[str, XLACustomKernel]:
    """Return the operators that were defined in this process, the newest of each name."""
    with _lock:
        return dict(_newest)


class XLACustomKernel(KernelMethods, BenchmarkMethods, RuleMethods):
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
        return shown(self.definition)

    # ---- calling ---------------------------------------------------------------------------------------------------

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

    # ---- the rest --------------------------------------------------------------------------------------------------

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


XLACustomKernel.__module__ = "brainevent"
