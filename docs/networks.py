# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/networks.md: `python -m docs.networks`."""

from pathlib import Path

from examples.networks.coba import COBA
from examples.networks.network import groups

FOLDER = Path(__file__).parent / "_static" / "networks"
THEMES = ("light", "dark")


def draw(folder: Path = FOLDER) -> list[Path]:
    """Run COBA for half a second, draw all pictures into a folder, and return their paths."""
    spikes, kinds = COBA.simulate(steps=5000), groups(4000)
    some = spikes.of(slice(3100, 3300)).between(200, 400)
    paths = []
    for theme in THEMES:
        pictures = {
            "raster": some.raster(groups=kinds, theme=theme, title="200 of the 4000 neurons of COBA"),
            "rate": spikes.plot_rate(bin=2, groups=kinds, theme=theme, title="Rates of COBA"),
            "intervals": spikes.plot_intervals(groups=kinds, theme=theme, title="Intervals of COBA"),
        }
        for name, picture in pictures.items():
            paths.append(folder / f"{name}-{theme}.svg")
            picture.savefig(paths[-1])
    return paths


if __name__ == "__main__":
    draw()
