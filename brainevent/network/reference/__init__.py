# SPDX-License-Identifier: Apache-2.0
"""The reference: a network as a pure function in plain JAX, with derivatives, on every platform."""

from .engine import ReferenceEngine
from .params import initial_params
from .simulate import simulate

__all__ = ["ReferenceEngine", "initial_params", "simulate"]
