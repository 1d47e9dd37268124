# SPDX-License-Identifier: Apache-2.0
"""Results on the command line: tables, pictures, a file, and a comparison with a saved run."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.util
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..bench.fitting import fitted
from ..bench.record import BenchmarkRecord
from ..bench.regressions import Change, changes, differences, other_settings
from ..bench.result import BenchmarkResult
from ..bench.rows import flat_rows
from ..bench.runs import ForeignFileError, Run, best_backend, wins
from ..bench.table import Layout, table
from ..bench.words import time_text
from ..errors import did_you_mean
from .words import CommandError, amount, begun, note, say, say_json, width_of

__all__ = ["Report"]

_HEAD = ("label", "backend", "before", "now", "ratio", "verdict")
_PICTURES = (".svg", ".png")


@dataclass
class Report:
    """The requested output, the run to compare with, and the results so far."""

    wishes: argparse.Namespace
    run: Run
    before: Run | None = None
    regressions: list[str] = field(default_factory=list)
    changes: dict[str, list[Change]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    unmeasured: dict[str, str] = field(default_factory=dict)  # operators without any time, with the reason
    is_narrow: bool = False  # whether a table omitted columns

    @classmethod
    def prepared(cls, wishes: argparse.Namespace, run: Run, names: Sequence[str]) -> Report:
        """Check all options before anything is measured; `names` are those of the operators."""
        if wishes.plot is not None:
            _check_plot(wishes.plot, names)
        if wishes.output is not None:
            _check_output(wishes.output)
        before = None if wishes.compare is None else _saved(wishes.compare, names)
        if before is not None:
            if said := ", ".join(other_settings(before, run)):
                raise CommandError(
                    f"--compare: {wishes.compare} was measured with other settings ({said}), so its times cannot be "
                    "compared; measure with the settings of that run, or repeat that run"
                )
            for said in differences(before, run):
                note(f"brainevent: {wishes.compare} was measured under other conditions: {said}")
        report = cls(wishes, run, before)
        report.say(f"{run.platform}: {run.machine}")
        return report

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Summarize at the end; after an early end, JSON is printed too, so that no result is lost."""
        try:
            yield
            self._finish()
        finally:
            if self.wishes.json:
                say_json(self._as_dict())

    def say(self, text: str) -> None:
        """Print a line, unless stdout is for JSON."""
        if not self.wishes.json:
            say(text)

    def begin(self, words: str) -> None:
        """Print the title of an operator."""
        if self.wishes.json and not sys.stderr.isatty():
            note(words)
        self.say(f"\n{words}\n{'=' * len(words)}")

    def add(self, result: BenchmarkResult) -> None:
        """Store the results of one operator, print and draw them, and compare them with the earlier run."""
        self.run = dataclasses.replace(self.run, results=[*self.run.results, result])
        if why := _why_nothing(result):
            self.unmeasured[result.primitive_name] = why
        self._write()
        if not self.wishes.json:
            say(self._table(result))
        if (best := best_backend(result)) is not None:
            labels = {record.label for record in result.records}
            self.say(f"\nbest: {best}, for {wins(result)[best]} of {amount(len(labels), 'label')}")
        if self.before is not None:
            self._compare(self.before, result)
        if self.wishes.plot is not None:
            self.say(f"\ndrew {_drawn(self.wishes.plot, result)}")

    def fail(self, name: str, error: Exception) -> None:
        """Print that an operator could not be measured, with the reason."""
        self.errors[name] = f"{type(error).__name__}: {error}".removesuffix(": ")
        self.say(f"ERROR — {self.errors[name]}")

    def _finish(self) -> None:
        if not self.run.results:  # the file contains that
            self._write()
        if self.is_narrow:
            note("some columns are left out to fit (--wide shows all)")
        if self.wishes.output is not None:
            self.say(f"\nwrote {amount(len(self.run.results), 'result')} to {self.wishes.output}")
        if self.before is None:
            return
        measured = {result.primitive_name for result in self.run.results}
        if missed := [name for one in self.before.results if (name := one.primitive_name) and name not in measured]:
            note(f"brainevent: {self.wishes.compare} has results that are not compared: {', '.join(missed)}")
        found = amount(len(self.regressions), "regression") if self.regressions else "no regression"
        self.say("\n".join([f"\n{found} since {self.wishes.compare}", *(f"  {said}" for said in self.regressions)]))

    def _write(self) -> None:
        """Write the results so far, so that a later error loses nothing."""
        if self.wishes.output is not None:
            try:
                self.run.write(self.wishes.output)
            except OSError as error:
                raise CommandError(f"--output: {self.wishes.output} cannot be written ({error.strerror})") from error

    def _as_dict(self) -> dict[str, Any]:
        """Return the run in the format of a file, with errors and the comparison."""
        content = {**self.run.to_dict(), "errors": {**self.errors, **self.unmeasured}}
        if self.before is not None:
            content["comparison"] = {
                "file": str(self.wishes.compare),
                "regressions": self.regressions,
                "changes": {name: [_as_dict(change) for change in found] for name, found in self.changes.items()},
            }
        return content

    def _compare(self, before: Run, now: BenchmarkResult) -> None:
        name = now.primitive_name
        past = next((one for one in before.results if one.primitive_name in (name, "")), None)
        if past is None:
            note(f"brainevent: {self.wishes.compare} has no results of {name}")
            return
        found = self.changes[name] = changes(past, now, self.wishes.tolerance, self.wishes.backends)
        self.regressions += [f"{name}, {_in_words(change)}" for change in found if change.is_regression]
        if self.wishes.json:
            return
        say(f"\nsince {self.wishes.compare}{f' ({before.date})' if before.date else ''}:\n")
        right, drop = ("before", "now", "ratio"), ("before", "now")
        text, left_out = fitted(_HEAD, [*map(_row, found)], width_of(self.wishes), right=right, wrap=_HEAD, drop=drop)
        say(text)
        self.is_narrow = self.is_narrow or bool(left_out)

    def _table(self, result: BenchmarkResult) -> str:
        """Return a hierarchy with the best marked: by sortable columns of data, or by label in the given order."""
        if not result.records:
            return "no configuration"
        data = [name for name in flat_rows(result.records).names if name not in ("platform", "backend", "label")]
        layout = Layout(order_by=[*data, "label", "backend"], in_order=not data)
        text = table(result.records, dataclasses.replace(layout, width=width_of(self.wishes)))
        self.is_narrow = self.is_narrow or text != table(result.records, layout)
        return text


