# SPDX-License-Identifier: Apache-2.0
"""Ready models whose neurons have attributes: where they are, and the units of that."""

import inspect
import re

import jax.numpy as jnp
import numpy as np
import pytest
from quantities import u

import brainevent as be
from brainevent import models
from brainevent.errors import NetworkError

X = np.array([0.0, 0.25, 0.5, 0.75], np.float32)
MODELS = {
    "adex": lambda **at: models.adex("n", 4, **at),
    "hodgkin_huxley": lambda **at: models.hodgkin_huxley("n", 4, **at),
    "izhikevich": lambda **at: models.izhikevich("n", 4, **at),
    "lif_conductance": lambda **at: models.lif_conductance("n", 4, **at),
    "lif_current": lambda **at: models.lif_current("n", 4, **at),
    "lif_delta": lambda **at: models.lif_delta("n", 4, **at),
    "lif_exponential": lambda **at: models.lif_exponential("n", 4, **at),
    "poisson_source": lambda **at: models.poisson_source("n", 4, rate=20.0, **at),
    "relay": lambda **at: models.relay("n", 4, **at),
    "tsodyks_markram": lambda **at: models.tsodyks_markram("n", 4, **at),
    "spike_source": lambda **at: models.spike_source("n", [[1.0], [2.0], [], []], **at),
}


def test_these_are_all_models():
    made = [name for name in models.__all__ if not name.endswith("_rule") and name != "spike_input"]
    assert {name for name in made if "population" not in inspect.signature(getattr(models, name)).parameters} == {
        *MODELS
    }


@pytest.mark.parametrize("name", MODELS)
def test_neurons_of_models_have_attributes(name):
    make, target = MODELS[name], models.lif_delta("target", 4, at={"x": X})
    source = make(at={"x": X, "y": be.uniform(0, 1)})
    bare = make()
    assert (source.rule, source.units, list(source.params)) == (bare.rule, bare.units, list(bare.params))
    near = be.connect.prob(lambda pre, post: jnp.where(jnp.abs(pre.x - post.x) < 0.3, 1.0, 0.0))
    sim = be.Network([source, target], [be.Projection(source, target, near, into="syn")]).build(backend="interpreted")
    np.testing.assert_array_equal(sim.at("n")["x"], X)
    np.testing.assert_array_equal(sim.at(source[[2, 1]])["x"], X[[2, 1]])
    found = sim.connections("n->target.syn")
    pairs = [(a, b) for a in range(4) for b in range(4) if abs(a - b) < 2]
    assert sorted(zip(found.sources, found.targets, strict=True)) == pairs
    doc, parameters = getattr(models, name).__doc__, inspect.signature(getattr(models, name)).parameters
    assert list(parameters)[-2:] == ["at", "units"]
    assert "\n    at: Attributes of the neurons" in inspect.cleandoc(doc)


def test_drives_keep_attributes():
    driven = models.noise_current(models.lif_current("n", 4, at={"x": X}), sd=1.0)
    np.testing.assert_array_equal(models.voltage_traces(driven).at["x"], X)


def test_attributes_are_numbers_in_their_units():
    units = {"x": "mm", "y": u.um, "z": "mm"}
    at = {"x": 1000 * X * u.um, "y": be.uniform(0 * u.mm, 0.5 * u.mm), "z": 0.002 * u.meter}
    for made in (
        models.lif_current("n", 4, at=at, units=units),
        models.spike_source("n", [[1.0]] * 4, at=at, units=units),
    ):
        np.testing.assert_array_equal(made.at["x"], X)
        assert made.at["y"].law.bounds == pytest.approx((0, 500))
        assert made.at["z"] == np.float32(2)
    assert {**models.lif_current("n", 4).units, **units} == models.lif_current("n", 4, at=at, units=units).units


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"units": {"x": "mm"}}, "units has 'x', which is no attribute; pass units of the attributes in at="),
        ({"at": {"x": X}, "units": {"xx": "mm"}}, "units has 'xx', which is no attribute; did you mean 'x'?"),
        (
            {"at": {"v": X}, "units": {"v": "mm"}},
            "units has 'v', which the model has in mV; give the attribute another",
        ),
        ({"at": {"x": X}, "units": "mm"}, "units is 'mm'; pass dict(name=unit) of the attributes in at="),
        ({"at": {"x": X}, "units": {"x": "miles"}}, "the unit of x is 'miles'"),
        ({"at": [1.0]}, "population n: at is [1.0]; pass dict(name=value)"),
        ({"at": {"x": X[:3]}}, "at x: has the shape (3,); pass a number, or an array (4,)"),
        ({"att": {"x": X}}, "lif_current: has no argument 'att'; did you mean 'at'?"),
    ],
)
def test_what_is_no_attribute_is_refused(given, words):
    with pytest.raises(NetworkError, match=re.escape(words)):
        models.lif_current("n", 4, **given)
