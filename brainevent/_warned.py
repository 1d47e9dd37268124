# SPDX-License-Identifier: Apache-2.0
"""Warn at the line of the user: the nearest that is neither in this package nor in JAX.

`warnings.warn` finds this line by `skip_file_prefixes` only from Python 3.12 on, and shows a warning of one line and
one text only once.
"""

from __future__ import annotations

import inspect
import os
import warnings
from types import FrameType

import jax

__all__ = ["warn_each_time"]

_INNER = tuple(os.path.dirname(os.path.realpath(file)) + os.sep for file in (__file__, jax.__file__))


def warn_each_time(message: str, category: type[Warning]) -> None:
    """Warn at the user's line, also if the same line has warned before.

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
    frame = inspect.currentframe()
    assert frame is not None  # only other Pythons than CPython have none
    while frame.f_back is not None and os.path.realpath(frame.f_code.co_filename).startswith(_INNER):
        frame = frame.f_back
    return frame
