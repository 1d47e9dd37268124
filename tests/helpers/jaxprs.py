# SPDX-License-Identifier: Apache-2.0
"""The equations of a jaxpr, and of all jaxprs within it."""

from collections.abc import Iterator
from typing import Any

from jax.extend.core import jaxprs_in_params


def equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a jaxpr, each before those within it."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in jaxprs_in_params(eqn.params):
            yield from equations(inner)
