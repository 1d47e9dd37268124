# SPDX-License-Identifier: Apache-2.0
"""Elementwise nodes as forms of scalars, which the languages of all devices print."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..scalar.form import Constant, Form, Name, Operand
from ..scalar.lines import without_repetitions
from ..scalar.lower import Lowering
from .ciphers import scalar_operation
from .values import Array, Node, View, as_held

__all__ = ["form_of_nodes"]


def form_of_nodes(
    name: str, nodes: Iterable[Node], outs: Sequence[Array], inputs: dict[tuple[str, ...], Name], read: _Read
) -> Form:
    """Return nodes of elements as a form with these results.

    Its `inputs` are added by their keys: `read` returns that of a view of what none of the nodes makes, and its dtype.
    """
    lowering = Lowering("loop", follow=False, wide=True)
    known: dict[Array, Operand] = {}

    def operand(view: View) -> Operand:
        if isinstance(view.base, Constant):
            return as_held(view.base)
        if view.base in known:
            return known[view.base]
        key, dtype = read(view)
        return inputs.setdefault(key, Name(f"g{len(inputs)}", dtype))

    for node in nodes:
        operands = [operand(view) for view in node.ins]
        if node.equation is None:
            known[node.outs[0]] = operands[0]
        else:
            operation = scalar_operation(lowering, node.equation)
            assert operation is not None
            known[node.outs[0]] = operation(*operands)
    lines, outputs = without_repetitions(lowering.writer.lines, [known[array] for array in outs])
    functions = tuple(lowering.writer.functions.values())
    return Form(name, tuple(inputs.values()), tuple(lines), tuple(outputs), functions)


_Read = Callable[[View], tuple[tuple[str, ...], str]]
