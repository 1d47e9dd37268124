# SPDX-License-Identifier: Apache-2.0
"""Sources of spikes, drives of neurons and depressing synapses: moments, exact times, closed forms, and bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from one_population import run
from quantities import u
from scipy import stats

import brainevent as be
from brainevent.errors import NetworkError, UnknownNameError
from brainevent.network import models
from brainevent.network.description.network import Population

DT = 0.1
SURE = 1e-9  # of a correct program, so few of the runs would fail a test of chance


def chance_of(statistic, expected, sd):
    """Return how likely a normally distributed number is as far from what is expected."""
    return 2 * stats.norm.sf(abs(statistic - expected) / sd)


def test_a_poisson_source_has_the_moments_of_independent_spikes():
    rates = np.repeat([0.0, 20.0, 500.0, 10_000.0], 500)
    steps = 400
    spikes = run(models.poisson_source("p", rates.size, rate=rates), steps).spikes
    for rate in (0, 20, 500, 10_000):
        counts, p = spikes[:, rates == rate].sum(0), rate * DT / 1000
        expected, variance = steps * p, steps * p * (1 - p)
        if variance == 0:
            assert np.all(counts == expected)
            continue
        assert chance_of(counts.mean(), expected, np.sqrt(variance / 500)) > SURE
        assert chance_of(counts.var(ddof=1), variance, variance * np.sqrt(2 / 499 + 1 / 500 / variance)) > SURE
    fast = spikes[:, rates == 500].astype(float)
    pairs = (fast[1:] * fast[:-1]).sum()  # a neuron has no memory of its last spike
    expected = fast[1:].size * 0.05**2
    assert chance_of(pairs, expected, np.sqrt(expected)) > SURE
    together = np.corrcoef(fast.T)[np.triu_indices(500, 1)]
    assert chance_of(together.mean(), 0, 1 / np.sqrt(steps * together.size)) > SURE


@given(st.integers(1, 60), st.integers(1, 60), st.sampled_from([0.05, 0.1, 0.25]), st.data())
@settings(max_examples=10, deadline=None)
def test_given_spikes_are_played_as_parameters_and_as_an_input(neurons, steps, dt, data):
    rows = data.draw(
        st.lists(st.lists(st.integers(0, 80), unique=True, max_size=20), min_size=neurons, max_size=neurons)
    )
    times = [[dt * k for k in row] for row in rows]
    expected = np.zeros((steps, neurons), bool)
    for neuron, row in enumerate(rows):
        expected[[k for k in row if k < steps], neuron] = True
    np.testing.assert_array_equal(run(models.spike_source("s", times, dt=dt), steps).spikes, expected)
    played = run(models.relay("r", neurons), steps, spikes=models.spike_input(times, steps, dt=dt)).spikes
    np.testing.assert_array_equal(played, expected)
    first = steps // 2
    np.testing.assert_array_equal(models.spike_input(times, steps - first, dt=dt, start=first), expected[first:])


def plain(s, arriving, p):
    """Hold what arrives, and a parameter."""
    return s.replace(seen=arriving.syn, level=p.current), False


def probe(size):
    """Return neurons whose states are what arrives in "syn" and their parameter `current`."""
    return Population("n", size, plain, {"seen": 0.0, "level": 0.0}, {"current": 2.0, "dt": DT})


def test_a_step_current_flows_between_its_times():
    neurons = models.step_current(probe(2), amplitude=np.array([3.0, -1.0]), start=1.0, stop=2.5)
    level = run(neurons, 40, ("level",)).states["level"]
    on = (np.arange(40) >= 10) & (np.arange(40) < 25)
    np.testing.assert_array_equal(level, 2 + on[:, None] * np.array([3.0, -1.0]))


def test_two_steps_and_an_input_add_up():
    once = models.step_current(probe(1), amplitude=3.0, start=0.0, stop=1.0)
    twice = models.step_current(once, amplitude=5.0, start=0.5, stop=2.0, name="second")
    neurons = models.current_input(twice)
    given = np.arange(30.0)[:, None]
    level = run(neurons, 30, ("level",), input=given).states["level"][:, 0]
    at = np.arange(30)
    np.testing.assert_array_equal(level, 2 + 3 * (at < 10) + 5 * ((at >= 5) & (at < 20)) + at)


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("tau", [*(pytest.param(tau, marks=pytest.mark.thorough) for tau in (0.0, 0.5)), 2.0])
def test_noise_has_the_moments_and_the_memory_of_the_process(tau):
    size, steps, skipped = 300, 300, 100
    level = run(models.noise_current(probe(size), sd=1.5, tau=tau), steps, ("level",)).states["level"]
    values = level[skipped:].astype(float) - 2
    kept = np.exp(-DT / tau) if tau else 0.0
    independent = values.size * (1 - kept) / (1 + kept)  # as many values as the mean of the process is worth
    assert chance_of(values.mean(), 0, 1.5 / np.sqrt(independent)) > SURE
    assert chance_of(values.var(), 1.5**2, 1.5**2 * np.sqrt(2 / independent)) > SURE
    for lag in (1, 5):
        found = (values[lag:] * values[:-lag]).mean() / 1.5**2
        assert chance_of(found, kept**lag, np.sqrt(2 / independent)) > SURE
    across = np.corrcoef(values.T)[np.triu_indices(size, 1)].mean()
    assert abs(across) < 0.02  # each neuron has noise of its own
    assert stats.kstest(values[-1] / 1.5, "norm").pvalue > SURE


def test_a_poisson_drive_adds_a_poisson_number_of_weights():
    rates = np.repeat([800.0, 12_800.0], 300)
    neurons = models.poisson_drive(probe(600), rate=rates, weight=0.5)
    seen = run(neurons, 100, ("seen",), syn=1.0).states["seen"].astype(float) - 1
    for rate in (800, 12_800):
        counts, mean = seen[:, rates == rate] / 0.5, rate * DT / 1000
        np.testing.assert_array_equal(counts, counts.round())
        assert chance_of(counts.mean(), mean, np.sqrt(mean / counts.size)) > SURE
        assert chance_of(counts.var(), mean, np.sqrt((mean + 2 * mean**2) / counts.size)) > SURE


def test_a_poisson_drive_makes_the_mean_and_variance_of_campbell():
    """The potential of a leaky neuron under delta input of rate r and weight w: w r tau, and w^2 r tau / 2."""
    neurons = models.poisson_drive(models.lif_delta("n", 400, tau=2.0, threshold=1e6), rate=5000, weight=0.2)
    v = run(neurons, 300, ("v",)).states["v"][100:].astype(float)
    a, mean = np.exp(-DT / 2), 0.2 * 5 * DT / (1 - np.exp(-DT / 2))  # exact for steps
    variance = 0.2**2 * 5 * DT / (1 - a**2)
    independent = v.size * (1 - a) / (1 + a)
    assert chance_of(v.mean(), mean, np.sqrt(variance / independent)) > SURE
    assert chance_of(v.var(), variance, variance * np.sqrt(3 / independent)) > SURE
    assert mean == pytest.approx(0.2 * 5 * 2, rel=0.03)
    assert variance == pytest.approx(0.2**2 * 5 * 2 / 2, rel=0.06)


def test_a_drive_changes_neither_the_rule_nor_its_other_states():
    driven = models.step_current(models.lif_current("n", 1), amplitude=0.0, start=0, stop=1)
    current = np.full((300, 1), 60.0)
    alone = run(models.lif_current("n", 1), 300, ("v", "i"), syn=current).states
    beside = run(driven, 300, ("v", "i"), syn=current).states
    for name in alone:
        np.testing.assert_array_equal(alone[name], beside[name])


# Depressing and facilitating synapses.


def closed_form(times, use, recover, facilitate):
    """Return u x at each spike of a train, by the solution between spikes."""
    x, u, last, released = 1.0, 0.0, 0.0, []
    for time in times:
        x = 1 - (1 - x) * np.exp(-(time - last) / recover)
        u = u * np.exp(-(time - last) / facilitate) if facilitate else 0.0
        u, last = u + use * (1 - u), time
        released.append(u * x)
        x -= u * x
    return np.array(released)


def steady(use, recover, facilitate, interval):
    """Return u x in a train that has gone on for ever."""
    e, f = np.exp(-interval / recover), np.exp(-interval / facilitate) if facilitate else 0.0
    u_now = use / (1 - (1 - use) * f)
    return u_now * (1 - e) / (1 - (1 - u_now) * e)


TERMINALS = [(0.5, 20, 0), (0.1, 5, 15), (0.9, 100, 0), (0.03, 13, 53), (1.0, 10, 3)]


def delivered(terminals, times, weights, ms=60.0, backend="interpreted"):
    """Return the sums that targets have received, after each step, from terminals that all get the same spikes."""

    def adding(s, arriving, p):
        return s.replace(sum=s.sum + arriving.syn), s.sum > 1e9

    source = models.spike_source("source", [times] * terminals[0].size, dt=DT)
    target = be.Population("target", weights.shape[1], adding, state={"sum": 0.0})
    wires = [be.Projection(source, t, be.connect.one_to_one(weight=1.0), into="spikes") for t in terminals]
    wires += [be.Projection(t, target, weights, into="syn", delay=0.3) for t in terminals]
    sim = be.Network([source, *terminals, target], wires, dt=DT).build(seed=1, backend=backend)
    return sim.run(round(ms / DT), record="target.sum")["target.sum"]


@pytest.mark.covering(strength=0)
@pytest.mark.parametrize("backend", ["interpreted", "numba", "jax"])
@pytest.mark.parametrize(("use", "recover", "facilitate"), TERMINALS)
def test_synapses_deliver_the_closed_solution_to_any_number_of_targets(use, recover, facilitate, backend):
    times = np.cumsum(np.random.default_rng(0).integers(1, 80, 14)) * DT
    weights = np.array([[1.0, -2.0, 0.25], [0.5, 3.0, 0.0]])
    terminals = models.tsodyks_markram("t", 2, use=use, tau_recover=recover, tau_facilitate=facilitate)
    sums = delivered([terminals], times, weights, 80, backend)
    released = closed_form(times, use, recover, facilitate)
    arrivals = np.rint(times / DT).astype(int) + 1 + 3  # one step to the terminal, three to the target
    np.testing.assert_allclose(
        np.diff(sums, axis=0)[arrivals - 1], np.outer(released, weights.sum(0)), rtol=3e-5, atol=3e-6
    )
    np.testing.assert_allclose(sums[-1], released.sum() * weights.sum(0), rtol=1e-5)


@pytest.mark.parametrize(("use", "recover", "facilitate"), TERMINALS)
def test_a_long_train_settles_at_the_closed_solution(use, recover, facilitate):
    steps = 40 * round(8 * max(recover, facilitate, 20) / 4)
    arriving = (np.arange(steps) % 40 == 0).astype(float)[:, None]
    terminals = models.tsodyks_markram("t", 1, use=use, tau_recover=recover, tau_facilitate=facilitate)
    states = run(terminals, steps, ("x", "u"), spikes=arriving).states
    before = 1 - (1 - states["x"][steps - 41, 0]) * np.exp(-DT / recover)
    assert states["u"][steps - 40, 0] * before == pytest.approx(steady(use, recover, facilitate, 4.0), rel=1e-3)
    assert 0 <= states["x"].min() <= states["x"].max() <= 1
    assert 0 <= states["u"].min() <= states["u"].max() <= 1


def test_terminals_of_several_kinds_of_one_source():
    """Each kind of targets of a neuron has terminals with its own parameters."""
    times, weights = np.arange(1, 50, 7.0), np.array([[2.0]])
    kinds = {"depressing": (0.5, 100, 0), "facilitating": (0.1, 20, 50)}
    terminals = [
        models.tsodyks_markram(name, 1, use=use, tau_recover=recover, tau_facilitate=facilitate)
        for name, (use, recover, facilitate) in kinds.items()
    ]
    sums = delivered(terminals, times, weights)
    expected = sum(2.0 * closed_form(times, *kind).sum() for kind in kinds.values())
    assert sums[-1, 0] == pytest.approx(expected, rel=1e-5)


def test_a_terminal_recovers():
    arriving = pulse = np.zeros((400, 1))
    pulse[0] = 1
    x = run(models.tsodyks_markram("t", 1, tau_recover=20), 400, ("x",), spikes=arriving).states["x"][:, 0]
    np.testing.assert_allclose(x, 1 - 0.5 * np.exp(-DT * np.arange(400) / 20), rtol=1e-5)


# What is refused, and units.


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: models.lif_current("exc", 1, tau=0), r"population exc: tau is 0.0; it must be above 0 .*, in ms"),
        (lambda: models.lif_current("exc", 1, capacitance=-1.0), r"exc: capacitance is -1.0; .* in pF"),
        (lambda: models.lif_delta("exc", 2, tau=[1, np.nan]), r"exc: tau is nan; it must be above 0"),
        (lambda: models.lif_delta("exc", 1, tau="fast"), r"exc: tau is 'fast'; pass a number of ms, or an array"),
        (lambda: models.lif_delta("exc", 1, refractory=-1), r"exc: refractory is -1.0; it must be 0 or more"),
        (lambda: models.lif_delta("exc", 1, dt=[0.1, 0.2]), r"exc: dt has shape \(2,\); pass one number, in ms"),
        (lambda: models.lif_delta("exc", 1, tau=20 * u.mV), r"exc: tau: has the unit mV; pass ms, or a number"),
        (lambda: models.adex("exc", 1, sharpness=0), r"exc: sharpness is 0.0; .* in mV"),
        (lambda: models.izhikevich("exc", 1, a=-0.1), r"exc: a is -0.1; it must be 0 or more"),
        (lambda: models.hodgkin_huxley("exc", 1, leak=np.inf), r"exc: leak is inf; .* finite, in nS"),
        (lambda: models.poisson_source("p", 1, rate=2e4), r"p: rate is 20000 Hz, which is 2 spikes in a step"),
        (lambda: models.poisson_source("p", 1, rate=-1), r"p: rate is -1.0; it must be 0 or more and finite, in Hz"),
        (lambda: models.spike_source("s", [[1], np.arange(65)]), r"s: neuron 1 has 65 spikes; give at most 64, or"),
        (lambda: models.spike_source("s", [[], [1, 1.01]]), r"s: neuron 1 has two spikes in step 10"),
        (lambda: models.spike_source("s", [[1], [3e8]]), r"s: times\[1\] is 3e\+08 ms, 3e\+09 steps; pass at most"),
        (lambda: models.lif_delta("exc", 1, refractory=1e9), r"exc: refractory is 1e\+09 ms, 1e\+10 steps; pass"),
        (lambda: models.spike_source("s", [[-1]]), r"s: times\[0\] is -1.0; it must be 0 or more"),
        (lambda: models.tsodyks_markram("t", 1, tau_recover=0), r"t: tau_recover is 0.0; it must be above 0"),
        (lambda: models.tsodyks_markram("t", 1, use=1.5), r"t: use is 1.5; it must be from 0 to 1"),
        (lambda: models.tsodyks_markram("t", 1, use=be.uniform(-0.1, 0.5)), r"t: use is uniform.*; it must be from 0"),
        (lambda: models.noise_current(probe(1), sd=1, tau=-1), r"n: tau is -1.0; it must be 0 or more"),
        (
            lambda: models.step_current(models.relay("r", 1), amplitude=1, start=0, stop=1),
            r"population r has no parameter dt; pass dt=, the time step of the network",
        ),
        (
            lambda: models.noise_current(models.noise_current(probe(1), sd=1), sd=1),
            r"population n has a state noise already; pass another name=",
        ),
        (
            lambda: models.poisson_drive(models.poisson_drive(probe(1), rate=1, weight=1), rate=1, weight=1),
            r"population n has a parameter poisson_\w+ already; pass another name=",
        ),
    ],
)  # fmt: skip
def test_bad_values_are_refused(make, words):
    with pytest.raises(NetworkError, match=words):
        make()


def test_a_drive_into_what_the_rule_does_not_read_is_refused():
    neurons = models.poisson_drive(models.lif_current("n", 1), rate=1, weight=1, into="curent")
    words = (
        "^population n: its rule lif_current_rule reads no parameter or receptor 'curent'; did you mean 'current'\\?; "
        "pass into= one of its receptors, which are syn, or of its parameters"
    )
    with pytest.raises(UnknownNameError, match=words):
        run(neurons, 1)


def test_a_step_may_be_given_where_a_population_has_none():
    neurons = models.step_current(models.relay("r", 1), amplitude=1, start=0.5, stop=1, into="spikes", dt=0.25)
    assert run(neurons, 6).steps_of().tolist() == [2, 3]


def test_values_may_have_units():
    with_units = models.lif_current(
        "n", 2, dt=0.0001 * u.second, tau=0.01 * u.second, capacitance=0.25 * u.nF, refractory=2000 * u.us
    )
    without = models.lif_current("n", 2)
    for key, value in without.params.items():
        assert with_units.params[key] == pytest.approx(value), key
    assert models.poisson_source("p", 1, rate=0.5 * u.kHz).params["chance"] == pytest.approx(0.05)
    assert models.spike_source("s", [np.array([1.0, 2.0]) * u.ms]).params["at1"] == [20]


@pytest.mark.parametrize("model", ["lif_current", "lif_delta", "lif_exponential", "lif_conductance", "adex"])
def test_each_neuron_may_have_its_own_values(model):
    make, name, extra = getattr(models, model), "tau", {}
    if model == "adex":
        name, extra = "tau_w", {"w": 50.0}
    tau, start = np.array([5.0, 20.0]), np.array([-52.0, -53.0])
    both = run(make("n", 2, **{name: tau}, v=start, **extra), 40, ("v",)).states["v"]
    for k in range(2):
        alone = run(make("n", 1, **{name: tau[k]}, v=start[k], **extra), 40, ("v",)).states["v"]
        np.testing.assert_array_equal(alone[:, 0], both[:, k])
    assert not np.array_equal(both[:, 0], both[:, 1])
