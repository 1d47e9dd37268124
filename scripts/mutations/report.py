# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest that writes down, as the tests run, which began, which passed and which failed."""

import json
import os
import time
from typing import Any

_PATH = os.environ["MUTANT_REPORT"]


def _write(kind: str, test: str) -> None:
    with open(_PATH, "a", encoding="utf-8") as file:
        file.write(json.dumps([kind, test, time.monotonic()]) + "\n")


def pytest_runtest_logstart(nodeid: str) -> None:
    _write("began", nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        _write("failed", report.nodeid)
    elif report.when == "call" and (report.passed or hasattr(report, "wasxfail")):
        _write("passed", report.nodeid)


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _write("failed", report.nodeid)
