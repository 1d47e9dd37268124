# SPDX-License-Identifier: Apache-2.0
"""Write the file that is compiled: the user's text, and an XLA handler for each of its functions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .scan import Source
from .signature import ATTRIBUTE_TYPES, FunctionSpec, Parameter

__all__ = ["WITHOUT_HALF", "Source", "alias_symbol", "cell_symbol", "handler_symbol", "translation_unit"]

WITHOUT_HALF = "#define BE_WITHOUT_HALF\n"  # the first line of a text without CUDA's half types

# XLA's names of the types of attributes; half precision is passed as its bits.
_XLA_TYPES = {
    "bool": "PRED",
    "float32": "F32",
    "float64": "F64",
    "float16": "U16",
    "bfloat16": "U16",
    **{f"int{bits}": f"S{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"U{bits}" for bits in (8, 16, 32, 64)},
}
# Without these words and without headers of the user, nothing uses CUDA's half types.
_MAY_USE_HALF = re.compile(r"half|HALF|float16|BE_DISPATCH_ALL\b|#\s*+include\s*+(?!<|\"brainevent/)")
# XLA's header declares members by the names of their types: with -Wpedantic, g++ accepts this only as an extension.
_C_INTERFACE = (
    *("#include <cstddef>", "#include <cstdint>"),
    *('__extension__ extern "C" {', '#include "xla/ffi/api/c_api.h"', "}"),
)
# Names that handlers use, except macros: a macro of the user may have one of these names.
_WORDS = (
    *("Attribute", "BE", "Call", "Signature", "Tensor", "arg", "attribute", "attributes", "call", "detail", "frame"),
    *("handle", "offsets", "ret", "signature", "stream", "values"),
)


def handler_symbol(function: str) -> str:
    """Return the name of a function's handler in the library."""
    return f"be_{function}"


def alias_symbol(function: str) -> str:
    """Return the name of the handler that forwards calls to the address in the cell."""
    return f"BE_ALIAS_{function}"


def cell_symbol(function: str) -> str:
    """Return the name of the variable that holds the address of the handler which the alias calls."""
    return f"BE_CURRENT_{function}"


def translation_unit(
    sources: Sequence[Source], specs: Sequence[FunctionSpec], *, in_graphs: bool, others: Sequence[str] = ()
) -> str:
    """Return C++ text that keeps the user's line numbers in errors; `others` are headers and flags."""
    without_half = not any(_MAY_USE_HALF.search(text) for text in [*(source.text for source in sources), *others])
    lines = [*_C_INTERFACE, '#include "brainevent/handler.h"']
    for source in sources:
        lines += [f'#line 1 "{_quoted(source.title)}"', source.text]
    lines.append('#line 1 "generated/handlers"')
    lines += [f"#undef {word}" for word in _WORDS if word not in {spec.name for spec in specs}]
    lines += [_handler(spec, in_graphs) for spec in specs]
    return WITHOUT_HALF * without_half + "\n".join(lines) + "\n"


def _quoted(title: str) -> str:
    printable = "".join(c if c.isprintable() else "?" for c in title)
    return printable.replace("\\", "\\\\").replace('"', '\\"')


def _handler(spec: FunctionSpec, in_graphs: bool) -> str:
    name, attributes = spec.name, sorted(spec.attributes, key=lambda attribute: attribute.name)
    rows = ", ".join(f'{{"{a.name}", {len(a.name)}, XLA_FFI_DataType_{_XLA_TYPES[a.type]}}}' for a in attributes)
    table = f"  static const BE::detail::Attribute attributes[] = {{{rows}}};\n" if rows else ""
    operands, results = len(spec.operands), len(spec.results)
    # Results have names, so that an entry point can take them by reference.
    named = "".join(f"    BE::Tensor be_result{i} = call.ret({i});\n" for i in range(results))
    return (
        f'extern "C" BE_EXPORT XLA_FFI_Error* {handler_symbol(name)}(XLA_FFI_CallFrame* frame) {{\n'
        f"{table}"
        f'  static const BE::detail::Signature signature{{"{name}", {operands}, {results}, {len(attributes)}, '
        f"{'attributes' if rows else 'nullptr'}, {str(in_graphs).lower()}}};\n"
        f"  int64_t offsets[{operands + results}];\n"
        f"  const void* values[{max(1, len(attributes))}];\n"
        "  return BE::detail::handle(signature, frame, offsets, values, [](const BE::detail::Call& call) {\n"
        f"{named}"
        f"    ::{name}({', '.join(_arguments(spec, attributes))});\n"
        "  });\n"
        "}\n"
        f'extern "C" {{ BE_EXPORT XLA_FFI_Handler* {cell_symbol(name)} = {handler_symbol(name)}; }}\n'
        f'extern "C" BE_EXPORT XLA_FFI_Error* {alias_symbol(name)}(XLA_FFI_CallFrame* frame) {{\n'
        f"  return {cell_symbol(name)}(frame);\n"
        "}"
    )


def _arguments(spec: FunctionSpec, attributes: Sequence[Parameter]) -> list[str]:
    """Return the C++ expressions, in order of the function's parameters."""
    counts = {"arg": 0, "ret": 0}
    written = {"arg": "call.arg({})", "ret": "be_result{}"}
    arguments = []
    for parameter in spec.parameters:
        if parameter.kind == "attr":
            arguments.append(f"call.attribute<{ATTRIBUTE_TYPES[parameter.type]}>({attributes.index(parameter)})")
        elif parameter.kind == "stream":
            arguments.append("call.stream()")
        else:
            arguments.append(written[parameter.kind].format(counts[parameter.kind]))
            counts[parameter.kind] += 1
    return arguments
