# SPDX-License-Identifier: Apache-2.0
"""`Kernels`: both kernels of layers as custom calls of XLA."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...._compat import ShapedArray
from ....errors import NetworkError
from ....ffi.call import NativeTarget, native_call
from ....ffi.launch import Launch, LaunchPlan, PlanTarget, Slot
from ...placed import OnGpu
from .device import Device
from .layer import Layer, Layers
from .shape import Shape, shape_of
from .text import SHARED, kernel_text, parameter

__all__ = ["Arrays", "Kernels", "as_words", "of_words", "residuals"]

Array = Any
Arrays = Mapping[tuple[int, str, int], Any]  # by a layer, the name of a field of a parameter, and the place within it

_THREADS = 256
_PARAMETER = 4096  # bytes


Sizes = list[tuple[tuple[int, ...], str]]


def residuals(layer: Layer, steps: int) -> tuple[Sizes, Sizes]:
    """Return shapes and dtypes of what a sample stores for the way back: numbers; and bits, first those of spikes."""
    dtypes = ["float16" if half else name.dtype for name, half in zip(layer.kept, layer.halves, strict=True)]
    bits = (steps, layer.saved // 32), "uint32"
    return [((steps, layer.saved), dtype) for dtype in dtypes], [bits] * len(layer.flags)


@dataclass(frozen=True)
class Kernels:
    """The kernels of layers for a batch of samples."""

    layers: Layers
    batch: int
    device: Device

    def shape(self, way: str) -> Shape:
        """Return the shape of a kernel; raise if there is no room for the layers."""
        found = self.fitting(way)
        if found is None:
            neurons = ", ".join(f"{layer.neurons} neurons of {layer.traced.name}" for layer in self.layers.layers)
            raise NetworkError(
                f"training on a GPU: one kernel has no room for {neurons} that project to each other; build the "
                'network with backend="jax"'
            )
        return found

    def fitting(self, way: str) -> Shape | None:
        """Return the shape of a kernel; None if there is no room for the layers."""
        if len(parameter(self.layers, way, 0, 0)[0]) > _PARAMETER:
            return None
        return shape_of(self.layers, way, self.batch, self.device.at_once, self.device.shared_bytes)

    def forward(self, steps: int, operands: Arrays) -> dict[tuple[int, str, int], Array]:
        """Run all steps forward; operands and results have the names of fields."""
        outs: dict[tuple[int, str, int], Any] = {}
        every = self.batch, steps
        for place, c in enumerate(self.layers.layers):
            kept, flags = residuals(c, steps)
            outs |= {
                **{(place, "kept", k): ((self.batch, *size), dtype) for k, (size, dtype) in enumerate(kept)},
                **{(place, "flags", k): ((self.batch, *size), dtype) for k, (size, dtype) in enumerate(flags)},
                (place, "spikes", 0): ((*every, c.neurons), "float32"),
                **{(place, "end", k): ((self.batch, c.neurons), "uint32") for k in range(len(c.states))},
                **{(place, "shown", k): ((*every, c.neurons), "uint32") for k in range(len(c.shown))},
            }
        shape = self.shape("forward")
        return self._called(shape, steps, operands, outs, self._over(shape, "current", "spikes", operands, outs))

    def backward(self, steps: int, operands: Arrays) -> dict[tuple[int, str, int], Array]:
        """Run all steps backward."""
        shape = self.shape("backward")
        outs: dict[tuple[int, str, int], Any] = {}
        for place, c in enumerate(self.layers.layers):
            every, once = ((self.batch, steps, c.neurons), "float32"), ((self.batch, c.neurons), "float32")
            outs |= {
                **{(place, "current", k): every for k in range(len(c.receptors))},
                **{(place, "begin", k): once for k in range(len(c.float_states))},
                **{(place, "param_sums", k): once for k in range(len(c.wanted))},
            }
        if shape.multicast:
            slots = shape.clusters(self.batch) * (self.layers.delay + 1) * shape.blocks
            outs[0, "scratch", 0] = ((slots * shape.slice_bytes(self.layers) // 4,), "uint32")
        return self._called(shape, steps, operands, outs, self._over(shape, "spikes", "current", operands, outs))

    def _over(
        self, shape: Shape, given: str, made: str, operands: Arrays, outs: Mapping[tuple[int, str, int], Any]
    ) -> dict[int, int]:
        """Return which operands of a name are written over with results of another one: by place, the first of each.

        Each thread reads what its neurons are given before it writes there, unless some neurons fill a block.
        """
        whole = [place for place, c in enumerate(self.layers.layers) if c.neurons % shape.own == 0]
        both = [place for place in whole if (place, given, 0) in operands and (place, made, 0) in outs]
        return {list(operands).index((k, given, 0)): list(outs).index((k, made, 0)) for k in both}

    def _called(
        self,
        shape: Shape,
        steps: int,
        operands: Arrays,
        outs: Mapping[tuple[int, str, int], Any],
        over: Mapping[int, int],
    ) -> dict[tuple[int, str, int], Array]:
        """Run a kernel; `over` are operands in whose place results are written."""
        types = {name: ShapedArray(size, jnp.dtype(dtype)) for name, (size, dtype) in outs.items()}
        target = KernelTarget(self, shape, steps, (*operands, *types))
        given = [jnp.asarray(x) for x in operands.values()]
        results = native_call(target, given, list(types.values()), tuple(over.items()))
        return dict(zip(types, results, strict=True))


@dataclass(frozen=True)
class KernelTarget(OnGpu):
    """A kernel that is compiled when a program that runs it is; `buffers` are the fields of operands and results."""

    kernels: Kernels
    shape: Shape
    steps: int
    buffers: tuple[tuple[int, str, int], ...]

    @property
    def title(self) -> str:
        """The kernel's name, for messages."""
        return f"training {self.shape.way}"

    @property
    def platforms(self) -> tuple[str, ...]:
        """The platform on which it runs."""
        return ("cpu",) if self.kernels.device.on_host else ("cuda",)

    def on(self, platform: str) -> NativeTarget:
        """Return the plan of one launch, whose parameter has the addresses of all buffers."""
        layers, batch, device, shape = self.kernels.layers, self.kernels.batch, self.kernels.device, self.shape
        binary, entry = device.code(kernel_text(layers, shape, device.words), shape.way)
        given, places = parameter(layers, shape.way, self.steps, batch)
        slots = tuple(
            Slot(0, number, places[of, name, k], 0, self._alignment(layers.layers[of], name))
            for number, (place, name, k) in enumerate(self.buffers)
            for of in (range(len(layers.layers)) if name in SHARED else [place])
        )
        grid = (shape.clusters(batch) * shape.blocks, 1, 1)
        launch = Launch(binary, entry, self.title, grid, (_THREADS, 1, 1), (given,), slots, shape.shared(layers))
        on_host = device.on_host
        plan = LaunchPlan(self.title, len(self.buffers), (launch,), in_graphs=not on_host, host=on_host)
        return PlanTarget(plan, lambda *_: plan, platform)

    def _alignment(self, layer: Layer, field: str) -> int:
        """Return how many bytes must divide the address of a field's arrays: what is read at once."""
        if self.shape.way == "backward" and field in ("spikes", "shown"):
            return 4 if layer.neurons % 2 else 8
        return {"weights": 16, "scratch": 16, "kept": 8}.get(field, 4)


def as_words(x: Array) -> Array:
    """Return numbers of 32 bits, or bools, as uint32."""
    x = jnp.asarray(x)
    return x.astype(np.uint32) if x.dtype in (bool, np.uint32) else jax.lax.bitcast_convert_type(x, np.uint32)


def of_words(words: Array, dtype: str) -> Array:
    """Return words as numbers of a dtype."""
    if dtype in ("bool", "uint32"):
        return words.astype(dtype)
    return jax.lax.bitcast_convert_type(words, jnp.dtype(dtype))
