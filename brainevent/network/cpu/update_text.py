# SPDX-License-Identifier: Apache-2.0
"""The text of a population's update: the rule of one neuron in a loop over a slice of neurons, block by block."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...scalar.form import Form, Name
from ...scalar.poisson_table import PoissonDraw, split
from ..plan.plan import PopulationPlan
from ..plan.plastic import SPIKE, VALUE, Past
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

    def place_of(self, word: str) -> str:
        """Return how the text reads a word of the table that is there."""
        return f"word(table, {self.words.index(word)})"

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


def _arriving(block: _Block, name: str, dtype: str, *, fed: bool, coupled: bool) -> None:
    """Turn sums in quanta into what arrives, and leave zeros for a later step.

    Add inputs if it is fed, and what couplings carry if it is coupled.
    """
    ring, row, mask, quantum = block.place(*(f"{kind}:{name}" for kind in _RING))
    sums = f"array_at({ring} + (step & {mask}) * {row} + 4 * start, count, np.int32)"
    factor = f"quantum_{name}"
    block.setup.append(f"{factor} = array_at({quantum}, 1, np.{dtype})[0]")
    if not fed and not coupled:
        block.argument(name, sums, f"np.{dtype}({name}[k]) * {factor}")
        block.factors[name] = factor
        return
    block.prepared += [
        f"{name} = array_at({block.room(_itemsize(dtype))}, count, np.{dtype})",
        f"gather_{dtype}({sums}, {factor}, {name})",
    ]
    if fed:
        given, given_row, item = block.place(*(f"{kind}:{name}" for kind in _INPUT))
        block.prepared.append(f"add_input_{dtype}({given} + turn * {given_row}, {item}, start, {name})")
    if coupled:
        (carried,) = block.place(f"coupled:{name}")
        block.prepared.append(f"add_input_{dtype}({carried}, {_itemsize(dtype)}, start, {name})")
    block.argument(name, name, f"{name}[k]")


def _shown(block: _Block, name: Name) -> None:
    """Copy a state to where couplings read it in the next step."""
    shown, row = block.place(f"shown:{name.text}", f"shown_row:{name.text}")
    to = f"{shown} + ((step + 1) & 1) * {row} + {_itemsize(name.dtype)} * start"
    block.prepared.append(f"show_{name.dtype}({block.given[name.text]}, array_at({to}, count, np.{name.dtype}))")


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


def _kept(block: _Block, kept: Past) -> tuple[list[str], list[str]]:
    """Let the loop list events that plastic synapses need; return what stands before all blocks and after them."""
    before, after = [], []
    for event in kept.events:
        (line,) = block.place(f"kept:{event}")
        if event == SPIKE:
            after.append(f"keep_spikes({line}, step, spikes, found)")
            continue
        at, flags = block.room(1), f"flags_{event}"
        before += [f"found_{event} = np.int64(0)", f"spikes_{event} = spikes_of({line}, step, size)"]
        block.prepared += [f"{flags}_at = {at}", f"{flags} = array_at({flags}_at, count, np.bool_)"]
        after.append(f"put_count({line}, step, found_{event})")
    for name in kept.numbers:
        table, line = block.place(f"kept_number:{name}")[0], block.place_of(f"kept:{SPIKE}")
        own = ("keep_values", ", listed") if name == VALUE else ("keep_state", "")
        after.append(f"{own[0]}({table}, {line}, step, spikes, found{own[1]})")
    return before, after


def update_of(
    population: PopulationPlan,
    params: Mapping[str, Any],
    fed: Collection[str] = (),
    coupled: Collection[str] = (),
    shown: Collection[str] = (),
    kept: Past | None = None,
) -> Update:
    """Return the update of a population with parameters, by the names of its form, some of its receptors fed by inputs.

    Receptors that are `coupled` get what couplings carry, and these read the states that are `shown`; plastic synapses
    need what is `kept`. The values of parameters are not part of it, but whether Poisson numbers have a mean of at most
    64 is.
    """
    rule = population.rule
    scalars = {name: value for name, value in params.items() if value.ndim == 0}
    events = [event for event in rule.events if event == SPIKE or (kept is not None and event in kept.events)]
    form, drawn = split(rule.with_events(events), scalars)
    block = _Block(UPDATE._fields)
    flags = block.room(1)
    _states(block, rule.states)
    for name in rule.arriving:
        _arriving(block, name.text, name.dtype, fed=name.text in fed, coupled=name.text in coupled)
    _params(block, rule.params, [name.text in scalars for name in rule.params])
    _random(block, rule.random)
    functions = _drawn(block, drawn)
    own = [f"flags_{event}" for event in events[1:]]
    results = [*(name.text for name in rule.states), "flags", *own, *["values"] * rule.value]
    lines, call = block.loop("run", form, results)
    before, after = ([], []) if kept is None else _kept(block, kept)
    block.setup += before
    block.prepared.append(f"flags = array_at({flags}, count, np.bool_)")
    if rule.value:
        block.setup.append(f"listed = values_of_{rule.dtype}(word(table, {UPDATE.list}), step, size + 1)")
        block.prepared.append(f"values = array_at({block.room(_itemsize(rule.dtype))}, count, np.{rule.dtype})")
    block.prepared.append(call)
    if rule.value:
        block.prepared.append("before = found")
    for name in rule.states:
        if name.text in shown:
            _shown(block, name)
    block.prepared.append(f"found = list_spikes({flags}, count, low + start, spikes, found)")
    for event in events[1:]:
        arguments = f"flags_{event}_at, count, low + start, spikes_{event}, found_{event}"
        block.prepared.append(f"found_{event} = list_spikes({arguments})")
    if rule.value:
        block.prepared.append(f"list_values_{rule.dtype}(values, low + start, spikes, before, found, listed)")
    forms = (form, *(one.uniform for one in drawn))
    return Update(_written(block, functions + lines, after), forms, tuple(block.words), drawn, block.scratch)


def _written(block: _Block, functions: Sequence[str], after: Sequence[str]) -> str:
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
        *(f"    {line}" for line in after),
        "    return found",
    ]
    return "\n".join(lines) + "\n"
