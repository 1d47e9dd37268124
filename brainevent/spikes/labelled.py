# SPDX-License-Identifier: Apache-2.0
"""`LabelledSpikes`: many recordings of input spikes with a class each, read from a file or drawn, cut into batches."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from .._warned import warn_each_time
from ..errors import ShapeError
from ..event.room import check_host_room
from ..event.structure import checked_count
from ..typing import ArrayLike
from .statistics import milliseconds

__all__ = ["LabelledSpikes"]

_MILLISECONDS = 1000.0  # files have seconds
_ROUNDED = 1 + 2.0**-22  # times are products of float32, which are below those of real numbers by up to this
_BLOBS, _SPIKES = 12, 8000  # of a drawn class, and of a drawn recording of 700 inputs on average
_WIDTHS = (0.01, 0.04)  # of a blob: part of the inputs
_LENGTHS = (20.0, 80.0)  # in ms

Array = Any


@dataclass(frozen=True, eq=False, repr=False)
class LabelledSpikes:
    """Recordings of the same input neurons, each with the number of its class: what a classifier learns from.

    Recording k has the spikes `bounds[k]` to `bounds[k + 1] - 1`. `recordings[k]` is one of them, with its spikes
    alone; a slice, or an array of numbers or booleans, gives several.

    Attributes:
        times: Time of each spike within its recording in milliseconds, float32.
        units: Input neuron of each spike, int32.
        bounds: int64, (recordings + 1,).
        labels: Class of each recording, int32.
        inputs: Number of input neurons.

    Examples:
        >>> import brainevent
        >>> digits = brainevent.LabelledSpikes.synthetic(64, classes=4, inputs=70, seed=1)
        >>> digits
        LabelledSpikes(64 recordings, 4 classes, 70 inputs, 51200 spikes)
        >>> x, y = next(digits.batches(16, steps=100, dt=10.0, seed=0))
        >>> x.shape, x.dtype, y.shape
        ((16, 100, 70), dtype('uint8'), (16,))
    """

    times: Array
    units: Array
    bounds: Array
    labels: Array
    inputs: int

    @classmethod
    def from_hdf5(cls, path: str | PathLike[str], inputs: int | None = None) -> LabelledSpikes:
        """Read a file in the format of the Spiking Heidelberg Digits (SHD) and Spiking Speech Commands (SSC).

        Args:
            path: The file, such as `shd_train.h5`, unpacked. Its arrays `spikes/times`, in seconds, and `spikes/units`
                have a list for each recording, and `labels` has its class.
            inputs: Number of input neurons; None for 700, as these data sets have, or more if the file needs it.

        Returns:
            All recordings of the file.

        Raises:
            ImportError: h5py is not installed.
            FileNotFoundError: There is no such file.
            ValueError: The file is not HDF5, lacks an array, or has a unit that is not below `inputs`.
            ShapeError: The lists of a recording differ in length, or the arrays in the number of recordings.

        Examples:
            >>> import brainevent
            >>> try:
            ...     digits = brainevent.LabelledSpikes.from_hdf5("shd_train.h5")
            ... except (ImportError, FileNotFoundError):  # h5py or the file is missing
            ...     digits = brainevent.LabelledSpikes.synthetic(20)
            >>> digits.inputs
            700
        """
        try:
            h5py: Any = importlib.import_module("h5py")
        except ImportError as error:
            raise ImportError(
                "LabelledSpikes.from_hdf5: needs the package h5py; install it with `pip install h5py`"
            ) from error
        if not Path(path).exists():
            raise FileNotFoundError(f"LabelledSpikes.from_hdf5: {path} does not exist; pass the path of a file")
        if not h5py.is_hdf5(path):
            raise ValueError(
                f"LabelledSpikes.from_hdf5: {path} is not an HDF5 file; if it is compressed, as shd_train.h5.gz is, "
                "unpack it with gunzip"
            )
        with h5py.File(path, "r") as file:
            for name in ("spikes/times", "spikes/units", "labels"):
                if name not in file:
                    raise ValueError(
                        f"LabelledSpikes.from_hdf5: {path} has no {name!r}; pass a file of SHD or SSC, such as "
                        "shd_train.h5"
                    )
            times, units = (list(file[f"spikes/{name}"][()]) for name in ("times", "units"))
            labels = np.asarray(file["labels"][()])
        most = max((int(one.max()) for one in units if len(one)), default=-1) + 1
        return cls.from_lists(
            [np.asarray(one, np.float32) * _MILLISECONDS for one in times], units, labels, inputs or max(700, most)
        )

    @classmethod
    def from_lists(
        cls, times: Sequence[ArrayLike], units: Sequence[ArrayLike], labels: ArrayLike, inputs: int
    ) -> LabelledSpikes:
        """Return recordings that are given as lists.

        Args:
            times: For each recording the times of its spikes in milliseconds, at least 0, in any order.
            units: For each recording the input neurons of its spikes.
            labels: Class of each recording, an integer of at least 0.
            inputs: Number of input neurons.

        Returns:
            The recordings.

        Raises:
            ShapeError: The lists of a recording differ in length, or there is another number of labels.
            TypeError: The number of input neurons is not an integer.
            ValueError: A unit, a label or a time is out of range.

        Examples:
            >>> import brainevent
            >>> two = brainevent.LabelledSpikes.from_lists([[0.0, 3.5], [1.0]], [[1, 0], [1]], [0, 1], inputs=2)
            >>> two.binned(steps=4, dt=1.0)[0].tolist()
            [[0, 1], [0, 0], [0, 0], [1, 0]]
        """
        lengths = [_size(one) for one in times]
        if (found := [_size(one) for one in units]) != lengths:
            which = next((k for k, pair in enumerate(zip(lengths, found, strict=False)) if pair[0] != pair[1]), None)
            raise ShapeError(
                f"LabelledSpikes: {len(lengths)} recordings of times but {len(found)} of units"
                if which is None
                else f"LabelledSpikes: recording {which} has {lengths[which]} times but {found[which]} units"
            )
        classes, inputs = _integers("labels", labels, len(lengths)), checked_count("LabelledSpikes", "inputs", inputs)
        with np.errstate(over="ignore"):
            joined = np.concatenate([np.zeros(0), *(_floats(one) for one in times)]).astype(np.float32)
        neurons = np.concatenate([np.zeros(0, np.int64), *(_integers("units", one, _size(one)) for one in units)])
        if not (np.isfinite(joined) & (joined >= 0)).all():
            raise ValueError("LabelledSpikes: times must be finite and at least 0 ms")
        for what, values, end in (("unit", neurons, inputs), ("label", classes, 2**31)):
            if values.size and not 0 <= values.min() <= values.max() < end:
                raise ValueError(f"LabelledSpikes: a {what} is not in the range 0 to {end - 1}")
        bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        return cls(joined, neurons.astype(np.int32), bounds, classes.astype(np.int32), inputs)

    @classmethod
    def synthetic(
        cls, recordings: int, *, classes: int = 20, inputs: int = 700, duration: float = 1000.0, seed: int = 0
    ) -> LabelledSpikes:
        """Draw recordings of the size of SHD's, which nobody has to download: to try a network, and to measure it.

        Each class is a pattern of blobs over inputs and time, as formants of a spoken word are. A recording is drawn
        from that of its class: shifted, stretched in time, of another loudness, and without each blob now and then. So
        classes overlap, and no single time or input tells them apart.

        Args:
            recordings: How many; their classes are as equally frequent as possible, in random order.
            classes: Number of classes.
            inputs: Number of input neurons. A recording has about 8000 spikes for 700 of them, as in SHD.
            duration: Length in milliseconds.
            seed: Recordings with the same arguments are the same; those of another seed have other patterns.

        Returns:
            The recordings. Part them for training and testing, by slices, since recordings of two seeds do not belong
            to the same classes.

        Raises:
            TypeError: A number of things is not an integer.
            ValueError: A number is not above zero.

        Examples:
            >>> import brainevent
            >>> brainevent.LabelledSpikes.synthetic(3, classes=2, inputs=14)
            LabelledSpikes(3 recordings, 2 classes, 14 inputs, 480 spikes)
        """
        where = "LabelledSpikes.synthetic"
        recordings = checked_count(where, "recordings", recordings)
        classes, inputs = checked_count(where, "classes", classes), checked_count(where, "inputs", inputs)
        for name, value in (
            ("recordings", recordings),
            ("classes", classes),
            ("inputs", inputs),
            ("duration", duration),
        ):
            if not value > 0:
                raise ValueError(f"LabelledSpikes.synthetic: {name} is {value!r}; pass a number above 0")
        random = np.random.default_rng([seed, classes, inputs])
        patterns = _Patterns(random, classes, inputs, duration)
        labels = random.permutation(np.arange(recordings) % classes).astype(np.int32)
        times, units = zip(*(patterns.drawn(random, int(label)) for label in labels), strict=True)
        bounds = np.concatenate([[0], np.cumsum([one.size for one in times])])
        return cls(np.concatenate(times), np.concatenate(units), bounds, labels, inputs)

    def __len__(self) -> int:
        """Return the number of recordings."""
        return len(self.labels)

    def __getitem__(self, which: Any) -> LabelledSpikes:
        """Return some of the recordings: a number, a slice, or an array of numbers or booleans says which."""
        chosen = np.atleast_1d(np.arange(len(self))[which])
        lengths = np.diff(self.bounds)[chosen]
        bounds = np.concatenate([[0], np.cumsum(lengths)])
        places = np.repeat(self.bounds[chosen] - bounds[:-1], lengths) + np.arange(bounds[-1])
        return LabelledSpikes(self.times[places], self.units[places], bounds, self.labels[chosen], self.inputs)

    def __repr__(self) -> str:
        """Return the sizes, and the largest label if the labels are not those from 0 to the number of classes."""
        classes, largest = np.unique(self.labels).size, int(self.labels.max(initial=-1))
        labels = f"{classes} class{'es' * (classes != 1)}" + (
            f" with labels up to {largest}" if largest >= classes else ""
        )
        return f"LabelledSpikes({len(self)} recordings, {labels}, {self.inputs} inputs, {self.times.size} spikes)"

    def binned(self, steps: int, dt: float) -> np.ndarray:
        """Return the spikes of all recordings by step, as input of a network.

        A spike at `k * dt` is in step k, also where the product is rounded to float32. A warning says if most spikes
        come after the last step, or all of several in the first one: then times may be in another unit.

        Args:
            steps: Number of steps; later spikes are left out.
            dt: Length of a step in milliseconds.

        Returns:
            An array of uint8 (recordings, steps, inputs), 1 where an input spiked in a step, once or several times.

        Raises:
            TypeError: The number of steps is not an integer.
            ValueError: The number of steps is not above zero, or the length of one is not a number above zero.
            MemoryError: The array does not fit in memory.

        Examples:
            >>> import brainevent
            >>> two = brainevent.LabelledSpikes.from_lists([[0.7], [0.0, 0.25]], [[0], [0, 0]], [0, 1], inputs=1)
            >>> two.binned(8, 0.1)[:, :, 0].tolist()
            [[0, 0, 0, 0, 0, 0, 0, 1], [1, 0, 1, 0, 0, 0, 0, 0]]
        """
        steps, dt = _grid("binned", steps, dt)
        self._check_unit("binned", steps, dt)
        return self._binned(steps, dt)

    def _binned(self, steps: int, dt: float) -> np.ndarray:
        check_host_room(
            "LabelledSpikes.binned",
            f"{len(self)} recordings of {steps} steps and {self.inputs} inputs",
            len(self) * steps * self.inputs,
            "pass fewer at once, such as recordings[:256], or loop over batches(...)",
        )
        rows = np.repeat(np.arange(len(self)), np.diff(self.bounds))
        at = _steps_of(self.times, dt)
        within = at < steps
        result = np.zeros((len(self), steps, self.inputs), np.uint8)
        result[rows[within], at[within].astype(np.int64), self.units[within]] = 1
        return result

    def _check_unit(self, name: str, steps: int, dt: float) -> None:
        """Warn if spikes are lost that a user hardly means to lose."""
        at = _steps_of(self.times, dt)
        late = int((at >= steps).sum())
        if 2 * late > at.size:
            lost = f"{late} of {at.size} spikes come after the last step, at {steps * dt:g} ms, and are left out"
        elif steps > 1 and at.size > max(1, len(self)) and not at.any():
            lost = f"all {at.size} spikes are in the first of {steps} steps, which has {dt:g} ms"
        else:
            return
        warn_each_time(
            f"LabelledSpikes.{name}: {lost}; the last spike is at {self.times.max():g} ms: check that times are in "
            "milliseconds, and steps and dt",
            UserWarning,
        )

    def batches(self, size: int, steps: int, dt: float, *, seed: int | None = None) -> Iterator[tuple[Array, Array]]:
        """Yield batches of one pass over all recordings; those that fill no whole batch are left out.

        Args:
            size: Recordings in a batch.
            steps: Number of steps.
            dt: Length of a step in milliseconds.
            seed: The order is random, and that of this seed: take the number of the pass. None for the order they have.

        Yields:
            Spikes as `binned` returns them, uint8 (size, steps, inputs), and classes, int32 (size,).

        Raises:
            TypeError: The size, or the number of steps, is not an integer.
            ValueError: A batch is not of at least one recording and of at most all, or as for `binned`.
        """
        size = checked_count("LabelledSpikes.batches", "size", size)
        if not 0 < size <= len(self):
            raise ValueError(
                f"LabelledSpikes.batches: size is {size!r}; pass 1 to {len(self)}, the recordings there are"
            )
        steps, dt = _grid("batches", steps, dt)
        self._check_unit("batches", steps, dt)
        order = np.arange(len(self)) if seed is None else np.random.default_rng(seed).permutation(len(self))
        return (
            (chosen._binned(steps, dt), chosen.labels)
            for chosen in (self[order[k : k + size]] for k in range(0, len(self) - size + 1, size))
        )


def _grid(name: str, steps: Any, dt: Any) -> tuple[int, float]:
    """Return the number of steps and the length of one, or raise."""
    where = f"LabelledSpikes.{name}"
    steps = checked_count(where, "steps", steps)
    if steps < 1:
        raise ValueError(f"{where}: steps is {steps}; pass a number above 0")
    return steps, milliseconds(where, dt)


def _steps_of(times: Array, dt: float) -> Array:
    """Return the step of each time as a whole number in float64."""
    return np.floor(times.astype(np.float64) / dt * _ROUNDED)


class _Patterns:
    """What the classes of drawn recordings look like: blobs, each with a middle and a width in inputs and in time."""

    def __init__(self, random: np.random.Generator, classes: int, inputs: int, duration: float):
        shape = classes, _BLOBS
        self.inputs, self.duration = inputs, duration
        self.middle = random.uniform(0, inputs, shape)
        self.width = random.uniform(*_WIDTHS, shape) * inputs
        self.time = random.uniform(0.1, 0.9, shape) * duration
        self.length = random.uniform(*_LENGTHS, shape) * duration / 1000

    def drawn(self, random: np.random.Generator, label: int) -> tuple[Array, Array]:
        """Return times and units of one recording, by time."""
        number = max(1, round(_SPIKES * self.inputs / 700))
        loudness = random.gamma(4.0, 0.25, _BLOBS) * (random.random(_BLOBS) > 0.1) + 1e-3
        blob = random.choice(_BLOBS, number, p=loudness / loudness.sum())
        shift, stretch = random.normal(0, 0.02) * self.inputs, random.normal(1, 0.08)
        start = random.normal(0, 0.03) * self.duration
        units = random.normal(self.middle[label][blob] + shift, self.width[label][blob])
        times = start + stretch * random.normal(self.time[label][blob], self.length[label][blob])
        noise = random.random(number) < 0.05
        units = np.where(noise, random.uniform(0, self.inputs, number), units)
        times = np.where(noise, random.uniform(0, self.duration, number), times)
        # What leaves the range on one side enters it on the other.
        times = np.mod(times, self.duration).astype(np.float32)
        order = np.argsort(times, kind="stable")
        return times[order], np.mod(np.floor(units), self.inputs).astype(np.int32)[order]


def _size(given: Any) -> int:
    return int(np.size(given))


def _floats(given: Any) -> Array:
    return np.asarray(given, float).reshape(-1)


def _integers(what: str, given: Any, number: int) -> Array:
    """Return integers, one for each; raise for anything else."""
    array = np.asarray(given)
    if array.shape != (number,):
        raise ShapeError(f"LabelledSpikes: {what} has shape {array.shape}; pass one for each, ({number},)")
    if number and array.dtype.kind not in "iu":
        raise ValueError(f"LabelledSpikes: {what} are {array.dtype}; pass integers")
    return array.astype(np.int64)
