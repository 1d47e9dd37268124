# SPDX-License-Identifier: Apache-2.0
"""`u`: the package brainunit, or where it is not installed, a stand-in that skips each test that uses it."""

import importlib
from typing import Any

import pytest


class Missing:
    """What stands for a package: a test that asks for anything of it is skipped, and says why."""

    def __init__(self, package: str):
        self._package = package

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # pytest asks each value of a module
            raise AttributeError(name)
        return pytest.skip(f"needs {self._package}, which is not installed")


try:
    u: Any = importlib.import_module("brainunit")
except ModuleNotFoundError:
    u = Missing("brainunit")
