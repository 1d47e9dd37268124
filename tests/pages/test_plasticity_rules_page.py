# SPDX-License-Identifier: Apache-2.0
"""The pictures on the page of plasticity rules are of the rules, and the page shows each in both themes."""

import re
from collections import Counter

import pytest

import brainevent

mpl = pytest.importorskip("matplotlib")
plasticity_rules = pytest.importorskip("docs.plasticity_rules")

PAGE = plasticity_rules.FOLDER.parents[1] / "plasticity-rules.md"
MADE = [name for name in brainevent.plasticity.__all__ if "_on_" not in name and not name.endswith("_every")]


def words(svg):
    """Return the texts in an SVG file, and how many shapes it draws."""
    return Counter(re.findall(r"<text[^>]*>([^<]*)</text>", svg)), svg.count("<path"), svg.count("<use")


@pytest.mark.thorough
def test_the_pictures_are_of_the_rules(tmp_path):
    drawn = plasticity_rules.draw(tmp_path)
    assert sorted(path.name for path in drawn) == sorted(path.name for path in plasticity_rules.FOLDER.iterdir())
    for path in drawn:
        assert words(path.read_text()) == words((plasticity_rules.FOLDER / path.name).read_text())


def test_the_page_shows_each_picture_in_both_themes():
    page = PAGE.read_text()
    shown = dict(re.findall(r"_static/plasticity-rules/([\w-]+)\.svg\n:class: only-(?:light|dark)\n:alt: (.+)\n", page))
    assert sorted(f"{name}.svg" for name in shown) == sorted(path.name for path in plasticity_rules.FOLDER.iterdir())
    for name in plasticity_rules.DRAWINGS:
        assert shown[f"{name}-light"] == shown[f"{name}-dark"]
        for theme in ("light", "dark"):
            assert f"{name}-{theme}.svg\n:class: only-{theme}\n" in page


def test_every_rule_has_a_picture_a_row_and_a_section():
    page = PAGE.read_text()
    assert sorted(name.replace("-", "_") for name in plasticity_rules.DRAWINGS) == sorted(MADE)
    for name in MADE:
        assert f"| [`{name}`](#{name.replace('_', '-')}) |" in page
        assert f"\n### {name}\n" in page
