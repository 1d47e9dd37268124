# SPDX-License-Identifier: Apache-2.0
"""`brainevent list`: operators, tags, kernels, variants, and what is tuned for this machine."""

import dataclasses
import json
import sys

import pytest
from command_line import CommandLine
from programs import run_program

from brainevent.bench import tuning_store

OPS = """
    one = operator("one", "dense", "binary", data=None)
    one.def_kernel("rows", "cpu", twice, variants={"block": (64, 128)})
    one.def_kernel("columns", "cpu", twice, asdefault=True)
    one.def_kernel("tiled", "gpu", twice, language="nvrtc")
    two = operator("two", "sparse")
    bare = brainevent.XLACustomKernel("bare")
"""
TABLE = """\
operator             platform  backend          variants
bare
  no benchmark data
one                  cpu       rows             block=64
  binary, dense                                 block=128
  no benchmark data            columns *
                               reference
                     gpu       tiled (nvrtc) *
                               reference
two                  cpu       reference *
  sparse
"""


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    command = CommandLine(tmp_path, capsys, monkeypatch)
    command.module("ours", OPS)
    return command


@pytest.fixture
def tuned(run):
    """Tune `one`, whose fastest kernel is then said to be the variant block=128 of `rows`."""
    run("list", "--import", "ours")
    ours = sys.modules["ours"]
    ours.one.tune(ours.jnp.ones(3), seconds=0.001)
    [choice] = tuning_store.tuned_choices("one")
    tuning_store.clear_tuned()
    choice = dataclasses.replace(choice, backend="rows", variants=(("rows", "block=128"),), seconds=2e-6)
    tuning_store.remember(choice)
    return choice


def test_the_table(run):
    assert run("list", "--import", "ours") == (0, TABLE, "")


@pytest.mark.thorough
def test_what_is_tuned(run, tuned):
    out = run("list", "--wide")[1]
    [_, _, _, *rows] = out.splitlines()
    assert rows[0].split()[1:] == ["cpu", "rows", "block=64", *f"{tuned.shapes}: block=128".split()]
    assert "float32[3] -> float32[3]" in rows[0]
    assert sum("float32" in row for row in rows) == 1


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("changed", [{"device": "another"}, {"versions": "jax 0.1"}, {"platform": "tpu"}])
def test_what_was_tuned_elsewhere_is_left_out(run, tuned, changed):
    tuning_store.clear_tuned()
    tuning_store.remember(dataclasses.replace(tuned, **changed))
    assert "float32" not in run("list")[1]
    assert "float32[3]" in run("tune", "list")[1]


def test_what_is_stale_is_reported(run, tuned):
    tuning_store.clear_tuned()
    tuning_store.remember(dataclasses.replace(tuned, content="of other kernels"))
    out = run("list", "--wide")[1]
    assert f"{tuned.shapes}: block=128 (stale: kernels changed)" in out
    [one] = json.loads(run("list", "--json", "--tags", "binary")[1])["operators"]
    assert [choice["stale"] for choice in one["platforms"]["cpu"]["backends"][0]["tuned"]] == [True]


def test_keyword_arguments_make_no_choice_stale(run, tuned):
    tuning_store.remember(dataclasses.replace(tuned, params="of a call", shapes="float32[4], k=3"))
    assert "stale" not in run("list")[1]


@pytest.mark.parametrize("damage", ["mode", "format"])
def test_a_refused_file_is_reported_and_operators_are_listed(run, tuned, damage):
    path = tuning_store.file_path()
    if damage == "mode":
        path.chmod(0o666)
    else:
        path.write_text('{"format": 9}')
    status, out, err = run("list")
    assert (status, out) == (0, TABLE)
    assert err.startswith(f"brainevent: tuning: {path} ")
    assert err.endswith(". Tuned choices are not shown\n")
    assert err.count("\n") == 1


def test_json(run, tuned):
    status, out, err = run("list", "--json", "--tags", "binary,sparse")
    assert (status, err) == (0, "")
    one, two = json.loads(out)["operators"]
    choice = {"shapes": tuned.shapes, "variant": "block=128", "seconds": 2e-6, "stale": False}
    assert one == {
        "name": "one",
        "tags": ["binary", "dense"],
        "benchmark_data": False,
        "platforms": {
            "cpu": {
                "default": "columns",
                "backends": [
                    {"name": "rows", "language": None, "variants": ["block=64", "block=128"], "tuned": [choice]},
                    {"name": "columns", "language": None, "variants": [], "tuned": []},
                    {"name": "reference", "language": None, "variants": [], "tuned": []},
                ],
            },
            "gpu": {
                "default": "tiled",
                "backends": [
                    {"name": "tiled", "language": "nvrtc", "variants": [], "tuned": []},
                    {"name": "reference", "language": None, "variants": [], "tuned": []},
                ],
            },
        },
    }
    assert (two["name"], two["benchmark_data"], two["platforms"]["cpu"]["default"]) == ("two", True, "reference")


def test_tags(run):
    out = run("list", "--import", "ours", "--tags", "sparse,dense")[1]
    assert [row.split()[0] for row in out.splitlines() if not row.startswith(" ")] == ["operator", "one", "two"]


def test_a_tag_that_no_operator_has(run):
    status, out, err = run("list", "--import", "ours", "--tags", "spars")
    assert (status, out) == (1, "")
    said = "no operator has the tag 'spars'; did you mean 'sparse'?; tags: binary, dense, sparse"
    assert err == f"brainevent: {said}\n"


def test_no_operator(run):
    said = "no operator is defined; name the module that defines yours: brainevent list --import my_package.ops\n"
    assert run("list") == (0, said, "")
    status, out, _ = run("list", "--json")
    assert (status, json.loads(out)) == (0, {"operators": []})


def test_a_tag_without_any_operator(run):
    status, _, err = run("list", "--tags", "dense")
    assert status == 1
    assert err == (
        "brainevent: no operator has the tag 'dense'; tags: none; "
        "name the module that defines yours with --import MODULE\n"
    )


def test_a_module_that_cannot_be_imported(run):
    status, out, err = run("list", "--import", "absent")
    assert (status, out) == (1, "")
    assert err == "brainevent: --import absent: ModuleNotFoundError: No module named 'absent'\n"


def test_a_stream_that_lacks_characters(run, monkeypatch, tmp_path):
    run.module("accents", 'operator("o", "café")')
    with open(tmp_path / "out.txt", "w", encoding="ascii") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert run("list", "--import", "accents")[0] == 0
    assert rb"caf\xe9" in (tmp_path / "out.txt").read_bytes()


def test_without_modules_it_lists_the_library():
    said = run_program("from brainevent.cli import main; main(['list', '--tags', 'csr'])")
    assert "binary_csrmv" in said
    assert "binary_densemv" not in said
