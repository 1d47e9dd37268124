# SPDX-License-Identifier: Apache-2.0
"""From source text to a loaded library; imports no JAX."""

from .._system import why_not_compiled
from ..errors import KernelNotAvailableError

if why := why_not_compiled():  # all rooms that compile import this one, directly or not
    raise KernelNotAvailableError(why)
