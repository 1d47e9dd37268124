# SPDX-License-Identifier: Apache-2.0
"""Write the gallery, a page of programs with thumbnails: `python -m docs.gallery FOLDER`.

A thumbnail is the part of a committed picture that holds the data, without axes and words; tests hold these pictures to
the programs. Sphinx has the page written before it reads pages.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

__all__ = ["PROGRAMS", "Program", "page", "thumbnail", "write"]

HERE = Path(__file__).parent
PICTURES = HERE / "_static"
THEMES = ("light", "dark")
SHAPE = 320, 200  # pixels of a thumbnail
_SVG, _LINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_LEAST = 0.45  # to so much a picture may be squeezed; others are cut
_FEW, _LARGER = (50, 1500), 1.7  # marks of a raster, which are drawn larger where there are few
_WORDS = ("matplotlib.axis", "legend", "text")  # groups of a picture that cannot be read when it is small


@dataclass(frozen=True)
class Program:
    """A card: the page that has the program, and the axes of the picture that its thumbnail shows."""

    title: str
    page: str
    words: str
    picture: str
    axes: tuple[int, ...] = (1,)
    runs: str = ""  # the module of examples/ that is the program, with its options


PROGRAMS = {
    "Networks": (
        Program("A first network", "networks.md", "1 000 neurons, described in a page.", "networks/first"),
        Program("CUBA", "cuba.md", "4 000 neurons with synaptic currents.", "networks/cuba", runs="cuba"),
        Program("COBA", "coba.md", "4 000 neurons with conductances.", "networks/coba", runs="coba"),
        Program(
            "Four regimes", "brunel.md", "Brunel's network: regular, oscillating or irregular.",
            "networks/brunel", (2, 4), "brunel --regime B",
        ),
        Program(
            "Cortical microcircuit", "microcircuit.md", "Eight populations; 299 million synapses at full scale.",
            "networks/microcircuit", runs="microcircuit --scale 0.1",
        ),
        Program(
            "32 areas", "areas.md", "A cortex; 24 billion synapses at full scale.", "networks/areas", runs="areas",
        ),
        Program(
            "Rhythms of delays", "delays.md", "A delay for each synapse sets the period.", "networks/delays", (1, 2, 3)
        ),
        Program(
            "Ring attractor", "ring-attractor.md", "A bump of activity remembers a direction.",
            "networks/ring", runs="ring",
        ),
        Program("A cortical sheet", "sheet.md", "Waves travel over neurons that are near.", "networks/sheet", (4,)),
        Program(
            "A decision", "decision.md", "Two groups compete until one wins.", "networks/decision", (1, 2), "decision",
        ),
        Program("A loop of your own", "own-loop.md", "COBA once more, as a step in `jax.numpy`.", "networks/rate"),
    ),
    "Learning": (
        Program(
            "Classifier", "classifier.md", "Gradients train a spiking network.",
            "networks/classifier", (2,), "classifier",
        ),
        Program(
            "Digits", "train-with.md#a-network-of-the-shape-of-shd",
            "700 inputs and 20 classes, with and without delays.",
            "networks/digits", (2,), "digits",
        ),
        Program(
            "Plasticity",
            "plasticity-operators.md",
            "Synapses find the inputs that spike together.",
            "plasticity/network",
            (2,),
        ),
        Program(
            "Competing synapses", "song.md", "Weights become bimodal, and the neuron keeps its rate.",
            "networks/song", (1, 2), "song",
        ),
        Program(
            "Inhibition that learns", "vogels.md", "10 000 neurons become irregular.", "networks/vogels", runs="vogels",
        ),
        Program("A late reward", "reward.md", "One synapse of 64 000 is found.", "networks/reward", runs="reward"),
        Program(
            "Millions of plastic synapses", "hpc.md", "Each neuron has 11 250 inputs.", "networks/hpc", (1, 2), "hpc",
        ),
        Program(
            "Triplets of spikes", "plasticity-rules.md#triplet-stdp", "Plasticity that depends on rates, as measured.",
            "plasticity-rules/triplet-stdp",
        ),
        Program(
            "Reward", "plasticity-rules.md#reward-stdp", "Synapses wait for dopamine.",
            "plasticity-rules/reward-stdp", (1, 2, 3),
        ),
        Program(
            "Short-term plasticity", "neuron-models.md#depressing-synapses", "Synapses weaken with use, and recover.",
            "neuron-models/tsodyks-markram",
        ),
    ),
    "Neurons": (
        Program(
            "Izhikevich", "neuron-models.md#izhikevich", "Five kinds of firing, one model.",
            "neuron-models/izhikevich", (1, 2, 3, 4, 5),
        ),
        Program("AdEx", "neuron-models.md#adex", "Exponential upstroke and adaptation.", "neuron-models/adex"),
        Program(
            "Hodgkin-Huxley", "neuron-models.md#hodgkin_huxley", "Sodium and potassium channels.",
            "neuron-models/hodgkin-huxley",
        ),
        Program(
            "Potentials", "networks.md#what-to-record", "States, recorded while a network runs.",
            "networks/potentials", (1, 2, 3),
        ),
    ),
    "Operators": (
        Program("Kernels compared", "benchmark.md", "One operator in Numba, C++ and `jax.numpy`.", "plots/line"),
        Program("Roofline", "plots.md", "How near a kernel comes to what the machine can do.", "plots/roofline"),
    ),
}  # fmt: skip

_INTRODUCTION = """\
---
hide-toc: true
---

