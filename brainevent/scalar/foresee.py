# SPDX-License-Identifier: Apache-2.0
"""Take out of a rule what follows from numbers that are known early, so that it is computed while a step waits."""

from __future__ import annotations

from collections.abc import Collection

from .form import Assign, Constant, Form, Name
from .lines import read
from .poisson_table import sliced

__all__ = ["foreseen"]

_MOST = 4  # words that are kept until the rest of the rule reads them


def foreseen(form: Form, known: Collection[Name]) -> tuple[Form | None, Form]:
    """Return the part of a rule that follows from some inputs alone, if it calls a function, and the rest of the rule.

    The rest has the results of that part as further inputs.

    Examples:
        >>> from brainevent.scalar.form import Assign, Form, Name
        >>> a, b, c, d = (Name(x, "float32") for x in "abcd")
        >>> twice = Form("twice", (a,), (Assign(c, "add", (a, a)),), (c,))
        >>> form = Form("f", (a, b), (Assign(c, "twice", (a,)), Assign(d, "add", (b, c))), (d,), (twice,))
        >>> early, rest = foreseen(form, [a])
        >>> [name.text for name in early.outputs], [name.text for name in rest.inputs]
        (['c'], ['a', 'b', 'c'])
    """
    early, late, have = [], [], set(known)
    for line in form.lines:
        if isinstance(line, Assign) and all(isinstance(x, Constant) or x in have for x in line.operands):
            early.append(line)
            have.add(line.target)
        else:
            late.append(line)
    wanted = {x for line in late for x in read(line)} | set(form.outputs)
    results = tuple(line.target for line in early if line.target in wanted)
    functions = {one.name for one in form.functions}
    calls = any(line.op in functions for line in early)
    if not (calls and 0 < len(results) <= _MOST):
        return None, form
    inputs = (*form.inputs, *results)
    rest = Form(form.name, inputs, tuple(late), form.outputs, form.functions)
    return sliced(form, "foreseen", results), sliced(rest, form.name, form.outputs, inputs)
