# SPDX-License-Identifier: Apache-2.0
"""A plan as a function of JAX arrays on a GPU: one custom call, which launches the kernel for some steps at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..._compat import ShapedArray
from ...ffi.call import native_call
from ...ffi.elements import MAX_BUFFERS
from ...ffi.launch import Launch, LaunchPlan, PlanTarget, Slot
from ..keys import KEYS, is_key, words_of
from ..plan import Plan
from ..values import UnfitError
from .device import Device, Gpu
from .kept import kept_carries
from .shape import Shape, shape_of, steps_of_launch
from .text import LoopText, text_of

__all__ = ["call_of", "written_for"]

_MOST_LAUNCHES = 1024
_POINTER = 8  # bytes


def call_of(plan: Plan, types: Sequence[Any], device: Device | None = None) -> Callable[..., list[Any]]:
    """Return the loop as a function of constants, carries and scanned arrays; its results have these types.

    Carries are updated in the memory of their operands, as far as XLA lets them.
    """
    device = device if device is not None else Gpu()
    written = written_for(plan, device)
    target = PlanTarget(launch_plan(plan, written, device), _same_ranks, "cpu" if device.on_host else "cuda")
    outs = [_type(plan, i, array) for i, array in plan.outs.items()]
    outs.append(ShapedArray((written.nbytes,), jnp.dtype(np.uint8)))
    numbers = list(plan.outs)
    aliases = [(number, numbers.index(i)) for number, i in plan.carries.items()]

    def call(*operands: Any) -> list[Any]:
        words = [jax.random.key_data(x) if is_key(x) else x for x in operands]
        given = [jnp.asarray(x) for x in (*words, *plan.closed)]
        flat = [x.reshape(x.shape[:1] * (a.home == "row") + (a.size,)) for a, x in zip(plan.inputs, given, strict=True)]
        found = dict(zip(numbers, native_call(target, flat, outs, aliases), strict=False))
        return [
            operands[plan.kept[i]] if i in plan.kept else _shaped(plan, i, found[i], aval)
            for i, aval in enumerate(types)
        ]

    return call


def written_for(plan: Plan, device: Device) -> LoopText:
    """Return the text of a plan; the number of threads is known only then, and with it, what they keep in registers."""
    written = text_of(plan, _MOST_LAUNCHES)
    if len(written.pointers) > MAX_BUFFERS:
        raise UnfitError(f"{len(written.pointers)} arrays; on a GPU a loop has at most {MAX_BUFFERS}")
    shape = shape_of(written.widest, device, written.of_block)
    kept = kept_carries(plan, shape.blocks * shape.threads)
    return text_of(plan, _MOST_LAUNCHES, kept) if kept else written


def _shaped(plan: Plan, i: int, x: Any, aval: Any) -> Any:
    """Return a result in its own shape; words become keys again."""
    x = x.reshape(((plan.length,) if i in plan.rows else ()) + tuple(words_of(aval).shape))
    return jax.random.wrap_key_data(x, impl=KEYS) if is_key(aval) else x


def _type(plan: Plan, i: int, array: Any) -> ShapedArray:
    """Return the type of a result in the call: with one axis, besides that of steps."""
    assert plan.length is not None
    return ShapedArray(((plan.length,) if i in plan.rows else ()) + (array.size,), jnp.dtype(array.dtype))


def _same_ranks(operands: Sequence[Any], outs: Sequence[Any]) -> LaunchPlan:
    raise AssertionError("a loop is lowered after vmap")


def launch_plan(plan: Plan, written: LoopText, device: Device) -> LaunchPlan:
    """Return the launches of all steps."""
    assert plan.length is not None
    shape = shape_of(written.widest, device, written.of_block)
    least = -(-plan.length // _MOST_LAUNCHES)
    each = max(least, steps_of_launch(written, shape))
    binary, entry = device.code(_whole_text(written, shape, device), "loop")
    slots = tuple(Slot(0, number, _POINTER * number) for number in range(len(written.pointers)))
    launches = [
        Launch(
            binary=binary,
            entry=entry,
            title="loop",
            grid=(shape.blocks, 1, 1),
            block=(shape.threads, 1, 1),
            parameters=(_given(written, first, min(each, plan.length - first), number),),
            slots=slots,
            together=device.on_host or not shape.is_cluster,  # a GPU knows from the kernel that it has a cluster
            done=min(first + each, plan.length),
        )
        for number, first in enumerate(range(0, plan.length, each))
    ]
    buffers = len(written.pointers)
    zeroed = ((buffers - 1, written.nbytes),)
    steps = plan.length if len(launches) > 1 else 0  # of a single launch nothing can be said before it ends
    return LaunchPlan("loop", buffers, tuple(launches), zeroed, in_graphs=False, host=device.on_host, steps=steps)


def _given(written: LoopText, first: int, steps: int, number: int) -> bytes:
    """Return the kernel's parameter; addresses are filled in later."""
    words = np.array([first, steps, number], np.uint32).tobytes()
    return (bytes(_POINTER * len(written.pointers)) + words).ljust(_padded(written), b"\0")


def _padded(written: LoopText) -> int:
    size = _POINTER * len(written.pointers) + 12
    return math.ceil(size / _POINTER) * _POINTER


def _whole_text(written: LoopText, shape: Shape, device: Device) -> str:
    """Return the text with the number of its threads, and the words of a device."""
    numbers = {"BLOCKS": f"{shape.blocks}u", "THREADS": f"{shape.threads}u", "CLUSTER": int(shape.is_cluster)}
    defined = "".join(f"#define LOOP_{name} {value}\n" for name, value in numbers.items())
    return f"{defined}#define BE __device__ __forceinline__\n{device.words}#undef BE\n{written.text}"
