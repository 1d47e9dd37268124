# SPDX-License-Identifier: Apache-2.0
"""What becomes of results on the command line: tables, pictures, a file, and a comparison with a saved run."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..bench.record import BenchmarkRecord
from ..bench.regressions import Change, changes, differences, other_settings
from ..bench.result import BenchmarkResult
from ..bench.rows import flat_rows
from ..bench.runs import ForeignFileError, Run, best_backend, wins
from ..bench.table import Layout, table
from ..bench.words import columns, time_text
from ..errors import did_you_mean
from .words import CommandError, amount, note, say

__all__ = ["Report"]

_PICTURES = (".svg", ".png")


@dataclass
class Report:
    """What a user wants to become of results, with what they are compared with."""

    wishes: argparse.Namespace
    before: Run | None
    regressions: list[str] = field(default_factory=list)

    @classmethod
    def prepared(cls, wishes: argparse.Namespace, run: Run, names: Sequence[str]) -> Report:
        """Check all wishes before anything is measured; `names` are those of the operators."""
        if wishes.plot is not None:
            _check_plot(wishes.plot, names)
        if wishes.output is not None:
            _check_output(wishes.output)
        if wishes.compare is None:
            return cls(wishes, None)
        before = _saved(wishes.compare, names)
        if said := ", ".join(other_settings(before, run)):
            raise CommandError(
                f"--compare: {wishes.compare} was measured in another way ({said}), so its times cannot be compared; "
                "measure as before, or measure that run anew"
            )
        for said in differences(before, run):
            note(f"brainevent: {wishes.compare} was measured under other conditions: {said}")
        return cls(wishes, before)

    def show(self, result: BenchmarkResult) -> None:
        """Print the results of one operator, how they compare with before, and draw them."""
        say(_table(result))
        if (best := best_backend(result)) is not None:
            labels = {record.label for record in result.records}
            say(f"\nbest: {best}, for {wins(result)[best]} of {amount(len(labels), 'label')}")
        if self.before is not None:
            self._compare(self.before, result)
        if self.wishes.plot is not None:
            _draw(self.wishes.plot, result)

    def keep(self, run: Run) -> None:
        """Write what is measured so far, so that nothing is lost if no more can be."""
        if self.wishes.output is not None:
            try:
                run.write(self.wishes.output)
            except OSError as error:
                raise CommandError(f"--output: {self.wishes.output} cannot be written ({error.strerror})") from error

    def finish(self, run: Run) -> bool:
        """Sum up what was written and compared, and tell whether there are regressions."""
        if not run.results:  # the file says that
            self.keep(run)
        if self.wishes.output is not None:
            say(f"\nwrote {amount(len(run.results), 'result')} to {self.wishes.output}")
        if self.before is None:
            return False
        measured = {result.primitive_name for result in run.results}
        if missed := [name for one in self.before.results if (name := one.primitive_name) and name not in measured]:
            note(f"brainevent: {self.wishes.compare} has results that are not compared: {', '.join(missed)}")
        found = amount(len(self.regressions), "regression") if self.regressions else "no regression"
        say("\n".join([f"\n{found} since {self.wishes.compare}", *(f"  {said}" for said in self.regressions)]))
        return bool(self.regressions)

    def _compare(self, before: Run, now: BenchmarkResult) -> None:
        name = now.primitive_name
        past = next((one for one in before.results if one.primitive_name in (name, "")), None)
        if past is None:
            note(f"brainevent: {self.wishes.compare} has no results of {name}")
            return
        found = changes(past, now, self.wishes.tolerance, self.wishes.backends)
        say(f"\nsince {self.wishes.compare}{f' ({before.date})' if before.date else ''}:\n")
        say(columns([("label", "backend", "before", "now", "ratio", "verdict"), *map(_row, found)], right=(2, 3, 4)))
        self.regressions += [f"{name}, {_in_words(change)}" for change in found if change.is_regression]


def _draw(path: Path, result: BenchmarkResult) -> None:
    place = path if path.suffix in _PICTURES else path / f"{result.primitive_name}.svg"
    result.plot().savefig(place)
    say(f"\ndrew {place}")


def _table(result: BenchmarkResult) -> str:
    """Return a hierarchy with the best marked: by columns of data that sort well, else by label in the order given."""
    if not result.records:
        return "no configuration"
    data = [name for name in flat_rows(result.records).names if name not in ("platform", "backend", "label")]
    layout = Layout(order_by=[*data, "label", "backend"]) if data else Layout(group_by="label")
    return table(result.records, layout)


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
        raise CommandError("--plot needs matplotlib; run: pip install 'brainevent[plot]'")
    _make("--plot", path.parent if is_picture else path)


def _check_output(path: Path) -> None:
    if path.is_dir():
        raise CommandError(f"--output {path}: this is a folder; pass the name of a file")
    _make("--output", path.parent)


def _make(option: str, folder: Path) -> None:
    """Make a folder now, so that nothing is measured in vain."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"{option}: the folder {folder} cannot be made ({error.strerror})") from error
    if not os.access(folder, os.W_OK):
        raise CommandError(f"{option}: the folder {folder} is not writable")


def _saved(path: Path, names: Sequence[str]) -> Run:
    """Return the run in a file, which must have results of some of the operators, each once."""
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
        raise CommandError(f"--compare: {path} has several results of {', '.join(twice)}")
    return before
