# SPDX-License-Identifier: Apache-2.0
"""The text of the loops: all steps of a sample, and all steps back of up to four samples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from ....scalar.form import Form
from ..cells import Cell, Cells

__all__ = ["backward_text", "forward_text", "unread"]


class _Lines:
    """Text with its depth."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, depth: int, *lines: str) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def _of_sample(label: str, sample: str = "b") -> str:
    """Return an array of one sample; arrays that samples share have fewer rows."""
    return f"{label}[row({sample}, size, {label})]"


def _structure(j: int) -> list[str]:
    return [f"b{j}", f"i{j}", f"k{j}"]


def _delays(cells: Cells) -> list[str]:
    """Return constants: the delays of each product, as a tuple."""
    return [f"delays{j} = ({', '.join(map(str, one.delays))},)" for j, one in enumerate(cells.products)]


def _values(cell: Cell, form: Form, arrays: dict[str, str], scalars: Collection[str]) -> list[str]:
    """Return what a form is given for neuron k, by the names of its inputs."""
    rule, p = cell.population.rule, cell.place
    values = dict(arrays)
    for key, name in cell.params.items():
        values[name.text] = f"all_{key}" if f"q{p}_{key}" in scalars else f"q{p}_{key}[k]"
    of_random = ("np.uint32(k)", "now", "key[0]", "key[1]")
    values |= {name.text: one for name, one in zip(rule.random, of_random, strict=False)}
    return [values[name.text] for name in form.inputs]


def _loop(name: str, head: Iterable[str], before: Iterable[str], body: Iterable[str]) -> list[str]:
    return [
        f"def {name}({', '.join(head)}):",
        *(f"    {line}" for line in before),
        "    for k in range(n):",
        *(f"        {line}" for line in body),
        "",
    ]


def _scalars_of(cell: Cell, scalars: Collection[str]) -> list[str]:
    labels = {key: f"q{cell.place}_{key}" for key in cell.params}
    return [f"all_{key} = {label}[0]" for key, label in labels.items() if label in scalars]


def forward_text(cells: Cells, given: Sequence[str], scalars: Collection[str], sums: str = "float32") -> str:
    """Return the text of `group(first, count, table)`, which runs all steps of one sample.

    The first axis of all arrays is that of samples; those that samples share have fewer rows. Parameters in `scalars`
    have one value. `sums` is the dtype in which float32 weights are summed.
    """
    lines = _Lines()
    calls = {cell.place: _forward_of(cells, cell, given, scalars, lines) for cell in cells.cells}
    lines.add(0, "def group(first, count, table):")
    lines.add(1, "b, before, (size, steps) = first, flush_floats(), z0.shape[:2]", *_delays(cells))
    lines.add(1, f"now = np.uint32({_of_sample('begin')}[0])")
    lines.add(1, "one, zero = np.float32(1), np.float32(0)")
    if "fine" in given:
        lines.add(1, f"if not {_of_sample('fine')}[0]:", "    one = zero = np.float32(np.nan)")
    for cell in cells.cells:
        p = cell.place
        lines.add(1, f"n{p} = z{p}.shape[2]")
        lines.add(1, f"found{p}, flags{p} = np.empty(n{p} + 1, np.int32), np.empty(n{p}, np.uint8)")
        for key in cell.states:
            lines.add(1, f"copy_row({_of_sample(f'x{p}_{key}')}, s{p}_{key}[b])")
        for key in cell.receptors:
            for name, dtype, depth in _rings(cells, cell, key):
                lines.add(1, f"{name}{p}_{key} = np.zeros(({depth}, n{p}), np.{dtype or sums})")
    lines.add(1, "for t in range(steps):")
    for cell in cells.cells:
        lines.add(2, calls[cell.place])
    for cell in cells.cells:
        own = [j for j, one in enumerate(cells.products) if one.synapses.source == cell.population.name]
        p = cell.place
        lines.add(2, *([f"count{p} = list_ones(address(flags{p}), n{p}, found{p})"] if own else []))
        lines.add(2, *(_delivery(cells, j, p, sums) for j in own))
    lines.add(2, "now = np.uint32(now + np.uint32(1))")
    lines.add(1, "restore_floats(before)")
    return lines.text()


def _rings(cells: Cells, cell: Cell, receptor: str) -> list[tuple[str, str, int]]:
    """Return the sums of later steps that a receptor has: of floats, and of quanta.

    Each has a name, the dtype of quanta, and a number of steps.
    """
    found = []
    for name, given in (("ring", True), ("quanta", False)):
        if into := [cells.products[j] for j in cells.into(cell, receptor, given=given)]:
            found.append((name, "" if given else into[0].whole, max(one.depth for one in into)))
    return found


