# SPDX-License-Identifier: Apache-2.0
"""Deliveries of spikes through a matrix with a delay for each synapse, as functions of arrays."""

from __future__ import annotations

from typing import Any

from ..description import Shape
from ..structure import checked_shape
from .calls import ROWS, delivered, taken
from .layout import CSRDelayLayout

__all__ = ["csr_delay_deliver", "csr_delay_deliver_layout", "take_arrivals"]


def csr_delay_deliver(
    ring: Any,
    events: Any,
    data: Any,
    indices: Any,
    indptr: Any,
    delays: Any,
    t: Any,
    *,
    shape: Shape,
    weighted: bool | None = None,
    backend: str | None = None,
) -> Any:
    """Add the weights of active rows to a ring of sums, each as many steps ahead as its delay says.

    Element j of an active row adds to `ring[(t + delays[j]) % slots, indices[j]]`: its weight, or with `weighted` its
    weight times the value of the row. Rows without an event are not visited. A loop takes slot `t % slots`
    by `take_arrivals`.

    Args:
        ring: (slots, columns), of floating numbers: what is on its way.
        events: (rows,): events in any form, or an array of which all that is not zero is one.
        data: The weights: one for each stored element, or one for all.
        indices: The column of each stored element.
        indptr: Where the elements of each row begin and end.
        delays: Whole numbers of steps, from 1 to less than the number of slots: one for each element, or one for all.
        t: The number of the step, any integer.
        shape: (rows, columns) of the matrix.
        weighted: Whether the values of events count; None for what their form says.
        backend: The kernel language; None for the default.

    Returns:
        The new ring.

    Raises:
        TypeError: The ring is not floating, or delays or `t` are no integers.
        ValueError: Delays are out of range (inside `jit` they wrap around the ring), or `weighted` contradicts the
            form of the events.

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


def csr_delay_deliver_layout(
    ring: Any,
    events: Any,
    layout: CSRDelayLayout,
    t: Any,
    *,
    weighted: bool | None = None,
    backend: str | None = None,
) -> Any:
    """Do what `csr_delay_deliver` does with elements that lie in the order of their delays, which is quicker.

    Args:
        ring: (slots, columns), with as many slots as the layout was built for.
        events: (rows,), as in `csr_delay_deliver`.
        layout: What `CSRDelayLayout.build` returned.
        t: The number of the step, any integer.
        weighted: Whether the values of events count; None for what their form says.
        backend: The kernel language; None for the default.

    Returns:
        The new ring.

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


def take_arrivals(ring: Any, t: Any, *, backend: str | None = None) -> tuple[Any, Any]:
    """Return what arrives in a step, and the ring with the slot of that step set to zero.

    In a compiled loop the ring stays where it is. XLA on the CPU copies all of it in each step if the loop reads and
    clears the slot by indexing.

    Args:
        ring: (slots, columns), of floating numbers: what is on its way.
        t: The number of the step, any integer.
        backend: The kernel language; None for the default.

    Returns:
        What lies in slot `t % slots`, (columns,), and the new ring.

    Raises:
        TypeError: The ring is not floating, or `t` is no integer.

    Examples:
        >>> import jax.numpy as jnp, brainevent
        >>> brainevent.take_arrivals(jnp.array([[1.0, 2.0], [3.0, 4.0]]), 5)
        (Array([3., 4.], dtype=float32), Array([[1., 2.],
               [0., 0.]], dtype=float32))
    """
    return taken("take_arrivals", ring, t, backend)
