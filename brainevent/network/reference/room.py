# SPDX-License-Identifier: Apache-2.0
"""Is there room for what `simulate` records? Checked before anything runs, for all elements of `jax.vmap` together."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ..._compat import Primitive, Tracer, mlir, primitive_batchers, primitive_jvps
from ...event.room import check_room, in_bytes
from ..plan.plan import Plan
from ..run.recorded import Wanted

__all__ = ["check_outputs"]

_INSTEAD = "record fewer neurons, every(n, ..., neurons=...), or call it for fewer steps, or fewer elements, at a time"


def check_outputs(plan: Plan, wanted: Wanted, steps: int, arguments: Any, device: jax.Device | None = None) -> None:
    """Raise `MemoryError` if what a call records does not fit in memory: that of a device, else that JAX uses.

    What is traced by `jax.jit` is not checked, since it may be compiled for another machine, and not be computed.
    """
    sizes = _sizes(plan, wanted, steps)
    leaves = [x for x in jax.tree.leaves(arguments) if hasattr(x, "dtype")]
    known = [x for x in leaves if isinstance(x, jax.Array) and not isinstance(x, Tracer)]
    devices = {one for x in known for one in x.devices()}
    if sizes and (len(devices) < 2 or next(iter(devices)).platform == "cpu"):  # each of several devices has a part
        with jax.default_device(device):
            _room.bind(
                np.uint32(0),
                *(x for x in leaves if isinstance(x, Tracer)),
                sizes=tuple(sizes.items()),
                steps=steps,
                elements=1,
            )


def _sizes(plan: Plan, wanted: Wanted, steps: int) -> dict[str, int]:
    """Return how many bytes arrays of results take, by label."""
    word, neurons = np.dtype(plan.dtype).itemsize, {p.name: p.size for p in plan.populations}
    sizes = {f"{name}.spikes": word * steps * neurons[name] for name in wanted.spikes}
    sizes |= {f"{name}.counts": word * neurons[name] for name in wanted.counts}
    sizes |= {f"{name}.rate": word * steps for name in wanted.rates}
    for label, sample in wanted.samples.items():
        state = sample.dtype(plan)
        sizes[label] = -(-steps // sample.every) * sample.neurons.size * state.itemsize
    return sizes


def _check(*_: Any, sizes: tuple[tuple[str, int], ...], steps: int, elements: int) -> list[Any]:
    largest = sorted(sizes, key=lambda one: -one[1])[:3]
    parts = ", ".join(f"{label} {in_bytes(elements * size)}" for label, size in largest)
    times = f" of {elements} elements" if elements > 1 else ""
    total = elements * sum(size for _, size in sizes)
    check_room("simulate", f"what {steps} steps{times} record ({parts})", total, instead=_INSTEAD)
    return []


def _batch(operands: Any, axes: Any, *, elements: int, **params: Any) -> tuple[list[Any], list[Any]]:
    size = next(x.shape[axis] for x, axis in zip(operands, axes, strict=True) if axis is not None)
    _room.bind(*operands, elements=elements * size, **params)
    return [], []


_room = Primitive("room_for_outputs")
_room.multiple_results = True
_room.def_impl(_check)
_room.def_abstract_eval(lambda *_, **__: [])
primitive_batchers[_room] = _batch
primitive_jvps[_room] = lambda operands, _, **params: (_room.bind(*operands, **params), [])
mlir.register_lowering(_room, lambda *_, **__: [])
