# SPDX-License-Identifier: Apache-2.0
"""Draw how a product finds the rows of neurons that spiked, in compressed sparse rows: an SVG for each theme."""

from collections.abc import Sequence
from pathlib import Path

__all__ = ["ALT", "NAME", "THEMES", "drawn", "sums", "write"]

NAME = "csr-rows"
ALT = (
    "Four neurons, of which the first and the third spiked, beside a sparse matrix of four rows and six columns. "
    "Only the elements of their two rows are read, and added up by column."
)
THEMES = {
    "light": {"ink": "#1f2328", "soft": "#8b929a", "line": "#c9ced4", "mark": "#b3470b", "fill": "#fde3cf"},
    "dark": {"ink": "#e6e8eb", "soft": "#7d858e", "line": "#464c54", "mark": "#ffb077", "fill": "#5a3217"},
}
SPIKED = (True, False, True, False)
INDPTR, INDICES, DATA = (0, 2, 3, 5, 7), (1, 4, 3, 0, 4, 2, 5), (2, 1, 5, 3, 4, 1, 2)
COLUMNS, CELL = 6, 30
_FONT = 'font-family="system-ui, sans-serif" font-size="13" text-anchor="middle"'
_ARROW = 'fill="none" stroke="@mark" stroke-width="1.5"'
_LEFT, _TOP, _RIGHT = 108, 46, 420  # of the matrix, and where the arrays begin


def sums() -> list[int]:
    """Return the sums of the weights of the neurons that spiked, by column."""
    found = [0] * COLUMNS
    for e in _read():
        found[INDICES[e]] += DATA[e]
    return found


def _read() -> list[int]:
    return [e for row, spiked in enumerate(SPIKED) if spiked for e in range(INDPTR[row], INDPTR[row + 1])]


def drawn(theme: str) -> str:
    """Return the drawing for a theme, on a transparent background."""
    height = _TOP + (len(SPIKED) + 3) * CELL
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 690 {height}" width="690" height="{height}" {_FONT}>',
        f"<title>{ALT}</title>",
        *_matrix(),
        *_arrays(),
        "</svg>",
    ]
    text = "\n".join(parts)
    for name, color in THEMES[theme].items():
        text = text.replace(f"@{name}", color)
    return text + "\n"


def _matrix() -> list[str]:
    """Return the neurons, the matrix of which each is a row, and the sums below it."""
    parts = [_label(52, _TOP - 14, "spikes"), _label(_LEFT + COLUMNS * CELL / 2, _TOP - 14, "matrix")]
    places = {(row, INDICES[e]): e for row in range(len(SPIKED)) for e in range(INDPTR[row], INDPTR[row + 1])}
    for row, spiked in enumerate(SPIKED):
        y = _TOP + row * CELL
        parts.append(_label(24, y + CELL / 2 + 4, str(row), soft=True))
        fill = "@mark" if spiked else "none"
        color = "@mark" if spiked else "@soft"
        parts.append(f'<circle cx="52" cy="{y + CELL / 2}" r="8" fill="{fill}" stroke="{color}" stroke-width="1.5"/>')
        if spiked:
            tip = _LEFT - 6
            parts.append(f'<path d="M68 {y + CELL / 2}H{tip}m-6-4l6 4l-6 4" {_ARROW}/>')
        for column in range(COLUMNS):
            e = places.get((row, column))
            parts += _cell(_LEFT + column * CELL, y, "" if e is None else str(DATA[e]), marked=spiked and e is not None)
    y = _TOP + (len(SPIKED) + 1) * CELL
    parts.append(_label(52, y + CELL / 2 + 4, "sums"))
    for column, found in enumerate(sums()):
        parts += _cell(_LEFT + column * CELL, y, str(found), marked=found > 0)
        if found:
            x = _LEFT + column * CELL + CELL / 2
            parts.append(f'<path d="M{x} {y - CELL + 5}V{y - 5}m-4-6l4 6l4-6" {_ARROW}/>')
    return parts


def _arrays() -> list[str]:
    """Return the three arrays of the format, with what is read marked."""
    read = set(_read())
    bounds = {bound for row, spiked in enumerate(SPIKED) if spiked for bound in (row, row + 1)}
    arrays: list[tuple[str, Sequence[int], set[int]]] = [
        ("indptr", INDPTR, bounds),
        ("indices", INDICES, read),
        ("data", DATA, read),
    ]
    parts = [_label(_RIGHT + 3.5 * CELL, _TOP - 14, "as it is stored")]
    for at, (name, values, marked) in enumerate(arrays):
        y = _TOP + at * 1.5 * CELL
        parts.append(_label(_RIGHT - 12, y + CELL / 2 + 4, name, anchor="end"))
        for place, value in enumerate(values):
            parts += _cell(_RIGHT + place * CELL, y, str(value), marked=place in marked)
    return parts


def _cell(x: float, y: float, text: str, *, marked: bool) -> list[str]:
    fill, color = ("@fill", "@mark") if marked else ("none", "@ink" if text else "@soft")
    found = [f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{fill}" stroke="@line"/>']
    if text:
        weight = ' font-weight="600"' if marked else ""
        found.append(f'<text x="{x + CELL / 2}" y="{y + CELL / 2 + 4.5}" fill="{color}"{weight}>{text}</text>')
    return found


def _label(x: float, y: float, text: str, *, soft: bool = False, anchor: str = "middle") -> str:
    return f'<text x="{x}" y="{y}" fill="{"@soft" if soft else "@ink"}" text-anchor="{anchor}">{text}</text>'


def write(folder: Path) -> None:
    """Write the drawing for each theme into a folder; leave those alone that would stay the same."""
    for theme in THEMES:
        path, text = folder / f"{NAME}-{theme}.svg", drawn(theme)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
