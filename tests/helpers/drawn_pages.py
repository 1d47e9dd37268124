# SPDX-License-Identifier: Apache-2.0
"""Checks of pages whose pictures are drawn by a script of the docs: they are up to date, and shown in both themes."""

import re
from collections import Counter


def words(svg):
    """Return the texts in an SVG file, and how many shapes it draws."""
    return Counter(re.findall(r"<text[^>]*>([^<]*)</text>", svg)), svg.count("<path"), svg.count("<use")


def check_drawn(script, folder):
    """Check that the pictures of a script are those that it draws now, into another folder."""
    drawn = script.draw(folder)
    assert sorted(path.name for path in drawn) == sorted(path.name for path in script.FOLDER.iterdir())
    for path in drawn:
        assert words(path.read_text()) == words((script.FOLDER / path.name).read_text())


def check_shown(script, page):
    """Check that the text of a page shows each drawing of a script in both themes, with the same words for it."""
    folder = script.FOLDER
    shown = dict(re.findall(rf"_static/{folder.name}/([\w-]+)\.svg\n:class: only-(?:light|dark)\n:alt: (.+)\n", page))
    assert sorted(f"{name}.svg" for name in shown) == sorted(path.name for path in folder.iterdir())
    for name in script.DRAWINGS:
        assert shown[f"{name}-light"] == shown[f"{name}-dark"]
        for theme in ("light", "dark"):
            assert f"{name}-{theme}.svg\n:class: only-{theme}\n" in page
