# SPDX-License-Identifier: Apache-2.0
"""The text of a population's update: the rule of one neuron in a loop over a slice of neurons, block by block."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...scalar.form import Form, Name
from ...scalar.poisson_table import PoissonDraw, split
from ..plan.plan import PopulationPlan
from .tables import UPDATE

__all__ = ["BLOCK", "Update", "update_of"]

BLOCK = 512  # neurons whose intermediate values stay in the nearest cache

_RING = ("ring", "row", "mask", "quantum")
_INPUT = ("input", "input_row", "input_item")


@dataclass(frozen=True)
class Update:
    """The text of `update(table, step, turn)`, the forms that it calls, and the words of its table.

    A word is a name, or a kind and a name. `drawn` are the Poisson numbers that are counted in tables, which the words
    "counted:N" and "entries:N" tell of. `scratch` is how many bytes the update needs for values of one block.
    """

    text: str
    forms: tuple[Form, ...]
    words: tuple[str, ...]
    drawn: tuple[PoissonDraw, ...]
    scratch: int


class _Block:
    """What the loop over a block is made of."""

    def __init__(self, words: Sequence[str]):
        self.words = list(words)
        self.setup: list[str] = []  # before all blocks
        self.prepared: list[str] = []  # before the loop over one block
        self.given: dict[str, str] = {}  # what the loop is given, by the name of the rule's input
        self.values: dict[str, str] = {}  # what the rule is given, for neuron k
        self.factors: dict[str, str] = {}  # of inputs that are sums in quanta: what a quantum is worth
        self.scratch = 0

    def argument(self, name: str, given: str, value: str) -> None:
        self.given[name], self.values[name] = given, value

    def place(self, *words: str) -> list[str]:
        """Return how the text reads new words of the table."""
        first = len(self.words)
        self.words += words
        return [f"word(table, {first + k})" for k in range(len(words))]

    def room(self, itemsize: int) -> str:
        """Return the address of scratch for one block."""
        self.scratch += itemsize * BLOCK
        return f"scratch + {self.scratch - itemsize * BLOCK}"

    def loop(self, function: str, form: Form, results: Sequence[str]) -> tuple[list[str], str]:
        """Return a function that runs a form for each neuron of a block, and its call.

        `results` are the arrays that the form's outputs go to: inputs of the form, or arrays of the block by name.
        """
        names = [name.text for name in form.inputs]
        passed = {name: self.given[name] for name in names} | {n: n for n in results if n not in names}
        passed |= {self.factors[name]: self.factors[name] for name in names if name in self.factors}
        outputs = [f"new_{name}" for name in results]
        lines = [
            f"def {function}({', '.join(['count', *passed])}):",
            "    for k in range(count):",
            f"        {', '.join(outputs)} = be_{form.name}({', '.join(self.values[name] for name in names)})",
            *(f"        {name}[k] = {output}" for name, output in zip(results, outputs, strict=True)),
            *(f"        {name}[k] = 0" for name in self.factors if name in names),
            "",
        ]
        return lines, f"{function}({', '.join(['count', *passed.values()])})"


def _slice(address: str, dtype: str) -> str:
    return f"array_at({address} + {_itemsize(dtype)} * start, count, np.{_element(dtype)})"


def _itemsize(dtype: str) -> int:
    return {"bool": 1, "float64": 8}.get(dtype, 4)


def _element(dtype: str) -> str:
    return "bool_" if dtype == "bool" else dtype


def _states(block: _Block, names: Sequence[Name]) -> None:
    for name in names:
        (address,) = block.place(f"state:{name.text}")
        block.argument(name.text, _slice(address, name.dtype), f"{name.text}[k]")


def _arriving(block: _Block, name: str, dtype: str, *, fed: bool) -> None:
    """Turn sums in quanta into what arrives, and leave zeros for a later step; add inputs if it is fed."""
    ring, row, mask, quantum = block.place(*(f"{kind}:{name}" for kind in _RING))
    sums = f"array_at({ring} + (step & {mask}) * {row} + 4 * start, count, np.int32)"
    factor = f"quantum_{name}"
    block.setup.append(f"{factor} = array_at({quantum}, 1, np.{dtype})[0]")
    if not fed:
        block.argument(name, sums, f"np.{dtype}({name}[k]) * {factor}")
        block.factors[name] = factor
        return
    given, given_row, item = block.place(*(f"{kind}:{name}" for kind in _INPUT))
    block.prepared += [
        f"{name} = array_at({block.room(_itemsize(dtype))}, count, np.{dtype})",
        f"gather_{dtype}({sums}, {factor}, {name})",
        f"add_input_{dtype}({given} + turn * {given_row}, {item}, start, {name})",
    ]
    block.argument(name, name, f"{name}[k]")


def _params(block: _Block, names: Sequence[Name], scalars: Sequence[bool]) -> None:
    for name, scalar in zip(names, scalars, strict=True):
        (address,) = block.place(f"param:{name.text}")
        if scalar:
            block.setup.append(f"{name.text} = array_at({address}, 1, np.{_element(name.dtype)})[0]")
            block.argument(name.text, name.text, name.text)
        else:
            block.argument(name.text, _slice(address, name.dtype), f"{name.text}[k]")


def _random(block: _Block, names: Sequence[Name]) -> None:
    if not names:
        return
    keys = (f"np.uint32(word(table, {place}))" for place in (UPDATE.key0, UPDATE.key1))
    values = ("np.uint32(low + start)", "np.uint32(step)", *keys)
    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        used = f"np.uint32({name.text} + np.uint32(k))" if place == 0 else name.text
        block.argument(name.text, value, used)


def _drawn(block: _Block, drawn: Sequence[PoissonDraw]) -> list[str]:
    """Prepare Poisson numbers; return the functions for it."""
    functions = []
    for place, one in enumerate(drawn):
        uniform = f"u{place}"
        lines, call = block.loop(f"draw{place}", one.uniform, [uniform])
        functions += lines
        counted, entries = block.place(f"counted:{place}", f"entries:{place}")
        name = one.result.text
        block.prepared += [
            f"{uniform} = array_at({block.room(4)}, count, np.float32)",
            f"{name} = array_at({block.room(4)}, count, np.int32)",
            call,
            f"count_events({uniform}, array_at({counted}, {entries}, np.float32), {name})",
        ]
        block.argument(name, name, f"{name}[k]")
    return functions


def update_of(population: PopulationPlan, params: Mapping[str, Any], fed: Collection[str] = ()) -> Update:
    """Return the update of a population with parameters, by the names of its form, some of its receptors fed by inputs.

    The values of parameters are not part of it, but whether Poisson numbers have a mean of at most 64 is.
    """
    rule = population.rule
    scalars = {name: value for name, value in params.items() if value.ndim == 0}
    form, drawn = split(rule.step, scalars)
    block = _Block(UPDATE._fields)
    flags = block.room(1)
    _states(block, rule.states)
    for name in rule.arriving:
        _arriving(block, name.text, name.dtype, fed=name.text in fed)
    _params(block, rule.params, [name.text in scalars for name in rule.params])
    _random(block, rule.random)
    functions = _drawn(block, drawn)
    lines, call = block.loop("run", form, [*(name.text for name in rule.states), "flags", *["values"] * rule.value])
    block.prepared.append(f"flags = array_at({flags}, count, np.bool_)")
    if rule.value:
        block.setup.append(f"listed = values_of_{rule.dtype}(word(table, {UPDATE.list}), step, size + 1)")
        block.prepared.append(f"values = array_at({block.room(_itemsize(rule.dtype))}, count, np.{rule.dtype})")
    block.prepared.append(call)
    if rule.value:
        block.prepared.append("before = found")
    block.prepared.append(f"found = list_spikes({flags}, count, low + start, spikes, found)")
    if rule.value:
        block.prepared.append(f"list_values_{rule.dtype}(values, low + start, spikes, before, found, listed)")
    forms = (form, *(one.uniform for one in drawn))
    return Update(_written(block, functions + lines), forms, tuple(block.words), drawn, block.scratch)


def _written(block: _Block, functions: Sequence[str]) -> str:
    lines = [
        *functions,
        "def update(table, step, turn):",
        f"    size, low, found = word(table, {UPDATE.size}), word(table, {UPDATE.low}), np.int64(0)",
        f"    scratch = word(table, {UPDATE.scratch})",
        f"    spikes = spikes_of(word(table, {UPDATE.list}), step, size)",
        *(f"    {line}" for line in block.setup),
        f"    for start in range(0, size, {BLOCK}):",
        f"        count = min({BLOCK}, size - start)",
        *(f"        {line}" for line in block.prepared),
        "    return found",
    ]
    return "\n".join(lines) + "\n"
