# SPDX-License-Identifier: Apache-2.0
"""The text of the kernels of a layer: constants of its shape, its rule both ways, and what all layers share."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from ....scalar.cuda_text import TYPES, cuda_text
from ....scalar.form import Form, Name
from .layer import Layer
from .shape import Shape

__all__ = ["kernel_text", "pointers"]

_HERE = Path(__file__).parent
_LONGEST_WAIT = 20_000_000_000  # nanoseconds
_FIELDS = {  # addresses in the parameter of a kernel, and the constant that says how many there are
    "forward": {
        "current": "CURRENT_ROOM", "begin": "STATES", "param": "PARAMS", "weights": "", "quantum": "", "random": "",
        "kept": "KEPT", "flags": "FLAGS", "spikes": "", "end": "STATES", "shown": "SHOWN",
    },
    "backward": {
        "kept": "KEPT", "flags": "FLAGS", "param": "PARAMS", "spikes": "", "shown": "SHOWN", "end": "FLOATS",
        "weights": "", "scales": "", "random": "", "scratch": "", "current": "RECEPTORS",
        "begin": "FLOATS", "param_sums": "WANTED",
    },
}  # fmt: skip
_INTEGERS = "typedef unsigned u32;\ntypedef unsigned long long u64;\n"


@functools.cache
def _read(name: str) -> str:
    return (_HERE / name).read_text()


def kernel_text(layer: Layer, shape: Shape, words: str | None = None) -> str:
    """Return the whole text of a kernel; `words` are the words that it is written in, None for those of a GPU."""
    ways = {"forward": (layer.adjoint.forward, _forward), "backward": (layer.adjoint.backward, _backward)}
    form, rule = ways[shape.way]
    parts = [
        _INTEGERS,
        _constants(layer, shape),
        cuda_text([form]),
        _read("words.cu") if words is None else words,
        _read("shape.cu"),
        rule(layer, form),
        _read(f"{shape.way}.cu"),
    ]
    return "\n".join(parts)


def pointers(layer: Layer, way: str) -> list[tuple[str, int]]:
    """Return the fields of a kernel's parameter that are addresses: a name, and a place within it."""
    counts = _counts(layer, way)
    rooms = _FIELDS[way].items()
    return [(name, place) for name, room in rooms for place in range(max(1, counts[room]) if room else 1)]


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


def _constants(layer: Layer, shape: Shape) -> str:
    counts = _counts(layer, shape.way)
    clustered = layer.has_product and shape.blocks > 1
    numbers = {
        "H": layer.neurons,
        "WIDE": shape.wide,
        "SAVED": layer.saved,
        "OWN": shape.own,
        "BLOCKS": shape.blocks,
        "SAMPLES": shape.samples,
        "REGISTERS": shape.registers,
        "AHEAD": shape.ahead,
        "DELAY": layer.delay,
        "INTO": layer.into or 0,
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
        "PRODUCT": layer.has_product,
        "SPIKING": layer.adjoint.spiking,
        "ANSWERED": layer.has_answer,
        "SUMS_WITHIN": shape.sums_within,
        "RANDOM": bool(layer.traced.random),
    }
    macros = {
        "CLUSTER": str(shape.blocks if clustered else 1),
        "MULTICAST": str(int(shape.multicast and clustered)),
        "IN_CLUSTER": f"__cluster_dims__({shape.blocks}, 1, 1)" if clustered else "",
    }
    lines = [f"#define {name} {text}" for name, text in macros.items()]
    lines += [f"constexpr u64 LONGEST_WAIT = {_LONGEST_WAIT}ull;"]
    lines += [f"constexpr u32 {name} = {value}u;" for name, value in numbers.items()]
    lines += [f"constexpr bool {name} = {str(value).lower()};" for name, value in flags.items()]
    return "\n".join(lines) + "\n"


def _bits(flags: Sequence[bool]) -> int:
    return sum(1 << place for place, flag in enumerate(flags) if flag)


def _table(name: str, values: Sequence[int], otherwise: int) -> str:
    """Return a function that returns the values by their number, known to the compiler."""
    found = "".join(f"k == {k} ? {value}u : " for k, value in enumerate(values))
    return f"BE constexpr u32 {name}(u32 k) {{ return {found}{otherwise}u; }}\n"


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
