# SPDX-License-Identifier: Apache-2.0
"""Write results to files as JSON, CSV or pickle, and read them; other files give an error."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .record import BenchmarkRecord
from .rows import flat_rows
from .whole_files import write_whole

__all__ = ["FORMATS", "RUN_FORMAT", "RUN_VERSION", "ForeignFileError", "as_dict", "from_dict", "kind_of", "read_csv",
           "read_json", "read_pickle", "read_run", "write"]  # fmt: skip

FORMATS = ("json", "csv", "pkl")
RUN_FORMAT, RUN_VERSION = "brainevent run", 1  # of files with results of several operators
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
    """Return results for JSON: NumPy scalars as numbers, and values that JSON cannot represent as text."""
    return {"primitive_name": name, "records": [_fields(record) for record in records]}


def _fields(record: BenchmarkRecord) -> dict[str, Any]:
    fields = {name: _plain(getattr(record, name)) for name in _FIELDS}
    for name in ("kernel_kwargs", "data_kwargs"):
        fields[name] = {str(key): value if _jsonable(value) else str(value) for key, value in fields[name].items()}
    return fields


def _plain(value: Any) -> Any:
    """Return a value with Python's numbers instead of NumPy's."""
    if type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    if type(value) is dict:
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, np.floating):
        return float(value)
    return value.item() if isinstance(value, (np.bool_, np.integer)) else value


def _jsonable(value: Any) -> bool:
    if isinstance(value, list):
        return all(map(_jsonable, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _jsonable(item) for key, item in value.items())
    return value is None or isinstance(value, (bool, int, float, str))


def kind_of(path: Path) -> str:
    """Return the format for the extension of a name; JSON if there is none."""
    suffix = path.suffix[1:]
    return suffix if suffix in FORMATS else "json"


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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, data)


def _csv_text(records: Sequence[BenchmarkRecord]) -> str:
    rows = flat_rows(records, all_columns=True)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(rows.columns)
    writer.writerows([rows.cell(row, column, exact=True) for column in rows.columns] for row in rows.rows)
    return text.getvalue()


class ForeignFileError(ValueError):
    """A file has other content than expected; `why` describes it."""

    def __init__(self, path: Path, why: str, reader: str = "load"):
        writers = "--output or BenchmarkResult.save" if reader == "load_run" else "BenchmarkResult.save"
        super().__init__(f"BenchmarkResult.{reader}: {path} {why}; pass a file that {writers} wrote")
        self.why = why


def read_json(path: Path) -> _Read:
    """Read a JSON file of results."""
    return from_dict(path, _parsed(path))


def read_run(path: Path) -> tuple[dict[str, Any], list[_Read]]:
    """Read a run of several operators: the fields that say how it was measured, and what results hold.

    A JSON file with results only has no such fields.
    """
    content = _parsed(path)
    if not isinstance(content, dict) or content.get("format") != RUN_FORMAT:
        return {}, [from_dict(path, content)]
    if (version := content.get("version")) != RUN_VERSION:
        raise ForeignFileError(path, f"is of version {version!r}, and this brainevent reads version {RUN_VERSION}")
    kinds = {"platform": str, "results": list, "machine": str, "versions": dict, "settings": dict, "date": str}
    for name, kind in kinds.items():
        if not isinstance(content.get(name), kind):
            raise ForeignFileError(path, f"is not a complete run: {name} is {content.get(name)!r:.40}")
    results = [from_dict(path, result) for result in content["results"]]
    return {name: content[name] for name in kinds if name != "results"}, results


def _parsed(path: Path) -> Any:
    """Return what a JSON file holds."""
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ForeignFileError(path, f"is not JSON, or is incomplete ({error})") from None


def from_dict(path: Path, data: Any) -> _Read:
    """Return the records and the name of results from the dictionary of `as_dict`."""
    if isinstance(data, dict) and data.get("format") == RUN_FORMAT:
        raise ForeignFileError(path, "is a complete run, which BenchmarkResult.load_run reads")
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
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        raise ForeignFileError(path, "does not end with a newline, so it is incomplete")
    try:
        text = io.StringIO(data.decode("utf-8", "surrogatepass"), newline="")
        table = list(csv.reader(text, strict=True))  # otherwise a file that ends within quotes would seem complete
    except (UnicodeDecodeError, csv.Error) as error:
        raise ForeignFileError(path, f"is not CSV ({error})") from None
    head = table[0] if table else []
    if lacking := [name for name in _CSV_COLUMNS if name not in head]:
        raise ForeignFileError(path, f"lacks the columns {', '.join(lacking)}")
    records = []
    for i, cells in enumerate(table[1:], 2):
        if len(cells) != len(head):
            raise ForeignFileError(
                path, f"has {len(cells)} cells in row {i} instead of {len(head)}, so it may be incomplete"
            )
        try:
            records.append(_of_cells(dict(zip(head, cells, strict=True))))
        except ValueError as error:
            raise ForeignFileError(path, f"has a row {i} with a cell that is not a number ({error})") from None
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
    """Read a pickle of a class, if this is allowed: reading a pickle can run any code."""
    if not allow:
        raise ValueError(
            f"BenchmarkResult.load: {path} is a pickle, and reading one runs the code in it; "
            "pass allow_pickle=True if you trust it"
        )
    try:
        found = pickle.loads(path.read_bytes())
    except Exception as error:  # noqa: BLE001 - broken pickles raise anything
        raise ForeignFileError(path, f"is not a pickle, or is incomplete ({type(error).__name__}: {error})") from None
    if not isinstance(found, wanted):
        raise ForeignFileError(path, f"holds a {type(found).__name__}, not a {wanted.__name__}")
    return found
