# SPDX-License-Identifier: Apache-2.0
"""The text of the kernels of layers: constants of their shape, their rules both ways, and what all kernels share."""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ....scalar.cuda_text import TYPES, cuda_text
from ....scalar.form import Form, Name
from .layer import Layer, Layers
from .shape import Shape

__all__ = ["SHARED", "kernel_text", "parameter"]

_HERE = Path(__file__).parent
_LONGEST_WAIT = 20_000_000_000  # nanoseconds
_FIELDS = {  # addresses in the parameter of a kernel, and the constant that says how many there are
    "forward": {
        "current": "CURRENT_ROOM", "begin": "STATES", "param": "PARAMS", "weights": "", "quantum": "", "random": "",
        "fine": "", "kept": "KEPT", "flags": "FLAGS", "spikes": "", "end": "STATES", "shown": "SHOWN",
    },
    "backward": {
        "kept": "KEPT", "flags": "FLAGS", "param": "PARAMS", "spikes": "", "shown": "SHOWN", "end": "FLOATS",
        "weights": "", "scales": "", "random": "", "scratch": "", "current": "RECEPTORS",
        "begin": "FLOATS", "param_sums": "WANTED",
    },
}  # fmt: skip
SHARED = ("weights", "scratch")  # one array for all layers
_INTEGERS = "typedef unsigned u32;\ntypedef unsigned long long u64;\n"
_BEGIN = 'extern "C" __global__ void __launch_bounds__(256, 1) IN_CLUSTER'


@functools.cache
def _read(name: str) -> str:
    return (_HERE / name).read_text()


def kernel_text(layers: Layers, shape: Shape, words: str | None = None) -> str:
    """Return the whole text of a kernel; `words` are the words that it is written in, None for those of a GPU.

    With several layers, what depends on one is in a namespace of its own, and each block runs what is in that of its
    layer.
    """
    several = len(layers.layers) > 1
    forms = [getattr(layer.adjoint, shape.way) for layer in layers.layers]
    begin = "BE void name(const kind& p)" if several else f"{_BEGIN} name(const __grid_constant__ kind p)"
    parts = [
        _INTEGERS,
        f"#define KERNEL(name, kind) {begin}\n",
        _shape(layers, shape),
        cuda_text(forms),
        _read("words.cu") if words is None else words,
        _tables(layers, shape),
    ]
    for place, layer in enumerate(layers.layers):
        of_layer = [
            _constants(layers, place, shape),
            _read("shape.cu"),
            _rule(layer, shape.way),
            _read(f"{shape.way}.cu"),
        ]
        parts += [f"namespace of_{place} {{", *of_layer, "}"] if several else of_layer
    return "\n".join([*parts, *(_together(layers, shape) if several else ())])


def _together(layers: Layers, shape: Shape) -> list[str]:
    """Return the lines of a kernel of several layers."""
    way, kind = shape.way, shape.way.capitalize()
    places = range(len(layers.layers))
    lines = [f"struct {kind} {{", *(f"    of_{k}::{kind} of_{k};" for k in places), "    u32 steps, samples;", "};"]
    lines += [f"{_BEGIN} {way}(const __grid_constant__ {kind} p) {{", "    const u32 block = blockIdx.x % BLOCKS;"]
    ends = [shape.first_of(k) + shape.blocks_of[k] for k in places]
    lines += [f"    if (block < {ends[k]}u) return of_{k}::{way}(p.of_{k});" for k in places]
    return [*lines, "}", ""]


def parameter(layers: Layers, way: str, steps: int, samples: int) -> tuple[bytes, dict[tuple[int, str, int], int]]:
    """Return a kernel's parameter without its addresses, and where these are: of a layer, a name and a place."""
    places: dict[tuple[int, str, int], int] = {}
    numbers = struct.pack("<2I", steps, samples)
    found = b""
    for place, layer in enumerate(layers.layers):
        fields = list(_pointers(layer, way))
        places |= {(place, *field): len(found) + 8 * k for k, field in enumerate(fields)}
        found += bytes(8 * len(fields)) + numbers
    return found + (numbers if len(layers.layers) > 1 else b""), places


def _pointers(layer: Layer, way: str) -> Iterator[tuple[str, int]]:
    """Yield the fields of a layer that are addresses: a name, and a place within it."""
    counts = _counts(layer, way)
    for name, room in _FIELDS[way].items():
        yield from ((name, place) for place in range(max(1, counts[room]) if room else 1))


