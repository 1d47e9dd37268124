# SPDX-License-Identifier: Apache-2.0
"""`brainevent cache`: what it lists, what it clears, and when it asks."""

import io
import os
import re
import sys
from types import SimpleNamespace

import pytest
from command_line import CommandLine

from brainevent import doctor
from brainevent.cli.cache import _age
from brainevent.toolchain import cache, directory

KEYS, BYTES = {"alpha": "a" * 16, "beta": "b" * 16}, {"alpha": b"x" * 1536, "beta": b"y" * 10}


@pytest.fixture
def run(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(directory, "_chosen", [])
    monkeypatch.setattr(directory, "_given_up", {})
    return CommandLine(tmp_path, capsys, monkeypatch)


def fill(*names):
    """Put libraries into the cache."""
    for name in names:

        def build(folder, name=name):
            (folder / "built.so").write_bytes(BYTES[name])
            return folder / "built.so"

        cache.get_or_build(name, KEYS[name], build)


def at_terminal(monkeypatch, answer):
    """Pretend that someone types an answer; return the list of what was asked."""
    asked = []

    def typed(question):
        asked.append(question)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", typed)
    return asked


def test_the_directory_of_the_cache(run, tmp_path):
    assert run("cache", "dir") == (0, f"{tmp_path}/cache\n", "")
    assert not (tmp_path / "cache").exists()


def test_an_empty_cache(run, tmp_path):
    empty = f"the cache at {tmp_path}/cache is empty\n"
    assert run("cache", "list") == (0, empty, "")
    assert run("cache", "clear") == (0, empty, "")
    assert not (tmp_path / "cache").exists()


def test_the_list_of_entries(run, tmp_path):
    fill("beta", "alpha")
    hours = cache.entries()[0].modified - 3 * 3600
    os.utime(cache.entries()[0].path, (hours, hours))
    status, out, err = run("cache", "list")
    assert (status, err) == (0, "")
    head, alpha, beta, total = out.splitlines()
    assert head.split() == ["name", "key", "size", "age"]
    assert alpha.split() == ["alpha", KEYS["alpha"], "1.5", "KiB", "3", "h"]
    assert beta.split()[:4] == ["beta", KEYS["beta"], "10", "bytes"]
    assert len(head) == len(alpha) == len(beta)
    assert total == f"2 entries, 1.5 KiB in {tmp_path}/cache"


def test_clearing_one_name(run):
    fill("alpha", "beta")
    assert run("cache", "clear", "alpha") == (0, "cleared 1 entry, 1.5 KiB\n", "")
    assert [entry.name for entry in cache.entries()] == ["beta"]


def test_clearing_a_name_that_is_not_there(run, tmp_path):
    fill("alpha")
    where = f"brainevent: nothing in {tmp_path}/cache is named"
    assert run("cache", "clear", "alhpa") == (1, "", f"{where} 'alhpa'; did you mean 'alpha'?\n")
    assert run("cache", "clear", "zeta") == (1, "", f"{where} 'zeta'\n")
    assert len(cache.entries()) == 1


def test_clearing_what_cannot_be_a_name(run):
    status, out, err = run("cache", "clear", "a/b")
    assert (status, out) == (1, "")
    assert err.startswith("brainevent: clear_cache: 'a/b' is not a valid module name")


def test_clearing_all_without_a_terminal_does_not_ask(run, monkeypatch):
    fill("alpha", "beta")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert run("cache", "clear") == (0, "cleared 2 entries, 1.5 KiB\n", "")
    assert cache.entries() == []


@pytest.mark.parametrize(
    ("answer", "left"),
    [("y", 0), (" YES ", 0), ("", 2), ("n", 2), ("yolo", 2), (EOFError(), 2), (KeyboardInterrupt(), 2)],
)
def test_clearing_all_at_a_terminal_asks(run, monkeypatch, tmp_path, answer, left):
    fill("alpha", "beta")
    asked = at_terminal(monkeypatch, answer)
    status, out, _ = run("cache", "clear")
    assert asked == [f"Clear 2 entries, 1.5 KiB, in {tmp_path}/cache? [y/N] "]
    assert len(cache.entries()) == left
    assert (status, out.strip()) == ((1, "nothing is cleared") if left else (0, "cleared 2 entries, 1.5 KiB"))


@pytest.mark.parametrize("words", [["--yes"], ["alpha"], ["--yes", "alpha"]])
def test_at_a_terminal_only_clearing_all_asks(run, monkeypatch, words):
    fill("alpha")
    asked = at_terminal(monkeypatch, "n")
    assert run("cache", "clear", *words)[:2] == (0, "cleared 1 entry, 1.5 KiB\n")
    assert asked == []


@pytest.mark.parametrize("words", [["list"], ["clear"], ["clear", "alpha"]], ids=" ".join)
def test_errors_of_the_package_are_messages(run, tmp_path, words):
    fill("alpha")
    (tmp_path / "cache").chmod(0o777)
    status, out, err = run("cache", *words)
    assert (status, out) == (1, "")
    assert re.fullmatch(r"brainevent: cache: .* has mode 0777, .*\n", err)


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (1024**2 - 1, "1.0 MiB"), (5.25 * 1024**2, "5.2 MiB"),
     (3 * 1024**3, "3.0 GiB"), (2048 * 1024**4, "2048.0 TiB")],
)  # fmt: skip
def test_sizes(size, words):
    assert doctor.size_in_words(size) == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (59.9, "59 s"), (60, "1 min"), (7199, "1 h"), (86400, "1 d"), (40 * 86400, "40 d")],
)
def test_ages(seconds, words):
    assert _age(seconds) == words
