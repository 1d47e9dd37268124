# SPDX-License-Identifier: Apache-2.0
"""Find texts of a figure that cover each other, or that are not whole on its paper."""

import itertools

import numpy as np
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.text import Text

_TOUCH = 1.0  # points by which boxes may overlap: letters do not fill their boxes


def overlaps(figure: Figure) -> list[tuple[str, str]]:
    """Return the pairs of texts whose boxes, turned as the texts are, overlap by more than a point."""
    figure.draw_without_rendering()
    boxes = [(text.get_text(), _corners(text)) for text in _drawn(figure)]
    return [
        (one, other)
        for (one, first), (other, second) in itertools.combinations(boxes, 2)
        if _depth(first, second) > _TOUCH * figure.dpi / 72
    ]


def beyond_paper(figure: Figure) -> list[str]:
    """Return the texts that are not whole on the paper of a figure, by more than a point."""
    figure.draw_without_rendering()
    low, high = -_TOUCH * figure.dpi / 72, np.array(figure.bbox.size) + _TOUCH * figure.dpi / 72
    texts = [(text.get_text(), _corners(text)) for text in _drawn(figure)]
    return [words for words, corners in texts if (corners < low).any() or (corners > high).any()]


def _drawn(figure: Figure) -> list[Text]:
    """Return the texts that a reader sees: ticks beyond the ends of an axis have none."""
    ticks = [tick for axis in figure.findobj(Axis) for tick in (*axis.majorTicks, *axis.minorTicks)]
    seen = [tick for axis in figure.findobj(Axis) if axis.get_visible() for tick in axis._update_ticks()]
    of_ticks = {id(label): tick for tick in ticks for label in (tick.label1, tick.label2)}
    shown = {id(tick) for tick in seen}
    return [
        text
        for text in figure.findobj(Text)
        if text.get_visible() and text.get_text().strip()
        if id(text) not in of_ticks or id(of_ticks[id(text)]) in shown
    ]


def _corners(text: Text) -> np.ndarray:
    """Return the corners of the box of a text, (4, 2) in pixels; of an annotation without its arrow."""
    whole, angle = Text.get_window_extent(text), text.get_rotation()
    if angle % 90 == 0:
        return whole.corners()[[0, 1, 3, 2]]
    alone = Text(text=text.get_text(), fontproperties=text.get_fontproperties(), figure=text.get_figure(root=True))
    size = Text.get_window_extent(alone).size
    turn = np.radians(angle)
    axes = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
    halves = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]]) * size / 2
    return np.array([(whole.x0 + whole.x1) / 2, (whole.y0 + whole.y1) / 2]) + halves @ axes


def _depth(first: np.ndarray, second: np.ndarray) -> float:
    """Return how far two rectangles overlap: the least distance that separates them, negative if they are apart."""
    depths = []
    for corners in (first, second):
        for side in (corners[1] - corners[0], corners[2] - corners[1]):
            along = side / max(float(np.hypot(*side)), 1e-9)
            one, other = first @ along, second @ along
            depths.append(min(one.max(), other.max()) - max(one.min(), other.min()))
    return float(min(depths))
