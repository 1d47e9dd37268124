# SPDX-License-Identifier: Apache-2.0
"""The first screen shows figures and pictures of committed results; the gallery, thumbnails of committed pictures."""

import re
from collections import Counter
from xml.etree import ElementTree as ET

import pytest
from drawn_pages import words
from programs import ROOT

import brainevent

pytest.importorskip("matplotlib")
first = pytest.importorskip("docs.first_screen")
from docs import gallery  # noqa: E402 - it needs what the line above looks for

SVG = "{http://www.w3.org/2000/svg}"
INDEX = (ROOT / "docs" / "index.md").read_text()
README = first.README.read_text()
PROGRAMS = [program for programs in gallery.PROGRAMS.values() for program in programs]


def test_the_figures_are_those_of_the_results():
    assert first.with_figures(README) == README
    assert re.findall(r"^\| \*\*([\d.]+)\s\S+\*\* \|", first.figures(), re.MULTILINE) == [
        f"{first.median('gpu', 'gpu_microcircuit', f'{first._PD14}the network engine, spikes recorded'):.3f}",
        f"{first.median('networks', 'networks', 'cuba, 40000 neurons, 1 thread: the network engine'):.0f}",
        f"{first.median('calls', 'overhead', 'XLACustomKernel with numba_kernel'):.1f}",
    ]


def test_figures_follow_the_results(monkeypatch):
    monkeypatch.setattr(first, "median", lambda *_: 3.0)
    changed = first.with_figures(README)
    assert "**3.000\N{NO-BREAK SPACE}s**" in changed
    assert "where `jax.pure_callback` takes 3\N{NO-BREAK SPACE}\N{MICRO SIGN}s" in changed
    before, after = (README.split(mark)[place] for mark, place in zip(first.MARKS, (0, 1), strict=True))
    assert changed.startswith(before)
    assert changed.endswith(after)


@pytest.mark.thorough
def test_pictures_are_of_the_results(tmp_path):
    for path in first.draw(tmp_path):
        assert words(path.read_text()) == words((first.FOLDER / path.name).read_text())


def test_each_picture_is_shown_in_both_themes():
    assert sorted(path.name for path in first.FOLDER.iterdir()) == sorted(
        f"{name}-{theme}.svg" for name in first.PICTURES for theme in ("dark", "light")
    )
    for name in first.PICTURES:
        for theme in ("dark", "light"):
            assert f"docs/_static/first/{name}-{theme}.svg" in README
            assert re.search(rf"_static/first/{name}-{theme}\.svg\n:class: only-{theme}\n:alt: .+\n", INDEX)


def test_the_site_shows_all_of_the_readme_but_its_pictures():
    assert README.count("<!-- picture -->") == README.count("<!-- end of picture -->") == 1
    between = README.split("<!-- picture -->")[1].split("<!-- end of picture -->")[0]
    assert re.findall(r"^(?!</?p|  ).+", between, re.MULTILINE) == []


def test_the_sidebar_has_five_parts_and_every_page_once():
    parts = re.findall(r":caption: (.+)\n\n((?:.+\n)+)```", INDEX)
    assert [name for name, _ in parts] == ["Start", "Networks", "Write kernels", "Measure", "Reference"]
    listed = [re.sub(r".*<(.+)>", r"\1", line) for _, lines in parts for line in lines.splitlines()]
    made = {"gallery", "names", "operators/index"}  # by the build
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"} | made
    assert Counter(listed) == Counter(pages)


def test_the_gallery_shows_ten_programs_and_more():
    page = gallery.page()
    assert len(PROGRAMS) >= 10
    examples = {path.stem for path in (ROOT / "examples" / "networks").glob("*.py")}
    examples -= {"__init__", "area_tables", "report"}
    assert examples == {program.runs.split()[0] for program in PROGRAMS if program.runs}
    for program in PROGRAMS:
        assert f"**[{program.title}]({program.page})**" in page
        assert (ROOT / "docs" / program.page.partition("#")[0]).exists()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.title)
def test_a_thumbnail_has_the_data_and_no_words(program):
    picture = (gallery.PICTURES / f"{program.picture}-dark.svg").read_text()
    root = ET.fromstring(gallery.thumbnail(picture, program.axes))
    ids = {element.get("id", "") for element in root.iter()}
    assert {f"axes_{number}" for number in program.axes} <= ids
    assert not any(name.startswith(("matplotlib.axis", "legend", "text")) for name in ids)
    assert root.find(f".//{SVG}text") is None
    wanted = set(re.findall(r"""(?:href="|url\()#([^")]+)""", ET.tostring(root, encoding="unicode")))
    assert wanted <= ids
    left, top, width, height = map(float, root.get("viewBox").split())
    _, _, *whole = map(float, ET.fromstring(picture).get("viewBox").split())
    assert 0 < left < left + width < whole[0]
    assert 0 < top < top + height < whole[1]


def test_unchanged_gallery_files_are_not_written(tmp_path):
    gallery.write(tmp_path)
    files = sorted(tmp_path.rglob("*.*"))
    assert len(files) == 1 + 2 * len({program.picture for program in PROGRAMS})
    before = [path.stat().st_mtime_ns for path in files]
    gallery.write(tmp_path)
    assert [path.stat().st_mtime_ns for path in files] == before
    files[-1].write_text("old")
    gallery.write(tmp_path)
    assert files[-1].read_text() != "old"


def test_the_citation_is_of_this_version():
    lines = dict(line.split(": ", 1) for line in (ROOT / "CITATION.cff").read_text().splitlines() if ": " in line)
    assert lines["version"] == brainevent.__version__
    assert lines["license"] == "Apache-2.0"
