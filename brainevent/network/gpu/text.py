# SPDX-License-Identifier: Apache-2.0
"""The text of a network's kernel: the constants of its structure, the rules of its neurons, and what all share."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...scalar.cuda_text import TYPES, cuda_text
from ...scalar.foresee import foreseen
from ...scalar.form import Form, Name
from ..plan.couplings import added_form
from ..plan.distribution import EXPONENTIAL, INTEGERS, LOGNORMAL, NORMAL, UNIFORM
from ..plan.loop_arguments import ALL, DISTINCT, GAPS, GROUPED, ONE, PAIRS, REPLACED
from ..plan.mapped import MAPPED
from .kinds import Kind, are_graded, extents_of, is_whole, words_of
from .structs import (
    AFAR,
    ANEW,
    CARRIED,
    DISTRIBUTION,
    DREW,
    FILLED,
    FULL,
    GIVEN,
    GIVEN_HERE,
    GO_ON,
    GPU_SHIFT,
    HELD,
    IN_PARTS,
    KEYED,
    LAID,
    LINES,
    LISTED,
    ORDERED,
    PARTED,
    PEER,
    PLACED,
    READ,
    RECIPE,
    RECIPE_OF_PARTS,
    ROWS,
    SAMPLE,
    SYNAPSE_SAMPLE,
    TOLD,
    TREATED,
    WRITTEN,
    common_dtype,
    constants_text,
    net_dtype,
    piece_dtype,
    population_dtype,
    shared_text,
    structs_text,
)
from .structure import Structure, constant_table

__all__ = ["HISTORY", "LATER_BYTES", "ON_GPU", "PART", "PlasticText", "other_text", "step_text", "value_of"]

ON_GPU, ON_GPU_PLASTIC = "on_gpu.cu", "on_gpu_plastic.cu"
HISTORY, PART = 128, 128  # events of a target that are kept; synapses of a part of a spike, at least
ROOM_LATER, PIECES = 256, 3  # synapses for which a warp makes deferred calls at once; parts of spikes
LATER_BYTES = 8 * ROOM_LATER + 48  # of shared memory, for each warp
_HERE = Path(__file__).parent
_RULES = "#include_rules"
_UPDATE = "template <bool PLAIN> BE bool update"
_EVENTS = ", u32& events"
_CHOSEN = {  # functions of each kind, and their parameters
    _UPDATE: (
        "const Net& net, const Own& own, u32* s, const u32* p, const u32* d, const int* sums, u32 t, u32 turn, "
        "bool& strange"
    ),
    "BE void take": "const Net& net, const Own& own, const Now& now, int* sums",
    "BE void clear_taken": "const Net& net, const Own& own, const Now& now, const int* sums",
    "BE void draw": "const Net& net, const Own& own, const u32* p, u32* d, u32 t",
    "BE void scalars": "const Net& net, const Own& own, u32* p",
    "BE void scalars_in_memory": "const Net& net, const Own& own, u32* p",
    "BE void each": "const Net& net, const Own& own, u32* p, u32 slot",
}


def _fours(kinds: Sequence[Kind]) -> str:
    """Return functions for neurons in fours: the turn of a word among those like it, and the receptors of a kind."""
    whole = [is_whole(kinds, word) for word in range(words_of(kinds))]
    turns = [whole[:word].count(own) for word, own in enumerate(whole)]
    return constant_table("turn_of", turns) + constant_table("receptors_of", [kind.receptors for kind in kinds])


@functools.cache
def read_text(name: str) -> str:
    """Return one of the texts beside this file."""
    return (_HERE / name).read_text()


@dataclass(frozen=True)
class PlasticText:
    """The text of the plastic synapses of a network, the forms that it calls, and constants of both.

    `tell` notes the events of a neuron and keeps what rules read of it; `rules` change synapses. Packets are read `lag`
    steps after theirs, and lists of events released for `fenced` steps at once, a power of two. Synapses are `behind`
    by some steps. Until a launch ends whose lists for deferred calls are full, they take what `spare` steps bring.
    `told` says of each list of events whether all GPUs read it. Of `whole` events a block reads nothing in memory, if
    its cluster hands it these; then, if it `splits` them, spikes change synapses while neurons are updated. Synapses
    may be `inside` the shared memory of blocks.
    """

    forms: tuple[Form, ...]
    flags: Mapping[str, bool]
    lag: int
    fenced: int
    tell: str
    rules: str
    behind: int = 0
    spare: int = 0
    told: tuple[bool, ...] = ()
    whole: int = 3
    splits: bool = False
    inside: bool = False

    @property
    def late(self) -> dict[str, Any]:
        """How late packets are read and lists released, for a `Structure`."""
        return {"lag": self.lag, "fenced": self.fenced}

    @property
    def constants(self) -> str:
        """The flags, and how many warps change synapses, as C++."""
        flags = {**self.flags, "INSIDE": self.inside}
        lines = [f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]
        lines += [f"constexpr bool SPLIT = CLUSTER && !AHEAD && {str(self.splits).lower()};"]
        lines += [f"constexpr unsigned LATER_BYTES = {LATER_BYTES}, LATER = DEFERRED ? THREADS / 32 * LATER_BYTES : 0;"]
        numbers: dict[str, int] = {"GO_ON": GO_ON, "ANEW": ANEW, "TREATED": TREATED, "FULL": FULL}
        numbers |= {"BEHIND": self.behind, "SPARE": self.spare, "HISTORY": HISTORY, "PART": PART}
        numbers |= {"WHOLE": self.whole, "ROOM_LATER": ROOM_LATER, "PIECES": PIECES}
        lines += [f"constexpr unsigned {name} = {value};" for name, value in numbers.items()]
        lines.append("constexpr bool FORESEES = CLUSTER && IN_REGISTERS && RECEPTORS < 32;")
        lines.append("constexpr bool ENDS = !AHEAD && !BEHIND;  // nothing in a step comes after rules at intervals")
        return "\n".join([*lines, "constexpr unsigned ACTING = WINDOWED ? CARRIERS : THREADS / 32;", ""])


def marked(
    text: str,
    *,
    plastic: bool = False,
    several: bool = False,
    parts: bool = False,
    fours: bool = False,
    grouped: bool = False,
    due: bool = False,
) -> str:
    """Return a text without marks: with lines for networks with plastic synapses or not, on several GPUs or one.

    In both of these packets may be read late. With `parts`, synapses are drawn between parts of populations. With
    `fours`, neurons of a thread are in fours. With `grouped`, groups of neurons of a GPU have blocks of their own; with
    `due`, rows of theirs are listed until they are due.
    """
    late, between = ("#late ", "#prompt ", plastic or several), ("#parts ", "#whole ", parts)
    kinds = (("#plastic ", "#static ", plastic), ("#several ", "#one ", several), ("#fours ", "#others ", fours))
    own = (("#grouped ", "#dealt ", grouped), ("#due ", "#listed ", due))
    for mark, other, is_so in (*kinds, late, between, *own):
        kept, dropped = (mark, other) if is_so else (other, mark)
        lines = (line for line in text.splitlines(keepends=True) if not line.lstrip().startswith(dropped))
        text = "".join(line.replace(kept, "", 1) for line in lines)
    return text


def _told(told: Sequence[bool]) -> str:
    """Return functions that say of each list whether others read it, and its place among those that they read."""
    places = [sum(told[:number]) for number in range(len(told))]
    return constant_table("is_told", told) + constant_table("told_place", places)


def words_among(words: str | None) -> str:
    """Return the words of kernels on several GPUs: memory is ordered for all of them."""
    if words is not None:
        return words
    return read_text(ON_GPU).replace(".gpu.", ".sys.").replace(".gpu;", ".sys;") + read_text("several/on_gpu.cu")


def step_text(
    kinds: Sequence[Kind], structure: Structure, words: str | None = None, plastic: PlasticText | None = None
) -> str:
    """Return the whole text of `run`; `words` are the words in which it is written, None for those of a GPU."""
    has, several = plastic is not None, structure.gpus > 1
    early = [_foreseen(kind, has and structure.cluster > 0 and structure.in_registers) for kind in kinds]
    forms = _forms_of(kinds, early)
    rules = "\n".join(
        _params(number, kind)
        + _take(number, kind)
        + _update(number, kind, structure, kinds, early[number])
        + _draw(number, kind)
        for number, kind in enumerate(kinds)
    )
    rules += _foresee(kinds, early) if has else ""
    most, coupled = extents_of(kinds), structure.couplings > 0
    needs = {"coupled": coupled, "plastic": has, "several": several, "tells": structure.tells}
    common, net = common_dtype(most), net_dtype(most, len(structure.populations), **needs)
    structs = [*[CARRIED] * coupled, population_dtype(most), common, SAMPLE, *[SYNAPSE_SAMPLE] * has]
    structs += [*[PEER] * several, net]
    if coupled:
        forms += [added_form("float32", difference=one, name=("state", "difference")[one]) for one in (False, True)]
        rules = constant_table("shown_word", structure.shown) + read_text("coupling.cu") + rules
    parts = [
        structure.text(kinds) + (plastic.constants + _words_foreseen(early) if plastic else ""),
        cuda_text([*forms, *(plastic.forms if plastic else ())]),
        shared_text(),
        structs_text(*structs),
        read_text("prelude.cu"),
        words_among(words) if several else read_text(ON_GPU) if words is None else words,
        *([read_text("several/on_gpu_due.cu")] if structure.layout == PARTED and words is None else []),
        *([read_text(ON_GPU_PLASTIC)] if has and words is None else []),
        read_text("near.cu") + read_text("deliver.cu"),
        *([read_text("several/due.cu")] if structure.layout == PARTED else []),
        *([read_text("late.cu")] if has or several else []),
        *([read_text("several/peers.cu")] if several else []),
        *([_told(plastic.told) + read_text("plastic.cu")] if plastic is not None else []),
        *([read_text("plastic_deferred.cu")] if plastic is not None and plastic.flags["DEFERRED"] else []),
        structure.tables,
        read_text("neurons.cu").replace(_RULES, rules + _chosen(kinds, events=has) + (plastic.tell if plastic else "")),
        *([plastic.rules] if plastic else []),
        read_text("many.cu"),
        *([_fours(kinds) + read_text("fours.cu")] if structure.fours else []),
        read_text("exchange.cu"),
        *([read_text("several/push.cu") + read_text("several/held.cu")] if several else []),
        *([read_text("several/courier.cu")] if several else []),
        read_text("step.cu"),
    ]
    own = {"fours": bool(structure.fours), "grouped": structure.groups > 0, "due": structure.layout == PARTED}
    return marked("\n".join(parts), plastic=has, several=several, **own)


def other_text(
    names: Sequence[str],
    threads: int,
    words: str | None = None,
    forms: Sequence[Form] = (),
    *,
    several: bool = False,
    parts: bool = False,
    own: str = "",
) -> str:
    """Return the whole text of other kernels, such as "rows.cu", which call some forms, for one GPU or several.

    `own` are functions that stand before the last of the texts.
    """
    structs = {
        "rows.cu": (GIVEN_HERE if several else GIVEN, ROWS, LAID),
        "several/on_gpu_due.cu": (),
        "several/rows_in_parts.cu": (IN_PARTS,),
        "drawn_values.cu": (DISTRIBUTION,),
        "drawing.cu": (RECIPE_OF_PARTS if parts else RECIPE,),
        "plastic_rows.cu": (LINES, KEYED, HELD, ORDERED, FILLED),
        "spikes.cu": (LISTED,),
        "afar.cu": (TOLD, AFAR),
    }
    structs["fill.cu"] = (piece_dtype(threads),)
    kinds = {"REPLACED": REPLACED, "DISTINCT": DISTINCT, "GAPS": GAPS, "ALL": ALL, "ONE": ONE, "UNIFORM": UNIFORM}
    kinds |= {"PAIRS": PAIRS, "GROUPED": GROUPED, "MAPPED": MAPPED}
    kinds |= {"GPU_SHIFT": GPU_SHIFT, "READ": READ, "WRITTEN": WRITTEN, "PLACED": PLACED, "DREW": DREW}
    kinds |= {"NORMAL": NORMAL, "LOGNORMAL": LOGNORMAL, "EXPONENTIAL": EXPONENTIAL, "INTEGERS": INTEGERS}
    zeros = dict.fromkeys(("CARRIERS", "LAYOUT", "QUEUE", "LISTENERS"), 0)
    texts = (
        shared_text(),
        constants_text(**kinds, **zeros, THREADS=threads),
        "constexpr bool RING_IN_BLOCK = true, ROWS_IN_BLOCK = false, DIRECT = false, HELPING = false;",
        structs_text(*(one for name in names for one in structs[name])),
        cuda_text(forms),
        read_text("prelude.cu"),
        words or read_text(ON_GPU),
    )
    whole = "\n".join((*texts, *map(read_text, names[:-1]), own, read_text(names[-1])))
    return marked(whole, several=several, parts=parts)


def value_of(word: str, dtype: str) -> str:
    """Return a word of 32 bits as a value of the form."""
    return {"float32": f"__uint_as_float({word})", "int32": f"(int){word}", "uint32": word}.get(dtype, f"({word} != 0)")


def _word(value: str, dtype: str) -> str:
    """Return a value of the form as a word of 32 bits."""
    return f"__float_as_uint({value})" if dtype == "float32" else f"(u32){value}"


def _given(kind: Kind) -> dict[str, str]:
    """Return what the inputs of a rule are, by their names."""
    rule = kind.population.rule
    given = {name.text: value_of(f"s[{k}]", name.dtype) for k, name in enumerate(rule.states)}
    given |= {name.text: f"a{k}" for k, name in enumerate(rule.arriving)}
    given |= {name.text: value_of(f"p[{k}]", name.dtype) for k, name in enumerate(rule.params)}
    random = ("own.neuron", "t", "own.key0", "own.key1")
    given |= {name.text: value for name, value in zip(rule.random, random, strict=False)}
    return given | {one.result.text: value_of(f"d[{k}]", one.result.dtype) for k, one in enumerate(kind.drawn)}


_Early = tuple[Form | None, Form]  # what of a rule is computed while a step waits, and the rest


def _foreseen(kind: Kind, is_so: bool) -> _Early:
    """Return what of a rule follows from the number of the step and of the neuron, if so, and the rest of it."""
    return foreseen(kind.form, kind.population.rule.random) if is_so else (None, kind.form)


def _results(early: Form | None) -> list[Name]:
    return [x for x in early.outputs if isinstance(x, Name)] if early else []


def _forms_of(kinds: Sequence[Kind], early: Sequence[_Early]) -> list[Form]:
    """Return the forms that the text of neurons calls."""
    forms = [replace(rest, name=f"rule{number}") for number, (_, rest) in enumerate(early)]
    forms += [replace(one, name=f"foresee{number}") for number, (one, _) in enumerate(early) if one]
    forms += [
        replace(drawn.uniform, name=f"uniform{number}_{place}")
        for number, kind in enumerate(kinds)
        for place, drawn in enumerate(kind.drawn)
    ]
    return forms


def _words_foreseen(early: Sequence[_Early]) -> str:
    return f"constexpr unsigned FORESEEN = {max(len(_results(one)) for one, _ in early)};\n"


def _foresee(kinds: Sequence[Kind], early: Sequence[_Early]) -> str:
    """Return `foresee`: that part for a neuron, whose results stay in registers until it is updated."""
    lines = []
    for number, (kind, (one, _)) in enumerate(zip(kinds, early, strict=True)):
        if one is None:
            continue
        given, results = _given(kind), _results(one)
        inputs = ", ".join(given[name.text] for name in one.inputs)
        own = [f"{TYPES[x.dtype]} e{k};" for k, x in enumerate(results)]
        if len(results) == 1:
            own += [f"e0 = be_foresee{number}({inputs});"]
        else:
            own += [f"be_foresee{number}({inputs}, {', '.join(f'e{k}' for k in range(len(results)))});"]
        own += [f"own.ahead[{k}] = {_word(f'e{k}', x.dtype)};" for k, x in enumerate(results)]
        lines += [f"if (own.kind == {number}) {{", *(f"    {line}" for line in own), "}"]
    return _function("BE void foresee(const Own& own, u32 t) {", lines)


def _update(number: int, kind: Kind, structure: Structure, kinds: Sequence[Kind], early: _Early) -> str:
    """Return `update<number>`: one step of one neuron; it returns whether the neuron spiked.

    In networks with plastic synapses it says which events the neuron had: bits, of which the first is the spike.
    """
    form, given, states = early[1], _given(kind), kind.population.rule.states
    given |= {x.text: value_of(f"own.ahead[{k}]", x.dtype) for k, x in enumerate(_results(early[0]))}
    inputs = [given[name.text] for name in form.inputs]
    dtypes = [output.dtype for output in form.outputs]
    arriving = [f"arriving<PLAIN>(net, own, sums[{k}], {k}, turn)" for k in range(kind.receptors)]
    if structure.couplings:
        arriving = [f"coupled(net, own, {k}, t, {arrived})" for k, arrived in enumerate(arriving)]
    lines = [f"const float a{k} = {arrived};" for k, arrived in enumerate(arriving)]
    if len(dtypes) == 1:
        lines.append(f"const {TYPES[dtypes[0]]} r0 = be_rule{number}({', '.join(inputs)});")
    else:
        lines += [f"{TYPES[dtype]} r{k};" for k, dtype in enumerate(dtypes)]
        lines.append(f"be_rule{number}({', '.join([*inputs, *(f'r{k}' for k in range(len(dtypes)))])});")
    lines += [f"s[{k}] = {_word(f'r{k}', name.dtype)};" for k, name in enumerate(states)]
    if structure.only_nan:
        wrong, watched = "(s[{}] & 0x7FFFFFFFu) > 0x7F800000u", kind.population.rule.value
    else:
        wrong, watched = "(s[{}] & 0x7F800000u) == 0x7F800000u", True
    lines += [
        f"show(net, own, {rank}, s[{word}], t);" for rank, word in enumerate(structure.shown) if word < len(states)
    ]
    lines += [
        f"if (CHECKED) strange = strange || {wrong.format(k)};"
        for k, name in enumerate(states)
        if name.dtype == "float32" and watched
    ]
    count = len(kind.population.rule.events) if kind.events else 1
    if are_graded(kinds):
        value = f"__float_as_uint(r{len(states) + count})" if kind.population.rule.value else "NO_VALUE"
        lines.append(f"own.value = {value};")
    if kind.events:
        bits = [f"(u32)r{len(states) + k} << {k}" for k in range(count)]
        lines.append(f"events = {' | '.join(bits)};")
    lines.append(f"return r{len(states)};")
    parameters = _CHOSEN[_UPDATE] + (_EVENTS if kind.events else "")
    return _function(f"template <bool PLAIN> BE bool update{number}({parameters}) {{", lines)


def _take(number: int, kind: Kind) -> str:
    """Return `take<number>` and `clear_taken<number>`: what has arrived for one neuron is taken from the ring."""
    lines = [f"sums[{k}] = taken(net, own, now, {k});" for k in range(kind.receptors)]
    clearing = [f"cleared(net, own, now, {k}, sums[{k}]);" for k in range(kind.receptors)]
    return _function(f"BE void take{number}({_CHOSEN['BE void take']}) {{", lines) + _function(
        f"BE void clear_taken{number}({_CHOSEN['BE void clear_taken']}) {{", clearing
    )


def _draw(number: int, kind: Kind) -> str:
    """Return `draw<number>`: the Poisson numbers of one neuron in one step."""
    given = _given(kind)
    lines = []
    for place, drawn in enumerate(kind.drawn):
        uniform = f"be_uniform{number}_{place}({', '.join(given[name.text] for name in drawn.uniform.inputs)})"
        lines.append(f"d[{place}] = events_of(net, own.population, {place}, {uniform});")
    return _function(f"BE void draw{number}({_CHOSEN['BE void draw']}) {{", lines)


def _params(number: int, kind: Kind) -> str:
    """Return `scalars<number>` and `each<number>`: the parameters that all neurons share, and those of one neuron.

    Before `scalars_in_memory<number>` has read the former, they are in memory alone.
    """
    of = "const Population& of = net.population[own.population];"
    shared = [k for k, scalar in enumerate(kind.scalars) if scalar]
    own = [k for k, scalar in enumerate(kind.scalars) if not scalar]
    of_slot, passed = "net.blocks * net.per + slot", "SHARED_ARE_KNOWN && !TRACED ? common_of(net, own.population)"
    in_memory = {k: f"net.scalars[of.param[{k}]]" for k in shared}
    scalars = [of, *(f"p[{k}] = {passed}.p[{k}] : {given};" for k, given in in_memory.items())]
    again = [of, *(f"p[{k}] = {given};" for k, given in in_memory.items())]
    each = [of, *(f"p[{k}] = net.arrays[(u64)of.param[{k}] * {of_slot}];" for k in own)]
    bodies = {"scalars": scalars, "scalars_in_memory": again, "each": each}
    return "".join(
        _function(f"BE void {name}{number}({_CHOSEN[f'BE void {name}']}) {{", lines) for name, lines in bodies.items()
    )


def _function(head: str, lines: Sequence[str]) -> str:
    return "\n".join([head, *(f"    {line}" for line in lines), "}", ""])


def _chosen(kinds: Sequence[Kind], *, events: bool) -> str:
    """Return functions that choose by the kind of the neuron."""
    lines = []
    for head, own in _CHOSEN.items():
        parameters = own + (_EVENTS if events and head == _UPDATE else "")
        name = head.split()[-1]
        passed = ", ".join(parameter.split()[-1].lstrip("*&") for parameter in parameters.split(", "))
        of = "<PLAIN>" if head == _UPDATE else ""
        lines.append(f"{head}({parameters}) {{")
        lines += [f"    if (own.kind == {k}) return {name}{k}{of}({passed});" for k in range(len(kinds) - 1)]
        lines += [f"    return {name}{len(kinds) - 1}{of}({passed});", "}"]
    return "\n".join(lines) + "\n"
