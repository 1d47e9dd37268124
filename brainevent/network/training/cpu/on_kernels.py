# SPDX-License-Identifier: Apache-2.0
"""Compile the text of training loops as kernels of XLA: over samples, in threads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from ....backends.numba import inner
from ....backends.numba.floats import HARDWARE_FLUSHES, flush_floats, restore_floats
from ....event.on_cpu.threads import IN_THREADS
from ....scalar.form import Form
from ....scalar.on_numba import compiled_forms
from .on_loops import back_dense, back_sparse, deliver_dense, deliver_sparse, list_spikes

__all__ = ["kernel_of"]

_loop = inner(error_model="numpy", apart=True, flushes=HARDWARE_FLUSHES)
_HELPERS = {"np": np, "flush_floats": flush_floats, "restore_floats": restore_floats, "list_spikes": list_spikes}
_HELPERS |= {"deliver_dense": deliver_dense, "deliver_sparse": deliver_sparse}
_HELPERS |= {"back_dense": back_dense, "back_sparse": back_sparse}
_EACH = """
def {name}({arguments}):
    for b in prange({first}.shape[0]):
        sample(b, {arguments})
"""
_GROUPS = """
def {name}({arguments}):
    size = {first}.shape[0]
    for group_ in prange((size + {group} - 1) // {group}):
        group(group_ * {group}, min({group}, size - group_ * {group}), {arguments})
"""


def kernel_of(
    name: str, text: str, forms: Sequence[Form], arguments: Sequence[str], first: str, *, group: int, threads: bool
) -> Any:
    """Return the kernel of a text that defines `sample` or `group`, with the forms that it calls.

    Its arguments are arrays, of which `first` has samples as its first axis. With `threads`, samples are run side by
    side: which thread runs which changes no bit.
    """
    key = (name, text, tuple(arguments), group, threads)
    if key not in _kernels:
        _kernels[key] = _compiled(name, text, forms, arguments, first, group, threads)
    return _kernels[key]


_kernels: dict[Any, Any] = {}


def _compiled(
    name: str, text: str, forms: Sequence[Form], arguments: Sequence[str], first: str, group: int, threads: bool
) -> Any:
    scope: dict[str, Any] = {**_HELPERS, "prange": numba.prange if threads else range}
    scope |= {f"be_{form}": function for form, function in compiled_forms(forms, inlined=True).items()}
    exec(compile(text, f"<{name}>", "exec"), scope)
    for loop in re.findall(r"^def ((?:step|back)\d+)\(", text, re.MULTILINE):
        scope[loop] = _loop(scope[loop])
    made = "group" if group else "sample"
    scope[made] = inner(scope[made], error_model="numpy")
    whole = (_GROUPS if group else _EACH).format(
        name=name, arguments=", ".join(arguments), first=first, group=group or 1
    )
    exec(compile(whole, f"<{name}>", "exec"), scope)
    options = {"parallel": dict(IN_THREADS)} if threads else {}
    return numba.njit(error_model="numpy", nogil=True, **options)(scope[name])


