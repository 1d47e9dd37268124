# SPDX-License-Identifier: Apache-2.0
"""Distinguishable colours, markers and lines: on light and dark pages, in grey, and with colour blindness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import did_you_mean

__all__ = ["DASHES", "HATCHES", "MARKERS", "THEMES", "WHERE", "Look", "Theme", "named_theme"]

WHERE = "BenchmarkResult.plot"
Dash = str | tuple[int, tuple[float, ...]]


@dataclass(frozen=True)
class Theme:
    """The colours of a picture; those of the data contrast with the background and with their neighbours."""

    background: str
    ink: str
    muted: str
    grid: str
    colours: tuple[str, ...]


# Blue, orange, green, plum, violet, yellow: a backend keeps its hue from light to dark.
THEMES = {
    "light": Theme(
        "#ffffff", "#1c1e21", "#5b626c", "#e2e5e9",
        ("#2a6fc0", "#a23205", "#2b9f7b", "#741165", "#7964f3", "#b28505"),
    ),
    "dark": Theme(
        "#131416", "#e8eaed", "#a2aab4", "#2c3037",
        ("#72bbfb", "#e06a24", "#86efb4", "#c272b2", "#8c72f0", "#f5d240"),
    ),
}  # fmt: skip

# Six colours, seven markers and five dashes give 210 different series.
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[Dash, ...] = (
    "-", (0, (6, 2)), (0, (2, 1.2)), (0, (6, 2, 1.5, 2)), (0, (9, 2, 1.5, 2, 1.5, 2)),
)  # fmt: skip
HATCHES = ("", "//", "--", "\\\\", "xx")


@dataclass(frozen=True)
class Look:
    """How one series is drawn."""

    colour: str
    marker: str
    dash: Dash
    hatch: str

    @classmethod
    def of(cls, theme: Theme, hue: int, mark: int) -> Look:
        """Return the look of the hue and the mark at these positions."""
        return cls(
            theme.colours[hue % len(theme.colours)],
            MARKERS[mark % len(MARKERS)],
            DASHES[mark % len(DASHES)],
            HATCHES[mark % len(HATCHES)],
        )


def named_theme(name: Any) -> Theme:
    """Return the theme of this name."""
    if not isinstance(name, str) or name not in THEMES:
        raise ValueError(f"{WHERE}: unknown theme {name!r}{did_you_mean(name, THEMES)}; themes: {', '.join(THEMES)}")
    return THEMES[name]
