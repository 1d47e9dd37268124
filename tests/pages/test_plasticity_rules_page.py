# SPDX-License-Identifier: Apache-2.0
"""The pictures on the page of plasticity rules are of the rules, and the page shows each in both themes."""

import drawn_pages
import pytest

import brainevent

mpl = pytest.importorskip("matplotlib")
plasticity_rules = pytest.importorskip("docs.plasticity_rules")

PAGE = plasticity_rules.FOLDER.parents[1] / "plasticity-rules.md"
MADE = [name for name in brainevent.plasticity.__all__ if "_on_" not in name and not name.endswith("_every")]


@pytest.mark.thorough
def test_the_pictures_are_of_the_rules(tmp_path):
    drawn_pages.check_drawn(plasticity_rules, tmp_path)


def test_the_page_shows_each_picture_in_both_themes():
    drawn_pages.check_shown(plasticity_rules, PAGE.read_text())


def test_every_rule_has_a_picture_a_row_and_a_section():
    page = PAGE.read_text()
    assert sorted(name.replace("-", "_") for name in plasticity_rules.DRAWINGS) == sorted(MADE)
    for name in MADE:
        assert f"| [`{name}`](#{name.replace('_', '-')}) |" in page
        assert f"\n### {name}\n" in page
