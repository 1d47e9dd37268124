# SPDX-License-Identifier: Apache-2.0
"""Forms as functions that Numba's code calls, in a fraction of the time in which Numba compiles their text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..backends.numba.floats import HARDWARE_FLUSHES
from ..backends.numba.of_llvm import LlvmFunction
from .form import Form
from .llvm_text import llvm_text
from .on_numba import compiled_forms

__all__ = ["called_forms"]


def called_forms(forms: Iterable[Form]) -> dict[str, Any]:
    """Return each form as a function of scalars, by its name, which is optimized as a part of the loops that call it.

    As those of `compiled_forms`, compiled code alone may call it, in a thread that flushes denormals.
    """
    if not HARDWARE_FLUSHES:
        return compiled_forms(forms, inlined=True)
    return {form.name: _called(form) for form in forms}


def _called(form: Form) -> LlvmFunction:
    text, name = llvm_text(form)
    dtypes = (tuple(value.dtype for value in values) for values in (form.inputs, form.outputs))
    return LlvmFunction(name, text, *dtypes)
