# SPDX-License-Identifier: Apache-2.0
"""The pictures on the page of neuron models are of the models, and the page shows each in both themes."""

import re

import drawn_pages
import numpy as np
import pytest

import brainevent

mpl = pytest.importorskip("matplotlib")
neuron_models = pytest.importorskip("docs.neuron_models")

PAGE = neuron_models.FOLDER.parents[1] / "neuron-models.md"


@pytest.mark.thorough
def test_the_pictures_are_of_the_models(tmp_path):
    drawn_pages.check_drawn(neuron_models, tmp_path)


def test_the_page_shows_each_picture_in_both_themes():
    drawn_pages.check_shown(neuron_models, PAGE.read_text())


def block_with(words):
    """Return the one example of the page that has some words."""
    (found,) = (block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if words in block)
    return found


def own_adex(size, **params):
    """Return neurons of the rule that the page prints."""
    names = {}
    exec(block_with("def my_adex"), names)
    state = {"v": -70.6, "w": 0.0, "i": 0.0, "pause": 0}
    return brainevent.Population("mine", size, names["my_adex"], state=state, params=params)


@pytest.mark.thorough
def test_the_rule_on_the_page_has_the_spikes_of_the_ready_model_with_synapses_too():
    """The ready model has no synaptic current: it is given that of the rule, as an input in each step."""
    rng = np.random.default_rng(1)
    params = {"capacitance": 281.0, "leak": 30.0, "rest": -70.6, "threshold": -50.4, "sharpness": 2.0, "a": 4.0}
    params |= {"peak": 0.0, "refractory": 2.0, "current": rng.uniform(700, 1200, 20)}
    params |= {"tau_w": rng.uniform(20, 150, 20), "b": rng.uniform(20, 300, 20), "reset": rng.uniform(-70, -50, 20)}
    arriving = rng.poisson(0.02, (3000, 20)) * rng.normal(0, 200, (3000, 20))
    mine = brainevent.Network([own_adex(20, tau_syn=5.0, **params)]).build(backend="numba", threads=1)
    found = mine.run(3000, ["mine.spikes", "mine.i", "mine.v"], inputs={"mine.syn": arriving})
    before = np.concatenate([np.zeros((1, 20), np.float32), found["mine.i"][:-1]])
    current = before * np.exp(np.float32(-0.5) * np.float32(0.1) / np.float32(5))
    ready = brainevent.models.current_input(brainevent.models.adex("ready", 20, **params))
    expected = brainevent.Network([ready]).build(backend="numba", threads=1).run(
        3000, ["ready.spikes", "ready.v"], inputs={"ready.input": current}
    )  # fmt: skip
    assert found["mine.spikes"].counts.min() >= 3
    assert np.ptp(found["mine.i"]) > 300
    np.testing.assert_array_equal(found["mine.spikes"].times, expected["ready.spikes"].times)
    np.testing.assert_array_equal(found["mine.spikes"].neurons, expected["ready.spikes"].neurons)


def rows_of_values():
    """Return, for each model, which arguments the page says may be drawn, and which may not."""
    (table,) = re.findall(r"\| Model \| One number, one per neuron, or drawn \|.*?\n\n", PAGE.read_text(), re.DOTALL)
    rows = [line.split("|")[1:4] for line in table.splitlines()[2:] if line]
    return [tuple(re.findall(r"`(\w+)`", cell) for cell in row) for row in rows]


@pytest.mark.parametrize(("model", "drawn", "fixed"), rows_of_values())
def test_values_may_be_drawn_where_the_page_says_so(model, drawn, fixed):
    make = getattr(brainevent.models, *model)
    assert sorted(drawn + fixed) == sorted(set(make.__kwdefaults__) - {"dt"})
    make("n", 2, **dict.fromkeys(drawn, brainevent.uniform(1, 2)))
    for name in fixed:
        make("n", 2, **{name: np.ones(2)})
        with pytest.raises(brainevent.NetworkError, match=f"population n: {name} is uniform"):
            make("n", 2, **{name: brainevent.uniform(1, 2)})


def test_the_peak_has_almost_no_effect():
    """As the page says of AdEx: the same spikes, while neurons adapt, burst and spike regularly."""
    kinds = {
        "reset": np.array([-70.6, -47.2, -58.0]),
        "tau_w": np.array([144.0, 20, 30]),
        "b": np.array([80.5, 300, 60]),
    }
    trains = []
    for peak in (-20.0, 0.0, 40.0):
        neurons = brainevent.models.adex("n", 3, peak=peak, current=950.0, **kinds)
        sim = brainevent.Network([neurons]).build(backend="numba", threads=1)
        trains.append(sim.run(2000, ["n.spikes"])["n.spikes"])
    for other in trains[1:]:
        np.testing.assert_array_equal(other.counts, trains[0].counts)
        assert np.abs(np.sort(other.times) - np.sort(trains[0].times)).max() < 1.0


def test_the_page_names_every_model():
    from brainevent.network import models

    page = PAGE.read_text()
    for name in models.__all__:
        if not name.endswith("_rule"):
            assert f"`{name}" in page or f"be.models.{name}(" in page, name
