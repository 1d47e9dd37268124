# SPDX-License-Identifier: Apache-2.0
"""Write a page for each operator of the library, and an index of them: `python -m docs.operator_pages FOLDER`.

Nothing on them is kept by hand: Sphinx has them written, from what is registered, before it reads pages.
"""

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from brainevent.event.library import OPERATORS
from docs import rows_drawing
from docs.docstrings import Docstring, read
from docs.formulas import description_of, formula
from docs.operator_facts import Cut, Facts

__all__ = ["pages", "write"]

_NONE = "no derivative"

_INTRODUCTION = """\
# Operators

All operators of the library are here: what each computes, which kernels it has, and what
transformations make of it. These pages are made from what is registered, whenever the documentation is built.

Programs call the functions, or write `@` with [events](../events.md) and [matrices](../matrices.md). The operators
stand behind them: each is an [`XLACustomKernel`](../first-operator.md), and `brainevent list` shows them with what is
[tuned](../tuning.md) on your machine.
"""


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    facts = [Facts(operator) for operator in OPERATORS.values()]
    derivatives = {one.name: _derivatives_of(one) for one in facts}
    batches = {one.name: {name for i in range(len(one.operands)) for name in one.batches(i)} for one in facts}
    texts = {"index": _index(facts)}
    for one in facts:
        others = [other.name for other in facts if other is not one]
        serves = {
            "derivatives": [name for name in others if one.name in derivatives[name].operators],
            "batches": [name for name in others if one.name in batches[name]],
        }
        texts[one.name] = _page(one, derivatives[one.name], serves)
    return texts


def write(folder: Path) -> None:
    """Write the pages into a folder of their own; leave those alone that would stay the same."""
    folder.mkdir(exist_ok=True)
    rows_drawing.write(folder)
    texts = {folder / f"{name}.md": text for name, text in pages().items()}
    for path in set(folder.glob("*.md")) - texts.keys():
        path.unlink()
    for path, text in texts.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


class _Derivatives:
    """The rows about derivatives, and the operators that they name."""

    def __init__(self) -> None:
        self.rows: list[Sequence[str]] = []
        self.operators: set[str] = set()

    def add(self, operand: str, found: tuple[list[str], list[str]] | None) -> None:
        for side in found or ():
            self.operators.update(side)
        forward, backward = map(_linked, found) if found else (_NONE, "")
        self.rows.append((f"`{operand}`", forward, backward))


def _derivatives_of(facts: Facts) -> _Derivatives:
    derivatives = _Derivatives()
    for position, operand in enumerate(facts.operands):
        derivatives.add(operand, facts.derivatives(position))
    return derivatives


# ---- the index


def _index(facts: Sequence[Facts]) -> str:
    families: dict[Any, list[Facts]] = {}
    for one in facts:
        families.setdefault(one.family, []).append(one)
    parts = [_INTRODUCTION]
    for family, members in families.items():
        members.sort(key=lambda one: "binary" not in one.tags)  # products with events come first
        rows = [(f"[`{one.name}`]({one.name}.md)", one.summary, _platforms(one)) for one in members]
        title = _first_sentence(family.__doc__).rstrip(".")
        parts.append(f"## {title}\n\n{_table(('Operator', 'What it computes', 'Kernels'), rows)}")
    names = "\n".join(one.name for members in families.values() for one in members)
    return "\n\n".join(part.rstrip() for part in [*parts, f"```{{toctree}}\n:hidden:\n\n{names}\n```"]) + "\n"


def _platforms(facts: Facts) -> str:
    backends: dict[str, list[str]] = {}
    for backend in facts.backends:
        backends.setdefault(backend.platform, []).append(f"`{backend.name}`")
    return "; ".join(f"{_capital(platform)}: {', '.join(names)}" for platform, names in backends.items())


# ---- the page of an operator