def _counts(layer: Layer, way: str) -> dict[str, int]:
    forward = way == "forward"
    return {
        "STATES": len(layer.states),
        "FLOATS": len(layer.float_states),
        "RECEPTORS": len(layer.receptors),
        "CURRENT_ROOM": len(layer.fed),
        "PARAMS": len(layer.params),
        "WANTED": len(layer.wanted),
        "KEPT": len(layer.kept),
        "FLAGS": len(layer.flags if forward else layer.flags_back),
        "SHOWN": len(layer.shown if forward else layer.shown_floats),
    }


def _shape(layers: Layers, shape: Shape) -> str:
    """Return the constants that all blocks have."""
    clustered = layers.has_product and shape.blocks > 1
    macros = {
        "CLUSTER": str(shape.blocks if clustered else 1),
        "MULTICAST": str(int(shape.multicast and clustered)),
        "IN_CLUSTER": f"__cluster_dims__({shape.blocks}, 1, 1)" if clustered else "",
    }
    numbers = {
        "WIDE": shape.wide,
        "INNER": shape.inner(layers) or shape.wide,
        "OWN": shape.own,
        "BLOCKS": shape.blocks,
        "SAMPLES": shape.samples,
        "REGISTERS": shape.registers,
        "AHEAD": shape.ahead,
        "DELAY": layers.delay,
        "SUMS": layers.sums,
        "PLANES": shape.planes(layers),
        "TOTALS": shape.totals(layers),
        "PIECES": len(layers.pieces[shape.way]),
    }
    flags = {
        "PRODUCT": layers.has_product,
        "SUMS_WITHIN": shape.sums_within,
        "SCALED": layers.sums > 1 or len(layers.layers) > 1,
        "DOUBTED": layers.doubted,
    }
    lines = [f"#define {name} {text}" for name, text in macros.items()]
    lines += [f"constexpr u64 LONGEST_WAIT = {_LONGEST_WAIT}ull;"]
    return "\n".join([*lines, *_lines(numbers, flags), ""])


def _lines(numbers: Mapping[str, int], flags: Mapping[str, bool]) -> list[str]:
    lines = [f"constexpr u32 {name} = {value}u;" for name, value in numbers.items()]
    return lines + [f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]


def _tables(layers: Layers, shape: Shape) -> str:
    """Return what is known of the pieces of weights, by their number."""
    pieces = layers.pieces[shape.way]
    wide = [shape.wide_of(piece.of) for piece in pieces]
    following = [sum(other.sum <= piece.sum for other in pieces) for piece in pieces]
    tables = {
        "piece_sum": [piece.sum for piece in pieces],
        "piece_delay": [piece.delay for piece in pieces],
        "piece_from": [shape.own * shape.first_of(piece.of) for piece in pieces],
        "piece_wide": wide,
        "piece_before": [sum(wide[:k]) for k in range(len(wide))],
        "piece_next": following,  # the first one of the next sum
    }
    return "".join(_table(name, values, 0) for name, values in tables.items())


def _constants(layers: Layers, place: int, shape: Shape) -> str:
    """Return the constants of the blocks of a layer."""
    layer = layers.layers[place]
    counts = _counts(layer, shape.way)
    numbers = {
        "H": layer.neurons,
        "SAVED": layer.saved,
        "FIRST": shape.first_of(place),
        "FETCHED_ROOM": shape.fetched(layers),
        "CURRENTS": len(layer.fed),
        "PER_NEURON": _bits(layer.per_neuron),
        "HALVES": _bits(layer.halves),
        **{name: max(1, count) for name, count in counts.items()},
        **{
            name: counts[of]
            for name, of in {
                "STATE_COUNT": "STATES",
                "FLOAT_COUNT": "FLOATS",
                "RECEPTOR_COUNT": "RECEPTORS",
                "PARAM_COUNT": "PARAMS",
                "WANTED_COUNT": "WANTED",
                "KEPT_COUNT": "KEPT",
                "FLAG_COUNT": "FLAGS",
                "SHOWN_COUNT": "SHOWN",
            }.items()
        },
    }
    flags = {
        "SPIKING": layer.adjoint.spiking,
        "ANSWERED": layer.has_answer,
        "RANDOM": bool(layer.traced.random),
    }
    sums = [layer.into.index(k) if k in layer.into else layers.sums for k in range(len(layer.receptors))]
    return "\n".join([*_lines(numbers, flags), _table("sum_of", sums, layers.sums)])


def _bits(flags: Sequence[bool]) -> int:
    return sum(1 << place for place, flag in enumerate(flags) if flag)


