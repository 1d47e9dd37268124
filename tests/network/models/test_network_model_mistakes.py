# SPDX-License-Identifier: Apache-2.0
"""Mistakes that are easily made with ready models: names of other simulators, and negative conductances."""

import inspect

import numpy as np
import pytest

import brainevent as be
from brainevent import models
from brainevent.errors import NetworkError

CONDUCTANCES = [models.lif_conductance, models.adex, models.hodgkin_huxley]
NEURONS = [*CONDUCTANCES, models.lif_current, models.lif_delta, models.lif_exponential, models.izhikevich]


# Arguments.


@pytest.mark.parametrize(
    ("model", "given", "meant"),
    [
        (models.lif_conductance, "v_th", "threshold"),
        (models.lif_conductance, "V_th", "threshold"),
        (models.lif_conductance, "tau_ref", "refractory"),
        (models.lif_conductance, "t_ref", "refractory"),
        (models.lif_conductance, "E_L", "rest"),
        (models.lif_conductance, "E_in", "rest_inh"),
        (models.lif_conductance, "tau_m", "tau"),
        (models.lif_current, "C_m", "capacitance"),
        (models.lif_current, "I_e", "current"),
        (models.lif_delta, "v_reset", "reset"),
        (models.lif_exponential, "tau_syn_ex", "tau_exc"),
        (models.adex, "g_L", "leak"),
        (models.adex, "delta_T", "sharpness"),
        (models.adex, "V_peak", "peak"),
        (models.hodgkin_huxley, "g_Na", "sodium"),
        (models.hodgkin_huxley, "E_K", "rest_potassium"),
        (models.izhikevich, "treshold", None),
        (models.lif_delta, "treshold", "threshold"),
        (models.lif_delta, "C_m", None),  # it has no capacitance
        (models.lif_delta, "colour", None),
    ],
)
def test_an_argument_of_another_name_names_the_one_that_is_meant(model, given, meant):
    with pytest.raises(NetworkError) as caught:
        model("n", 2, **{given: 1.0})
    guess = f"; did you mean {meant!r}?" if meant else ""
    names = ", ".join([*model.__kwdefaults__, "at", "units"])
    assert str(caught.value) == f"{model.__name__}: has no argument {given!r}{guess}; arguments: name, size, {names}"


@pytest.mark.parametrize("model", NEURONS)
def test_models_keep_their_signatures(model):
    parameters = inspect.signature(model).parameters
    assert list(parameters)[:3] == ["name", "size", "dt"]
    defaults = {name: p.default for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert defaults == {**model.__kwdefaults__, "at": None, "units": None}
    assert model("n", 3, **defaults).size == 3


# Signs of conductances.


def built(weight, model=models.lif_conductance, into="inh", drive=lambda n: n):
    source, target = models.relay("from", 4), drive(model("to", 4))
    how = weight if isinstance(weight, np.ndarray) else be.connect.all_to_all(weight=weight)
    return be.Network([source, target], [be.Projection(source, target, how, into=into)]).build(backend="interpreted")


NEGATIVE = [-6.7, be.normal(-6.0, 0.5), be.uniform(-3, 0), -np.ones((4, 4)), np.diag([-1.0, -2, -3, -4])]
DRIVES = [
    lambda n: n,
    lambda n: models.noise_current(n, sd=1.0),
    lambda n: models.current_input(models.step_current(n, amplitude=1.0, start=0, stop=1)),
]


@pytest.mark.parametrize("into", ["exc", "inh"])
@pytest.mark.parametrize("weight", NEGATIVE)
def test_negative_conductances_are_refused(weight, into):
    with pytest.raises(NetworkError) as caught:
        built(weight, into=into)
    assert str(caught.value) == (
        f"projection from->to.{into}: weight: all are negative, but {into} of to is a conductance, and has positive "
        "weights; pass positive ones; those into inh inhibit, since they pull v towards rest_inh"
    )


@pytest.mark.parametrize("model", CONDUCTANCES)
@pytest.mark.parametrize("drive", DRIVES)
def test_negative_conductances_are_refused_for_all_models_with_drives(model, drive):
    with pytest.raises(NetworkError, match="inh of to is a conductance, and has positive weights; pass positive ones"):
        built(-6.7, model, drive=drive)
    built(6.7, model, drive=drive)


@pytest.mark.parametrize("weight", [be.normal(1.0, 0.5), 0.0, np.eye(4) - 0.1, np.zeros((4, 4))])
def test_weights_of_both_signs_or_zero_are_kept(weight):
    weights = built(weight).connections("from->to.inh").weights
    if isinstance(weight, np.ndarray):
        np.testing.assert_allclose(weights, weight[weight != 0], rtol=2**-9)
    else:
        assert weights.size == 16
        assert weights.any() == (weight != 0.0)


def test_negative_weights_into_what_is_no_conductance_are_kept():
    assert (built(-6.7, models.lif_exponential).connections("from->to.inh").weights < 0).all()
    assert (built(-6.7, models.lif_current, into="syn").connections("from->to.syn").weights < 0).all()
    copied = lambda s, arriving, p: models.lif_conductance_rule(s, arriving, p)
    own = models.lif_conductance("to", 4)
    sim = built(-6.7, lambda name, size: be.Population(name, size, copied, own.state, own.params))
    assert (sim.connections("from->to.inh").weights < 0).all()
