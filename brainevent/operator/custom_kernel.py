# SPDX-License-Identifier: Apache-2.0
"""XLACustomKernel: the kernel table and the bind; delegates all else."""

from __future__ import annotations

import functools
import itertools
import keyword
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax

from .. import _choices, config
from .._compat import (
    ShapedArray,
    abstract_result,
    mlir,
    new_primitive,
)
from ..errors import RegistrationTypeError, RegistrationValueError, did_you_mean
from ..ffi.call import out_aval
from . import lowering, rules
from .batch import Levels
from .benchmarked import Benchmarked
from .keywords import KINDS, check_operands, check_static, with_kinds
from .lowering import REFERENCE, KernelEntry
from .named import KernelGenerator, LanguageKernels, kernel_entry
from .reference import Reference
from .registry import register_primitive
from .ruled import Ruled
from .variants import Declared

if TYPE_CHECKING:
    from ..bench.tune import TuneResult

__all__ = ["XLACustomKernel"]

# Parameters of a bind that authors do not see.
_LEVELS = "_levels"  # the levels of vmap it carries
_BLOCK = "_block"  # what the `with` blocks around the call chose, which may be left when the call is lowered
_TREE = "_tree"  # the structure of outs, where it is more than a sequence
_HIDDEN = (_LEVELS, _BLOCK, _TREE, KINDS)
_serials = itertools.count()


