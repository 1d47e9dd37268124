# SPDX-License-Identifier: Apache-2.0
"""`plot_traces` and `plot_weights`: pictures of what is recorded beside spikes, and of what connects neurons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from .. import _units as units
from .._documented import documented
from ..errors import ShapeError
from ..typing import ArrayLike, PyTree
from .pictured import NO_MATPLOTLIB, PICTURE, picture_room, wished
from .statistics import Statistics, as_float, is_number

if TYPE_CHECKING:
    from ..bench.plot.draw import Axes, Figure

__all__ = ["plot_traces", "plot_weights"]


@documented(PICTURE, NO_MATPLOTLIB)
def plot_traces(
    times: ArrayLike,
    values: jax.Array | np.ndarray,
    *,
    names: Sequence[Any] | None = None,
    spikes: Statistics | None = None,
    threshold: float | None = None,
    label: str = "",
    ax: Axes | None = None,
    theme: str | None = None,
    title: str | None = None,
    **artist: Any,
) -> Figure:
    """Draw recorded states over time, such as potentials: lines one above the other, more than twelve as an image.

    Args:
        times: Time of each record in milliseconds, of shape (records,).
        values: States of shape (records,) or (records, traces).
        names: Name of each trace, or the number of its neuron; None for 0, 1, 2 and so on.
        spikes: `Spikes` whose neurons are the `names`, which then are numbers: each spike is a mark above its trace.
        threshold: Value at which a dashed line is drawn for each trace; None for none.
        label: Name of the state, with its unit in brackets, such as `"v (mV)"`.
        **artist: What `Axes.plot` takes, or `Axes.pcolormesh` for an image.

    Returns:
        The figure. Lines are all in one scale, which a bar at the right shows.

    Raises:
        ShapeError: The shapes of `times`, `values` and `names` do not fit together.
        TypeError: `spikes` are not `Spikes`, or `threshold` is not a number.

    Examples:
        >>> import numpy as np, brainevent
        >>> times = np.arange(100) * 0.1
        >>> figure = brainevent.plot_traces(times, np.sin(times), label="v (mV)")
        >>> figure.axes[0].get_ylabel()
        'v (mV)'
    """
    where = "plot_traces"
    at, states = np.asarray(times, float), np.asarray(values, float)
    states = states[:, None] if states.ndim == 1 else states
    if at.ndim != 1 or states.ndim != 2 or len(states) != at.size:
        raise ShapeError(
            f"{where}: times have shape {at.shape} and values {np.shape(values)}; pass (records,) and (records, traces)"
        )
    numbers = list(range(states.shape[1])) if names is None else list(names)
    if len(numbers) != states.shape[1]:
        raise ShapeError(f"{where}: {len(numbers)} names for {states.shape[1]} traces; pass one for each")
    if threshold is not None and not is_number(threshold):
        raise TypeError(f"{where}: threshold is {threshold!r}; pass a number, or None")
    trains = None if spikes is None else _trains(where, spikes, numbers, at)
    level = None if threshold is None else as_float(threshold)
    wish = wished(where, ax, None, theme, title, artist)
    words = {"spikes": trains, "threshold": level, "label": label}
    return picture_room(where, "traces").draw_traces(at, states, [str(name) for name in numbers], wish, **words)


def _trains(where: str, spikes: Any, numbers: list[Any], times: np.ndarray) -> list[np.ndarray]:
    """Return the times of the spikes of each neuron while it was recorded."""
    if not isinstance(spikes, Statistics):
        raise TypeError(f"{where}: spikes is {type(spikes).__name__}; pass Spikes, such as result['exc.spikes']")
    found = []
    for number in numbers:
        if not isinstance(number, (int, np.integer)) or not 0 <= number < spikes.size:
            raise ValueError(
                f"{where}: the name {number!r} is not the number of a neuron of spikes; "
                f"pass names from 0 to {spikes.size - 1}"
            )
        train = spikes.of([number]).times
        found.append(train[(train >= times[:1]) & (train <= times[-1:])] if times.size else train[:0])
    return found


@documented(PICTURE, NO_MATPLOTLIB)
def plot_weights(
    matrix: PyTree,
    *,
    shape: tuple[int, int] | None = None,
    label: str = "weight",
    names: tuple[str, str] = ("source neuron", "target neuron"),
    ax: Axes | None = None,
    theme: str | None = None,
    title: str | None = None,
    **artist: Any,
) -> Figure:
    """Draw a matrix of weights: sources down, targets across; of a large one, the mean weight of blocks.

    Args:
        matrix: Matrix of this package or of SciPy, an array of shape (sources, targets), or what
            `Simulation.connections` returns.
        shape: Numbers of sources and targets to show of connections; None for those of their populations.
        label: Name of the weights at their scale.
        names: Names of the axes: rows and columns.
        **artist: What `Axes.pcolormesh` takes, such as `vmax=2`.

    Returns:
        The figure. In a block, pairs of neurons without a synapse count as weights of 0.

    Raises:
        TypeError: `matrix` is not a matrix.
        ShapeError: An array is not of shape (sources, targets), or synapses are outside of `shape`.

    Examples:
        >>> import numpy as np, brainevent
        >>> figure = brainevent.plot_weights(np.eye(5))
        >>> figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()
        ('target neuron', 'source neuron')
    """
    where = "plot_weights"
    room, wish = picture_room(where, "matrix"), wished(where, ax, None, theme, title, artist)
    if hasattr(matrix, "sources") and hasattr(matrix, "targets"):
        parts = matrix.weights, matrix.sources, matrix.targets
        dense, shape = False, shape or matrix.shape
    elif hasattr(matrix, "tocoo"):
        found = matrix.tocoo()
        parts, dense, shape = (units.split(found.data)[0], found.row, found.col), False, tuple(matrix.shape)
    else:
        parts, dense, shape = _of_array(where, matrix)
    weights, rows, columns = (np.asarray(part) for part in parts)
    weights = np.broadcast_to(weights.astype(float), rows.shape).reshape(-1)
    _check_within(where, rows, columns, shape)
    return room.draw_weights(room.PlacedWeights(weights, rows, columns, shape, dense), wish, label, names)


def _of_array(where: str, matrix: Any) -> tuple[tuple[Any, Any, Any], bool, tuple[int, int]]:
    """Return the elements of an array, with row and column of each."""
    array = np.asarray(matrix)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{where}: found {type(matrix).__name__}; pass a matrix, an array or connections")
    if array.ndim != 2:
        raise ShapeError(f"{where}: the array has shape {array.shape}; pass (sources, targets)")
    rows, columns = (places.reshape(-1) for places in np.indices(array.shape))
    return (array.reshape(-1), rows, columns), True, array.shape


def _check_within(where: str, rows: np.ndarray, columns: np.ndarray, shape: Any) -> None:
    for name, places, size in (("source", rows, shape[0]), ("target", columns, shape[1])):
        wrong = places[(places < 0) | (places >= size)][:1]
        if wrong.size:
            raise ShapeError(f"{where}: {name} {wrong[0]} is not within the shape {tuple(shape)}")
