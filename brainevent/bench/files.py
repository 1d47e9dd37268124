# SPDX-License-Identifier: Apache-2.0
"""Write results to files as JSON, CSV or pickle, and read them back; what is no such file is told in words."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import os
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .record import BenchmarkRecord
from .rows import flat_rows

__all__ = ["FORMATS", "ForeignFileError", "as_dict", "from_dict", "parsed", "read_csv", "read_json", "read_pickle",
           "write", "write_whole"]  # fmt: skip

FORMATS = ("json", "csv", "pkl")
_FORMAT, _VERSION = "brainevent benchmark", 1
_FIELDS = {field.name: field for field in dataclasses.fields(BenchmarkRecord)}
_REQUIRED = [name for name, field in _FIELDS.items() if field.default is dataclasses.MISSING]
_TYPES: dict[str, tuple[type, ...]] = {
    "float": (float, int),
    "float | None": (float, int, type(None)),
    "str": (str,),
    "str | None": (str, type(None)),
    "bool": (bool,),
    "int": (int,),
    "dict[str, Any]": (dict,),
}
_CSV_COLUMNS = ["platform", "backend", "label", "mean_ms", "std_ms", "min_ms"]
_Read = tuple[list[BenchmarkRecord], str]


def as_dict(records: Sequence[BenchmarkRecord], name: str) -> dict[str, Any]:
    """Return what JSON can hold of results; values of keywords that it cannot are their text."""
    return {"primitive_name": name, "records": [_fields(record) for record in records]}


def _fields(record: BenchmarkRecord) -> dict[str, Any]:
    fields = {name: getattr(record, name) for name in _FIELDS}
    for name in ("kernel_kwargs", "data_kwargs"):
        fields[name] = {str(key): value if _jsonable(value) else str(value) for key, value in fields[name].items()}
    return fields


def _jsonable(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_jsonable, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _jsonable(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


def write(path: Path, kind: str, records: Sequence[BenchmarkRecord], name: str, whole: object) -> None:
    """Write results to a file of some kind."""
    match kind:
        case "json":
            head = {"format": _FORMAT, "version": _VERSION}
            data = json.dumps({**head, **as_dict(records, name)}, indent=1).encode()
        case "csv":
            data = _csv_text(records).encode("utf-8", "surrogatepass")
        case "pkl":
            data = pickle.dumps(whole)
        case _:
            raise ValueError(f"BenchmarkResult.save: unknown format {kind!r}; use one of {', '.join(FORMATS)}")
    write_whole(path, data)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file in one piece, so that no reader finds half of it, in folders that are made as needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    beside.replace(path)


def _csv_text(records: Sequence[BenchmarkRecord]) -> str:
    rows = flat_rows(records, all_columns=True)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(rows.columns)
    writer.writerows([rows.cell(row, column) for column in rows.columns] for row in rows.rows)
    return text.getvalue()


class ForeignFileError(ValueError):
    """A file is not what it should be; `why` says what it is."""

    def __init__(self, path: Path, why: str):
        super().__init__(f"BenchmarkResult.load: {path} {why}; pass a file that BenchmarkResult.save wrote")
        self.why = why


def read_json(path: Path) -> _Read:
    """Read a JSON file of results."""
    return from_dict(path, parsed(path))


def parsed(path: Path) -> Any:
    """Return what a JSON file holds."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ForeignFileError(path, f"is no JSON, or only a part of a file ({error})") from None


def from_dict(path: Path, data: Any) -> _Read:
    """Return the records and the name of what `as_dict` made of results and a file holds."""
    if not isinstance(data, dict) or data.get("format", _FORMAT) != _FORMAT or "records" not in data:
        raise ForeignFileError(path, "holds no benchmark results")
    if (version := data.get("version", _VERSION)) != _VERSION:
        raise ForeignFileError(path, f"is of version {version!r}, and this brainevent reads version {_VERSION}")
    name, rows = data.get("primitive_name", ""), data["records"]
    if not isinstance(name, str) or not isinstance(rows, list):
        raise ForeignFileError(path, "holds no benchmark results")
    return [_record(path, i, row) for i, row in enumerate(rows)], name


