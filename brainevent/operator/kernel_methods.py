# SPDX-License-Identifier: Apache-2.0
"""The methods of an operator that register kernels and a reference, and choose defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import config
from .._documented import documented
from ..errors import RegistrationTypeError, did_you_mean
from ..languages import Language, watch
from .definition import Definition
from .entry import REFERENCE, KernelGenerator, checked_entry, meant
from .reference import Reference
from .variants import Declared

__all__ = ["KernelMethods"]


_documented = documented(
    {
        "kg": "The kernel generator. `kg(*, outs, **kwargs)` returns a function of the operands.",
        "asdefault": "Whether the backend becomes the default of its platform; the first one is in any case.",
        "variants": 'Keyword arguments of the generator to choose from, as in `{"block": (64, 128)}` or '
        '`[{"block": 64}, {"block": 128}]`. The first is used until `tune` has found a faster one.',
    },
    {"RegistrationTypeError": "If the generator is not callable."},
)


class KernelMethods:
    """The methods of an operator that register kernels; each language adds its own, `def_<name>_kernel`."""

    name: str
    definition: Definition

    if TYPE_CHECKING:  # the methods of languages

        def __getattr__(self, name: str) -> Callable[..., None]: ...

    @_documented
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
        """Register a kernel for a backend and a platform.

        Registering a pair again replaces the kernel, also in functions that are already jitted.

        Args:
            backend: A name for the kernel, by which calls and settings choose it.
            platform: "cpu", "gpu", "tpu", "cuda", "rocm" or "oneapi".
            language: What the kernel is written in, as `brainevent doctor` names it; None for the name of the backend.

        Raises:
            RegistrationTypeError: If the generator is not callable, or is a compiled kernel itself.
            RegistrationValueError: If the backend is an empty string, or the language is unknown.
            UnknownPlatformError: If JAX has no such platform.

        Examples:
            >>> import jax.numpy as jnp, brainevent
            >>> double = brainevent.XLACustomKernel("doc_def_kernel")
            >>> double.def_kernel("jnp", "cpu", lambda *, outs: lambda x: x + x)
            >>> double(jnp.arange(3.0), outs=jnp.arange(3.0))
            Array([0., 2., 4.], dtype=float32)
            >>> _ = double.def_reference(lambda x: 2 * x)
            >>> double.set_default("cpu", "reference")
            >>> double.get_default("cpu"), double.available_backends("cpu")
            ('reference', ['jnp'])
        """
        entry = checked_entry(self.name, backend, platform, kg, variants, language)
        self.definition.add_kernel(entry, asdefault)

    def def_reference(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """Give the operator an implementation in `jax.numpy`; this may be used as a decorator.

        It is the kernel on platforms without one, and everywhere under the names "reference", "jax_raw" and "jax".
        Derivatives, batching and `outs` follow from it unless they are defined, and `brainevent.check` compares every
        kernel with it.

        Args:
            fn: `fn(*operands, **kwargs)` returns the results.

        Returns:
            The function itself.

        Raises:
            RegistrationTypeError: If it is not callable.

        Examples:
            >>> import jax, jax.numpy as jnp, brainevent
            >>> square = brainevent.XLACustomKernel("doc_def_reference")
            >>> @square.def_reference
            ... def reference(x):
            ...     return x * x
            >>> jax.grad(lambda x: square(x).sum())(jnp.array([1.0, 3.0]))
            Array([2., 6.], dtype=float32)
        """
        if not callable(fn):
            raise RegistrationTypeError(
                f"operator {self.name!r}: the reference must be callable, found {type(fn).__name__}"
            )
        self.definition.set_rule("reference", Reference(fn, self.name))
        return fn

    def available_backends(self, platform: str) -> list[str]:
        """Return the backends that are registered for a platform.

        Args:
            platform: The name of a platform.

        Returns:
            Their names in order of registration; for the CPU, then those that are emulated.
        """
        return self.definition.registered(platform)

    def set_default(self, platform: str, backend: str) -> None:
        """Make a registered backend the default of a platform, also in functions that are already jitted.

        Args:
            platform: The name of a platform.
            backend: The name of a backend, or "reference".

        Raises:
            ValueError: If the platform has no such backend.
        """
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
        """Return the default backend of a platform.

        Args:
            platform: The name of a platform.

        Returns:
            Its name; None if there is none.
        """
        return self.definition.defaults.get(platform)

    @property
    def defaults(self) -> dict[str, str]:
        """The default backend of each platform, in a new dictionary."""
        return dict(self.definition.defaults)


def _add_method(language: Language) -> None:
    """Let operators have the method with which kernels in a language are registered."""
    method = language.method or _usual_method(language)
    method.__name__ = f"def_{language.name}_kernel"
    method.__qualname__ = f"{KernelMethods.__qualname__}.{method.__name__}"
    setattr(KernelMethods, method.__name__, _documented(method))


def _usual_method(language: Language) -> Callable[..., None]:
    name, platform = language.name, language.platforms[-1]

    def register(
        self: KernelMethods, kg: KernelGenerator, asdefault: bool = False, *, variants: Declared | None = None
    ) -> None:
        self.def_kernel(name, platform, kg, asdefault, variants=variants)

    register.__doc__ = (
        f"Register a {language.title} kernel for the {platform.upper()}: a generator that returns {language.returns}."
    )
    return register


watch(_add_method)
