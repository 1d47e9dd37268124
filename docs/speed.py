# SPDX-License-Identifier: Apache-2.0
"""Draw the pictures of docs/speed.md, and put its figures there: `python -m docs.speed`.

All are from files in benchmarks/results; nothing in them is written by hand.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks import pictures
from benchmarks.microcircuit_statistics import LAYERS, OTHERS
from benchmarks.options import HERE as BENCHMARKS
from brainevent.bench.words import short

PAGE = Path(__file__).with_suffix(".md")
FOLDER = Path(__file__).parent / "_static" / "speed"
RESULTS = {
    "gpu": "2026-11-25-nvidia-h100-80gb-hbm3-gpu_microcircuit-gpu.json",
    "large": "2026-11-28-nvidia-h200-gpu_engine-gpu.json",
    "steps": "2026-11-28-nvidia-h200-gpu_engine-gpu.json",
    "start": "2026-11-25-nvidia-h100-80gb-hbm3-gpu_microcircuit-gpu.json",
    "energy": "2026-11-25-nvidia-h100-80gb-hbm3-gpu_energy-gpu.json",
    "onegpu": "2026-11-25-nvidia-h100-80gb-hbm3-gpu_flywire-gpu.json",
    "cpu": "2026-11-25-amd-epyc-2-cores-networks.json",
    "pd14": "2026-11-25-amd-epyc-2-cores-microcircuit.json",
    "fires": "2026-11-25-amd-epyc-2-cores-microcircuit_statistics.json",
    "connectome": "2026-11-25-amd-epyc-2-cores-flywire.json",
}
_BLOCK = re.compile(r"<!-- figures of (\w+) -->\n.*?<!-- end of figures -->", re.DOTALL)
_RECORDED = ("spikes", "counts", "nothing")
_CLOCK = 1.98  # GHz, of the GPU whose steps were measured
_WAYS = {
    "the network engine": "`brainevent`",
    "C++: a loop without branches": "C++ by hand",
    "Brian2: C++ standalone": "Brian2, C++",
    "PyPI package: neurons in jax.numpy": "PyPI package",
}

Result = Mapping[str, Any]


def load(name: str) -> Result:
    """Return a result."""
    found: Result = json.loads((BENCHMARKS / "results" / RESULTS[name]).read_text(encoding="utf-8"))
    return found


def draw(folder: Path = FOLDER) -> list[Path]:
    """Draw all pictures in each theme into a folder, and return their paths."""
    return pictures.draw([load(name) for name in ("gpu", "steps", "pd14", "fires", "connectome", "onegpu")], folder)


def figures(name: str) -> str:
    """Return the table of this name."""
    return "\n".join(FIGURES[name](load(name)))


def with_figures(page: str) -> str:
    """Return the page with all tables as the results have them."""
    return _BLOCK.sub(lambda m: f"<!-- figures of {m[1]} -->\n{figures(m[1])}\n<!-- end of figures -->", page)


def _of_gpu(result: Result) -> list[str]:
    lines = ["| PD14 on an H100 | real-time factor | quartiles | microseconds a step |", "| --- | ---: | ---: | ---: |"]
    for row in result["rows"]:
        match = re.fullmatch(r"PD14(| at \d+ %), (\w+) drive: the network engine, (\w+) recorded", row["name"])
        if match is None:
            continue
        scale, drive, recorded = match.groups()
        value = {key: f"{number:.4f}" for key, number in row["value"].items()}
        title = f"{'Poisson' if drive == 'poisson' else 'DC'} drive{scale}, {recorded} recorded"
        step = f"{row['value']['median'] * 100:.2f}"
        lines.append(f"| {title} | {value['median']} | {value['low']} to {value['high']} | {step} |")
    return lines


def _of_large(result: Result) -> list[str]:
    """Microseconds of a step of CUBA and COBA."""
    lines = [f"| Microseconds a step | {' | '.join(f'{one} recorded' for one in _RECORDED)} |"]
    lines.append("| --- |" + " ---: |" * len(_RECORDED))
    medians = {row["name"]: row["value"]["median"] for row in result["rows"]}
    for title in dict.fromkeys(name.rpartition(", ")[0] for name in medians if name.endswith(" recorded")):
        found = [short(100 * medians[f"{title}, {one} recorded"], 3) for one in _RECORDED]
        lines.append(f"| {pictures.titled(title)} | {' | '.join(found)} |")
    return lines


def _of_start(result: Result) -> list[str]:
    lines = ["| PD14, before its first step | median | quartiles |", "| --- | ---: | ---: |"]
    for row in result["rows"]:
        if "the network engine" not in row["name"]:
            value = {key: f"{short(number, 2)} {row['unit']}" for key, number in row["value"].items()}
            title = row["name"].partition(": ")[2]
            lines.append(f"| {title} | {value['median']} | {value['low']} to {value['high']} |")
    return lines


def _of_energy(result: Result) -> list[str]:
    lines = ["| PD14, Poisson drive | median | quartiles |", "| --- | ---: | ---: |"]
    for row in result["rows"]:
        value = {key: f"{short(number, 3)} {row['unit']}" for key, number in row["value"].items()}
        lines.append(f"| {row['name'].partition(': ')[2]} | {value['median']} | {value['low']} to {value['high']} |")
    return lines


def _of_steps(result: Result) -> list[str]:
    lines = [
        "| Cycles on an H200 | update neurons | send spikes | wait for all blocks | deliver | a step | microseconds |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for title, marks in pictures.marks_of(result).items():
        phases = [b - a for a, b in zip([0, *marks], marks, strict=False)]
        counts = " | ".join(f"{count:.0f}" for count in [*phases, marks[-1]])
        lines.append(f"| {pictures.titled(title)} | {counts} | {marks[-1] / _CLOCK / 1e3:.2f} |")
    return lines


def _of_cpu(result: Result) -> list[str]:
    medians = {row["name"]: row["value"]["median"] for row in result["rows"]}
    lines = [f"| Microseconds a step | threads | {' | '.join(_WAYS.values())} |", "| --- | ---: |" + " ---: |" * 4]
    for model in ("cuba", "coba"):
        for neurons in (4_000, 40_000, 400_000):
            for threads in ("1 thread", "2 threads"):
                found = [medians.get(f"{model}, {neurons} neurons, {threads}: {way}") for way in _WAYS]
                cells = " | ".join("" if value is None else short(value, 3) for value in found)
                lines.append(f"| {model.upper()}, {neurons:,} neurons | {threads[0]} | {cells} |".replace(",0", " 0"))
    return lines


def _of_pd14(result: Result) -> list[str]:
    lines = ["| PD14 on two cores | real-time factor |", "| --- | ---: |"]
    for row in result["rows"]:
        scale, drive, way = re.fullmatch(r"PD14(.*), (\w+) drive: (.+)", row["name"]).groups()
        title = f"{'Poisson' if drive == 'poisson' else 'DC'} drive{scale}, "
        title += way.replace("the network engine", "`brainevent`")
        factor = row["value"]["median"]
        lines.append(f"| {title} | {factor:.{1 if factor >= 10 else 2}f} |")
    return lines


def _of_connectome(result: Result) -> list[str]:
    lines = ["| The connectome | real-time factor | quartiles |", "| --- | ---: | ---: |"]
    for row in result["rows"]:
        value = {key: f"{number:.3f}" for key, number in row["value"].items()}
        title = row["name"].partition("the network engine, ")[2]
        lines.append(f"| `brainevent`, {title} | {value['median']} | {value['low']} to {value['high']} |")
    return lines


def _of_fires(result: Result) -> list[str]:
    """Medians of seeds beside other programs; what is outside of its band is marked."""
    lines = [f"| Poisson drive | {' | '.join(name[1:] for name in LAYERS)} |", "| --- |" + " ---: |" * len(LAYERS)]
    named = {"rate": "rate, Hz", "CV": "CV of intervals", "correlation": "correlation, x 0.001"}
    for name, title in named.items():
        scale, zeros = (1e3, 3) if name == "correlation" else (1, 0)
        for place, other in enumerate(OTHERS["poisson", name]):
            rows = [_row(result, f"{name}, {layer}, beside {other.program}") for layer in LAYERS]
            medians = [f"{row['value']['median']:.2f}" for row in rows]
            if place == 0:
                lines.append(f"| {title}: `brainevent` | {' | '.join(medians)} |")
            marked = [
                f"{scale * value:.{other.decimals - zeros}f}{'' if row['met'] else ' (!)'}"
                for value, row in zip(other.values, rows, strict=True)
            ]
            lines.append(f"| {title}: {other.program} | {' | '.join(marked)} |")
    return lines


def _row(result: Result, name: str) -> Any:
    return next(row for row in result["rows"] if row["name"] == f"PD14, poisson drive: {name}")


FIGURES = {
    "gpu": _of_gpu,
    "large": _of_large,
    "start": _of_start,
    "energy": _of_energy,
    "onegpu": _of_connectome,
    "steps": _of_steps,
    "cpu": _of_cpu,
    "pd14": _of_pd14,
    "fires": _of_fires,
    "connectome": _of_connectome,
}


if __name__ == "__main__":
    draw()
    PAGE.write_text(with_figures(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
