# SPDX-License-Identifier: Apache-2.0
"""`brainevent doctor`: what this machine offers to kernels, and what is wrong with it."""

from __future__ import annotations

import argparse
import sys

from .. import doctor
from .words import Commands, command

__all__ = ["add"]


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = command(commands, "doctor", "say what this machine offers to kernels, and what is wrong with it", _doctor)
    parser.add_argument(
        "--try", action="store_true", dest="attempt", help="also compile and run a kernel, in a temporary directory"
    )


def _doctor(arguments: argparse.Namespace) -> int:
    found = doctor.report(attempt=arguments.attempt)
    found.write(sys.stdout)
    return 1 if found.faults else 0
