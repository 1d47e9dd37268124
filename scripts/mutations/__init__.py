# SPDX-License-Identifier: Apache-2.0
"""Mistakes that the tests should notice, in every room of the package."""

from . import (
    commands,
    cpu_networks,
    events,
    gpu_networks,
    interface,
    languages,
    loops,
    matrices,
    measuring,
    networks,
    operators,
    rules,
    several,
    toolchain,
    training,
)
from .mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

_TABLES = (
    *(operators, interface, languages, toolchain, measuring, commands),
    *(events, matrices, rules, loops),
    *(networks, cpu_networks, gpu_networks, several, training),
)
MUTANTS: tuple[Mutant, ...] = tuple(mutant for table in _TABLES for mutant in table.MUTANTS)
