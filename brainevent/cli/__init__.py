# SPDX-License-Identifier: Apache-2.0
"""The command `brainevent`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

from .._version import __version__
from ..errors import BrainEventError
from . import benchmark, cache, check, doctor, listing, tune
from .parsing import FAILED, INTERRUPTED, main_parser
from .words import complain

__all__ = ["main"]

_FAMILIES = (doctor, listing, check, benchmark, tune, cache)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status, which is one of `parsing.STATUSES`."""
    try:
        try:
            return _run(argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        with contextlib.suppress(OSError):  # otherwise Python flushes again at its end, and prints an error
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    arguments = main_parser(__version__, _FAMILIES).parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except BrainEventError as error:
        return complain(str(error))
