# SPDX-License-Identifier: Apache-2.0
"""Pallas on GPUs and TPUs, and on CPUs by its interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..._compat import interpreted_pallas
from ...errors import RegistrationValueError
from ...languages import Generator, Language, Variants, no_device

__all__ = ["LANGUAGES"]


def _interpreted(generator: Generator) -> Generator:
    """Build kernels, and run them, as Pallas's interpreter does."""

    def generate(**kwargs: Any) -> Any:
        with interpreted_pallas():
            kernel: Any = generator(**kwargs)
        return _in_interpreter(kernel) if callable(kernel) else kernel

    return generate


def _in_interpreter(kernel: Callable[..., Any]) -> Callable[..., Any]:
    def run(*operands: Any) -> Any:
        with interpreted_pallas():
            return kernel(*operands)

    return run


def def_pallas_kernel(
    self: Any, platform: str, kg: Generator, asdefault: bool = False, *, variants: Variants | None = None
) -> None:
    """Register a Pallas kernel: a generator that returns a function with `jax.experimental.pallas.pallas_call`.

    Args:
        platform: "gpu" or "tpu".

    Raises:
        RegistrationValueError: If the platform is another one.
    """
    if platform not in ("gpu", "tpu"):
        raise RegistrationValueError(
            f"operator {self.name!r}: a Pallas kernel runs on 'gpu' or 'tpu', not {platform!r}"
        )
    self.def_kernel("pallas", platform, kg, asdefault, variants=variants)


def _notes() -> Iterator[tuple[str, str]]:
    advice = (
        "JAX deprecates Pallas's Triton compiler, which plain pallas_call uses since JAX 0.11; write new kernels with "
        "mosaic_gpu.kernel of jax.experimental.pallas, which no interpreter emulates"
    )
    yield "pallas on GPUs", advice


LANGUAGES = (
    Language(
        "pallas",
        "Pallas",
        platforms=("gpu", "tpu"),
        why_missing=lambda: no_device("gpu", "tpu"),
        method=def_pallas_kernel,
        packages=("triton",),
        batches="one more axis of its grid",
        compiles=False,
        emulator="Pallas's interpreter",
        emulated=_interpreted,
        on_laptop="Pallas's interpreter",
        notes=_notes,
    ),
)
