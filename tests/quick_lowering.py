# SPDX-License-Identifier: Apache-2.0
"""Lower many programs in one MLIR context: JAX makes one for each, which takes three quarters of a small lowering."""

import threading
from typing import Any

__all__ = ["share_contexts"]

USES = 100  # what a context has seen it keeps, so a new one is made now and then
_here = threading.local()


def share_contexts() -> None:
    """Let the programs of a thread, from now on, share their context."""
    from jax._src.interpreters import mlir

    init = mlir.ModuleContext.__init__
    if init.__name__ == "__init__":
        mlir.ModuleContext.__init__ = _sharing(init, mlir.make_ir_context)


def _sharing(init: Any, make: Any) -> Any:
    def init_with_shared_context(self: object, *, context: object = None, **others: object) -> None:
        init(self, context=context or _shared(make), **others)

    return init_with_shared_context


def _shared(make: Any) -> object:
    """Return this thread's context."""
    if getattr(_here, "uses", USES) >= USES:
        _here.context, _here.uses = make(), 0
    _here.uses += 1
    return _here.context
