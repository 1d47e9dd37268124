# SPDX-License-Identifier: Apache-2.0
"""The text of a network's kernel: constants of its structure, the rules of its neurons, and what all networks share."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...scalar.cuda_text import TYPES, cuda_text
from ...scalar.form import Form
from ...scalar.poisson_table import PoissonDraw, split
from ..plan.couplings import added_form
from ..plan.distribution import EXPONENTIAL, INTEGERS, LOGNORMAL, NORMAL, UNIFORM
from ..plan.loop_arguments import ALL, DISTINCT, GAPS, GROUPED, ONE, PAIRS, REPLACED
from ..plan.mapped import MAPPED
from ..plan.plan import Plan, PopulationPlan
from .structs import (
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
    KEYED,
    LAID,
    LINES,
    LISTED,
    LOST,
    ORDERED,
    PEER,
    PLACED,
    READ,
    RECIPE,
    RECIPE_OF_PARTS,
    ROWS,
    SAMPLE,
    SYNAPSE_SAMPLE,
    TREATED,
    WRITTEN,
    Extents,
    common_dtype,
    constants_text,
    net_dtype,
    piece_dtype,
    population_dtype,
    shared_text,
    structs_text,
)

__all__ = [
    "HISTORY",
    "LATER_BYTES",
    "ON_GPU",
    "PART",
    "Kind",
    "PlasticText",
    "Structure",
    "extents_of",
    "fractions_of",
    "kinds_of",
    "other_text",
    "step_text",
    "value_of",
    "words_of",
]

ON_GPU, ON_GPU_PLASTIC = "on_gpu.cu", "on_gpu_plastic.cu"
HISTORY, PART = 128, 128  # events of a target that are kept; synapses of a part of a spike, at least
ROOM_LATER, PIECES = 256, 3  # synapses for which a warp makes deferred calls at once; parts of spikes
LATER_BYTES = 8 * ROOM_LATER + 48  # of shared memory, for each warp
_HERE = Path(__file__).parent
_RULES = "#include_rules"
_STARTS = {2: "short", 4: "int", 8: "long long"}
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
    "BE void each": "const Net& net, const Own& own, u32* p, u32 slot",
}


@dataclass(frozen=True)
class Kind:
    """What populations of one text share: the rule without the Poisson numbers that are counted in tables, and those.

    `scalars` says of each parameter whether it is one for all neurons; `events`, whether the form returns all events,
    for plastic synapses.
    """

    population: PopulationPlan
    form: Form
    drawn: tuple[PoissonDraw, ...]
    scalars: tuple[bool, ...]
    events: bool

    @property
    def receptors(self) -> int:
        """How many receptors there are."""
        return len(self.population.quanta)

    def is_of(self, other: Kind) -> bool:
        """Say whether both have the same text."""
        ours, theirs = (
            (kind.form, [one.uniform for one in kind.drawn], kind.scalars, kind.population.rule.form)
            for kind in (self, other)
        )
        return ours == theirs


def kind_of(population: PopulationPlan, params: Mapping[str, Any], *, events: bool = False) -> Kind:
    """Return the kind of a population for the parameters that it has now, perhaps with all its events."""
    names = [name.text for name in population.rule.params]
    values = [np.asarray(value) for value in params.values()]
    whole = population.rule.form if events else population.rule.step
    form, drawn = split(whole, {n: v for n, v in zip(names, values, strict=True) if v.ndim == 0})
    return Kind(population, form, drawn, tuple(value.ndim == 0 for value in values), events)


def kinds_of(plan: Plan, params: Mapping[str, Mapping[str, Any]]) -> tuple[list[Kind], dict[str, int], list[Kind]]:
    """Return all kinds, those with more receptors first; the kind of each population by name; and its own `Kind`."""
    own = [kind_of(population, params[population.name], events=bool(plan.plastic)) for population in plan.populations]
    kinds: list[Kind] = []
    for kind in sorted(own, key=lambda kind: -kind.receptors):
        if not any(kind.is_of(known) for known in kinds):
            kinds.append(kind)
    numbers = {
        kind.population.name: next(number for number, known in enumerate(kinds) if kind.is_of(known)) for kind in own
    }
    return kinds, numbers, own


def extents_of(kinds: Sequence[Kind]) -> Extents:
    """Return how many receptors, parameters and counted draws a population has at most."""
    receptors, params = max(kind.receptors for kind in kinds), max(len(kind.scalars) for kind in kinds)
    return Extents(receptors, params, max(len(kind.drawn) for kind in kinds))


@dataclass(frozen=True)
class Structure:
    """The constants that the text of a kernel is made for.

    Where a thread has several neurons in registers, `cells` are the populations of its first neuron, its second one and
    so on; or `fours` are those of four neurons each. `populations` are the kinds of populations, if what their neurons
    share is passed with a launch.
    """

    threads: int
    listeners: int
    layout: int
    wide: bool
    in_registers: bool
    ring_in_block: bool
    words_in_block: int
    checked: bool
    only_nan: bool  # is found where that is checked, and only in populations whose spikes have values
    rows_in_block: bool
    direct: bool  # no warps wait for rows to deliver
    start_bytes: int
    narrow: bool
    queue: int
    mine: int
    cluster: int = 0  # how many blocks there are, if all are in one cluster
    parts: int = 1  # of a short row, which lanes deliver
    units: int = 1  # of a packet
    clocked: bool = False
    traced: bool = False  # the first step and the parameters lie in memory, as in programs of JAX
    beside: bool = False  # several networks run side by side
    gpus: int = 1
    far: int = 0  # inboxes of another GPU to which a block sends, if there are several
    message: int = 0  # units of what a spare block of each GPU tells the others, if blocks do not
    reached: int = 0  # spikes that plastic synapses queue
    lists: int = 0  # of events that plastic synapses need
    table: int = 0  # words of the table of plastic synapses, if that is in shared memory
    lag: int = 0  # steps after theirs in which packets are read
    extra: int = 0  # steps by which those of other GPUs are read later
    apart: bool = False  # padded rows lie elsewhere on each GPU
    placed: bool = False  # neurons are dealt to the blocks of the GPU that they are placed on
    fenced: int = 1  # steps of which lists of events are released at once
    mixed: bool = False  # states in memory are those of many small populations
    drawn: int = 0  # words of each neuron, for what is drawn for the next step
    together: int = 1  # rows that a warp delivers at once
    near: int = 0  # steps whose sums are in shared memory, in 16 bits
    far_room: int = 0  # synapses that are listed for each later step
    certain: bool = False  # 16 bits hold all sums
    cells: tuple[int, ...] = ()
    fours: tuple[int, ...] = ()  # the populations of a thread's first four neurons, its second ones and so on
    kept_fours: int = 0  # words of four neurons that stay in a thread's registers
    shared_fours: int = 0  # the same in shared memory
    falling: tuple[int, ...] = ()  # sums are bytes: which receptors of each population have weights below 0, as bits
    populations: tuple[int, ...] = ()
    couplings: int = 0  # from one population into one receptor each
    shown: tuple[int, ...] = ()  # the words of states that they read

    @property
    def kept(self) -> int:
        """For how many steps packets are kept: a power of two."""
        return 1 << (2 * (self.lag + self.extra) + 1).bit_length()

    @property
    def _late(self) -> list[str]:
        """The constants of several GPUs, or of plastic synapses, as lines of C++."""
        lines = []
        if self.gpus > 1:
            among = f"GPUS = {self.gpus}, FAR = {self.far}, MESSAGE = {max(1, self.message)}, LOST = {LOST}"
            lines += [f"constexpr unsigned {among};", f"constexpr bool COURIER = {str(self.message > 0).lower()};"]
            lines.append(f"constexpr bool PLACED = {str(self.placed).lower()}, OWN_ROWS = {str(self.apart).lower()};")
        if self.reached:
            plastic = f"REACHED = {self.reached}, LISTS = {self.lists}, TABLE = {self.table}, FENCED = {self.fenced};"
            lines.append(f"constexpr unsigned {plastic}")
        late = f"LAG = {self.lag}, FAR_LAG = {self.lag + self.extra}, KEPT = {self.kept};"
        return [*lines, f"constexpr unsigned {late}"] if lines else []

    def _of_fours(self, kinds: Sequence[Kind]) -> dict[str, int]:
        """The constants of neurons in fours."""
        if not self.fours:
            return {}
        kept = {"KEPT_FOURS": self.kept_fours, "SHARED_FOURS": self.shared_fours}
        return {"FOURS": len(self.fours), "FRACTIONS": fractions_of(kinds), **kept}

    @property
    def tables(self) -> str:
        """What is known of populations, as functions of C++."""
        of_cells = _table("population_of", self.fours or self.cells)
        return of_cells + _table("kind_of", self.populations) + _table("falling_of", self.falling)

    def text(self, kinds: Sequence[Kind]) -> str:
        """Return the constants as C++."""
        extents = extents_of(kinds)
        most = {
            "RECEPTORS": extents.receptors,
            "WORDS": max(len(kind.population.rule.states) for kind in kinds),
            "PARAMS": extents.params,
            "DRAWS": extents.draws,
            "THREADS": self.threads,
            "LISTENERS": self.listeners,
            "CARRIERS": self.threads // 32 - self.listeners - 1,
            "LAYOUT": self.layout,
            "QUEUE": self.queue,
            "MINE": self.mine,
            "CELLS": len(self.cells),
            "COMMON": max(1, len(self.populations)),
            "CLUSTER": self.cluster,
            "PARTS": self.parts,
            "UNITS": self.units,
            "TOGETHER": self.together,
            "WORDS_IN_BLOCK": self.words_in_block,
            "WHOLE_WORDS": sum(1 << word for word in range(32) if _is_whole(kinds, word)),
        }
        flags = {
            "WIDE": self.wide,
            "IN_REGISTERS": self.in_registers,
            "RING_IN_BLOCK": self.ring_in_block,
            "CHECKED": self.checked,
            "ROWS_IN_BLOCK": self.rows_in_block,
            "DIRECT": self.direct,
            "NARROW": self.narrow,
            "CLOCKED": self.clocked,
            "SHARED_ARE_PASSED": bool(self.populations),
            "TRACED": self.traced,
            "BYTES": bool(self.falling),
        }
        most |= self._of_fours(kinds)
        lines = [f"constexpr unsigned {name} = {value};" for name, value in most.items()]
        lines += [f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]
        lines.append(f"typedef unsigned {_STARTS[self.start_bytes]} Start;")
        lines.append(
            f"#define IN_CLUSTER __cluster_dims__({self.cluster}, 1, 1)" if self.cluster else "#define IN_CLUSTER"
        )
        lines += ["#define BESIDE"] * self.beside + ["#define GRADED"] * _are_graded(kinds)
        if self.couplings:
            lines += [
                "#define COUPLED",
                f"constexpr unsigned COUPLINGS = {self.couplings}, SHOWN_STATES = {len(self.shown)};",
            ]
        return "\n".join([*lines, *self._sums(extents.draws), *self._late]) + "\n"

    def _sums(self, draws: int) -> list[str]:
        """The constants of sums in shared memory, and of small populations, as lines of C++."""
        flags = {"CERTAIN": self.certain, "MIXED": self.mixed, "DRAWN_AHEAD": 0 < draws <= self.drawn}
        return [
            f"constexpr unsigned NEAR = {self.near}, FAR_ROOM = {self.far_room}, DRAWN_WORDS = {self.drawn};",
            *(f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()),
        ]


def _are_graded(kinds: Sequence[Kind]) -> bool:
    """Say whether some spikes have values."""
    return any(kind.population.rule.value for kind in kinds)


def _fours(kinds: Sequence[Kind]) -> str:
    """Return functions for neurons in fours: the turn of a word among those like it, and the receptors of a kind."""
    is_whole = [_is_whole(kinds, word) for word in range(words_of(kinds))]
    turns = [is_whole[:word].count(own) for word, own in enumerate(is_whole)]
    return _table("turn_of", turns) + _table("receptors_of", [kind.receptors for kind in kinds])


def words_of(kinds: Sequence[Kind]) -> int:
    """Return how many words a neuron has: the largest number of states."""
    return max(len(kind.population.rule.states) for kind in kinds)


def fractions_of(kinds: Sequence[Kind]) -> int:
    """Return how many words of states may be numbers with a fraction."""
    return sum(not _is_whole(kinds, word) for word in range(words_of(kinds)))


def _is_whole(kinds: Sequence[Kind], word: int) -> bool:
    """Say whether a word of states is an integer or a boolean in all kinds that have it."""
    return all(
        dtype != "float32"
        for kind in kinds
        for dtype in [n.dtype for n in kind.population.rule.states][word : word + 1]
    )


def _table(name: str, values: Sequence[int]) -> str:
    """Return a function that returns the values by their number, as a constant where that is one."""
    found = "".join(f"k == {k} ? {int(value)} : " for k, value in enumerate(values))
    return f"BE constexpr u32 {name}(u32 k) {{ return {found}0; }}\n"


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
    `told` says of each list of events whether all GPUs read it. Synapses may be `inside` the shared memory of blocks.
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
        lines += [f"constexpr unsigned LATER_BYTES = {LATER_BYTES}, LATER = DEFERRED ? THREADS / 32 * LATER_BYTES : 0;"]
        numbers: dict[str, int] = {"GO_ON": GO_ON, "ANEW": ANEW, "TREATED": TREATED, "FULL": FULL}
        numbers |= {"BEHIND": self.behind, "SPARE": self.spare, "HISTORY": HISTORY, "PART": PART}
        numbers |= {"ROOM_LATER": ROOM_LATER, "PIECES": PIECES}
        lines += [f"constexpr unsigned {name} = {value};" for name, value in numbers.items()]
        return "\n".join([*lines, "constexpr unsigned ACTING = WINDOWED ? CARRIERS : THREADS / 32;", ""])


def marked(text: str, *, plastic: bool = False, several: bool = False, parts: bool = False, fours: bool = False) -> str:
    """Return a text without marks: with lines for networks with plastic synapses or not, on several GPUs or one.

    In both of these packets may be read late. With `parts`, synapses are drawn between parts of populations. With
    `fours`, neurons of a thread are in fours.
    """
    late, between = ("#late ", "#prompt ", plastic or several), ("#parts ", "#whole ", parts)
    kinds = (("#plastic ", "#static ", plastic), ("#several ", "#one ", several), ("#fours ", "#others ", fours))
    for mark, other, is_so in (*kinds, late, between):
        kept, dropped = (mark, other) if is_so else (other, mark)
        lines = (line for line in text.splitlines(keepends=True) if not line.lstrip().startswith(dropped))
        text = "".join(line.replace(kept, "", 1) for line in lines)
    return text


def words_among(words: str | None) -> str:
    """Return the words of kernels on several GPUs: memory is ordered for all of them."""
    if words is not None:
        return words
    return read_text(ON_GPU).replace(".gpu.", ".sys.").replace(".gpu;", ".sys;") + read_text("several/on_gpu.cu")


def step_text(
    kinds: Sequence[Kind], structure: Structure, words: str | None = None, plastic: PlasticText | None = None
) -> str:
    """Return the whole text of `run`; `words` are the words in which it is written, None for those of a GPU."""
    forms = [replace(kind.form, name=f"rule{number}") for number, kind in enumerate(kinds)]
    forms += [
        replace(drawn.uniform, name=f"uniform{number}_{place}")
        for number, kind in enumerate(kinds)
        for place, drawn in enumerate(kind.drawn)
    ]
    has, several = plastic is not None, structure.gpus > 1
    rules = "\n".join(
        _params(number, kind) + _take(number, kind) + _update(number, kind, structure, kinds) + _draw(number, kind)
        for number, kind in enumerate(kinds)
    )
    most, coupled = extents_of(kinds), structure.couplings > 0
    common, net = (
        common_dtype(most),
        net_dtype(most, len(structure.populations), coupled=coupled, plastic=has, several=several),
    )
    structs = [*[CARRIED] * coupled, population_dtype(most), common, SAMPLE, *[SYNAPSE_SAMPLE] * has]
    structs += [*[PEER] * several, net]
    if coupled:
        forms += [added_form("float32", difference=one, name=("state", "difference")[one]) for one in (False, True)]
        rules = _table("shown_word", structure.shown) + read_text("coupling.cu") + rules
    parts = [
        structure.text(kinds) + (plastic.constants if plastic else ""),
        cuda_text([*forms, *(plastic.forms if plastic else ())]),
        shared_text(),
        structs_text(*structs),
        read_text("prelude.cu"),
        words_among(words) if several else read_text(ON_GPU) if words is None else words,
        *([read_text(ON_GPU_PLASTIC)] if has and words is None else []),
        read_text("near.cu") + read_text("deliver.cu"),
        *([read_text("late.cu")] if has or several else []),
        *([read_text("several/peers.cu")] if several else []),
        *([_table("is_told", plastic.told) + read_text("plastic.cu")] if plastic is not None else []),
        *([read_text("plastic_deferred.cu")] if plastic is not None and plastic.flags["DEFERRED"] else []),
        structure.tables,
        read_text("neurons.cu").replace(_RULES, rules + _chosen(kinds, events=has) + (plastic.tell if plastic else "")),
        *([plastic.rules] if plastic else []),
        read_text("many.cu"),
        *([_fours(kinds) + read_text("fours.cu")] if structure.fours else []),
        read_text("exchange.cu"),
        *([read_text("several/push.cu")] if several else []),
        *([read_text("several/courier.cu")] if several else []),
        read_text("step.cu"),
    ]
    return marked("\n".join(parts), plastic=has, several=several, fours=bool(structure.fours))


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
        "drawn_values.cu": (DISTRIBUTION,),
        "drawing.cu": (RECIPE_OF_PARTS if parts else RECIPE,),
        "plastic_rows.cu": (LINES, KEYED, HELD, ORDERED, FILLED),
        "spikes.cu": (LISTED,),
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
        "constexpr bool RING_IN_BLOCK = true, ROWS_IN_BLOCK = false, DIRECT = false;",
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


def _update(number: int, kind: Kind, structure: Structure, kinds: Sequence[Kind]) -> str:
    """Return `update<number>`: one step of one neuron; it returns whether the neuron spiked.

    In networks with plastic synapses it says which events the neuron had: bits, of which the first is the spike.
    """
    form, given, states = kind.form, _given(kind), kind.population.rule.states
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
    if _are_graded(kinds):
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
        lines.append(f"d[{place}] = events(net.population[own.population].counted[{place}], {uniform});")
    return _function(f"BE void draw{number}({_CHOSEN['BE void draw']}) {{", lines)


def _params(number: int, kind: Kind) -> str:
    """Return `scalars<number>` and `each<number>`: the parameters that all neurons share, and those of one neuron."""
    of = "const Population& of = net.population[own.population];"
    shared = [k for k, scalar in enumerate(kind.scalars) if scalar]
    own = [k for k, scalar in enumerate(kind.scalars) if not scalar]
    of_slot = "net.blocks * net.per + slot"
    scalars = [
        of,
        *(
            f"p[{k}] = SHARED_ARE_PASSED && !TRACED ? net.common[own.population].p[{k}] : net.scalars[of.param[{k}]];"
            for k in shared
        ),
    ]
    each = [of, *(f"p[{k}] = net.arrays[(u64)of.param[{k}] * {of_slot}];" for k in own)]
    return _function(f"BE void scalars{number}({_CHOSEN['BE void scalars']}) {{", scalars) + _function(
        f"BE void each{number}({_CHOSEN['BE void each']}) {{", each
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
