# SPDX-License-Identifier: Apache-2.0
"""Mistakes in the command `brainevent`, its doctor, and the public names."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_CLI = ("test_cli",)
_PERFORMANCE = ("test_cli_performance",)
_LIST = ("test_cli_list",)

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
        "return _INTERRUPTED",
        "return 1",
        _CLI,
    ),
    Mutant(
        "benchmark-regressions-as-errors",
        "cli/benchmark.py",
        "return REGRESSIONS if regressions else 0",
        "return 1 if regressions else 0",
        _PERFORMANCE,
    ),
    Mutant(
        "cache-cleared-without-being-asked",
        "cli/cache.py",
        "and sys.stdin.isatty() and not _confirmed(found):",
        "and sys.stdin.isatty() and not found:",
        _CLI,
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
        "tune-made-with-is-always-shown",
        "cli/tune.py",
        "elsewhere = any(row[-1] for row in rows[1:])",
        "elsewhere = any(row[-1] for row in rows)",
        ("test_cli", "test_tune"),
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
