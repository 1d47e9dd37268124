# SPDX-License-Identifier: Apache-2.0
"""The pictures on the page of neuron models are of the models, and the page shows each in both themes."""

import re
from collections import Counter

import pytest

mpl = pytest.importorskip("matplotlib")
neuron_models = pytest.importorskip("docs.neuron_models")

PAGE = neuron_models.FOLDER.parents[1] / "neuron-models.md"


def words(svg):
    """Return the texts in an SVG file, and how many shapes it draws."""
    return Counter(re.findall(r"<text[^>]*>([^<]*)</text>", svg)), svg.count("<path"), svg.count("<use")


@pytest.mark.thorough
def test_the_pictures_are_of_the_models(tmp_path):
    drawn = neuron_models.draw(tmp_path)
    assert sorted(path.name for path in drawn) == sorted(path.name for path in neuron_models.FOLDER.iterdir())
    for path in drawn:
        assert words(path.read_text()) == words((neuron_models.FOLDER / path.name).read_text())


def test_the_page_shows_each_picture_in_both_themes():
    page = PAGE.read_text()
    shown = dict(re.findall(r"_static/neuron-models/([\w-]+)\.svg\n:class: only-(?:light|dark)\n:alt: (.+)\n", page))
    assert sorted(f"{name}.svg" for name in shown) == sorted(path.name for path in neuron_models.FOLDER.iterdir())
    for name in neuron_models.DRAWINGS:
        assert shown[f"{name}-light"] == shown[f"{name}-dark"]
        for theme in ("light", "dark"):
            assert f"{name}-{theme}.svg\n:class: only-{theme}\n" in page


def test_the_page_names_every_model():
    from brainevent.network import models

    page = PAGE.read_text()
    for name in models.__all__:
        if not name.endswith("_rule"):
            assert f"`{name}" in page or f"be.models.{name}(" in page, name