def _table(name: str, values: Sequence[int], otherwise: int) -> str:
    """Return a function that returns the values by their number, known to the compiler."""
    found = "".join(f"k == {k} ? {value}u : " for k, value in enumerate(values))
    return f"BE constexpr u32 {name}(u32 k) {{ return {found}{otherwise}u; }}\n"


def _rule(layer: Layer, way: str) -> str:
    return {"forward": _forward, "backward": _backward}[way](layer, getattr(layer.adjoint, way))


def _forward(layer: Layer, form: Form) -> str:
    """Return `rule_forward`, which replaces the states of a neuron, and tables."""
    states, receptors, params = layer.states, layer.receptors, layer.params
    given = [_typed(f"s[{k}]", name) for k, name in enumerate(states)]
    given += [f"a[{k}]" for k in range(len(receptors))]
    given += [_typed(f"p[{k}]", name) for k, name in enumerate(params)]
    given += _random(layer)
    results = [f"s[{k}]" for k in range(len(states))]
    results += ["flag[0]"]
    for name in layer.adjoint.residuals:
        where, names = ("flag", layer.flags) if name.dtype == "bool" else ("kept", layer.kept)
        results.append(f"{where}[{names.index(name)}]")
    fed = [layer.fed.index(k) if k in layer.fed else len(layer.fed) for k in range(len(receptors))]
    head = (
        "BE void rule_forward(u32 (&s)[STATES], const float (&a)[RECEPTORS], const u32 (&p)[PARAMS], const Random& r, "
        "u32 (&kept)[KEPT], bool (&flag)[FLAGS]) {"
    )
    tables = _table("current_of", fed, len(layer.fed)) + _table("shown_of", layer.shown, 0)
    return tables + _called(head, form, given, results)


def _backward(layer: Layer, form: Form) -> str:
    """Return `rule_backward`, and tables."""
    places = {name: f"kept[{k}]" for k, name in enumerate(layer.kept)}
    places |= {layer.flags[of]: f"flag[{k}]" for k, of in enumerate(layer.flags_back)}
    adjoint = layer.adjoint
    given = [
        places[name] if name.dtype == "bool" and name in places else _typed(places.get(name, "0"), name)
        for name in (*adjoint.residuals, adjoint.spike)
    ]
    given += [_typed(f"p[{k}]", name) for k, name in enumerate(layer.params)]
    given += _random(layer)
    given += [f"d_new[{k}]" for k in range(len(layer.float_states))] + ["d_spike"]
    results = [f"d_old[{k}]" for k in range(len(layer.float_states))]
    results += [f"d_arriving[{k}]" for k in range(len(layer.receptors))]
    results += [f"d_param[{k}]" for k in range(len(layer.wanted))]
    head = (
        "BE void rule_backward(const u32 (&kept)[KEPT], const bool (&flag)[FLAGS], const u32 (&p)[PARAMS], "
        "const Random& r, const float (&d_new)[FLOATS], float d_spike, float (&d_old)[FLOATS], "
        "float (&d_arriving)[RECEPTORS], "
        "float (&d_param)[WANTED]) {"
    )
    shown = [layer.float_states.index(place) for place in layer.shown_floats]
    return _table("float_shown", shown, 0) + _called(head, form, given, results)


def _random(layer: Layer) -> list[str]:
    return ["r.neuron", "r.step", "r.keys[0]", "r.keys[1]"] if layer.traced.random else []


def _called(head: str, form: Form, given: Sequence[str], results: Sequence[str]) -> str:
    """Return a function that calls a form, whose results go to places."""
    dtypes = [output.dtype for output in form.outputs]
    lines = [f"{TYPES[dtype]} r{k};" for k, dtype in enumerate(dtypes)]
    if len(dtypes) == 1:
        lines.append(f"r0 = be_{form.name}({', '.join(given)});")
    elif dtypes:
        lines.append(f"be_{form.name}({', '.join([*given, *(f'r{k}' for k in range(len(dtypes)))])});")
    for k, (place, dtype) in enumerate(zip(results, dtypes, strict=True)):
        plain = place.startswith(("flag", "d_"))
        lines.append(f"{place} = {f'r{k}' if plain else _word(f'r{k}', dtype)};")
    return "\n".join([head, *(f"    {line}" for line in lines), "}", ""])


def _typed(word: str, name: Name) -> str:
    """Return a word of 32 bits as a number of the dtype of a name."""
    return {"float32": f"__uint_as_float({word})", "int32": f"(int){word}", "bool": f"{word} != 0"}.get(
        name.dtype, word
    )


def _word(number: str, dtype: str) -> str:
    return {"float32": f"__float_as_uint({number})", "uint32": number}.get(dtype, f"(u32){number}")
