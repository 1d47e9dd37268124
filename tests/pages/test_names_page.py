# SPDX-License-Identifier: Apache-2.0
"""The page of names has each of them once, says what is missing and why, and tells of no name that there is not."""

import re

import brainevent
from docs import names

ALL = [name for text in names.TOPICS.values() for name in text.split()]
NOT_REALLY = {"HIPBackend", "HybridConfig", "get_hybrid_config", "init_csr_config", "TCSR"}


def rows(text):
    found = re.findall(r"^\| `(\w+)` \| (\w+) \| (.*) \|$", text, re.MULTILINE)
    return {name: (there, why) for name, there, why in found}


def test_every_name_has_a_row():
    found = rows(names.page())
    assert len(ALL) == len(set(ALL)) == len(found) == 174
    assert found.keys() == set(ALL)
    assert names.DIFFERS.keys() <= found.keys()
    for name, (there, why) in found.items():
        assert there == ("yes" if hasattr(brainevent, name) else "no")
        assert there == "yes" or why
    assert {name for name, (_, why) in found.items() if "ot really" in why} == NOT_REALLY
    assert f"Of 174 names, {174 - len(names.missing())} are there." in names.page()


def test_a_name_that_is_missing_is_reported(monkeypatch):
    monkeypatch.setitem(names.TOPICS, "Drawn connectivity", "nothing_of_the_kind")
    assert "nothing_of_the_kind" in names.missing()
    assert rows(names.page())["nothing_of_the_kind"] == ("no", "Not there yet.")


def test_a_page_that_stays_the_same_is_left_alone(tmp_path):
    path = tmp_path / "names.md"
    names.write(path)
    before = path.stat().st_mtime_ns
    names.write(path)
    assert path.stat().st_mtime_ns == before
    path.write_text("old")
    names.write(path)
    assert path.read_text() == names.page()


def test_names_are_public():
    assert set(ALL) - set(names.missing()) <= set(brainevent.__all__)