def _record(path: Path, i: int, fields: Any) -> BenchmarkRecord:
    if not isinstance(fields, dict):
        raise ForeignFileError(path, f"has a record {i} that is a {type(fields).__name__}")
    if lacking := [name for name in _REQUIRED if name not in fields]:
        raise ForeignFileError(path, f"has a record {i} without {', '.join(lacking)}")
    if strange := [name for name in fields if name not in _FIELDS]:
        raise ForeignFileError(path, f"has a record {i} with {', '.join(strange)}, which this version does not know")
    for name, value in fields.items():
        if not isinstance(value, _TYPES[str(_FIELDS[name].type)]):
            raise ForeignFileError(path, f"has a record {i} whose {name} is {value!r}")
    return BenchmarkRecord(**fields)


def read_csv(path: Path) -> _Read:
    """Read a CSV file of results; columns of keywords are not restored."""
    try:
        table = list(csv.reader(io.StringIO(path.read_bytes().decode("utf-8", "surrogatepass"), newline="")))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ForeignFileError(path, f"is no CSV ({error})") from None
    head = table[0] if table else []
    if lacking := [name for name in _CSV_COLUMNS if name not in head]:
        raise ForeignFileError(path, f"lacks the columns {', '.join(lacking)}")
    records = []
    for i, cells in enumerate(table[1:], 2):
        if len(cells) != len(head):
            raise ForeignFileError(
                path, f"has {len(cells)} cells in row {i} instead of {len(head)}, as if a part were missing"
            )
        try:
            records.append(_of_cells(dict(zip(head, cells, strict=True))))
        except ValueError as error:
            raise ForeignFileError(path, f"has a row {i} with a cell that is no number ({error})") from None
    return records, ""


def _of_cells(cells: Mapping[str, str]) -> BenchmarkRecord:
    def number(name: str, default: float | None = math.nan) -> Any:
        text = cells.get(name, "")
        return float(text) if text not in ("", "FAILED") else default

    return BenchmarkRecord(
        platform=cells["platform"],
        backend=cells["backend"],
        label=cells["label"],
        mean_ms=number("mean_ms"),
        std_ms=number("std_ms"),
        min_ms=number("min_ms"),
        throughput=number("throughput", None),
        success=cells["mean_ms"] != "FAILED",
        error=cells.get("error") or None,
        kernel_kwargs={},
        data_kwargs={},
        median_ms=number("median_ms"),
        low_ms=number("low_ms"),
        high_ms=number("high_ms"),
        loop_ms=number("loop_ms", 0.0),
        unit=cells.get("unit", ""),
        peak_fraction=number("peak_fraction", None),
        mismatch=cells.get("mismatch") or None,
        nans=int(cells.get("nans") or 0),
        bytes=number("bytes", None),
        flops=number("flops", None),
        peak_bandwidth=number("peak_bandwidth", None),
        peak_flops=number("peak_flops", None),
    )


def read_pickle(path: Path, wanted: type, allow: bool) -> Any:
    """Read a pickle of the wanted class, if that is allowed: reading one can run any code."""
    if not allow:
        raise ValueError(
            f"BenchmarkResult.load: {path} is a pickle, and reading one runs the code in it; "
            "pass allow_pickle=True if you trust it"
        )
    try:
        found = pickle.loads(path.read_bytes())
    except Exception as error:  # noqa: BLE001 - broken pickles raise anything
        raise ForeignFileError(path, f"is no pickle, or only a part of one ({type(error).__name__}: {error})") from None
    if not isinstance(found, wanted):
        raise ForeignFileError(path, f"holds a {type(found).__name__}, not a {wanted.__name__}")
    return found