def _delivery(cells: Cells, j: int, source: int, sums: str) -> str:
    one = cells.products[j]
    target, receptor = one.place
    ring = f"{'ring' if one.given else 'quanta'}{cells.place(target)}_{receptor}"
    structure = "" if one.dense else f" ({', '.join(_structure(j))}),"
    floats = (sums if one.given else one.whole) == "float32"
    kind, weights = "sparse" if not one.dense else "dense" if floats else "others", _of_sample(f"w{j}")
    return f"deliver_{kind}({weights}, delays{j},{structure} found{source}, count{source}, t, {ring})"


def _forward_of(cells: Cells, cell: Cell, given: Sequence[str], scalars: Collection[str], lines: _Lines) -> str:
    """Write the function that steps a population, and return how it is called."""
    p = cell.place
    head: dict[str, str] = {"n": f"n{p}", "now": "now", "key": _of_sample(f"key{p}")}  # parameters and arguments
    arrays, resets = dict[str, str](), list[str]()
    for key, name in cell.states.items():
        head[f"s_{key}"], arrays[name.text] = f"s{p}_{key}[b]", f"s_{key}[k]"
    for key, name in cell.receptors.items():
        rings = {ring: f"{ring}{p}_{key}[t % {ring}{p}_{key}.shape[0]]" for ring, *_ in _rings(cells, cell, key)}
        of_step = {name: _of_sample(f"{name}{p}_{key}") + "[t]" for name in "ch" if f"{name}{p}_{key}" in given}
        for term, array in (of_step | rings).items():
            head[f"{term}_{key}"] = array
            if term in rings:
                resets.append(f"{term}_{key}[k] = 0")
        forms = {"c": f"c_{key}[k]", "ring": f"np.float32(ring_{key}[k])"}
        floats = " + ".join(form for term, form in forms.items() if f"{term}_{key}" in head)
        whole = " + ".join(f"{term}_{key}[k]" for term in ("h", "quanta") if f"{term}_{key}" in head)
        head |= {f"u_{key}": _of_sample(f"u{p}_{key}") + "[0]"} if whole else {}
        terms = [f"np.float32({whole}) * u_{key}"] * bool(whole) + [f"({floats})"] * bool(floats)
        arrays[name.text] = " + ".join(terms) or "np.float32(0)"
    head |= {f"q{p}_{key}": _of_sample(f"q{p}_{key}") for key in cell.params}
    head |= {"flags": f"flags{p}", "z": f"z{p}[b][t]", "one": "one", "zero": "zero"}
    head |= {f"o_{key}": f"o{p}_{key}[b][t]" for key in cell.sampled}
    head |= {f"r_{k}": f"r{p}_{k}[b][t]" for k in range(len(cell.residuals))}
    results = [f"new_{key}" for key in cell.states] + ["spike"] + [f"kept_{k}" for k in range(len(cell.residuals))]
    call = f"be_{cell.forward.name}({', '.join(_values(cell, cell.forward, arrays, scalars))})"
    body = [f"{', '.join(results)} = {call}"]
    body += [f"s_{key}[k] = new_{key}" for key in cell.states] + [f"o_{key}[k] = new_{key}" for key in cell.sampled]
    body += ["flags[k] = np.uint8(spike)", "z[k] = one if spike else zero"]
    body += [f"r_{k}[k] = kept_{k}" for k in range(len(cell.residuals))] + resets
    lines.add(0, *_loop(f"step{p}", head, _scalars_of(cell, scalars), body))
    return f"step{p}({', '.join(head.values())})"


def unread(cells: Cells) -> set[str]:
    """Return the labels of spikes that the steps back do not read: the other arrays say how many steps there are."""
    timed = any(cell.receptors for cell in cells.cells)
    return {f"z{c.place}" for c in cells.cells if timed and c.adjoint and c.adjoint.spike not in c.adjoint.reads}


def _timed(cells: Cells) -> str:
    """Return the label of an array (samples, steps, neurons) of the steps back."""
    return next((f"dc{c.place}_{key}" for c in cells.cells for key in c.receptors), "z0")


def _neurons(cell: Cell, given: Collection[str]) -> str:
    """Return how many neurons there are: the last axis of an array of the steps back, so texts are for all sizes."""
    p = cell.place
    made = [*(f"dc{p}_{key}" for key in cell.receptors), *(f"dx{p}_{key}" for key in cell.float_states)]
    made += [f"dq{p}_{key}" for key in cell.trained] + [label for label in (f"dz{p}", f"z{p}") if label in given]
    return f"{made[0]}.shape[{made[0]}.ndim - 1]" if made else str(cell.size)


