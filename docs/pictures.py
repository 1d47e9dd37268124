# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/pictures.md, by the programs on that page: `python -m docs.pictures`."""

import re
from pathlib import Path
from typing import Any

from brainevent.bench.plot.style import THEMES
from docs.blocks import blocks

PAGE = Path(__file__).with_suffix(".md")
FOLDER = Path(__file__).parent / "_static" / "pictures"


def names() -> list[str]:
    """Return the names of the pictures, in the order of the page."""
    return re.findall(r"_static/pictures/(\w+)-light\.svg", PAGE.read_text(encoding="utf-8"))


def draw(folder: Path = FOLDER) -> list[Path]:
    """Run the programs of the page, those with a picture in each theme, and return the paths of the pictures."""
    paths: list[Path] = []
    left = iter(names())
    space: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        if "title=" not in block.source:
            continue  # what it prints is on the page
        picture = next(left)
        source = block.source.replace("from matplotlib.figure import Figure", _OURS)
        calculated, drawn = _parted(source)
        exec(calculated, space)
        for theme in THEMES:
            exec(drawn.replace("title=", f'theme="{theme}", title='), space)
            paths.append(folder / f"{picture}-{theme}.svg")
            space["figure"].savefig(paths[-1])
    return paths


_OURS = "from brainevent.bench.plot.picture import Picture as Figure"  # its files are the same each time


def _parted(source: str) -> tuple[str, str]:
    """Return what comes before the figure, and what draws it."""
    at = source.index("figure = ")
    return source[:at], source[at:]


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    draw()
