# SPDX-License-Identifier: Apache-2.0
"""Networks: the rule of one neuron, written once, for every engine."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import models, plasticity, surrogate

__all__ = ["models", "plasticity", "surrogate"]


def __getattr__(name: str) -> Any:
    if name in __all__:  # loaded when first used, so that `import brainevent` stays light
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'brainevent.network' has no attribute {name!r}")
