# SPDX-License-Identifier: Apache-2.0
"""Addresses of sections that have moved to another page lead there."""

import pytest
from programs import ROOT

MOVED = {
    ("networks", "running-networks"): ("closed-loops", "on-a-gpu", "on-several-gpus", "on-several-hosts", "in-float64"),
}


def heading(anchor):
    return "## " + anchor.replace("-", " ")


@pytest.mark.parametrize(("pages", "anchor"), [(pages, anchor) for pages, all_of in MOVED.items() for anchor in all_of])
def test_an_old_address_leads_to_the_new_one(pages, anchor):
    old, new = ((ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8") for page in pages)
    [line] = [line for line in old.splitlines() if f'<span id="{anchor}"></span>' in line]
    assert f"({pages[1]}.md#{anchor})" in line
    assert heading(anchor) in new.lower().splitlines()
