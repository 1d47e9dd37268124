# SPDX-License-Identifier: Apache-2.0
"""All operators of the library, from their table: each keeps its promises, and no code is there twice."""

import dataclasses
from pathlib import Path

import pytest
from repeated_code import repeated

import brainevent
from brainevent.event.library import OPERATORS
from brainevent.event.table import TABLE
from brainevent.operator.tuning_lookup import content_of

FOLDER = Path(brainevent.__file__).parent / "event"
LIKE_JITN = ("jits", "jitu")  # but for one word of a weight
PROMISES = ("outputs written", "nested vmap", "jvp", "vjp", "sharded jit")


def small(of):
    """Return benchmark data of an operator, but small."""
    return of.law.data(of.also(format=dataclasses.replace(of.format, sizes=((6, 4),))))


def firsts():
    """Return one operator of each kind and of each format, events before numbers: tests of each kind say more of it."""
    chosen = {}
    for of in sorted(TABLE, key=lambda of: not of.law.event):
        if not {("kind", of.law.kind), ("format", of.format.name)} <= set(chosen) and of.format.name not in LIKE_JITN:
            chosen |= {("kind", of.law.kind): of, ("format", of.format.name): of}
    return set(chosen.values())


FIRSTS = firsts()


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("promise", PROMISES)
@pytest.mark.parametrize(
    "of",
    [of if of in FIRSTS else pytest.param(of, marks=pytest.mark.thorough) for of in TABLE],
    ids=lambda of: f"{of.format.name}-{of.law.kind}",
)
def test_operators_keep_their_promises(of, promise):
    config, *_ = small(of)
    report = brainevent.check(TABLE[of], *config.args, promises=[promise], **config.kernel_kwargs)
    report.raise_if_failed()


def test_descriptions_and_names_are_one_to_one():
    assert len(OPERATORS) == len(TABLE)
    assert set(TABLE.values()) == set(OPERATORS.values())
    assert len({of.name for of in TABLE}) == len(TABLE)


@pytest.mark.parametrize("platform", ["cpu", "cuda"])
def test_what_kernels_are_made_of_is_the_same_each_time_it_is_asked_for(platform):
    """So a choice of `tune` lasts."""
    found = {of.name: content_of(operator.definition.candidates(platform))[1] for of, operator in TABLE.items()}
    assert [name for name, lasting in found.items() if not lasting] == []


def test_no_ten_lines_are_there_twice(tmp_path):
    assert repeated(sorted(FOLDER.rglob("*.py")), 10) == []
    nine = "".join(f"        a{n} = f(x, y={n})\n" for n in range(9))
    text = f"    for i in x:\n{nine}"
    one, other = tmp_path / "one.py", tmp_path / "other.py"
    one.write_text(f"def first(x):\n{text}")
    other.write_text(f"def second(x):\n    g(1)\n\ndef third(z):\n{text.replace('f(x', 'h(z')}")
    assert repeated([one, other], 10) == ["one.py:first and other.py:third"]
    assert repeated([one, other], 11) == []
