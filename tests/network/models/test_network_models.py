# SPDX-License-Identifier: Apache-2.0
"""Ready models of neurons, each beside an independent solution: a closed form, `solve_ivp` of SciPy, the literature."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_population import run
from scipy.integrate import solve_ivp

from brainevent.network import models
from brainevent.network.models.hodgkin_huxley import _ratio

DT = 0.1
LEAKY = [models.lif_current, models.lif_delta, models.lif_exponential, models.lif_conductance]
MODELS = [*LEAKY, models.adex, models.izhikevich, models.hodgkin_huxley]
EVERY = st.integers(0, 2**32 - 1)


def pulse(steps, amount=1.0):
    """Return an input that arrives in the first step."""
    return np.where(np.arange(steps)[:, None] == 0, amount, 0.0)


def times(steps):
    """Return the times of the ends of all steps."""
    return DT * np.arange(1, steps + 1)


# Leaky neurons: closed forms.


@given(EVERY)
@settings(max_examples=1, deadline=None)  # of twenty neurons
@pytest.mark.parametrize("model", LEAKY)
def test_intervals_under_a_constant_current_are_those_of_the_closed_form(model, seed):
    rng = np.random.default_rng(seed)
    size, steps = 20, 600
    tau, depth, refractory = rng.uniform(5, 20, size), rng.uniform(1.05, 4, size), rng.integers(0, 30, size)
    drive = 15 * depth  # the threshold is 15 mV above rest and reset
    current = drive * 250 / tau if model is models.lif_current else drive
    neurons = model(
        "n", size, tau=tau, rest=-65, reset=-65, threshold=-50, refractory=refractory * DT, current=current, v=-65
    )
    result = run(neurons, steps)
    needed = tau * np.log(depth / (depth - 1)) / DT  # steps from the reset to the threshold
    found = 0
    for neuron in range(size):
        at = result.steps_of(neuron)
        intervals = np.diff(np.append(-1 - refractory[neuron], at)) - refractory[neuron]
        found += intervals.size
        # In units of a step: rounding of float32 near the threshold, and for the midpoint rule its error.
        assert np.all((needed[neuron] - 0.05 <= intervals) & (intervals <= needed[neuron] + 1.05))
    assert found > 20


@pytest.mark.covering(strength=1, most=3)
@pytest.mark.parametrize(("tau", "tau_syn"), [(10, 0.5), (20, 5), (5, 5), (5, 12), (10, 10 + 1e-9)])
def test_an_exponential_current_makes_the_potential_of_the_closed_form(tau, tau_syn):
    steps = 500
    result = run(models.lif_current("n", 1, tau=tau, tau_syn=tau_syn), steps, ("v", "i"), syn=pulse(steps, 100.0))
    t = times(steps) - DT  # what arrives in a step acts from its end
    together = abs(tau - tau_syn) < 1e-6
    shape = t * np.exp(-t / tau) if together else (np.exp(-t / tau) - np.exp(-t / tau_syn)) / (1 / tau_syn - 1 / tau)
    np.testing.assert_allclose(result.states["v"][:, 0], -65 + 100 / 250 * shape, atol=3e-4)
    np.testing.assert_allclose(result.states["i"][:, 0], 100 * np.exp(-t / tau_syn), rtol=1e-5, atol=1e-30)


def test_a_synapse_of_the_microcircuit_raises_the_potential_by_0_15_millivolts():
    result = run(models.lif_current("n", 1), 100, ("v",), syn=pulse(100, 87.81))
    assert result.states["v"].max() + 65 == pytest.approx(0.15, abs=2e-4)


def test_a_delta_synapse_makes_the_potential_jump_and_decay():
    result = run(models.lif_delta("n", 1, tau=20), 300, ("v",), syn=pulse(300, 3.0))
    np.testing.assert_allclose(result.states["v"][:, 0], 3 * np.exp(-(times(300) - DT) / 20), rtol=1e-5)


def test_spikes_that_arrive_while_a_delta_neuron_is_refractory_are_lost():
    given = np.zeros((60, 2))
    given[0], given[10, 0], given[30, 1] = 25, 5, 5
    v = run(models.lif_delta("n", 2, refractory=2.0), 60, ("v",), syn=given).states["v"]
    assert np.all(v[:21] == 10)
    assert v[29, 0] == v[29, 1] < 10
    assert v[30, 1] - v[30, 0] == pytest.approx(5)


def test_two_exponential_inputs_make_the_sum_of_their_closed_forms():
    steps = 600
    neurons = models.lif_exponential("n", 3, rest=-70, threshold=100)
    exc, inh = pulse(steps, np.array([4.0, 0, 4])), pulse(steps, np.array([0, -9.0, -9]))
    v = run(neurons, steps, ("v",), exc=exc, inh=inh).states["v"] + 70
    t = times(steps) - DT
    rise_exc, rise_inh = ((np.exp(-t / 20) - np.exp(-t / tau)) / (1 - 20 / tau) * -1 for tau in (5, 10))
    np.testing.assert_allclose(v[:, 0], 4 * rise_exc, atol=3e-4)
    np.testing.assert_allclose(v[:, 1], -9 * rise_inh, atol=3e-4)
    np.testing.assert_allclose(v[:, 2], 4 * rise_exc - 9 * rise_inh, atol=3e-4)


def test_conductances_make_the_potential_of_the_solution_with_an_error_of_second_order():
    def slope(t, v):
        exc, inh = 2 * np.exp(-t / 5), 6 * np.exp(-t / 10)
        return (-60 - v + exc * (0 - v) + inh * (-80 - v) + 5) / 20

    exact = solve_ivp(slope, (0, 50), [-60.0], rtol=1e-9, atol=1e-9, dense_output=True)
    errors = []
    for dt in (0.5, 0.25, 0.125):
        steps = round(50 / dt)
        neurons = models.lif_conductance("n", 1, dt=dt, current=5, threshold=0, exc=2.0, inh=6.0)
        v = run(neurons, steps, ("v",)).states["v"][:, 0]
        errors.append(np.abs(v - exact.sol(dt * np.arange(1, steps + 1))[0]).max())
    assert errors[2] < 2e-4
    assert 3.3 < errors[0] / errors[1] < 4.7
    assert 3.3 < errors[1] / errors[2] < 4.7


def test_every_conductance_is_stable():
    hard = np.full((60, 1), 1e4)
    for model in (models.lif_conductance, models.adex, models.hodgkin_huxley):
        result = run(model("n", 1), 60, ("v",), exc=hard, inh=10 * hard)
        assert np.all(np.abs(result.states["v"]) < 130), model


# Neurons with an upstroke: beside `solve_ivp`, in float64.


def on_the_grid(slopes, start, peak, reset, steps):
    """Solve until the first state reaches its peak; it stays there until the step ends, then the states are reset.

    Return the steps that end with a spike, and the states after each step.
    """
    spikes, states, y, at = [], np.zeros((steps, len(start))), start, 0

    def reached(t, y):
        return y[0] - peak

    reached.terminal, reached.direction = True, 1
    while at < steps:
        span = (at * DT, steps * DT)
        solution = solve_ivp(slopes, span, y, "DOP853", events=reached, rtol=1e-8, atol=1e-8, dense_output=True)
        spiked = solution.status == 1
        end = int(np.ceil(solution.t[-1] / DT - 1e-9)) if spiked else steps
        inner = np.arange(at + 1, end if spiked else end + 1)
        states[inner - 1] = solution.sol(inner * DT).T
        if spiked:
            rest_of_step, last = end * DT - solution.t[-1], solution.y[:, -1]
            y = reset([peak, last[1] + rest_of_step * slopes(0, [peak, last[1]])[1]])
            states[end - 1] = y
            spikes.append(end - 1)
        at = end
    return np.array(spikes), states


ADEX = {  # reset, tau_w, b, current: adaptation as in the paper; bursts; tonic spikes
    "adapting": (-70.6, 144, 80.5, 1000),
    "bursting": (-47.2, 20, 300, 900),
    "tonic": (-58, 30, 60, 1000),
}


@pytest.mark.thorough
def test_adaptive_exponential_neurons_spike_when_the_solution_does():
    reset, tau_w, b, current = np.array(list(ADEX.values()), float).T
    steps = 900
    result = run(models.adex("n", 3, reset=reset, tau_w=tau_w, b=b, current=current), steps, ("v", "w"))
    for k in range(3):

        def slopes(t, y, k=k):
            v, w = y
            upstroke = 30 * 2 * np.exp(min((v + 50.4) / 2, 50))
            return [(30 * (-70.6 - v) + upstroke - w + current[k]) / 281, (4 * (v + 70.6) - w) / tau_w[k]]

        expected, states = on_the_grid(slopes, [-70.6, 0], 0.0, lambda y, k=k: [reset[k], y[1] + b[k]], steps)
        assert expected.size >= 5
        found = result.steps_of(k)
        assert found.size == expected.size
        assert np.abs(found - expected).max() <= 1
        before = slice(0, expected[0] - 5)
        np.testing.assert_allclose(result.states["v"][before, k], states[before, 0], atol=5e-3)
        np.testing.assert_allclose(result.states["w"][before, k], states[before, 1], atol=5e-3)


@pytest.mark.thorough
def test_an_adaptive_neuron_is_refractory_and_adapts_meanwhile():
    result = run(models.adex("n", 1, current=1000, refractory=3.0), 400, ("v", "w"))
    at = result.steps_of()[0]
    v, w = result.states["v"][at : at + 32, 0], result.states["w"][at : at + 32, 0]
    assert np.all(v[:31] == np.float32(-70.6))
    assert v[31] > v[30]
    np.testing.assert_allclose(w[:31], w[0] * np.exp(-DT * np.arange(31) / 144), rtol=1e-5)


KINDS = {  # Izhikevich 2003, figure 2
    "regular spiking": (0.02, 0.2, -65, 8),
    "intrinsically bursting": (0.02, 0.2, -55, 4),
    "chattering": (0.02, 0.2, -50, 2),
    "fast spiking": (0.1, 0.2, -65, 2),
    "low-threshold spiking": (0.02, 0.25, -65, 2),
}


@pytest.fixture(scope="module")
def kinds():
    """Neurons of all kinds with a current of 10 for 300 ms."""
    a, b, c, d = np.array(list(KINDS.values())).T
    neurons = models.izhikevich("n", len(KINDS), a=a, b=b, c=c, d=d, current=10)
    return run(neurons, 3000, ("v",))


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("kind", KINDS)
def test_izhikevich_neurons_spike_when_the_solution_does(kinds, kind):
    a, b, c, d = KINDS[kind]

    def slopes(t, y):
        return [0.04 * y[0] ** 2 + 5 * y[0] + 140 - y[1] + 10, a * (b * y[0] - y[1])]

    expected, states = on_the_grid(slopes, [-70, -14], 30.0, lambda y: [c, y[1] + d], 3000)
    neuron = list(KINDS).index(kind)
    found = kinds.steps_of(neuron)
    assert found.size == expected.size
    # An error before a spike shifts all that follow: more where there are many.
    assert np.abs(found - expected).max() <= (8 if expected.size > 20 and kind != "chattering" else 1)
    before = slice(0, expected[0] - 10)
    np.testing.assert_allclose(kinds.states["v"][before, neuron], states[before, 0], atol=0.05)


def test_izhikevich_neurons_show_the_patterns_of_the_paper(kinds):
    intervals = {kind: DT * np.diff(kinds.steps_of(k)) for k, kind in enumerate(KINDS)}
    regular, bursting, chattering, fast, low = intervals.values()
    assert regular[-1] > 1.5 * regular[0]  # adapts
    assert np.all(bursting[:2] < 5)  # one burst, then single spikes
    assert np.all(bursting[4:] > 20)
    gaps = chattering > 10  # several bursts of at least four spikes
    assert gaps.sum() >= 4
    assert np.all(np.diff(np.flatnonzero(gaps)) >= 4)
    assert 1000 / fast[-1] > 120  # fast, without adaptation
    assert fast[-1] < 1.2 * fast[10]

    assert low[-1] > 1.2 * low[0]  # adapts


def test_a_synaptic_current_of_izhikevich_neurons_decays():
    current = run(models.izhikevich("n", 1, tau_syn=4), 100, ("i",), syn=pulse(100, 2.0)).states["i"][:, 0]
    np.testing.assert_allclose(current, 2 * np.exp(-(times(100) - DT) / 4), rtol=1e-5)


CURRENTS = np.array([2, 5, 7, 10, 15, 20, 40, 100])  # uA/cm^2; near 6, spikes are as late as one likes


def squid(current):
    """Return the slopes of Hodgkin and Huxley's axon, for a current in uA/cm^2."""

    def slopes(t, y):
        v, m, h, n = y
        ionic = 120 * m**3 * h * (v - 50) + 36 * n**4 * (v + 77) + 0.3 * (v + 54.4)
        opening = np.array([0.1 * (v + 40) / (1 - np.exp(-(v + 40) / 10)), 0.07 * np.exp(-(v + 65) / 20)])
        opening = np.append(opening, 0.01 * (v + 55) / (1 - np.exp(-(v + 55) / 10)))
        closing = np.array([4 * np.exp(-(v + 65) / 18), 1 / (1 + np.exp(-(v + 35) / 10)), np.exp(-(v + 65) / 80) / 8])
        return [current - ionic, *(opening * (1 - y[1:]) - closing * y[1:])]

    return slopes