def backward_text(cells: Cells, given: Sequence[str], scalars: Collection[str], wide: int) -> str:
    """Return the text of `group(first, count, table)`: all steps back of some samples, which share weights.

    Matrices are in panels of `wide` sources: each weight is read once for all samples of a group.
    """
    lines = _Lines()
    calls = {cell.place: _backward_of(cell, given, scalars, lines) for cell in cells.cells}
    lines.add(0, "def group(first, count, table):")
    lines.add(1, f"before, (size, steps) = flush_floats(), {_timed(cells)}.shape[:2]", *_delays(cells))
    for cell in cells.cells:
        lines.add(1, f"n{cell.place} = {_neurons(cell, given)}")
        lines.add(1, f"g{cell.place} = np.zeros((count, -(-n{cell.place} // {wide}) * {wide}), np.float32)")
    lines.add(1, "for b in range(first, first + count):", "    pass")
    for cell in cells.cells:
        p = cell.place
        lines.add(2, *(_copied(f"ds{p}_{key}", given, "", f"dx{p}_{key}[b]") for key in cell.float_states))
        lines.add(2, *(f"fill_row(0, dq{p}_{key}[b])" for key in cell.trained))
    lines.add(1, "for t in range(steps - 1, -1, -1):")
    for cell in cells.cells:
        p = cell.place
        lines.add(2, "for q in range(count):", "    b = first + q")
        lines.add(3, _copied(f"dz{p}", given, "[t]", f"g{p}[q]"))
        for j, one in enumerate(cells.products):
            if one.synapses.source == cell.population.name:
                lines.add(2, *_back_through(cells, j, p))
    lines.add(2, "for q in range(count):", "    b = first + q")
    lines.add(3, f"now = np.uint32({_of_sample('begin')}[0] + np.uint32(t))")
    for cell in cells.cells:
        lines.add(3, calls[cell.place])
    lines.add(1, "restore_floats(before)")
    return lines.text()


def _copied(label: str, given: Collection[str], row: str, into: str) -> str:
    """Return the line that copies a row of a sample, or sets zeros if it is not given."""
    return f"copy_row({_of_sample(label)}{row}, {into})" if label in given else f"fill_row(0, {into})"


def _back_through(cells: Cells, j: int, source: int) -> list[str]:
    """Return the lines that add to the cotangents of spikes those that come through a product."""
    one = cells.products[j]
    target, receptor = one.place
    arrived, weights = f"dc{cells.place(target)}_{receptor}", _of_sample(f"w{j}", "first")
    if not one.dense:
        structure = f"({', '.join(_structure(j))})"
        return [f"back_sparse({weights}, delays{j}, {structure}, {arrived}, first, count, t, g{source})"]
    return [
        line
        for which, delay in enumerate(one.delays)
        for line in (
            f"if t + {delay} < steps:",
            f"    back_dense({weights}[{which}], {arrived}, first, count, t + {delay}, g{source})",
        )
    ]


def _backward_of(cell: Cell, given: Sequence[str], scalars: Collection[str], lines: _Lines) -> str:
    """Write the function that steps a population back, and return how it is called."""
    p, form, adjoint = cell.place, cell.backward, cell.adjoint
    assert adjoint is not None
    head = {"n": f"n{p}", "now": "now", "key": _of_sample(f"key{p}"), "g": f"g{p}[q]"}
    arrays: dict[str, str] = {}
    for k, name in enumerate(cell.residuals):
        head[f"r_{k}"], arrays[name.text] = _of_sample(f"r{p}_{k}") + "[t]", f"r_{k}[k]"
    arrays[adjoint.spike.text] = "False"
    if adjoint.spike in adjoint.reads:
        head["z"], arrays[adjoint.spike.text] = _of_sample(f"z{p}") + "[t]", "z[k] != np.float32(0)"
    *of_states, of_spike = adjoint.cotangents
    for key, name in zip(cell.float_states, of_states, strict=True):
        head[f"d_{key}"], arrays[name.text] = f"dx{p}_{key}[b]", f"d_{key}[k]"
        if f"do{p}_{key}" in given:
            head[f"do_{key}"] = _of_sample(f"do{p}_{key}") + "[t]"
            arrays[name.text] += f" + do_{key}[k]"
    arrays[of_spike.text] = "g[k]"
    head |= {f"q{p}_{key}": _of_sample(f"q{p}_{key}") for key in cell.params}
    head |= {f"dc_{key}": f"dc{p}_{key}[b][t]" for key in cell.receptors}
    head |= {f"dq_{key}": f"dq{p}_{key}[b]" for key in cell.trained}
    results = [f"before_{key}" for key in cell.float_states] + [f"arrived_{key}" for key in cell.receptors]
    results += [f"param_{key}" for key in cell.trained]
    body = [f"{', '.join(results)} = be_{form.name}({', '.join(_values(cell, form, arrays, scalars))})"]
    body += [f"d_{key}[k] = before_{key}" for key in cell.float_states]
    body += [f"dc_{key}[k] = arrived_{key}" for key in cell.receptors]
    body += [f"dq_{key}[k] += param_{key}" for key in cell.trained]
    lines.add(0, *_loop(f"back{p}", head, _scalars_of(cell, scalars), body if results else ["pass"]))
    return f"back{p}({', '.join(head.values())})"
