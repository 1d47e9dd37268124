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
    for b in prange(z0.shape[0]):
        sample(np.int64(b), {arguments})
"""
_GROUPS = """
def {name}({arguments}):
    size, many = z0.shape[0], {many}
    for number in prange((size + many - 1) // many):
        k = np.int64(number)
        group(k * many, min(many, size - k * many), {arguments})
"""


@inner
def row(sample: Any, array: Any) -> Any:
    """Return the row of a sample: arrays that all samples share have one."""
    return sample if array.shape[0] > 1 else 0


def kernel_of(name: str, text: str, forms: Sequence[Form], arguments: Sequence[str], many: str) -> Any:
    """Return the kernel of a text that defines `sample` or `group`, with the forms that it calls.

    `many` is how many samples are a group, an expression; nothing if each is run by itself. Samples are run side by
    side: which thread runs which changes no bit.
    """
    scope: dict[str, Any] = {**_HELPERS, "row": row, "prange": numba.prange}
    scope |= {f"be_{form}": function for form, function in compiled_forms(forms, inlined=True).items()}
    exec(compile(text, f"<{name}>", "exec"), scope)
    for loop in re.findall(r"^def ((?:step|back)\d+)\(", text, re.MULTILINE):
        scope[loop] = _loop(scope[loop])
    made = "group" if many else "sample"
    scope[made] = inner(scope[made], error_model="numpy")
    whole = (_GROUPS if many else _EACH).format(name=name, arguments=", ".join(arguments), many=many)
    exec(compile(whole, f"<{name}>", "exec"), scope)
    return numba.njit(error_model="numpy", parallel=dict(IN_THREADS))(scope[name])
