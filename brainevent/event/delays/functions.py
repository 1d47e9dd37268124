# SPDX-License-Identifier: Apache-2.0
"""Deliveries of spikes through a matrix with a delay for each synapse, as functions of arrays."""

from __future__ import annotations

import jax

from ..._documented import documented
from ...typing import ArrayLike, EventLike, IndexLike
from .. import entries
from ..description import Shape
from ..structure import checked_shape
from .calls import ROWS, delivered, taken
from .layout import CSRDelayLayout

__all__ = ["csr_delay_deliver", "csr_delay_deliver_layout", "take_arrivals"]


_documented = documented(
    entries.COMPRESSED
    | {
        "ring": "Floating sums of what is on its way, (slots, k).",
        "events": "Events in any form, booleans, or real numbers whose nonzero values are events, (m,).",
        "t": "The number of the step, an integer scalar.",
        "weighted": "Whether the values of events count; None for what their form says.",
    },
    {"KernelFallbackExhaustedError": entries.CHECKED["KernelFallbackExhaustedError"]},
)


@_documented
def csr_delay_deliver(
    ring: ArrayLike,
    events: EventLike,
    data: ArrayLike,
    indices: IndexLike,
    indptr: IndexLike,
    delays: IndexLike,
    t: ArrayLike,
    *,
    shape: Shape,
    weighted: bool | None = None,
    backend: str | None = None,
) -> jax.Array:
    """Add the weights of the neurons that spiked to a ring of sums, each as many steps ahead as its delay.

    Element j of an active row adds to `ring[(t + delays[j]) % slots, indices[j]]`: its weight, or with `weighted` its
    weight times the value of the row. Rows without an event are not read. A loop takes slot `t % slots` with
    `take_arrivals`.

    Args:
        delays: Whole numbers of steps, int32 or int64, from 1 to `slots - 1`: (nse,), or a single one for all elements.

    Returns:
        The new ring, (slots, k).

    Raises:
        TypeError: If the ring is not floating, or `delays` or `t` are not integers.
        ValueError: If delays are out of range (under `jit` they wrap around the ring), or `weighted` contradicts the
            form of the events.
        ShapeError: If the shapes do not fit each other.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> indices, indptr = jnp.array([0, 2, 1]), jnp.array([0, 2, 3])
        >>> ring, spikes = jnp.zeros((3, 3)), jnp.array([True, False])
        >>> brainevent.csr_delay_deliver(
        ...     ring, spikes, jnp.array([5.0, 6.0, 7.0]), indices, indptr, jnp.array([1, 2, 1]), 0, shape=(2, 3)
        ... )
        Array([[0., 0., 0.],
               [5., 0., 0.],
               [0., 0., 6.]], dtype=float32)
    """
    where, shape = "csr_delay_deliver", checked_shape("csr_delay_deliver", shape)
    return delivered(ROWS, where, ring, events, data, (indices, indptr), delays, t, shape, weighted, backend)


@_documented
def csr_delay_deliver_layout(
    ring: ArrayLike,
    events: EventLike,
    layout: CSRDelayLayout,
    t: ArrayLike,
    *,
    weighted: bool | None = None,
    backend: str | None = None,
) -> jax.Array:
    """Do what `csr_delay_deliver` does for synapses that are sorted by their delays, which is faster.

    Args:
        ring: Floating sums of what is on its way, (slots, k), with as many slots as the layout was built for.
        layout: What `CSRDelayLayout.build` returned.

    Returns:
        The new ring, (slots, k).

    Raises:
        TypeError: If `layout` is not a `CSRDelayLayout`, the ring is not floating, or `t` is not an integer.
        ShapeError: If the ring has another number of slots.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> matrix = brainevent.CSR.fromdense(jnp.array([[5.0, 0.0, 6.0], [0.0, 7.0, 0.0]]))
        >>> layout = matrix.delay_layout(jnp.array([1, 2, 1]), 3)
        >>> brainevent.csr_delay_deliver_layout(jnp.zeros((3, 3)), jnp.array([True, False]), layout, 0)
        Array([[0., 0., 0.],
               [5., 0., 0.],
               [0., 0., 6.]], dtype=float32)
    """
    if not isinstance(layout, CSRDelayLayout):
        raise TypeError(
            f"csr_delay_deliver_layout: layout is a {type(layout).__name__}; pass what CSRDelayLayout.build returns"
        )
    return layout.deliver(ring, events, t, weighted=weighted, backend=backend)


@_documented
def take_arrivals(ring: ArrayLike, t: ArrayLike, *, backend: str | None = None) -> tuple[jax.Array, jax.Array]:
    """Return what arrives in a step, and the ring with the slot of that step set to zero.

    In a compiled loop the ring is changed in place. If a loop reads and clears the slot by indexing, XLA on the CPU
    copies the whole ring in each step.

    Returns:
        What lies in slot `t % slots`, (k,), and the new ring, (slots, k).

    Raises:
        TypeError: If the ring is not floating, or `t` is not an integer.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.take_arrivals(jnp.array([[1.0, 2.0], [3.0, 4.0]]), 5)
        (Array([3., 4.], dtype=float32), Array([[1., 2.],
               [0., 0.]], dtype=float32))
    """
    return taken("take_arrivals", ring, t, backend)
