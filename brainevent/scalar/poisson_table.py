# SPDX-License-Identifier: Apache-2.0
"""The sums of `poisson_of` for one mean, so that an engine can count them instead of adding them up."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from .form import Form
from .interpret import interpret
from .lower import form_of
from .poisson import next_probability, poisson_start

__all__ = ["poisson_table"]


@functools.cache
def _forms() -> tuple[Form, Form]:
    start = form_of("poisson_start", poisson_start, ["float32"])
    return start, form_of("next_probability", next_probability, ["float32"] * 4)


def poisson_table(mean: float) -> Any:
    """Return c_0 < c_1 < ... such that `poisson_of(u, mean)` is the number of those that are at most u.

    Args:
        mean: Mean. Above 64 the table is that of one part, as `poisson_of` is.

    Returns:
        float32 array of one dimension; its first number is 1 where there is never an event.

    Examples:
        >>> poisson_table(1.0)[:2].round(3)
        array([0.368, 0.736], dtype=float32)
    """
    start, step = _forms()
    part, p = (values[0] for values in interpret(start, [np.float32(mean)]))
    sums = [p]
    while True:
        p, total = (values[0] for values in interpret(step, [part, np.float32(len(sums)), p, sums[-1]]))
        if not total > sums[-1]:
            return np.array(sums, np.float32)
        sums.append(total)