def _why_nothing(result: BenchmarkResult) -> str:
    """Return why no backend was measured, or nothing if one was."""
    if any(record.success for record in result.records):
        return ""
    if not result.records:
        return "its benchmark data are empty"
    return f"each backend failed, the first one with: {begun(str(result.records[0].error))}"


def _drawn(path: Path, result: BenchmarkResult) -> Path:
    place = path if path.suffix in _PICTURES else path / f"{result.primitive_name}.svg"
    result.plot().savefig(place)
    return place


def _as_dict(change: Change) -> dict[str, Any]:
    times = {"before_ms": change.before, "now_ms": change.now}
    found = {
        name: record.typical_ms if record is not None and record.success else None for name, record in times.items()
    }
    return {
        "label": change.label,
        "backend": change.backend,
        **found,
        "verdict": change.verdict,
        "regression": change.is_regression,
    }


def _row(change: Change) -> tuple[str, ...]:
    ratio = "" if change.verdict not in ("slower", "faster", "same") else f"{change.ratio:.2f}x"
    mark = "  <-- regression" if change.is_regression else ""
    return (change.label, change.backend, _time(change.before), _time(change.now), ratio, change.verdict + mark)


def _time(record: BenchmarkRecord | None) -> str:
    if record is None:
        return ""
    if not record.success:
        return "failed"
    return time_text(record.typical_ms * 1e-3)


def _in_words(change: Change) -> str:
    where = f"{change.label}, {change.backend}: "
    return where + (f"{change.ratio:.2f}x as long" if change.verdict == "slower" else change.verdict)


def _check_plot(path: Path, names: Sequence[str]) -> None:
    is_picture = path.suffix in _PICTURES
    if is_picture and len(names) > 1:
        raise CommandError(f"--plot {path}: one file cannot show {len(names)} operators; pass a folder")
    if path.suffix and not is_picture and not path.is_dir():
        raise CommandError(f"--plot {path}: pictures are {' or '.join(_PICTURES)} files; pass one, or a folder")
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("--plot needs matplotlib; run: pip install matplotlib")
    _make("--plot", path.parent if is_picture else path)


def _check_output(path: Path) -> None:
    if path.is_dir():
        raise CommandError(f"--output {path}: this is a folder; pass the name of a file")
    _make("--output", path.parent)


def _make(option: str, folder: Path) -> None:
    """Make a folder before anything is measured."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{option}: the folder {folder} cannot be made ({error.strerror})") from error
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{option}: the folder {folder} is not writable; choose another")


def _saved(path: Path, names: Sequence[str]) -> Run:
    """Return the run in a file, which must contain results of some of the operators, each once."""
    try:
        before = Run.read(path)
    except ForeignFileError as error:
        raise CommandError(
            f"--compare: {path} {error.why}; pass a file that --output or BenchmarkResult.save wrote"
        ) from error
    except OSError as error:
        raise CommandError(f"--compare: {path} cannot be read ({error.strerror})") from error
    known = [result.primitive_name for result in before.results]
    if not set(known) & set(names) and not (known == [""] and len(names) == 1):
        hints = "".join(did_you_mean(name, known) for name in names[:1])
        raise CommandError(
            f"--compare: {path} has no results of the operators to measure ({', '.join(names) or 'none'}){hints}; "
            f"it has those of: {', '.join(filter(None, known)) or 'none'}"
        )
    if twice := [name for name, count in Counter(known).items() if count > 1]:
        raise CommandError(f"--compare: {path} has several results of {', '.join(twice)}; pass a file with one of each")
    return before
