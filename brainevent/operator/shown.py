# SPDX-License-Identifier: Apache-2.0
"""An operator in a notebook: its kernels and its rules."""

from __future__ import annotations

from .._html import document, facts, table
from .definition import Definition
from .variants import label

__all__ = ["shown"]


def shown(definition: Definition) -> str:
    """Return the kernels by platform, and the rules, as tables in HTML."""
    rows: list[tuple[str, ...]] = []
    marked: list[int] = []
    for platform, kernels in definition.kernels.items():
        for backend, entry in kernels.items():
            if definition.defaults.get(platform) == backend:
                marked.append(len(rows))
            variants = "; ".join(map(label, entry.variants))
            default = "default" if definition.defaults.get(platform) == backend else ""
            rows.append((platform, backend, entry.language or backend, variants, default))
    head = ("platform", "backend", "language", "variants", "")
    kernels_part = table(head, rows, marked=marked) if rows else ""
    rules = ", ".join(sorted(definition.rules))
    known = {
        "kernels": None if rows else "none",
        "rules": rules or "none",
        "tags": ", ".join(sorted(definition.tags)) or None,
        "benchmark data": "yes" if definition.benchmark_data is not None else None,
    }
    return document(f"operator {definition.name}", kernels_part, facts(known))
