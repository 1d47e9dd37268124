# SPDX-License-Identifier: Apache-2.0
"""The network on the page of plasticity operators learns from any seed, and the picture there is of this network."""

import re

import jax
import numpy as np
import pytest
from drawn_pages import words

mpl = pytest.importorskip("matplotlib")
plasticity = pytest.importorskip("docs.plasticity_operators")


@pytest.fixture(scope="module")
def names():
    return plasticity.network()


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(5))
def test_weights_become_bimodal_from_any_seed(names, seed):
    synapses = names["connect"](seed)
    weights, rates = names["learn"](synapses, jax.random.split(jax.random.key(seed), 100))
    low, between, high = names["shares"](synapses.data)
    assert between > 0.99
    low, between, high = names["shares"](weights[-1])
    assert low + between + high == pytest.approx(1)  # none is out of bounds
    assert low + high > 0.9
    split, last = int(synapses.indptr[names["INPUTS"] // 2]), np.asarray(weights[-1]) / names["W_MAX"]
    assert (last[:split] > 0.5).mean() > 0.99
    assert (last[split:] < 0.5).mean() > 0.99
    assert 5 < rates[-10:].mean() < 40


@pytest.mark.thorough
def test_the_picture_is_of_the_network(names, tmp_path):
    drawn = plasticity.draw(tmp_path, names)
    assert sorted(path.name for path in drawn) == sorted(path.name for path in plasticity.FOLDER.iterdir())
    for path in drawn:
        assert words(path.read_text()) == words((plasticity.FOLDER / path.name).read_text())


def test_the_page_shows_the_picture_in_both_themes():
    page = plasticity.PAGE.read_text()
    files = sorted(path.name for path in plasticity.FOLDER.iterdir())
    assert files == ["network-dark.svg", "network-light.svg"]
    texts = {re.search(rf"{name}\n:class: only-{name[8:-4]}\n:alt: (.+)\n", page)[1] for name in files}
    assert len(texts) == 1
