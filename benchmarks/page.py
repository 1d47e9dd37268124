# SPDX-License-Identifier: Apache-2.0
"""Put the figures of a result into the page that compares the languages: `python -m benchmarks.page RESULT.json`."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import gpu_examples, gpu_overhead, gpu_start
from benchmarks.options import ROOT

PAGE = ROOT / "docs" / "languages.md"
_BLOCK = re.compile(r"(<!-- figures of (\S+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
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
    "dense": "JAX: dense product",
    "segment_sum": "JAX: `segment_sum`",
    "jax": "JAX: `jnp.where`",
}
_EXAMPLE_TITLES["callable"] = "`numba_cuda_callable`, two kernels"
_EXAMPLES = (
    (gpu_examples.CSR, gpu_examples.CSR_NAMES, ("25 000 connections", "25 million connections")),
    (gpu_examples.LIF, gpu_examples.LIF_NAMES, ("10 000 neurons", "10 million neurons")),
)

_IMPORTS = re.compile(r"and ([\d.]+) s of imports")
Rows = Mapping[tuple[str, str], Mapping[str, Any]]


def figures(result: Mapping[str, Any]) -> str:
    """The tables of one result, as Markdown: nothing in them is written by hand."""
    rows = {(row["benchmark"], row["name"]): row for row in result["rows"]}
    return "\n".join([_machine(result), "", *_launches(rows, result.get("peer")), *_examples(rows)])


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
    return _table(("", f"in a chain of {gpu_overhead.CHAIN}", *head), lines)


def _examples(rows: Rows) -> list[str]:
    lines = []
    for benchmark, labels, sizes in _EXAMPLES:
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
    """The page with the figures of a result file, `name`, in place of those that it has."""
    return _BLOCK.sub(lambda found: f"<!-- figures of {name} -->\n\n{figures(result)}\n\n{found[3]}", page)


def result_of(page: str) -> str:
    """The result file that a page shows, relative to the root."""
    found = _BLOCK.search(page)
    assert found is not None
    return found[2]


def main() -> None:
    """Rewrite the page."""
    path = Path(sys.argv[1]).resolve()
    page = with_figures(PAGE.read_text(), str(path.relative_to(ROOT)), json.loads(path.read_text()))
    PAGE.write_text(page)


if __name__ == "__main__":
    main()
