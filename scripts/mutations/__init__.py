# SPDX-License-Identifier: Apache-2.0
"""Mistakes that the tests should notice, in every room of the package."""

from . import commands, events, interface, languages, matrices, measuring, networks, operators, toolchain
from .mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

_TABLES = (operators, interface, languages, toolchain, measuring, events, matrices, networks, commands)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for table in _TABLES for mutant in table.MUTANTS)
