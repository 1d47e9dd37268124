# SPDX-License-Identifier: Apache-2.0
"""What kernels of networks and Python both know, described once: structures, as dtypes, and constants.

Python fills a dtype, and the structure in the text of a kernel is printed from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "CARRIED",
    "COMPACT",
    "COUNTED",
    "DISTRIBUTION",
    "DREW",
    "FED",
    "FILLED",
    "GIVEN",
    "GIVEN_HERE",
    "KEYED",
    "LAID",
    "LINES",
    "LISTED",
    "LOST",
    "NOBODY",
    "NOT_FINITE",
    "NO_ROOM",
]
__all__ += [
    "AFAR",
    "ANEW",
    "FULL",
    "GO_ON",
    "GPU_SHIFT",
    "HELD",
    "IN_PARTS",
    "ORDERED",
    "PADDED",
    "PARTED",
    "PEER",
    "PLACED",
    "PUSHED",
    "RATED",
    "READ",
    "RECIPE",
    "RECIPE_OF_PARTS",
    "RECORDED",
    "ROWS",
    "SAMPLE",
    "SHORT",
    "SHOWN",
    "SLOTS",
    "TREATED",
    "WRITTEN",
    "Extents",
]
__all__ += [
    "SYNAPSE_SAMPLE",
    "TOLD",
    "common_dtype",
    "constants_text",
    "filled",
    "net_dtype",
    "piece_dtype",
    "population_dtype",
]
__all__ += ["shared_text", "structs_text"]

PADDED, COMPACT, SHORT, SLOTS, PUSHED, PARTED = range(6)  # layouts of rows
NOBODY = 2**32 - 1  # the row of a neuron without synapses
NO_ROOM, NOT_FINITE = 1, 2  # why all blocks stop after a step: bits
LOST = 8  # why blocks on several GPUs stop: a packet did not come
FULL = 16  # why blocks with plastic synapses do: a list of events is full
RECORDED, COUNTED, RATED, SHOWN, FED = (1 << bit for bit in range(5))  # flags of a population

_WORD, _LONG, _FLOAT, _SIGNED = np.uint32, np.uint64, np.float32, np.int32
_TYPES = {"uint32": "u32", "uint64": "u64", "float32": "float", "int32": "int"}
_CPP = "C++"


def _struct(name: str, *fields: tuple[str, Any] | tuple[str, Any, tuple[int, ...]]) -> np.dtype[Any]:
    return np.dtype(list(fields), align=True, metadata={_CPP: name})


def _to(cpp: str) -> Any:
    """Return the type of an address: in C++ that of a pointer."""
    return np.dtype(_LONG, metadata={_CPP: f"{cpp}*"})


def _words(names: str) -> list[tuple[str, Any]]:
    return [(name, _WORD) for name in names.split()]


def _pointers(cpp: str, names: str) -> list[tuple[str, Any]]:
    return [(name, _to(cpp)) for name in names.split()]


SAMPLE = _struct(
    "Sample", *_words("population word every width before"), ("out", _to("u32")), ("columns", _to("const int"))
)

# A coupling into one receptor of a population, in front of the synapses of all: `starts`, by slot of the target, slots
# of `sources` and `weights` begin a number of words after the first coupling. `rank` is the place of a state among
# those that are shown.
CARRIED = _struct(
    "Carried", *_words("population receptor rank rank_of_own difference one_weight starts sources weights")
)

# Synapses of one projection by source neuron, as a plan has them: `owners` blocks have neurons, and each has `share`
# cells, if rows are those of all blocks. Where the bytes of an array are 0, one number stands for all. On one of
# several GPUs, synapses are those that end in `here` blocks, from `first` on. Where neurons are placed on GPUs, tables
# have their numbers, and synapses from other GPUs have delays that are shorter by `extra` steps. If these blocks are
# those of several `parts`, `part_of` has three words of each block: its part, and the first block and their number; if
# parts are `apart`, synapses between them have such delays, too.
_GIVEN = (
    *_words("sources source_begin target_begin blocks all_sources layout wide cell_shift delay_shift reach"),
    *_words("owners share target_bytes weight_bytes delay_bytes"),
    ("weight", _SIGNED),
    *_words("delay weight_mask"),
    ("starts", _to("const u64")),
    *_pointers("const void", "targets weights delays"),
)
GIVEN, GIVEN_HERE = (
    _struct("Given", *_GIVEN),
    _struct(
        "Given",
        *_GIVEN,
        *_words("first here extra parts apart"),
        *_pointers("const u32", "source_numbers target_numbers part_of"),
    ),
)

# What a GPU has that others write to: packets, lists of spikes, a flag that ends all waiting, and what couplings need.
PEER = _struct("Peer", ("packets", _to("u64")), *_pointers("u32", "list flag shown met"))

DISTRIBUTION = _struct(
    "Distribution", ("kind", _WORD), *((name, _FLOAT) for name in ("a", "b", "low", "high")), ("span", _WORD)
)

# How the synapses of one projection are drawn, row by row: a row has `number` of them, unless `counts` says it. `total`
# is the number of all, each from any source. Weights are drawn in quanta, each of which is `times` those of the plan.
# `counts` are of each row; `turns` of each block of threads and end: ~ of the first turn that drew it, 0 if none did;
# `loads` of each target: sums of |weight|, nullptr if nothing is to be measured. `totals` are synapses, and weights
# that rounding changed by more than 2^-9 of their value; `limits` are those of the structure `Limits`; `delayed` is 1
# for each delay that there is, nullptr if that is not asked for.
#
# Of `PAIRS`, sources look at targets in runs: `order` to `limits` are as in `plan/pairs.py`. Functions of both neurons
# read attributes, (attributes, neurons) by number of the neuron, of a probability, a weight and a delay. `wrong` has,
# for each of the three, ~ of the first row in which one is not right. Between parts of populations, `source_numbers`
# and `target_numbers` are the numbers of their neurons, nullptr where these follow each other.
_RECIPE = (
    *_words("kind rows ends skip by_target number"),
    *_words("key0 key1 delay_key0 delay_key1 source_key0 source_key1"),
    *_words("own_weights own_delays"),
    ("total", _LONG),
    ("weights", DISTRIBUTION),
    ("delays", DISTRIBUTION),
    ("scale", _FLOAT),
    *_words("times"),
    *_pointers("u32", "counts turns"),
    *_pointers("u64", "loads totals"),
    *_pointers("u32", "limits delayed"),
    *_words("sources targets"),
    *_pointers("const u32", "order group begins ends_of_runs"),
    ("starts", _to("const u64")),
    *_pointers("const float", "most chance_pre chance_post weight_pre weight_post delay_pre delay_post"),
    ("wrong", _to("u32")),
)
RECIPE = _struct("Recipe", *_RECIPE)
RECIPE_OF_PARTS = _struct("Recipe", *_RECIPE, *_pointers("const u32", "source_numbers target_numbers"))

# `used` counts the synapses of each source that end in a block: sources x blocks. `rows` are those of kernels of steps.
# Of plastic synapses, rows have `keys`, of so many bytes and bits; `late` has the row of each delay, nullptr for one.
ROWS = _struct(
    "Rows",
    *_words("start_bytes slot_bits key_bytes turn_bits place_bits"),
    ("used", _to("u32")),
    ("rows", _to("const u32")),
    ("starts", _to("void")),
    ("bases", _to("const u64")),
    ("synapses", _to("u32")),
    ("keys", _to("void")),
    ("late", _to("const u32")),
)

# Where rows lie: `inside` synapses lie in a slot itself. `widths` are of each source: how many synapses of it end in
# one block at most; `totals` of all rows: words, quads, and words of rows that no slot holds; `ends` of each block: how
# much all rows take. If `starts` is nullptr, only `ends` are asked for.
LAID = _struct(
    "Laid",
    *_words("sources blocks layout words inside start_bytes"),
    ("used", _to("const u32")),
    ("widths", _to("u32")),
    *_pointers("u64", "totals ends"),
    ("starts", _to("void")),
)

# Rows of `parts` of a GPU, in quads: `starts`, by source and part, are where the rows of its first block begin : 32,
# quads of each row : 12, and ~ of the least delay : 12. `ends` are how many quads all rows of each source take, or
# where they begin; `widest` becomes the number of quads of the widest row.
IN_PARTS = _struct(
    "InParts",
    *_words("sources blocks parts delay_shift delays"),
    *_pointers("const u32", "used part_of"),
    *_pointers("u64", "starts ends"),
    *_pointers("u32", "synapses widest"),
)

# Spikes of each block (step : 32, number of the neuron : 32), where they end (the third of four words), and for each
# population where its numbers begin, and how many there are. Then of each population and step, and of each spike.
LISTED = _struct(
    "Listed",
    *_words("blocks capacity populations steps first"),
    ("spikes", _to("const u64")),
    *_pointers("const u32", "ends ranges"),
    *_pointers("u32", "tally cursors unordered ordered at"),
)

# Spikes of one process that others are told of: those of each block, as in `Listed`; of each population, three words:
# where its numbers begin, how many there are, and the number of the first one among the `neurons` of all processes. A
# spike is one word: steps after `begin`, times `neurons`, and its number. `listed` has their number, and then them,
# with room for `most`; `other` is such a list for the time after the next exchange. A launch should have had `steps`
# steps, if that is not 0.
TOLD = _struct(
    "Told",
    *_words("blocks capacity populations begin neurons status room most steps size"),
    ("spikes", _to("const u64")),
    *_pointers("const u32", "ends ranges halted values"),
    *_pointers("u32", "listed other message"),
)

# The messages of all GPUs, of `row` words each: a status, how many spikes there are, and these, of `size` words each:
# of 2 if spikes have values, which are floats, or NO_VALUE. Rows of the synapses that other GPUs' neurons have here,
# and the sums of `blocks` blocks, to which those are added. `heads` become the first words of all messages. If not all
# spikes can be delivered, `halted` becomes `exchange`, and what is launched after that does nothing.
AFAR = _struct(
    "Afar",
    *_words("processes own row size neurons begin blocks cells slots pushed bytes wide"),
    *_words("cell_shift cell_mask delay_shift weight_shift exchange"),
    *_pointers("const u32", "messages starts"),
    ("synapses", _to("const uint4")),
    ("sums", _to("int")),
    *_pointers("u32", "heads least halted"),
)

# Samples of plastic synapses, of the weight where `state` is 0: of block b, entries starts[b] to starts[b + 1] - 1 are
# places of synapses and columns.
SYNAPSE_SAMPLE = _struct(
    "SynapseSample",
    *_words("every before projection state"),
    ("width", _LONG),
    *_pointers("const u32", "values starts columns"),
    ("synapses", _to("const u64")),
    ("out", _to("u32")),
)

_PLASTIC = (
    ("plastic", _to("const u64")),
    *_words("since deferring"),
    ("synapse_samples", _LONG),
    ("synapse_sample", _to("const SynapseSample")),
)
_AMONG = (
    *_words("first_block own_blocks gpu"),
    ("patience", _LONG),
    ("peers", _to("const Peer")),
    *_pointers("const u32", "number_of row_of parts"),
    ("next_sums", _to("int")),
)


# Lines of keys to be sorted: line k of block b has those from bases[b] + starts[b * (lines + 1) + k] on.
LINES = _struct(
    "Lines",
    *_words("blocks lines key_bytes"),
    ("starts", _to("const u32")),
    ("bases", _to("const u64")),
    ("keys", _to("void")),
)

# Plastic synapses in lines by block and source, of whose keys all follows: places of targets, rows of delays, and
# weights of a law. Of `all_blocks`, these are `blocks`, from `first` on. `used` counts synapses by place, and row of
# delays if `late_places` of them have lines of their own, and block, and `into` says where those lie in `incoming`,
# with their sources in the bits from `entry_bits` on.
KEYED = _struct(
    "Keyed",
    *_words("blocks all_blocks first sources places first_number key_bytes turn_bits place_bits"),
    *_words("target_bytes which_bytes more_bytes entry_bits late_places own_weights by_target key0 key1"),
    ("law", DISTRIBUTION),
    ("starts", _to("const u32")),
    ("bases", _to("const u64")),
    *_pointers("void", "keys targets which more"),
    ("weights", _to("float")),
    *_pointers("u32", "used into incoming"),
)

# The synapses of a projection that a GPU has, and numbers of theirs.
HELD = _struct(
    "Held",
    ("starts", _to("const u32")),
    ("bases", _to("const u64")),
    *_pointers("const void", "targets which"),
    ("values", _to("u32")),
)

# The synapses of some sources in the order of a state, by way of `room` for the longest row in each block of threads:
# values are copied to `there` or back, or drawn by a law, or their places are written. Each of the GPUs has
# `own_blocks`, and is `held`.
ORDERED = _struct(
    "Ordered",
    *_words("first last blocks own_blocks sources first_number target_bits turn_bits target_bytes which_bytes what"),
    *_words("key0 key1"),
    ("law", DISTRIBUTION),
    ("longest", _LONG),
    ("rows", _to("const u64")),
    ("held", _to("const Held")),
    ("there", _to("void")),
    ("room", _to("u64")),
)
FILLED = _struct("Filled", ("to", _to("u32")), ("count", _LONG), ("word", _WORD))  # words that become the same
READ, WRITTEN, PLACED, DREW = range(4)  # what is done with them
GPU_SHIFT = 48  # where the number of the GPU begins in what says where a synapse lies
GO_ON, ANEW, TREATED = range(3)  # of a launch: deferred calls wait, are forgotten, or are made, without a step


def piece_dtype(words: int) -> np.dtype[Any]:
    """Return the dtype of `Piece`: at most so many words of a table."""
    return _struct("Piece", ("to", _to("u64")), ("count", _LONG), ("words", _LONG, (words,)))


class Extents(NamedTuple):
    """The largest numbers of receptors, parameters and counted draws that a population has."""

    receptors: int
    params: int
    draws: int


def population_dtype(most: Extents) -> np.dtype[Any]:
    """Return the dtype of `Population`; `shown` is 1 for each spike, (steps, neurons).

    It has `size` neurons on this GPU, from number `first` of `all` its neurons on.
    """
    receptors = (most.receptors + 1,)
    return _struct(
        "Population",
        *_words("begin size first all kind flags key0 key1"),
        ("param", _WORD, (most.params + 1,)),
        ("input_row", _WORD, receptors),
        ("input_item", _WORD, receptors),
        ("quantum", _FLOAT, receptors),
        ("input", _to("const float"), receptors),
        ("counted", _to("const float"), (most.draws + 1,)),
        ("rates", _to("int")),
        ("shown", _to("float")),
    )


def common_dtype(most: Extents) -> np.dtype[Any]:
    """Return the dtype of `Common`: what all neurons of a population share, as a constant of a launch."""
    return _struct(
        "Common",
        *_words("begin size first flags key0 key1"),
        ("quantum", _FLOAT, (most.receptors + 1,)),
        ("p", _WORD, (most.params + 1,)),
    )


def net_dtype(
    most: Extents,
    common: int,
    *,
    coupled: bool = False,
    plastic: bool = False,
    several: bool = False,
    tells: bool = False,
) -> np.dtype[Any]:
    """Return the dtype of `Net` with so much in `common`, and what couplings, plastic synapses or several GPUs need.

    It is `plain` if there are no inputs and no samples. `begin` is the first step of a run, nullptr where that is the
    first step of the launch; if `halted` points to a word other than 0, a launch does nothing. `clocks` are of each
    block: cycles from the beginning of a step to each mark. Where several networks run side by side, `first` is the
    first step of the launch, `steps` how many it has at most, and `networks` how many networks run, from this one on.
    `shown` are states that couplings read, after even and after odd steps, and `met` the number of the last launch that
    each block has begun: one more than its first step. `told` are the values of the last spikes, by neuron, if other
    processes are told of them.

    Of several GPUs, this is number `gpu`, with `own_blocks` blocks from `first_block` on; a packet is awaited for so
    many nanoseconds, `patience`. Addresses of what only these blocks have are those that block 0 would have.
    """
    carried = [("couplings", _to("const u32")), *_pointers("u32", "shown met")] if coupled else []
    return _struct(
        "Net",
        *_words("blocks per slots cells sources populations samples copies capacity turn"),
        *_words("delay_shift cell_shift cell_mask weight_shift row_words list_size slot_bits slot_mask more"),
        *_words("first steps networks"),
        ("reach", _WORD, (most.receptors + 1,)),
        ("plain", _WORD),
        ("nanoseconds", _LONG),
        ("population", _to("const Population")),
        ("sample", _to("const Sample")),
        *_pointers("const u32", "scalars arrays rows"),
        ("starts", _to("const void")),
        ("bases", _to("const u64")),
        ("synapses", _to("const uint4")),
        ("states", _to("u32")),
        ("ring", _to("int")),
        ("packets", _to("u64")),
        ("list", _to("u32")),
        ("spikes", _to("u64")),
        ("counts", _to("int")),
        ("ends", _to("u32")),
        *_pointers("const u32", "begin halted"),
        ("clocks", _to("u64")),
        *carried,
        ("common", common_dtype(most), (max(1, common),)),
        *(_PLASTIC if plastic else ()),
        *(_AMONG if several else ()),
        *(_pointers("u32", "told") if tells else ()),
    )


def structs_text(*dtypes: np.dtype[Any]) -> str:
    """Return the structures that dtypes describe, as C++; the compiler confirms their sizes."""
    return "\n".join(map(_text, dtypes))


def _text(dtype: np.dtype[Any]) -> str:
    fields: Mapping[str, Any] = dtype.fields or {}
    lines = []
    for name, (kind, *_) in fields.items():
        element, shape = kind.subdtype or (kind, ())
        lines.append(f"    {_type(element)} {name}{''.join(f'[{size}]' for size in shape)};")
    size = f'static_assert(sizeof({_type(dtype)}) == {dtype.itemsize}, "as in Python");'
    return "\n".join([f"struct {_type(dtype)} {{", *lines, "};", size, ""])


def _type(dtype: np.dtype[Any]) -> str:
    return dtype.metadata[_CPP] if dtype.metadata else _TYPES[dtype.name]


def constants_text(**values: int) -> str:
    """Return constants as C++."""
    return "".join(f"constexpr u32 {name} = {value}u;\n" for name, value in values.items())


def shared_text() -> str:
    """Return the types and constants of all kernels, as C++."""
    layouts = {"PADDED": PADDED, "COMPACT": COMPACT, "SHORT": SHORT, "SLOTS": SLOTS, "PUSHED": PUSHED}
    layouts |= {"PARTED": PARTED, "NOBODY": NOBODY}
    flags = {"RECORDED": RECORDED, "COUNTED": COUNTED, "RATED": RATED, "SHOWN": SHOWN, "FED": FED}
    types = "typedef unsigned u32;\ntypedef unsigned long long u64;\n"
    return types + constants_text(**layouts, **flags, NO_ROOM=NO_ROOM, NOT_FINITE=NOT_FINITE)


def filled(dtype: np.dtype[Any], **values: Any) -> Any:
    """Return one structure with all its values."""
    one = np.zeros((), dtype)
    for name, value in values.items():
        one[name] = value
    return one
