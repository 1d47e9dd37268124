# SPDX-License-Identifier: Apache-2.0
"""Programs that share an MLIR context are those that each would have been alone."""

import jax
import jax.numpy as jnp
import quick_lowering
from jax._src.interpreters import mlir
from zoo import ANIMALS


def texts():
    """Return programs of several kinds as text."""
    animals = [ANIMALS[name] for name in ("product", "matvec", "pallas", "callback", "masked")]
    calls = [lambda x, f=f: jnp.stack([f(x), jnp.sin(x)]) for f in (jnp.cos, jnp.tanh)]
    found = [jax.jit(lambda *xs, a=a: a.call(*xs)).lower(*a.operands(3)).as_text() for a in animals]
    return found + [jax.jit(jax.vmap(call)).lower(jnp.ones((2, 3))).as_text() for call in calls]


def test_shared_contexts_leave_programs_unchanged(monkeypatch):
    made, make = [], mlir.make_ir_context
    monkeypatch.setattr(quick_lowering, "_here", quick_lowering.threading.local())
    monkeypatch.setattr(mlir.ModuleContext, "__init__", original())
    monkeypatch.setattr(mlir, "make_ir_context", lambda: made.append(make()) or made[-1])
    alone = texts()
    assert len(made) >= len(alone)
    made.clear()
    quick_lowering.share_contexts()
    quick_lowering.share_contexts()  # twice is once
    assert texts() == alone
    assert len(made) < len(alone)
    monkeypatch.setattr(quick_lowering, "USES", 1)
    assert texts() == alone
    assert len(made) > len(alone)


def original():
    """Return what JAX has, whether this run shares contexts or not."""
    init = mlir.ModuleContext.__init__
    return init if init.__name__ == "__init__" else init.__closure__[0].cell_contents