def _page(facts: Facts, derivatives: _Derivatives, serves: Mapping[str, Sequence[str]]) -> str:
    doc = read(facts.doc)
    parts = [f"# {facts.name}", doc.summary, _signature_block(facts), *_formula(facts)]
    parts += ["## Operands and result", _operands(facts, doc)]
    if doc.example:
        parts += ["## Example", f"```pycon\n{doc.example}\n```"]
    parts += ["## Notes", doc.text, _how_it_is_called(facts, serves), _raises(doc), _keywords(facts, doc)]
    parts += ["## Kernels", _kernels(facts)]
    parts += ["## Derivatives", _derivatives(derivatives), "## Batches", _batches(facts)]
    parts += ["## Several devices", _devices(facts)]
    if facts.reference:
        parts += ["## Reference", _reference(facts)]
    parts += ["## Measuring it", _measuring(facts)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _formula(facts: Facts) -> list[str]:
    of = description_of(facts.operator)
    if of is None or not (lines := formula(of, _multiplied(facts))):
        return []
    parts = ["## Formula", f"```text\n{lines}\n```"]
    if of.format.name == "csr" and of.law.kind == "product":
        parts += [_drawing(theme) for theme in rows_drawing.THEMES]
        parts.append("Events choose rows: with `transpose=True`, the elements of all other rows are not read.")
    return parts


def _multiplied(facts: Facts) -> str:
    """Return the name of the operand that a matrix is multiplied with."""
    names = [name for name in facts.operands if name in ("v", "B", "vector", "matrix", "spikes")]
    return names[0] if names else facts.operands[-1]


def _drawing(theme: str) -> str:
    name = f"{rows_drawing.NAME}-{theme}.svg"
    return f"```{{image}} {name}\n:class: only-{theme}\n:alt: {rows_drawing.ALT}\n```"


def _raises(doc: Docstring) -> str:
    lines = [f"- `{name}`: {said}" for name, said in doc.raises.items()]
    return "It raises:\n\n" + "\n".join(lines) if lines else ""


def _signature_block(facts: Facts) -> str:
    return f"```python\n{_signature(facts)}\n```" if facts.is_public else ""


def _how_it_is_called(facts: Facts, serves: Mapping[str, Sequence[str]]) -> str:
    name = f'`brainevent.get_registry()["{facts.name}"]`'
    lines = [f"Operator: `brainevent.{facts.public_name}`, {name}" if facts.public_name else f"Operator: {name}"]
    if facts.is_public:
        lines.insert(0, f"Function: {{py:func}}`brainevent.{facts.call.__name__}`")
    lines += [f"Serves {what} of {_linked(names)}" for what, names in serves.items() if names]
    lines.append(f"Tags: {', '.join(f'`{tag}`' for tag in facts.tags)}")
    return "\n".join(f"- {line}" for line in lines)


def _signature(facts: Facts) -> str:
    signature = inspect.signature(facts.call)
    parts, starred = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        parts.append(_spelled_out(str(parameter).replace("'", "")))
    inside = "".join(f"    {part},\n" for part in parts)
    return f"brainevent.{facts.call.__name__}(\n{inside})"


def _spelled_out(annotation: str) -> str:
    return re.sub(r"\bShape\b", "tuple[int, int]", annotation)


def _operands(facts: Facts, doc: Docstring) -> str:
    shapes = [" or ".join(f"`{shape}`" for shape in said) for said in facts.shapes]
    rows = [
        (f"`{name}`", facts.dtypes(i), shapes[i], _in_table(doc.arguments.get(name, "")))
        for i, name in enumerate(facts.operands)
    ]
    results = shapes[len(facts.operands) :]
    pointers = " `p` there is the size of `indptr`." if any("+ 1" in shape for shape in shapes) else ""
    for number, shape in enumerate(results):
        name = "result" if len(results) == 1 else f"result {number + 1}"
        rows.append((name, facts.result_dtype(number), shape, "" if number else _in_table(doc.returns)))
    return (
        _table(("", "dtype", "shape", "what it is"), rows)
        + "\n\nThe letters are those of the sharding rule below: in a call, the same letter is the same size."
        + pointers
    )


def _keywords(facts: Facts, doc: Docstring) -> str:
    if not facts.keywords:
        return ""
    empty = inspect.Parameter.empty
    rows = [
        (
            f"`{one.name}`",
            "" if one.annotation is empty else _spelled_out(f"`{one.annotation!s}`".replace("|", "\\|")),
            "must be given" if one.default is empty else f"`{one.default}`",
            facts.used_values(one.name),
            _in_table(doc.arguments.get(one.name, "")),
        )
        for one in facts.keywords
    ]
    return _table(("Keyword", "type", "by default", "measured with", "what it says"), rows)


def _kernels(facts: Facts) -> str:
    rows = [
        (
            _capital(one.platform),
            f"`{one.name}`",
            one.language,
            "yes" if one.default else "",
            "<br>".join(f"`{variant}`" for variant in one.variants),
        )
        for one in facts.backends
    ]
    said = (
        "`backend=` chooses one for a call; [Backends](../backends.md) has the other ways. "
        "Of variants, the first is used until [`tune`](../tuning.md) has found a faster one."
    )
    return _table(("Platform", "backend", "language", "default", "variants"), rows) + "\n\n" + said


def _derivatives(derivatives: _Derivatives) -> str:
    if all(row[1] == _NONE for row in derivatives.rows):
        return "It has none."
    said = "These operators compute tangents and cotangents; operations of JAX do the rest."
    return said + "\n\n" + _table(("By", "forward (`jvp`)", "backward (`grad`)"), _together(derivatives.rows))


def _batches(facts: Facts) -> str:
    rows = []
    for position, operand in enumerate(facts.operands):
        found = [f"one call of {_linked([x])}" if x in OPERATORS else x for x in facts.batches(position)]
        rows.append((f"`{operand}`", " or ".join(found)))
    return _table(("`vmap` over", "becomes"), _together(rows))


def _devices(facts: Facts) -> str:
    if not facts.cuts:
        return "There is no sharding rule: XLA gathers operands that are cut."
    said = [_cut(cut, kinds if len(facts.cuts) > 1 else []) for cut, kinds in facts.cuts.items()]
    lines = "\n".join(f"- {one}" for one in said)
    return f"The [sharding rule](../sharding.md) of a call, and what it says of each letter:\n\n{lines}"


def _cut(cut: Cut, kinds: Sequence[str]) -> str:
    calls = f", with {' or '.join(f'`{kind}`' for kind in kinds)}" if any(kinds) else ""
    letters = [", ".join(f"`{name}`" for name in names) for names in (cut.shared, cut.summed, cut.whole)]
    ends = ("without a word between them", "and add up their results")
    said = [f"devices may share {names}, {end}" for names, end in zip(letters, ends, strict=False) if names]
    said += [f"each device has the whole of {letters[2]}"] * bool(cut.whole)
    return f"`{cut.rule}`{calls}: {'; '.join(said)}."


def _reference(facts: Facts) -> str:
    fixed = ", ".join(f"`{name}={value}`" for name, value in facts.fixed.items())
    said = "This is what the operator computes, in `jax.numpy`; [`check`](../check.md) holds every kernel to it."
    return f"{said}{f' Here, {fixed}.' if fixed else ''}\n\n```python\n{facts.source}\n```"


def _measuring(facts: Facts) -> str:
    platforms = dict.fromkeys(one.platform for one in facts.backends if one.platform in ("cpu", "gpu"))
    lines = [f"$ brainevent benchmark --platform {one} --operators {facts.name}" for one in platforms]
    said = "It has data to measure its kernels with; see [Benchmarks](../benchmark.md)."
    return "\n".join([said, "", "```console", *lines, "```"])


# ---- words


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        "|" + "|".join(f" {cell} " if cell else " " for cell in row) + "|" for row in (head, ["---"] * len(head), *rows)
    )


def _in_table(text: str) -> str:
    return text.replace("|", "\\|")


def _together(rows: Sequence[Sequence[str]]) -> list[Sequence[str]]:
    """Make one row of those that say the same of different operands."""
    operands: dict[tuple[str, ...], list[str]] = {}
    for operand, *said in rows:
        operands.setdefault(tuple(said), []).append(operand)
    return [(", ".join(names), *said) for said, names in operands.items()]


def _linked(names: Sequence[str]) -> str:
    return ", ".join(f"[`{name}`]({name}.md)" for name in names) or "operations of JAX"


def _first_sentence(doc: str) -> str:
    return doc.partition("\n\n")[0].replace("\n", " ").strip()


def _capital(platform: str) -> str:
    return platform.upper() if platform != "any" else "any"


if __name__ == "__main__":
    write(Path(sys.argv[1]))
