# SPDX-License-Identifier: Apache-2.0
"""Read areas from tables in a folder: `python -m examples.networks.area_tables FOLDER --scale 0.005`.

`sizes.csv` has the columns `area` and 23E, 23I, 4E, 4I, 5E, 5I, 6E, 6I: how many neurons there are. `external.csv` has
the same, with external inputs of 8 Hz of a neuron. `inputs.csv` has `target_area`, `target`, `source_area`, `source`
and `number`, how many synapses a neuron has, or `synapses`, how many there are between the two populations; pairs that
are missing have none. `delays.csv` has `area`, and for each area a column: ms from that area to the one of the row; or
`distances.csv`, the same in mm.
"""

import argparse
import csv
from pathlib import Path

import numpy as np

from examples.networks.areas import NAMES, SPEED, Areas, network
from examples.networks.report import above_zero, show

PAIRS = ("target_area", "target", "source_area", "source")


def rows_of(path, columns=("area",)):
    """Return the names of the columns of a CSV file, and its rows as numbers of lines and dictionaries.

    Raise unless these columns are there, and each column once.
    """
    if not path.is_file():
        raise ValueError(f"areas: {path} does not exist; the folder needs {path.name}")
    with path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file, skipinitialspace=True)
        try:
            names = list(reader.fieldnames or ())
            rows = [(reader.line_num, row) for row in reader]
        except UnicodeDecodeError:
            raise ValueError(f"areas: {path} is not text in UTF-8") from None
        except csv.Error as error:
            raise ValueError(f"areas: {path}, line {reader.line_num + 1}: {error}") from None
    for name in columns:
        if name not in names:
            raise ValueError(f"areas: {path} has no column {name!r}; it has {', '.join(names) or 'none'}")
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"areas: {path}: column {name!r} is there twice")
    if not rows:
        raise ValueError(f"areas: {path} has no rows")
    for line, row in rows:
        if None in row or None in row.values():
            raise ValueError(f"areas: {path}, line {line}: has another number of values than there are columns")
    return names, rows


def number_in(path, line, text):
    """Return a number that is not negative, and below 2**31."""
    try:
        found = -1.0 if "_" in text else float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < 2**31:
        raise ValueError(
            f"areas: {path}, line {line}: found {text!r}; write a number that is not negative, and below 2**31"
        )
    return found


def table(path, columns, areas=None, *, whole=False):
    """Return the areas of a file, and the numbers in its columns; in the order of areas, if these are given.

    `whole` is whether they are numbers of neurons.
    """
    names, rows = rows_of(path, ("area", *columns))
    for name in names:
        if name not in ("area", *columns):
            kind = f"population ({', '.join(NAMES)})" if columns == NAMES else "area in sizes.csv"
            raise ValueError(f"areas: {path}: column {name!r} is no {kind}")
    found = {}
    for line, row in rows:
        if not row["area"]:
            raise ValueError(f"areas: {path}, line {line}: has no name of an area")
        if row["area"] in found:
            raise ValueError(f"areas: {path}, line {line}: area {row['area']!r} is there twice")
        values = found[row["area"]] = [number_in(path, line, row[column]) for column in columns]
        for column, value in zip(columns, values, strict=True):
            if whole and value != int(value):
                raise ValueError(f"areas: {path}, line {line}: {column} of {row['area']} has {value:g} neurons")
    if areas is not None and set(found) != set(areas):
        odd = sorted(set(found) ^ set(areas))[0]
        where = "is missing" if odd in areas else "is not in sizes.csv"
        raise ValueError(f"areas: {path}: area {odd!r} {where}; each file has a row for each area")
    return (list(found) if areas is None else areas), np.array([found[name] for name in areas or found])


def read_inputs(path, areas, sizes):
    """Return how many synapses a neuron has: (areas, 8, areas, 8)."""
    names, rows = rows_of(path, PAIRS)
    if ("number" in names) == ("synapses" in names):
        raise ValueError(f"areas: {path} needs one of the columns 'number' and 'synapses'; it has {', '.join(names)}")
    what = "number" if "number" in names else "synapses"
    found, seen = np.zeros((len(areas), 8, len(areas), 8)), set()
    known = {name: list(areas) if name.endswith("area") else list(NAMES) for name in PAIRS}
    for line, row in rows:
        for name in PAIRS:
            if row[name] not in known[name]:
                kind = "area in sizes.csv" if name.endswith("area") else f"population ({', '.join(NAMES)})"
                raise ValueError(f"areas: {path}, line {line}: {name} is {row[name]!r}, which is no {kind}")
        place = tuple(known[name].index(row[name]) for name in PAIRS)
        if place in seen:
            raise ValueError(f"areas: {path}, line {line}: these two populations are there twice")
        seen.add(place)
        number = number_in(path, line, row[what])
        for end, which in (("target", place[:2]), ("source", place[2:])):
            if number and not sizes[which]:
                raise ValueError(f"areas: {path}, line {line}: the {end} has no neurons in sizes.csv")
        found[place] = number if what == "number" else number / sizes[place[:2]] if number else 0
    return found


def read(folder):
    """Return the `Areas` of a folder; raise `ValueError` that names the file and line for what is wrong."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"areas: {folder} is no folder; pass one with sizes.csv, inputs.csv and others")
    areas, sizes = table(folder / "sizes.csv", NAMES, whole=True)
    if not sizes.sum(0).all():
        raise ValueError(f"areas: {folder / 'sizes.csv'}: no area has neurons of {NAMES[sizes.sum(0).argmin()]}")
    inputs = read_inputs(folder / "inputs.csv", areas, sizes)
    external = table(folder / "external.csv", NAMES, areas)[1]
    files = [folder / name for name in ("delays.csv", "distances.csv")]
    there = [path for path in files if path.exists()]
    if len(there) != 1:
        has = "both" if there else "none"
        raise ValueError(f"areas: {folder} needs one of delays.csv and distances.csv; it has {has}")
    delays = table(there[0], areas, areas)[1]
    return Areas(areas, sizes.astype(int), inputs, external, delays if there[0] == files[0] else delays / SPEED)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=above_zero(float), default=0.005)
    parser.add_argument("--ms", type=above_zero(float), default=1000)
    given = parser.parse_args()
    try:
        areas_ = read(given.folder)
    except ValueError as error:
        parser.error(str(error))
    show(f"areas of {given.folder}", network(given.scale, areas=areas_), given.ms)
