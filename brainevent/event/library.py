# SPDX-License-Identifier: Apache-2.0
"""All operators of the library: to import this is to register them."""

from __future__ import annotations

from ..operator.custom_kernel import XLACustomKernel
from .coo import functions as coo
from .coo import operators as of_coo
from .csr import functions as csr
from .csr import operators as of_csr
from .csr import slices
from .dense import functions as dense
from .dense import operators as of_dense
from .fixed import functions as fixed
from .fixed import operators as of_fixed
from .plasticity import functions as plasticity
from .plasticity import operators as of_plasticity
from .synapses import functions as synapses
from .synapses import operators as of_synapses

__all__ = ["OPERATORS", "coo", "csr", "dense", "fixed", "plasticity", "synapses"]

OPERATORS: dict[str, XLACustomKernel] = {
    operator.name: operator
    for module in (of_coo, of_csr, slices, of_dense, of_fixed, of_plasticity, of_synapses)
    for operator in vars(module).values()
    if isinstance(operator, XLACustomKernel)
}
