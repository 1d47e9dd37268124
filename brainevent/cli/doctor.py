# SPDX-License-Identifier: Apache-2.0
"""`brainevent doctor`: what this machine offers to kernels, and what is wrong with it."""

from __future__ import annotations

import argparse

from .. import doctor
from .parsing import FAILED, Commands, Parser, add_shape, command
from .words import say, say_json, width_of

__all__ = ["add"]


def add(commands: Commands[Parser]) -> None:
    """Add the command."""
    parser = command(commands, "doctor", "say what this machine offers to kernels, and what is wrong with it", _doctor)
    parser.add_argument(
        "--try", action="store_true", dest="attempt", help="also compile and run a kernel, in a temporary directory"
    )
    add_shape(parser)


def _doctor(arguments: argparse.Namespace) -> int:
    found = doctor.report(attempt=arguments.attempt)
    if arguments.json:
        say_json(found.as_dict())
    else:
        say(found.text(width_of(arguments)))
    return FAILED if found.faults else 0
