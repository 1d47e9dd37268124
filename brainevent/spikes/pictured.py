# SPDX-License-Identifier: Apache-2.0
"""The methods of `Spikes` that draw: what they take, and where the drawing is."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .._documented import documented
from ..typing import ArrayLike
from .statistics import Statistics

if TYPE_CHECKING:
    from ..bench.plot.draw import Axes, Figure

__all__ = ["NO_MATPLOTLIB", "PICTURE", "Pictured", "picture_room"]

Groups = Mapping[str, Any]


def picture_room(where: str, name: str) -> Any:
    """Return a module of `pictures`, or raise an error that says what to install."""
    try:
        return importlib.import_module(f"{__package__}.pictures.{name}")
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        raise ImportError(
            f"{where} needs matplotlib, which is not installed; run: pip install matplotlib", name=error.name
        ) from error


def wished(where: str, ax: Any, groups: Any, theme: Any, title: Any, artist: dict[str, Any] | None = None) -> Any:
    """Return the arguments that all methods share, as one object."""
    return picture_room(where, "frame").Wish(where, ax, groups, theme, title, artist or {})


PICTURE = {
    "ax": "Axes to draw into; None for a new figure.",
    "theme": '`"light"` or `"dark"`; None for light, or for what suits the background of `ax`.',
    "title": "Title at the top left.",
}
NO_MATPLOTLIB = {"ImportError": "matplotlib is not installed."}
_documented = documented(
    PICTURE, {"IndexError": "A group has neurons that are not there.", **NO_MATPLOTLIB}, "The figure."
)


class Pictured(Statistics):
    """Spikes as pictures.

    All methods return a matplotlib figure, whose `savefig` writes PNG, SVG or PDF. They take:

    - `ax`: axes to draw into; None for a new figure. Limits include what axes that share them show.
    - `groups`: names and the neurons of each (slice, numbers or mask). Each group has a colour.
    - `theme`: `"light"` or `"dark"`; None for light, or for what suits the background of `ax`.
    - `title`: at the top left of the figure, or of `ax`.
    """

    @_documented
    def raster(
        self,
        ax: Axes | None = None,
        *,
        groups: Groups | None = None,
        sample: int | None = None,
        sort_by: str | ArrayLike | None = None,
        heights: str | Mapping[str, float] | None = None,
        kind: str | None = None,
        theme: str | None = None,
        title: str | None = None,
        **artist: Any,
    ) -> Figure:
        """Draw spikes over time and neurons: a mark for each, or their density if marks would overlap too much.

        Args:
            groups: Names and the neurons of each: slices, numbers or masks. Groups are bands, the first at the bottom;
                neurons in no group are not shown.
            sample: How many neurons to show, drawn at random from all parts of each group, the same each time, in
                proportion to the heights of the groups; None for all.
            sort_by: Order of the rows within a group: `"rate"`, `"first"` (time of the first spike), or a number for
                each neuron, by which rows rise; None for the order of the neurons.
            heights: Height of each group: `"neurons"` in proportion to its neurons, `"equal"`, or a mapping from names
                to numbers (1 where none is given). None is "neurons", but no group is thinner than its name.
            kind: `"marks"` or `"density"`; None for what is easier to read. The colours of a density are mean rates of
                groups of neighbouring neurons in short times.
            **artist: What `Axes.plot` takes, or `Axes.pcolormesh` for a density, such as `color="black"`. With them,
                `kind=None` is "marks".

        Raises:
            ValueError: A group has no neurons, a neuron is in two groups, or a keyword is not one of the above.

        Examples:
            >>> import numpy as np, brainevent
            >>> spikes = brainevent.Spikes.from_dense(np.random.default_rng(0).random((500, 100)) < 0.01, dt=1.0)
            >>> figure = spikes.raster(groups={"exc": slice(0, 80), "inh": slice(80, 100)}, title="100 neurons")
            >>> figure.axes[0].get_ylabel()
            'neuron'
        """
        wish = wished("Spikes.raster", ax, groups, theme, title, artist)
        return picture_room("Spikes.raster", "raster").draw_raster(self, wish, kind, sample, sort_by, heights)

    @_documented
    def plot(
        self,
        figure: Figure | None = None,
        *,
        groups: Groups | None = None,
        sample: int | None = None,
        sort_by: str | ArrayLike | None = None,
        heights: str | Mapping[str, float] | None = None,
        kind: str | None = None,
        bin: float | None = None,  # noqa: A002 - the word for it
        smooth: float | None = None,
        theme: str | None = None,
        title: str | None = None,
    ) -> Figure:
        """Draw a raster, and the rate of all neurons below it, over the same time.

        Args:
            figure: Figure or subfigure to draw into, which should be empty; None for a new one.
            groups: As for `raster`.
            sample: As for `raster`; rates are always those of all neurons.
            sort_by: As for `raster`.
            heights: As for `raster`.
            kind: As for `raster`.
            bin: Length of the bins of the rate in milliseconds, a multiple of `dt`; None for what a line can show.
            smooth: As for `plot_rate`.
            theme: `"light"` or `"dark"`; None for light.

        Returns:
            The figure, with two axes: raster and rate.

        Raises:
            ValueError: As for `raster` and `plot_rate`.

        Examples:
            >>> import numpy as np, brainevent
            >>> spikes = brainevent.Spikes.from_dense(np.random.default_rng(0).random((500, 100)) < 0.01, dt=1.0)
            >>> [axes.get_ylabel() for axes in spikes.plot(smooth=5).axes]
            ['neuron', 'rate (Hz)']
        """
        wish = wished("Spikes.plot", figure, groups, theme, title)
        rows = {"sample": sample, "sort_by": sort_by, "heights": heights, "kind": kind}
        return picture_room("Spikes.plot", "raster").draw_overview(self, wish, rows, bin, smooth)

    @_documented
    def plot_rate(
        self,
        ax: Axes | None = None,
        *,
        bin: float = 1.0,  # noqa: A002 - the word for it
        smooth: float | None = None,
        groups: Groups | None = None,
        theme: str | None = None,
        title: str | None = None,
        **artist: Any,
    ) -> Figure:
        """Draw the mean rate of a neuron over time.

        Args:
            bin: Length of a bin in milliseconds, a multiple of `dt`.
            smooth: Standard deviation, in milliseconds, of a Gaussian that the rate is smoothed by; None for none.
            groups: Names and the neurons of each: a line for each group.
            **artist: What `Axes.plot` takes, such as `linewidth=2`.

        Raises:
            ValueError: `bin` is not a multiple of `dt`, `smooth` is not above zero, or a group has no neurons.

        Examples:
            >>> import numpy as np, brainevent
            >>> spikes = brainevent.Spikes.from_dense(np.random.default_rng(0).random((500, 100)) < 0.01, dt=1.0)
            >>> spikes.plot_rate(bin=2, smooth=10).axes[0].get_ylabel()
            'rate (Hz)'
        """
        wish = wished("Spikes.plot_rate", ax, groups, theme, title, artist)
        return picture_room("Spikes.plot_rate", "lines").draw_rate(self, wish, bin, smooth)

    @_documented
    def plot_intervals(
        self,
        ax: Axes | None = None,
        *,
        bins: int = 60,
        groups: Groups | None = None,
        theme: str | None = None,
        title: str | None = None,
        **artist: Any,
    ) -> Figure:
        """Draw how long the intervals between spikes of a neuron are, with their coefficient of variation.

        Args:
            bins: How many bins there are at most; they grow with the interval.
            groups: Names and the neurons of each: a histogram for each group.
            **artist: What `Axes.stairs` takes, such as `linewidth=2`.

        Returns:
            The figure. Below it is the mean of `cv()`.

        Raises:
            ValueError: `bins` is below 1, or a group has no neurons.

        Examples:
            >>> import numpy as np, brainevent
            >>> spikes = brainevent.Spikes.from_dense(np.random.default_rng(0).random((500, 100)) < 0.01, dt=1.0)
            >>> spikes.plot_intervals().axes[0].get_xlabel()
            'interval between spikes (ms)'
        """
        wish = wished("Spikes.plot_intervals", ax, groups, theme, title, artist)
        return picture_room("Spikes.plot_intervals", "lines").draw_intervals(self, wish, bins)

    @_documented
    def plot_correlations(
        self,
        ax: Axes | None = None,
        *,
        bin: float = 5.0,  # noqa: A002 - the word for it
        bins: int = 60,
        groups: Groups | None = None,
        theme: str | None = None,
        title: str | None = None,
        **artist: Any,
    ) -> Figure:
        """Draw how the spike counts of pairs of neurons are correlated.

        Args:
            bin: Length, in milliseconds, of the bins in which spikes are counted, a multiple of `dt`.
            bins: How many bins the histogram has.
            groups: Names and the neurons of each: a histogram of the pairs within each group.
            **artist: What `Axes.stairs` takes, such as `linewidth=2`.

        Returns:
            The figure. Of more than 300 neurons that spiked, it is of 300, the same each time.

        Raises:
            ValueError: The run has fewer than two bins, or a group has no neurons.

        Examples:
            >>> import numpy as np, brainevent
            >>> spikes = brainevent.Spikes.from_dense(np.random.default_rng(0).random((500, 100)) < 0.01, dt=1.0)
            >>> spikes.plot_correlations().axes[0].get_xlabel()
            'correlation of two neurons'
        """
        wish = wished("Spikes.plot_correlations", ax, groups, theme, title, artist)
        return picture_room("Spikes.plot_correlations", "lines").draw_correlations(self, wish, bin, bins)

    @_documented
    def plot_fano(
        self,
        ax: Axes | None = None,
        *,
        groups: Groups | None = None,
        theme: str | None = None,
        title: str | None = None,
        **artist: Any,
    ) -> Figure:
        """Draw the mean Fano factor of neurons, for windows from one step to a tenth of the run.

        Args:
            groups: Names and the neurons of each: a line for each group.
            **artist: What `Axes.plot` takes, such as `linewidth=2`.

        Raises:
            ValueError: A group has no neurons.

        Examples:
            >>> import numpy as np, brainevent
            >>> spikes = brainevent.Spikes.from_dense(np.random.default_rng(0).random((500, 100)) < 0.01, dt=1.0)
            >>> spikes.plot_fano().axes[0].get_ylabel()
            'Fano factor'
        """
        wish = wished("Spikes.plot_fano", ax, groups, theme, title, artist)
        return picture_room("Spikes.plot_fano", "lines").draw_fano(self, wish)
