# SPDX-License-Identifier: Apache-2.0
"""Warn at the line of the user, every time: Python shows a warning of one line and one text once only."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType

__all__ = ["warn_each_time"]

_OURS = os.path.dirname(os.path.realpath(__file__)) + os.sep


def warn_each_time(message: str, category: type[Warning]) -> None:
    """Warn at the nearest line outside this package, also if the same line has warned before.

    Filters of users count: "ignore", "error" and "once" do what they say.
    """
    frame = _users_frame()
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        module=frame.f_globals.get("__name__", "<unknown>"),
        registry={},  # one that is kept would suppress the next warning of this line
        source=None,
    )


def _users_frame() -> FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.realpath(frame.f_code.co_filename).startswith(_OURS):
        frame = frame.f_back
    return frame
