# SPDX-License-Identifier: Apache-2.0
"""From source text to a loaded library; imports no JAX."""

from .._system import why_not_compiled
from ..errors import KernelNotAvailableError

if why := why_not_compiled():  # every room that compiles imports this one, directly or indirectly
    raise KernelNotAvailableError(why)