# Gallery

Each picture leads to a page with the whole program. Those with a name
in `examples` also run in a clone of the repository, by `python -m` and this name.
"""


def page() -> str:
    """Return the text of the page."""
    lines = [_INTRODUCTION]
    for topic, programs in PROGRAMS.items():
        lines += [f"## {topic}", "", "````{container} gallery", ""]
        for program in programs:
            lines += _card(program)
        lines += ["````", ""]
    return "\n".join(lines)


def _card(program: Program) -> Iterator[str]:
    yield "```{container} card"
    name, target = program.picture.replace("/", "-"), program.page.replace(".md", ".html")
    for theme in THEMES:
        image = (
            f'<img src="_static/gallery/{name}-{theme}.svg" alt="" loading="lazy">'  # the link below says what it is
        )
        yield f'<a class="only-{theme}" href="{target}" tabindex="-1">{image}</a>'
    yield ""
    yield f"**[{program.title}]({program.page})**"
    yield ""
    yield program.words
    if program.runs:
        yield ""
        name, *options = program.runs.split(" ", 1)
        yield " ".join(f"`{words}`" for words in [f"examples.networks.{name}", *options])
    yield "```"
    yield ""


def thumbnail(picture: str, axes: Iterable[int]) -> str:
    """Return the SVG of some axes of a picture, without what is only read when it is large."""
    root = ET.fromstring(picture)
    named = {found.get("id"): found for found in root.iter() if found.get("id")}
    kept = [named[f"axes_{number}"] for number in axes]
    boxes = [_box(one) for one in kept]
    for one in kept:
        background, *parts = one
        for part in (background, *(part for part in parts if part.get("id", "").startswith(_WORDS))):
            one.remove(part)
    left, top = (min(box[k] for box in boxes) for k in (0, 1))
    right, bottom = (max(box[k] for box in boxes) for k in (2, 3))
    stretched = (right - left) / (bottom - top) * SHAPE[1] / SHAPE[0]
    fitted = "none" if _LEAST < stretched < 1 / _LEAST else "xMinYMid slice"
    small = ET.Element(f"{{{_SVG}}}svg", {
        "width": str(SHAPE[0]), "height": str(SHAPE[1]), "preserveAspectRatio": fitted,
        "viewBox": f"{left:g} {top:g} {right - left:g} {bottom - top:g}",
    })  # fmt: skip
    small.append(root.find(f"{{{_SVG}}}defs"))
    small.append(named["patch_1"])
    small.extend(kept)
    _define(small, named)
    _enlarge(small)
    ET.register_namespace("", _SVG)
    ET.register_namespace("xlink", _LINK)
    return re.sub(r"\s*\n\s*", "\n", ET.tostring(small, encoding="unicode"))


def _box(axes: ET.Element) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of axes, from the patch that is their background."""
    numbers = [float(number) for number in re.findall(r"-?[\d.]+", axes[0][0].get("d", ""))]
    return min(numbers[::2]), min(numbers[1::2]), max(numbers[::2]), max(numbers[1::2])


def _define(small: ET.Element, named: dict[str | None, ET.Element]) -> None:
    """Add what the kept parts refer to, and what was defined elsewhere in the picture."""
    there = {found.get("id") for found in small.iter()}
    text = ET.tostring(small, encoding="unicode")
    wanted = {*re.findall(r'href="#([^"]+)"', text), *re.findall(r"url\(#([^)]+)\)", text)} - there
    definitions = small[0]
    for name in sorted(wanted):
        definitions.append(named[name])


def _enlarge(small: ET.Element) -> None:
    """Draw the marks of a raster larger, if there are few of them."""
    used = Counter(use.get(f"{{{_LINK}}}href", "")[1:] for use in small.iter(f"{{{_SVG}}}use"))
    for mark in small.iter(f"{{{_SVG}}}path"):
        if _FEW[0] < used[mark.get("id", "")] < _FEW[1]:
            mark.set("transform", f"scale({_LARGER})")


def write(folder: Path) -> None:
    """Write the page, and the thumbnails into `_static/gallery`; leave those alone that would stay the same."""
    texts = {folder / "gallery.md": page()}
    for programs in PROGRAMS.values():
        for program in programs:
            for theme in THEMES:
                picture = (PICTURES / f"{program.picture}-{theme}.svg").read_text(encoding="utf-8")
                name = f"{program.picture.replace('/', '-')}-{theme}.svg"
                texts[folder / "_static" / "gallery" / name] = thumbnail(picture, program.axes)
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(*sys.argv[1:2] or [HERE]))
