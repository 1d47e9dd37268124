# SPDX-License-Identifier: Apache-2.0
"""`XLACustomKernel`: what authors define an operator by, and what users call."""

from __future__ import annotations

import keyword
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .. import config
from .._compat import ShapedArray
from ..errors import RegistrationTypeError, RegistrationValueError, did_you_mean
from ..ffi.call import out_aval
from . import lowering, rules
from .benchmark_methods import BenchmarkMethods
from .bind import CARRIED, RESERVED, Carried
from .definition import Definition
from .entry import REFERENCE, KernelEntry, KernelGenerator, checked_entry, meant
from .keywords import check_operands, check_static
from .language_methods import LanguageMethods
from .reference import Reference
from .rule_methods import RuleMethods
from .variants import Declared

if TYPE_CHECKING:
    from ..bench.tune import TuneResult

__all__ = ["XLACustomKernel", "defined"]

_newest: dict[str, XLACustomKernel] = {}  # of each name
_lock = threading.Lock()


def defined() -> dict[str, XLACustomKernel]:
    """Return the operators that were defined in this process by name, the newest of each."""
    with _lock:
        return dict(_newest)


class XLACustomKernel(LanguageMethods, BenchmarkMethods, RuleMethods):
    """One operator for JAX, with any number of kernels: one per backend and platform.

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
    """

    def __init__(self, name: str, doc: str | None = None):
        if not isinstance(name, str):
            raise RegistrationTypeError(f"XLACustomKernel: name must be a string, found {type(name).__name__}")
        if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name):
            raise RegistrationValueError(
                f"XLACustomKernel: the name {name!r} is no identifier; use letters, digits and underscores, "
                "for example 'my_operator'"
            )
        if doc is not None:
            self.__doc__ = doc
        self.name = name
        self.definition = Definition(name)
        self.primitive = self.definition.primitive
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

    # ---- calling ---------------------------------------------------------------------------------------------------

    def __call__(self, /, *ins: Any, outs: Any = None, **kwargs: Any) -> Any:
        """Call the operator; the results have the structure of `outs`, a pytree of objects with shape and dtype.

        `outs` may be left out if the operator has a reference. `backend=` chooses the kernel for this call.
        Other keyword arguments are static: they reach the kernel generator and must be hashable.
        """
        avals, tree, params = self._prepared(ins, outs, kwargs)
        if config._autotune:
            self._tuning().autotune(self.definition, ins, avals, params)
        results = self.primitive.bind(*ins, outs=avals, **params)
        return tree.unflatten(results)

    def tune(
        self, /, *ins: Any, outs: Any = None, platform: str | None = None, seconds: float = 0.2, **kwargs: Any
    ) -> TuneResult:
        """Measure every kernel, in every variant, for operands like these; remember the fastest that is right.

        Called as the operator is. Calls with the same shapes, dtypes and keyword arguments then use that kernel, in
        later processes too. Results are held to the reference, or else to the first kernel. `seconds` is the time for
        each kernel and variant; `platform` says where to run, by default where the operands are.
        """
        avals, _, params = self._prepared(ins, outs, kwargs)
        found: TuneResult = self._tuning().tune(self.definition, ins, avals, params, platform=platform, seconds=seconds)
        return found

    @staticmethod
    def _tuning() -> Any:
        from . import tuning  # when used, so that `import brainevent` stays light

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
            outs = reference.infer_outs(ins, params)
        leaves, tree = jax.tree.flatten(outs)
        if not jax.tree_util.all_leaves(outs if isinstance(outs, (list, tuple)) else [outs]):
            params[CARRIED] = Carried(tree=(tree,))
        where = f"operator {self.name!r}: outs leaf"
        return tuple(out_aval(f"{where} {i}", leaf) for i, leaf in enumerate(leaves)), tree, params

    def _checked_params(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        params = {}
        for key, value in kwargs.items():
            if key in RESERVED:
                raise TypeError(f"operator {self.name!r}: the keyword {key!r} is reserved")
            if key == "backend":
                if value is not None:
                    params[key] = config.check_backend_name(value, f"operator {self.name!r}")
                continue
            check_static(self.name, key, value)
            params[key] = value
        return params

    # ---- kernels ---------------------------------------------------------------------------------------------------

    def def_kernel(
        self,
        backend: str,
        platform: str,
        kg: KernelGenerator,
        asdefault: bool = False,
        *,
        variants: Declared | None = None,
        language: str | None = None,
    ) -> None:
        """Register a kernel generator: `kg(*, outs, **kwargs)` returns a function of the operands.

        The first backend of a platform is its default. Registering a pair again replaces the kernel, also in functions
        that are already jitted. `variants`, as in `{"block": (64, 128)}` or `[{"block": 64}, {"block": 128}]`, are
        keyword arguments for the generator: the first is used until `tune` has found a faster one. `language` is what
        the kernel is written in, by its name in `brainevent doctor`, if that is not the name of the backend.
        """
        entry = checked_entry(self.name, backend, platform, kg, variants, language)
        self.definition.add_kernel(entry, asdefault)

    def def_reference(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Give the operator a `jax.numpy` implementation `fn(*operands, **kwargs)`; usable as a decorator.

        It is the kernel where none is registered, and everywhere under the names `"reference"`, `"jax_raw"` and `"jax"`
        that no kernel has. It gives derivatives, batching and `outs` to callers and authors who write none, and is what
        `brainevent.check` compares every kernel with.
        """
        if not callable(fn):
            raise RegistrationTypeError(
                f"operator {self.name!r}: the reference must be callable, found {type(fn).__name__}"
            )
        self.definition.set_rule("reference", Reference(fn, self.name))
        return fn

    def available_backends(self, platform: str) -> list[str]:
        """Return the backends registered for a platform, in order of registration; then what is emulated on the CPU."""
        return self.definition.registered(platform)

    def set_default(self, platform: str, backend: str) -> None:
        """Make a registered backend the default of a platform, also in functions that are already jitted."""
        here = self.available_backends(platform)
        if self.definition.reference is not None and platform in config.PLATFORMS:
            here.append(REFERENCE)
        if not here:
            known = sorted(self.definition.kernels)
            advice = "" if platform in config.PLATFORMS else did_you_mean(platform, known)
            raise ValueError(
                f"operator {self.name!r} has no kernels for the platform {platform!r}{advice}; "
                f"platforms that have: {', '.join(known) or 'none'}"
            )
        if meant(backend, here) is None:
            raise ValueError(
                f"operator {self.name!r}: unknown backend {backend!r} for {platform}{did_you_mean(backend, here)}; "
                f"registered: {', '.join(here)}"
            )
        self.definition.set_default(platform, backend)

    def get_default(self, platform: str) -> str | None:
        """Return the default backend of a platform, or None."""
        return self.definition.defaults.get(platform)

    @property
    def defaults(self) -> dict[str, str]:
        """A copy of the default backends by platform."""
        return dict(self.definition.defaults)

    # ---- the rest --------------------------------------------------------------------------------------------------

    def def_call(self, fn: Callable[..., Any]) -> None:
        """Store the function that users call: it prepares operands and calls this operator."""
        if not callable(fn):
            raise RegistrationTypeError(
                f"operator {self.name!r}: the call function must be callable, found {type(fn).__name__}"
            )
        self.definition.call = fn

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that `def_call` stored."""
        if self.definition.call is None:
            raise ValueError(f"No call function registered for {self.name!r}; store one with def_call(fn)")
        return self.definition.call(*args, **kwargs)

    def def_tags(self, *tags: str) -> None:
        """Replace the tags, by which `get_primitives_by_tags` finds operators."""
        for tag in tags:
            if not isinstance(tag, str):
                raise RegistrationTypeError(f"operator {self.name!r}: a tag must be a string, found {tag!r}")
        self.definition.tags = set(tags)


XLACustomKernel.__module__ = "brainevent"
