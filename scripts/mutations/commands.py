# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the command `brainevent`, its doctor, and the public names."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_CLI = ("test_cli",)
_PERFORMANCE = ("test_cli_performance",)
_LIST = ("test_cli_list",)
_SHAPE = ("test_cli_shape",)

MUTANTS = (
    Mutant(
        "names-renamed-without-the-new-name",
        "__init__.py",
        "is now called brainevent.{new}; the old name is deprecated, use brainevent.{new}",
        "has another name",
        ("test_names", "test_events", "test_matrices"),
    ),
    Mutant(
        "command-interrupted-as-failed",
        "cli/__init__.py",
        "return INTERRUPTED",
        "return 1",
        _CLI,
    ),
    Mutant(
        "benchmark-regressions-as-errors",
        "cli/benchmark.py",
        "        return REGRESSIONS\n",
        "        return FAILED\n",
        _PERFORMANCE,
    ),
    Mutant(
        "cache-cleared-without-being-asked",
        "cli/cache.py",
        "and sys.stdin.isatty() and not _confirmed(found):",
        "and sys.stdin.isatty() and not found:",
        ("test_cli_cache",),
    ),
    Mutant(
        "listing-nothing-is-stale",
        "cli/listing.py",
        '"stale": choice.content != content_of(operator.definition.candidates(choice.platform))[0],',
        '"stale": False,',
        _LIST,
    ),
    Mutant(
        "operators-one-unknown-tag-is-too-many",
        "cli/operators.py",
        "if len(unknown) == len(tags):",
        "if unknown:",
        (*_LIST, *_PERFORMANCE),
    ),
    Mutant(
        "reporting-each-change-is-a-regression",
        "cli/reporting.py",
        "for change in found if change.is_regression]",
        "for change in found]",
        _PERFORMANCE,
    ),
    Mutant(
        "fitting-empty-columns-are-shown",
        "bench/fitting.py",
        "if not rows or any(row[i] for row in rows)]",
        "if True]",
        (*_SHAPE, *_LIST),
    ),
    Mutant(
        "fitting-leaves-out-before-it-wraps",
        "bench/fitting.py",
        "if _total(least, shown) <= width:\n                break",
        "if _total(natural, shown) <= width:\n                break",
        _SHAPE,
    ),
    Mutant(
        "narrow-columns-that-tell-rows-apart-are-spared",
        "bench/table.py",
        "if not fits() and _groups(body, others) == _groups(body, [*others, name]):",
        "if not fits():",
        _SHAPE,
    ),
    Mutant(
        "parsing-no-advice-by-the-beginning",
        "cli/parsing.py",
        "if name.startswith(str(value))] if value else []",
        "if name == str(value)] if value else []",
        _SHAPE,
    ),
    Mutant(
        "benchmark-json-lost-when-interrupted",
        "cli/reporting.py",
        "            self._finish()\n        finally:\n",
        "            self._finish()\n        except CommandError:\n            raise\n        else:\n",
        _SHAPE,
    ),
    Mutant(
        "progress-forgets-the-runs-before",
        "bench/progress.py",
        "self.bar.n = self.at + self.share",
        "self.bar.n = self.share",
        _SHAPE,
    ),
    Mutant(
        "doctor-is-always-ok",
        "doctor/findings.py",
        'if count else self.said or "ok"',
        'if count else "ok"',
        _CLI,
    ),
    Mutant(
        "words-none-of-one",
        "cli/words.py",
        "{one if number == 1 else several",
        "{one if number <= 1 else several",
        (*_CLI, *_PERFORMANCE),
    ),
    Mutant(
        "doctor-1024-kib",
        "doctor/__init__.py",
        "if size < 1023.95:",
        "if size < 1024:",
        _CLI,
    ),
    Mutant(
        "doctor-sick-without-a-gpu",
        "doctor/__init__.py",
        'yield _in_short("nvcc", error, gpu or not isinstance(error, _NOT_HERE))',
        'yield _in_short("nvcc", error, True)',
        _CLI,
    ),
)
