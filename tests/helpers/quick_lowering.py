# SPDX-License-Identifier: Apache-2.0
"""Lower many programs in one MLIR context: JAX makes one for each, which takes three quarters of a small lowering.

Programs for several devices get one of their own: XLA crashes where it partitions a program in a context that has seen
another.
"""

import threading
from typing import Any

__all__ = ["share_contexts"]

USES = 100  # what a context has seen it keeps, so a new one is made now and then
_here = threading.local()


def share_contexts() -> None:
    """Let the programs of a thread for one device share their context from now on."""
    from jax._src.interpreters import mlir

    init = mlir.ModuleContext.__init__
    if init.__name__ == "__init__":
        mlir.ModuleContext.__init__ = _sharing(init, mlir.make_ir_context)


def _sharing(init: Any, make: Any) -> Any:
    def init_with_shared_context(self: object, *, axis_context: Any, context: object = None, **others: object) -> None:
        if context is None and getattr(axis_context, "num_devices", 2) == 1:
            context = _shared(make)
        init(self, axis_context=axis_context, context=context, **others)

    return init_with_shared_context


def _shared(make: Any) -> object:
    """Return this thread's context."""
    if getattr(_here, "uses", USES) >= USES:
        _here.context, _here.uses = make(), 0
    _here.uses += 1
    return _here.context
