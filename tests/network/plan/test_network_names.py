# SPDX-License-Identifier: Apache-2.0
"""Names in rules and descriptions: the time step, parameters that no rule reads, and parts of populations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent as be
from brainevent import models
from brainevent.errors import NetworkError, UnknownNameError


def clock(s, arriving, p):
    """Add up the time."""
    return s.replace(time=s.time + p.dt), s.time < 0


def clocks(params=None, name="n"):
    return be.Population(name, 3, clock, {"time": 0.0}, params or {})


def run(*populations, dt=0.25, backend="interpreted", dtype="float32"):
    return be.Network(populations, dt=dt).build(backend=backend, dtype=dtype)


@pytest.mark.parametrize("backend", ["interpreted", "numba", "jax"])
def test_a_rule_reads_the_time_step(backend):
    sim = run(clocks(), clocks({"dt": 0.25}, "m"), backend=backend)
    result = sim.run(4, ["n.time", "m.time"])
    assert result["n.time"][:, 1].tolist() == result["m.time"][:, 2].tolist() == [0.25, 0.5, 0.75, 1.0]
    assert sim.params["n"]["dt"] == 0.25


def test_the_time_step_of_float64_has_all_digits():
    assert run(clocks(), dt=0.1, dtype="float64").run(1, "n.time")["n.time"][0, 0] == 0.1


def test_two_networks_of_one_population_have_their_own_steps():
    population = clocks()
    first, second = run(population, dt=0.5), run(population, dt=0.125)
    assert first.run(2, "n.time")["n.time"][-1, 0] == 1.0
    assert second.run(2, "n.time")["n.time"][-1, 0] == 0.25
    assert population.params == {}


def test_the_step_is_a_parameter_like_others_for_jax():
    sim = run(clocks(), backend="jax")
    _, out = be.simulate(sim, sim.state, {}, 2, record="n.time")
    assert out["n.time"][:, 0].tolist() == [0.25, 0.5]


@pytest.mark.parametrize("given", [0.1, np.float32(0.1), np.full(3, 0.1), np.float64(0.1)])
def test_a_parameter_dt_that_is_the_step_is_taken(given):
    assert run(clocks({"dt": given}), dt=0.1).run(1, "n.time")["n.time"][0, 0] == np.float32(0.1)


@pytest.mark.parametrize("given", [20.0, np.array([0.1, 0.1, 0.2]), be.uniform(0.1, 0.2)])
def test_a_parameter_dt_of_another_meaning_is_refused(given):
    with pytest.raises(NetworkError) as caught:
        run(clocks({"dt": given}), dt=0.1)
    words = str(caught.value)
    assert words.startswith("population n: its parameter dt is ")
    assert "but dt in a rule is the time step of the network, 0.1 ms; make the model with dt=0.1, leave dt out" in words


def test_the_step_cannot_be_set():
    sim = run(clocks(), models.lif_delta("m", 3, dt=0.25))
    for name in ("n", "m"):
        sim.set(name, **sim.params[name])
        with pytest.raises(
            NetworkError, match=f"set: dt of {name} is the time step of the network, 0.25 ms; build a n"
        ):
            sim.set(name, dt=0.5)


@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_the_step_cannot_be_given(backend):
    sim = run(clocks(), models.lif_delta("m", 3, dt=0.25), backend=backend)
    for name in ("n", "m"):
        be.simulate(sim, sim.state, {name: sim.params[name]}, 1)
        with pytest.raises(
            NetworkError, match=rf"simulate: params\['{name}'\]\['dt'\] is the time step of the network"
        ):
            be.simulate(sim, sim.state, {name: {"dt": 0.5}}, 1)


@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_a_traced_step_is_that_of_the_network_or_all_is_nan(backend):
    """Whole trees of parameters, as JAX traces them for `jax.grad`, have it."""
    sim = run(clocks(), models.lif_delta("m", 3, dt=0.25), backend=backend)

    @jax.jit
    def ran(params):
        return be.simulate(sim, sim.state, params, 2, record=("n.time", "m.counts"))

    state, out = ran(sim.params)
    assert out["n.time"][:, 0].tolist() == [0.25, 0.5]
    for name, step in (("n", 0.5), ("m", 0.125), ("m", np.nan)):
        state, out = ran({**sim.params, name: {**sim.params[name], "dt": np.float32(step)}})
        for found in jax.tree.leaves((out, state.neurons)):
            assert found.dtype != np.float32 or np.isnan(found).all()
    batch = {"n": {"dt": np.float32([0.25, 0.5])}}
    _, out = jax.jit(jax.vmap(ran))(batch)
    assert np.isnan(out["n.time"]).all((1, 2)).tolist() == [False, True]


def test_derivatives_of_whole_trees_of_parameters():
    """One whose call is not in a program has a step that is known."""
    sim = run(clocks(), backend="jax")
    with pytest.raises(NetworkError, match=r"simulate: params\['n'\]\['dt'\] is the time step of the network"):
        jax.grad(lambda dt: be.simulate(sim, sim.state, {"n": {"dt": dt}}, 2, record="n.time")[1]["n.time"].sum())(0.5)
    for of in (lambda f: f, jax.jit):
        slope = of(jax.grad(lambda params: be.simulate(sim, sim.state, params, 2)[0].neurons["n"]["time"].sum()))
        assert slope(sim.params)["n"]["dt"] == 6


@pytest.mark.parametrize("backend", ["numba", "jax"])
def test_derivatives_are_those_of_the_step_of_the_network(backend):
    """Where another one is traced, values are NaN, and no derivative is that of a network with this one."""

    def lif(s, arriving, p):
        v = s.v + p.dt * (3 - s.v) + arriving.syn
        return s.replace(v=jnp.where(v > 1, 0.0, v)), v > 1

    a = be.Population("a", 20, lif, {"v": be.uniform(0, 1)})
    link = be.Projection(a, a, be.connect.prob(0.3, weight=be.normal(0, 0.1)), into="syn", name="aa")
    sim = be.Network([a], [link], dt=0.25).build(seed=1, backend=backend)
    spikes = lambda params: be.simulate(sim, sim.state, params, 20, record="a.counts")[1]["a.counts"].sum()
    found = jax.jit(jax.value_and_grad(spikes))
    right = {"aa": sim.params["aa"]}
    (known, slopes), (value, others) = found(right), found({**right, "a": {"dt": np.float32(0.5)}})
    assert known > 20
    assert np.isnan(value)
    np.testing.assert_array_equal(others["aa"], slopes["aa"])
    assert np.abs(slopes["aa"]).max() > 0


def test_a_step_that_is_known_only_when_eprop_runs():
    def readout(s, arriving, p):
        return s.replace(v=p.dt * s.v + arriving.syn), False

    hidden, out = clocks(), be.Population("out", 1, readout, {"v": 0.0})
    links = [be.Projection(hidden, out, be.connect.all_to_all(weight=1.0), into="syn")]
    for backend in ("numba", "jax"):
        sim = be.Network([hidden, out], links, dt=0.25).build(backend=backend)

        def learned(params, sim=sim):
            return be.eprop(sim, sim.state, params, 4, lambda step, y: ((y - 1) ** 2).sum(), "out.v")[0]

        with pytest.raises(NetworkError, match="is the time step of the network"):
            learned({"out": {"dt": 0.5}})
        assert [float(jax.jit(learned)({"out": {"dt": np.float32(step)}})) for step in (0.25, 0.5)] == [
            pytest.approx(4.0),
            pytest.approx(np.nan, nan_ok=True),
        ]


def test_the_step_of_plastic_rules_cannot_be_set():
    cells = be.Population("cells", 3, lambda s, arriving, p: (s, arriving.syn > 1))
    rule = be.Plasticity(every=(0.5, lambda w, s, pre, post, p: w + p.dt), high=9.0)
    link = be.Projection(cells, cells, be.connect.all_to_all(), into="syn", name="ab", plasticity=rule)
    sim = be.Network([cells], [link], dt=0.25).build()
    for given, words in (
        ({"dt": 0.5}, r"params\['ab'\]\['dt'\] is the time step"),
        (0.5, r"a dictionary, such as \{'weights'"),
    ):
        with pytest.raises(NetworkError, match=words):
            be.simulate(sim, sim.state, {"ab": given}, 1)
    ran = jax.jit(lambda dt: be.simulate(sim, sim.state, {"ab": {"dt": dt}}, 4)[0].synapses["ab"]["w"])
    assert [np.isnan(ran(np.float32(step))).all() for step in (0.25, 0.5)] == [False, True]


# Parameters that no rule reads.


def leaky(s, arriving, p):
    return s.replace(v=s.v * p.decay), s.v > p.threshold


def cells(rule=leaky, **params):
    return be.Population("cells", 3, rule, {"v": 0.0}, {"decay": 0.9, "threshold": 1.0, **params})


def test_a_parameter_that_is_not_read_is_refused():
    with pytest.raises(NetworkError) as caught:
        run(cells(treshold=2.0))
    assert str(caught.value) == (
        "population cells: params has 'treshold', which its rule leaky does not read; did you mean 'threshold'?; leave "
        "it out, or read p.treshold; the rule reads decay, threshold"
    )


def test_a_parameter_without_a_like_is_refused_too():
    with pytest.raises(NetworkError, match="'tau_of_adaptation', which its rule leaky does not read; leave it out"):
        run(cells(tau_of_adaptation=2.0))


def by_name(s, arriving, p):
    names = [name for name in p if name.startswith("w")]
    return s.replace(v=sum(getattr(p, name) for name in names) + p.decay), s.v > p.threshold


def without_effect(s, arriving, p):
    p.extra  # noqa: B018 - it is read
    return leaky(s, arriving, p)


@jax.jit
def helped(v, p):
    return jnp.where(v > p.threshold, v * p.decay, v)


def handed_on(s, arriving, p):
    return s.replace(v=helped(s.v, p)), s.v > 1


@pytest.mark.parametrize(
    ("rule", "extra"),
    [
        (by_name, {"w1": 1.0, "w2": 2.0}),
        (without_effect, {"extra": 1.0}),
        (handed_on, {"extra": 1.0}),  # JAX hands on all of them
        (leaky, {"dt": 0.25}),  # drives and checks read it
    ],
)
def test_a_parameter_that_is_read_in_any_way_is_taken(rule, extra):
    assert run(cells(rule, **extra)).run(1).steps == 1


def test_models_and_drives_read_all_their_parameters():
    neurons = [
        *(getattr(models, name)(name, 2) for name in ("lif_current", "lif_delta", "lif_exponential", "adex")),
        *(getattr(models, name)(name, 2) for name in ("lif_conductance", "izhikevich", "hodgkin_huxley")),
        *(models.poisson_source("p", 2, rate=5.0), models.spike_source("s", [[1.0], [2.0, 3.0]]), models.relay("r", 2)),
        models.tsodyks_markram("t", 2),
        models.noise_current(models.step_current(models.lif_current("d", 2), amplitude=1, start=0, stop=1), sd=1.0),
        models.poisson_drive(models.current_input(models.lif_current("e", 2)), rate=1.0, weight=1.0),
    ]
    assert run(*neurons, dt=0.1).run(1).steps == 1


def test_a_parameter_of_integers_says_how_to_make_it_a_float():
    sim = run(cells(leaky, threshold=1))
    with pytest.raises(NetworkError) as caught:
        sim.set("cells", threshold=1.5)
    assert str(caught.value) == (
        "set: threshold of cells: found 1.5; pass integers, which become int32, or build the network with floats such "
        "as 1.0"
    )


# States that a rule does not know, and that no rule knows.


def reads(s, arriving, p):
    return s.replace(v=s.vm * p.decay), s.v > p.threshold


def replaces(s, arriving, p):
    return s.replace(vm=s.v * p.decay), s.v > p.threshold


def lacks(s, arriving, p):
    return s.replace(v=s.v * p.decay), s.v > p.treshold


def deeper(s, arriving, p):
    return leaky(s.replace(v=reads(s, arriving, p)[0].v), arriving, p)


@pytest.mark.parametrize(
    ("rule", "in_line_of", "words"),
    [
        (reads, reads, "reads s.vm, but state has no 'vm'; did you mean 'v'?; names: v"),
        (replaces, replaces, "state has no 'vm'; did you mean 'v'?; names: v"),
        (lacks, lacks, "reads p.treshold, but params has no 'treshold'; did you mean 'threshold'?; names: decay, thre"),
        (deeper, reads, "reads s.vm, but state has no 'vm'; did you mean 'v'?; names: v"),
    ],
)
def test_a_name_that_is_not_there_is_said_with_the_line(rule, in_line_of, words):
    with pytest.raises(UnknownNameError) as caught:
        run(cells(rule))
    line = in_line_of.__code__.co_firstlineno + 1
    assert str(caught.value).startswith(f"population cells: rule {rule.__name__}, {__file__}:{line}: {words}")


def test_a_state_of_another_name_says_what_the_rule_reads():
    wrong = be.Population("cells", 3, leaky, {"vm": 0.0}, {"decay": 0.9, "threshold": 1.0})
    with pytest.raises(UnknownNameError, match=r"reads s\.v, but state has no 'v'; did you mean 'vm'\?; names: vm"):
        run(wrong)


def counts(s, arriving, p):
    return s.replace(n=1), False


@pytest.mark.parametrize(
    ("rule", "state", "words"),
    [
        (leaky, {"v": 0.0, "vm": 1.0}, "did you mean 'v'?; leave it out, or read s.vm; the rule uses v"),
        (leaky, {"v": 0.0, "recovery": 1.0}, "leave it out, or read s.recovery; the rule uses v"),
        (models.poisson_source_rule, {"vm": 0.0}, "leave it out, or read s.vm; the rule uses none"),
    ],
)
def test_a_state_that_is_neither_read_nor_changed_is_refused(rule, state, words):
    params = {"decay": 0.9, "threshold": 1.0} if rule is leaky else {"chance": 0.5}
    with pytest.raises(NetworkError) as caught:
        run(be.Population("cells", 3, rule, state, params))
    name = list(state)[-1]
    start = f"population cells: state has {name!r}, which its rule {rule.__name__} neither reads nor changes; "
    assert str(caught.value) == start + words


def read_alone(s, arriving, p):
    return s.replace(v=s.v + s.place), s.v > 1


@jax.jit
def step_of_record(s):
    return s.replace(v=s.v + 1)


@pytest.mark.parametrize(
    ("rule", "state"),
    [
        (counts, {"n": 0}),  # written alone, to be recorded
        (read_alone, {"v": 0.0, "place": 1.0}),
        (lambda s, arriving, p: (step_of_record(s), s.v > 1), {"v": 0.0, "extra": 0.0}),  # JAX hands on all of them
    ],
)
def test_a_state_that_is_used_in_any_way_is_taken(rule, state):
    name = next(iter(state))
    assert run(be.Population("cells", 3, rule, state)).run(1, f"cells.{name}")[f"cells.{name}"].tolist() == [[1, 1, 1]]
