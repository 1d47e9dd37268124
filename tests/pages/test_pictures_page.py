# SPDX-License-Identifier: Apache-2.0
"""The pictures on the page of pictures are those that its programs draw."""

import re
from collections import Counter

import pytest

pytest.importorskip("matplotlib")
pictures = pytest.importorskip("docs.pictures")


def words(svg):
    """Return the texts in an SVG file."""
    return Counter(re.findall(r"<text[^>]*>([^<]*)</text>", svg))


def test_each_picture_is_shown_in_both_themes_with_words():
    text, files = pictures.PAGE.read_text(), sorted(path.name for path in pictures.FOLDER.iterdir())
    assert files == sorted(f"{name}-{theme}.svg" for name in pictures.names() for theme in ("light", "dark"))
    for file in files:
        theme = file.removesuffix(".svg").rpartition("-")[2]
        assert re.search(rf"_static/pictures/{file}\n:class: only-{theme}\n:alt: .+\n", text), file


@pytest.mark.thorough
def test_pictures_are_those_of_the_page(tmp_path):
    for path in pictures.draw(tmp_path):
        assert words(path.read_text()) == words((pictures.FOLDER / path.name).read_text()), path.name
