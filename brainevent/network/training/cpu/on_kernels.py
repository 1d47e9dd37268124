# SPDX-License-Identifier: Apache-2.0
"""Compile the text of training loops as kernels of XLA: over samples, in threads."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numba
import numpy as np

from ....backends.numba.floats import HARDWARE_FLUSHES, flush_floats, restore_floats
from ....backends.numba.inner import inner
from ....backends.numba.memory import array_at, word
from ....backends.numba.side_by_side import side_by_side
from ....backends.numba.vectors import TALL, address
from ....scalar.form import Form
from ....scalar.on_numba import compiled_forms
from .on_loops import (
    back_dense,
    back_sparse,
    copy_row,
    deliver_dense,
    deliver_others,
    deliver_sparse,
    fill_row,
    list_ones,
)

__all__ = ["kernel_of"]

_loop = inner(error_model="numpy", apart=True, flushes=HARDWARE_FLUSHES)
_HELPERS: dict[str, Any] = {
    "np": np,
    "array_at": array_at,
    "word": word,
    "flush_floats": flush_floats,
    "restore_floats": restore_floats,
    "address": address,
    "copy_row": copy_row,
    "fill_row": fill_row,
    "numba": numba,
    "side_by_side": side_by_side,
    "list_ones": list_ones,
}
_HELPERS |= {"deliver_dense": deliver_dense, "deliver_sparse": deliver_sparse, "deliver_others": deliver_others}
_HELPERS |= {"back_dense": back_dense, "back_sparse": back_sparse}
# Threads get a table of words instead of arrays: it takes Numba a fraction of the time.
_WHOLE = """
def part(number, table):
    share, many, parts = word(table, {words}), word(table, {words} + 1), word(table, {words} + 2)
    begin = number % parts * many
    group(number // parts * share + begin, min(many, share - begin), table)

def {name}({arguments}):
    table = np.empty({words} + 3, np.int64)
{filled}
    size, threads = np.int64({last}.shape[0]), np.int64(numba.get_num_threads())
    share = size // max(np.int64(1), {weights})
    many = max(np.int64(1), min(np.int64({most}), share, (size + threads - 1) // threads))
    parts = (share + many - 1) // many
    table[{words}], table[{words} + 1], table[{words} + 2] = share, many, parts
    if parts > 0:
        side_by_side(part, size // share * parts, table, threads)
"""


@inner(later=True)
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
        filled.append(f"    table[{words}] = address({label})")
        filled += [f"    table[{words + 1 + axis}] = {label}.shape[{axis}]" for axis in range(ndim)]
        shape = "".join(f"word(table, {words + 1 + axis}), " for axis in range(ndim))
        element = "bool_" if dtype == "bool" else dtype
        arrays.append(f"    {label} = array_at(word(table, {words}), ({shape}), np.{element})")
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
    scope["group"] = inner(scope["group"], error_model="numpy", later=True)
    scope["part"] = inner(scope["part"], error_model="numpy", later=True)
    return numba.njit(error_model="numpy")(scope[name])