class XLACustomKernel(LanguageKernels, Benchmarked, Ruled):
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
        self._serial = next(_serials)
        self._lock = threading.RLock()
        self._kernels: dict[str, dict[str, KernelEntry]] = {}
        self._defaults: dict[str, str] = {}
        self._rules: dict[str, Any] = {}
        self._tags: set[str] = set()
        self._call_fn: Callable[..., Any] | None = None
        self._benchmark_data_fn: Callable[..., Any] | None = None
        self._registered_platforms: set[str] = set()
        self._warned_backends: set[str] = set()
        self.primitive = new_primitive(name, self._abstract_eval, _completed)
        rules.install(self)
        for platform in ("cpu", "gpu", "tpu", "oneapi"):
            self._install_lowering(platform)
        register_primitive(name, self)

    def __repr__(self) -> str:
        kernels = {platform: list(table) for platform, table in self._kernels.items()}
        return f"XLACustomKernel({self.name!r}, kernels={kernels})"

    # ---- calling ---------------------------------------------------------------------------------------------------

    def __call__(self, /, *ins: Any, outs: Any = None, **kwargs: Any) -> Any:
        """Call the operator; the results have the structure of `outs`, a pytree of objects with shape and dtype.

        `outs` may be left out if the operator has a reference. `backend=` chooses the kernel for this call.
        Other keyword arguments are static: they reach the kernel generator and must be hashable.
        """
        avals, tree, params = self._prepared(ins, outs, kwargs)
        if config._autotune:
            self._tuning().autotune(self, ins, avals, params)
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
        found: TuneResult = self._tuning().tune(self, ins, avals, params, platform=platform, seconds=seconds)
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
            reference = self._rule("reference")
            if reference is None:
                raise TypeError(
                    f"operator {self.name!r}: the keyword outs is missing; pass outs=jax.ShapeDtypeStruct(shape, "
                    "dtype) or a pytree of them, or define the operator's reference with def_reference"
                )
            outs = reference.infer_outs(ins, params)
        leaves, tree = jax.tree.flatten(outs)
        if not jax.tree_util.all_leaves(outs if isinstance(outs, (list, tuple)) else [outs]):
            params[_TREE] = tree
        where = f"operator {self.name!r}: outs leaf"
        return tuple(out_aval(f"{where} {i}", leaf) for i, leaf in enumerate(leaves)), tree, params

    def _checked_params(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        params = {}
        for key, value in kwargs.items():
            if key in _HIDDEN:
                raise TypeError(f"operator {self.name!r}: the keyword {key!r} is reserved")
            if key == "backend":
                if value is not None:
                    params[key] = config.check_backend_name(value, f"operator {self.name!r}")
                continue
            check_static(self.name, key, value)
            params[key] = value
        return params

    def _split(self, params: dict[str, Any]) -> tuple[dict[str, Any], Levels]:
        """Separate what an author sees of a bind's parameters from the levels of vmap it carries."""
        mine = {key: value for key, value in params.items() if key not in _HIDDEN}
        return mine, params.get(_LEVELS, ())

    @staticmethod
    def _tree_of(params: dict[str, Any]) -> Any:
        """Return the structure of `outs`, or None for a sequence."""
        return params.get(_TREE)

    @staticmethod
    def _block_of(params: dict[str, Any]) -> tuple[tuple[str, str], ...]:
        """Return what the `with` blocks around a call chose."""
        return params.get(_BLOCK, ())

    @staticmethod
    def _with_levels(params: dict[str, Any], levels: Levels) -> dict[str, Any]:
        return {**params, _LEVELS: levels}

    def _abstract_eval(self, /, *operands: Any, outs: Sequence[ShapedArray], **params: Any) -> list[ShapedArray]:
        mine, levels = self._split(params)
        sizes = tuple(level.size for level in reversed(levels))
        specs = [None] * len(outs)
        if (rule := self._rule("sharding")) is not None:
            mine.pop("backend", None)
            rule = rule.of_call(operands, levels, mine)
            specs = rule.result_specs(operands, levels, [len(out.shape) for out in outs])
        return [
            abstract_result(self.name, operands, sizes + tuple(out.shape), out.dtype, spec)
            for out, spec in zip(outs, specs, strict=True)
        ]

    def _install_lowering(self, platform: str) -> None:
        for name in ("cuda", "rocm") if platform == "gpu" else (platform,):
            rule = functools.partial(lowering.lower, self, name)
            mlir.register_lowering(self.primitive, rule, platform=name)
        self._registered_platforms.add(platform)

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
        entry = kernel_entry(self.name, backend, platform, kg, variants, language)
        with self._lock:
            self._registered_platforms.add(platform)
            self._kernels.setdefault(platform, {})[backend] = entry
            if asdefault or platform not in self._defaults:
                self._defaults[platform] = backend
        _choices.refresh(self._serial)

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
        self._rules["reference"] = Reference(fn, self.name)
        _choices.refresh(self._serial)
        return fn

    @property
    def _reference(self) -> Reference | None:
        return self._rules.get("reference")

    def available_backends(self, platform: str) -> list[str]:
        """Return the backends registered for a platform, in order of registration; then what is emulated on the CPU."""
        return list(lowering.entries(self, platform) if platform == "cpu" else self._kernels.get(platform, {}))

    def set_default(self, platform: str, backend: str) -> None:
        """Make a registered backend the default of a platform, also in functions that are already jitted."""
        here = self.available_backends(platform)
        if self._reference is not None and platform in config.PLATFORMS:
            here.append(REFERENCE)
        if not here:
            known = sorted(self._kernels)
            meant = "" if platform in config.PLATFORMS else did_you_mean(platform, known)
            raise ValueError(
                f"operator {self.name!r} has no kernels for the platform {platform!r}{meant}; "
                f"platforms that have: {', '.join(known) or 'none'}"
            )
        if lowering.meant(backend, here) is None:
            raise ValueError(
                f"operator {self.name!r}: unknown backend {backend!r} for {platform}{did_you_mean(backend, here)}; "
                f"registered: {', '.join(here)}"
            )
        with self._lock:
            self._defaults[platform] = backend
        _choices.refresh(self._serial)

    def get_default(self, platform: str) -> str | None:
        """Return the default backend of a platform, or None."""
        return self._defaults.get(platform)

    @property
    def defaults(self) -> dict[str, str]:
        """A copy of the default backends by platform."""
        return dict(self._defaults)

    def _warn_backend_once(self, message: str) -> None:
        """Warn of something once in the life of this operator."""
        with self._lock:
            if message in self._warned_backends:
                return
            self._warned_backends.add(message)
        warnings.warn(message, UserWarning, stacklevel=2)

    # ---- the rest --------------------------------------------------------------------------------------------------

    def def_call(self, fn: Callable[..., Any]) -> None:
        """Store the function that users call: it prepares operands and calls this operator."""
        if not callable(fn):
            raise RegistrationTypeError(
                f"operator {self.name!r}: the call function must be callable, found {type(fn).__name__}"
            )
        self._call_fn = fn

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function that `def_call` stored."""
        if self._call_fn is None:
            raise ValueError(f"No call function registered for {self.name!r}; store one with def_call(fn)")
        return self._call_fn(*args, **kwargs)

    def def_tags(self, *tags: str) -> None:
        """Replace the tags, by which `get_primitives_by_tags` finds operators."""
        for tag in tags:
            if not isinstance(tag, str):
                raise RegistrationTypeError(f"operator {self.name!r}: a tag must be a string, found {tag!r}")
        self._tags = set(tags)


def _completed(params: dict[str, Any]) -> dict[str, Any]:
    """Add to the parameters of a bind what only the place of the call tells."""
    params = with_kinds(params)
    block = _choices.block_choices()
    return {_BLOCK: block, **params} if block else params


XLACustomKernel.__module__ = "brainevent"
KernelEntry.__module__ = "brainevent"
