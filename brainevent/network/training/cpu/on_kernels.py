# SPDX-License-Identifier: Apache-2.0
"""Compile the text of training loops as kernels of XLA: over samples, in threads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numba
import numpy as np

from ....backends.numba import inner
from ....backends.numba.floats import HARDWARE_FLUSHES, flush_floats, restore_floats
from ....backends.numba.memory import array_at
from ....backends.numba.vectors import TALL, address
from ....event.on_cpu.threads import IN_THREADS
from ....scalar.form import Form
from ....scalar.on_numba import compiled_forms
from .on_loops import back_dense, back_sparse, deliver_dense, deliver_sparse, deliver_whole, list_ones

__all__ = ["kernel_of"]

_loop = inner(error_model="numpy", apart=True, flushes=HARDWARE_FLUSHES)
_HELPERS: dict[str, Any] = {
    "np": np,
    "array_at": array_at,
    "flush_floats": flush_floats,
    "restore_floats": restore_floats,
    "address": address,
    "list_ones": list_ones,
}
_HELPERS |= {"deliver_dense": deliver_dense, "deliver_sparse": deliver_sparse, "deliver_whole": deliver_whole}
_HELPERS |= {"back_dense": back_dense, "back_sparse": back_sparse}
# Threads get a table of words instead of arrays: it takes Numba a fraction of the time.
_WHOLE = """
def {name}({arguments}):
    table = np.empty({words}, np.int64)
{filled}
    size = {last}.shape[0]
    run(table, size, size // max(1, {weights}), {most})
"""


@inner
def row(sample: Any, size: Any, array: Any) -> Any:
    """Return the row of a sample of `size`: samples that follow each other may share one."""
    rows = array.shape[0]
    return sample if rows == size else 0 if rows == 1 else sample * rows // size


def kernel_of(name: str, text: str, forms: Sequence[Form], arguments: Mapping[str, tuple[str, int]]) -> Any:
    """Return the kernel of a text that defines `group(first, count, arrays...)`, with the forms that it calls.

    Arguments are dtypes and dimensions of arrays by name. A group is some samples that share weights. Groups are run
    side by side: neither their sizes nor which thread runs which changes a bit.
    """
    filled, arrays, words = list[str](), list[str](), 0
    for label, (dtype, ndim) in arguments.items():
        filled.append(f"    table[{words}] = np.int64({label}.ctypes.data)")
        filled += [f"    table[{words + 1 + axis}] = {label}.shape[{axis}]" for axis in range(ndim)]
        shape = "".join(f"table[{words + 1 + axis}], " for axis in range(ndim))
        arrays.append(f"    {label} = array_at(table[{words}], ({shape}), np.{'bool_' if dtype == 'bool' else dtype})")
        words += 1 + ndim
    scope: dict[str, Any] = {**_HELPERS, "row": row}
    scope |= {f"be_{form}": function for form, function in compiled_forms(forms, inlined=True).items()}
    head, _, rest = text.partition("def group(first, count, table):\n")
    own = "\n".join(["def group(first, count, table):", *arrays, rest])
    weights = ", ".join([f"{label}.shape[0]" for label in arguments if re.fullmatch(r"w\d+", label)] or ["1"])
    whole = _WHOLE.format(
        name=name,
        arguments=", ".join(arguments),
        words=words,
        filled="\n".join(filled),
        last=label,
        weights=weights,
        most=1 if name == "train_forward" else TALL,
    )
    exec(compile(f"{head}\n{own}\n{whole}", f"<{name}>", "exec"), scope)
    for loop in re.findall(r"^def ((?:step|back)\d+)\(", head, re.MULTILINE):
        scope[loop] = _loop(scope[loop])
    scope["group"] = inner(scope["group"], error_model="numpy")
    scope["run"] = _in_threads(scope["group"])
    return numba.njit(error_model="numpy")(scope[name])


def _in_threads(group: Any) -> Any:
    @inner(error_model="numpy", parallel=dict(IN_THREADS))
    def run(table: Any, size: Any, share: Any, most: Any) -> None:
        threads = numba.get_num_threads()
        many = max(1, min(most, share, (size + threads - 1) // threads))
        parts = (share + many - 1) // many
        for number in numba.prange(size // max(1, share) * parts):
            network, part = np.int64(number) // parts, np.int64(number) % parts
            group(network * share + part * many, min(many, share - part * many), table)

    return run
