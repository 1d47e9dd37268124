# SPDX-License-Identifier: Apache-2.0
"""Put the figures of a result into the page that compares the languages: `python -m benchmarks.page RESULT.json`.

The page has a block of figures for launches and one for each example; a result goes into those that it has rows for.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import gpu_examples, gpu_overhead, gpu_start
from benchmarks.options import ROOT

PAGE = ROOT / "docs" / "languages.md"
_BLOCK = re.compile(r"<!-- figures of (\w+) in (\S+) -->\n.*?(<!-- end of figures -->)", re.DOTALL)
# What the page calls them, in its order.
_TITLES = {
    "cuda": "CUDA C++ by hand: XLA's headers, nvcc",
    "module": "`load_cuda_inline`",
    "cuda_kernel": "`cuda_kernel`",
    "numba_cuda": "`numba_cuda_kernel`",
    "callable": "`numba_cuda_callable`, one kernel",
    "callable_with_temporary": "`numba_cuda_callable`, two kernels and a temporary",
    "callable_through_python": "`numba_cuda_callable`, called through Python",
    "warp_kernel": "`warp_kernel`",
    "triton": "Triton (jax-triton)",
    "pallas": "Pallas, as JAX lowers it by default",
    "warp_jax": "Warp's own `jax_kernel`",
    "jax": "`a + b` of JAX, which fuses a chain",
    "jax_alone": "`a + b` of JAX, kept apart",
}
_EXAMPLE_TITLES = _TITLES | {
    "callable": "`numba_cuda_callable`, two kernels",
    "dense": "JAX: dense product",
    "segment_sum": "JAX: `segment_sum`",
    "jax": "JAX: `jnp.where`",
}
_EXAMPLE_TITLES |= {f"operator_{name}": f'`binary_csrmv`, `backend="{name}"`' for name in gpu_examples.OPERATOR}
_LAUNCHES = "launches"
_EXAMPLES = {
    gpu_examples.CSR: (gpu_examples.CSR_NAMES, ("25 000 connections", "25 million connections")),
    gpu_examples.LIF: (gpu_examples.LIF_NAMES, ("10 000 neurons", "10 million neurons")),
}

_IMPORTS = re.compile(r"and ([\d.]+) s of imports")
Rows = Mapping[tuple[str, str], Mapping[str, Any]]


def figures(block: str, result: Mapping[str, Any]) -> str:
    """The tables of one block, as Markdown: nothing in them is written by hand. Empty if no row is of it."""
    rows = {(row["benchmark"], row["name"]): row for row in result["rows"]}
    tables = _launches(rows, result.get("peer")) if block == _LAUNCHES else _example(rows, block)
    return "\n".join([_machine(result), *tables]) if tables else ""


def _machine(result: Mapping[str, Any]) -> str:
    machine = result["machine"]
    named = {
        "jax": "JAX",
        "numba-cuda": "Numba-CUDA",
        "warp-lang": "Warp",
        "triton": "Triton",
        "jax-triton": "jax-triton",
    }
    packages = [
        f"{title} {machine['packages'][name]}" for name, title in named.items() if machine["packages"].get(name)
    ]
    compiler = [f"nvcc {machine['nvcc'].split()[0]}"] if machine["nvcc"] else []
    return f"{machine['gpu']}; {', '.join([*packages, *compiler])}; {result['date']}, revision {machine['revision']}."


def _launches(rows: Rows, peer: str | None) -> list[str]:
    labels = {gpu_overhead.NAMES[way]: title for way, title in _TITLES.items()}
    if peer:
        labels |= {
            gpu_overhead.peer_label(peer, way): f"{peer}: `{name}`" for way, name in gpu_overhead.PEER_NAMES.items()
        }
    lines = []
    for label, title in labels.items():
        launches = [(gpu_overhead.NAME, gpu_overhead.row_name(label, place)) for place in gpu_overhead.PLACES]
        starts = [(gpu_start.NAME, gpu_start.row_name(label, phase)) for phase in gpu_start.PHASES]
        cells = [_cell(rows, key, "us") for key in launches]
        cells += [_imports(rows, starts[0]), *(_cell(rows, key, "s") for key in starts)]
        if any(cells):
            lines.append((title, *cells))
    head = ("in a loop", "imports", "first result, cold", "first result, warm")
    return ["", *_table(("", f"in a chain of {gpu_overhead.CHAIN}", *head), lines)] if lines else []


def _example(rows: Rows, benchmark: str) -> list[str]:
    labels, sizes = _EXAMPLES[benchmark]
    lines = []
    for size in sizes:
        found = []
        for way, title in _EXAMPLE_TITLES.items():
            keys = [(benchmark, f"{size}: {labels.get(way)}; {place}") for place in gpu_examples.PLACES.values()]
            cells = [_cell(rows, key, "us") for key in keys]
            if any(cells):
                found.append((title, *cells))
        if found:
            head = (size, "one call from Python", f"in a chain of {gpu_examples.STEPS}")
            lines += ["", *_table(head, found)]
    return lines


def _cell(rows: Rows, key: tuple[str, str], unit: str) -> str:
    """The median, with what it is relative to the yardstick; nothing if it was not measured."""
    row = rows.get(key)
    if row is None:
        return ""
    ratio = f" ({row['ratio']['median']:.2f} x)" if row["ratio"] else ""
    return f"{_three_digits(row['value']['median'])} {unit}{ratio}"


def _imports(rows: Rows, key: tuple[str, str]) -> str:
    """What a row says of the imports before it."""
    found = _IMPORTS.search(rows.get(key, {}).get("note") or "")
    return f"{found[1]} s" if found else ""


def _three_digits(value: float) -> str:
    return f"{value:.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---"] + ["---:"] * (len(head) - 1)
    written = ("|".join(f" {cell} " if cell else " " for cell in cells) for cells in (head, rule, *lines))
    return [f"|{line}|" for line in written]


def with_figures(page: str, name: str, result: Mapping[str, Any]) -> str:
    """The page with the figures of a result file, `name`, in each block that it has rows for."""

    def block(found: re.Match[str]) -> str:
        written = figures(found[1], result)
        return f"<!-- figures of {found[1]} in {name} -->\n\n{written}\n\n{found[3]}" if written else found[0]

    return _BLOCK.sub(block, page)


def results_of(page: str) -> dict[str, str]:
    """The result file, relative to the root, that each block of a page shows."""
    return {block: name for block, name, _ in _BLOCK.findall(page)}


def main() -> None:
    """Rewrite the page."""
    path = Path(sys.argv[1]).resolve()
    page = with_figures(PAGE.read_text(), str(path.relative_to(ROOT)), json.loads(path.read_text()))
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