@pytest.fixture(scope="module")
def axon():
    """Solutions for each current: times of upward crossings of 0 mV within 15 ms."""

    def crossed(t, y):
        return y[0]

    crossed.direction = 1
    start = [-65, 0.05293, 0.59612, 0.31768]
    return [solve_ivp(squid(i), (0, 15), start, events=crossed, rtol=1e-7, atol=1e-7).t_events[0] for i in CURRENTS]


@pytest.mark.thorough
@pytest.mark.parametrize(("dt", "late"), [(0.1, 0.15), pytest.param(0.05, 0.05, marks=pytest.mark.thorough)])
def test_channels_make_spikes_when_the_solution_does_with_an_error_of_second_order(axon, dt, late):
    neurons = models.hodgkin_huxley("n", CURRENTS.size, dt=dt, current=100 * CURRENTS)
    result = run(neurons, round(16 / dt))
    for k, expected in enumerate(axon):
        found = dt * (result.steps_of(k) + 1)
        found, later = np.split(found, [expected.size])
        assert found.size == expected.size
        assert np.all(later > 15)
        shift = np.diff(found - expected, prepend=0)  # of each spike since the one before
        assert np.all((-dt - 1e-6 < shift) & (shift < dt + late))


def test_channels_have_the_published_rates():
    """Of Hodgkin and Huxley's axon at 6.3 degrees: one spike at 5, 68 Hz at 10 uA/cm^2."""
    result = run(models.hodgkin_huxley("n", 2, current=np.array([500, 1000.0])), 350, ("v",))
    assert result.spikes[:, 0].sum() == 1
    assert 1000 / (DT * np.diff(result.steps_of(1))[-1]) == pytest.approx(68, abs=1)
    assert 35 < result.states["v"][:, 1].max() < 45
    assert -80 < result.states["v"][:, 1].min() < -70


def test_a_gate_is_defined_where_its_rate_is_a_quotient_of_zeros():
    for v in (-40.0, -55.0):
        states = run(models.hodgkin_huxley("n", 1, v=v), 1, ("v", "m", "n")).states
        assert np.isfinite(list(states.values())).all()
    assert float(_ratio(np.float32(0))) == 1.0
    assert float(_ratio(np.float32(1e-4))) == pytest.approx(1 - 5e-5, rel=1e-6)


@pytest.mark.parametrize("model", MODELS)
def test_without_input_neurons_stay_at_rest(model):
    extra = {"rest": -60} if model is models.lif_exponential else {}
    result = run(model("n", 2, **extra), 50, ("v",))
    assert not result.spikes.any()
    assert np.ptp(result.states["v"]) < 1e-2
