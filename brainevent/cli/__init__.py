# SPDX-License-Identifier: Apache-2.0
"""The command `brainevent`."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence

from .._version import __version__
from ..errors import BrainEventError
from . import benchmark, cache, doctor, listing, tune
from .words import complain, help_of

__all__ = ["main"]

_FAMILIES = (doctor, listing, benchmark, tune, cache)
_INTERRUPTED = 130  # what shells say of a command that Ctrl-C ends


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0 if all is well, 1 if not, else what the command's help says."""
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError):  # else Python flushes once more at its end, and complains
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        complain("interrupted")
        return _INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except BrainEventError as error:
        return complain(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="brainevent", description="Look after kernels on this machine.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"brainevent {__version__}")
    parser.set_defaults(run=help_of(parser))
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for family in _FAMILIES:
        family.add(commands)
    return parser
