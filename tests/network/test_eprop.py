# SPDX-License-Identifier: Apache-2.0
"""E-prop: against backpropagation where both must agree, against the published equations, and on a task."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent as be
from brainevent.errors import NetworkError, RuleError, ShapeError, UnknownNameError

SLOPE = 5.0
SURROGATE = be.surrogate.fast_sigmoid(SLOPE)


def lif(s, arriving, p):
    v = p.keep * s.v + arriving.syn
    return s.replace(v=v - p.threshold * (s.v > p.threshold)), v > p.threshold


def adaptive(s, arriving, p):
    """Adapt the threshold: its trace is the second state."""
    v = 0.9 * s.v + arriving.syn
    a = 0.95 * s.a
    spike = v > 1 + 0.3 * a
    return s.replace(v=jnp.where(spike, 0.0, v), a=a + jnp.where(spike, 1.0, 0.0)), spike


def resting(s, arriving, p):
    """Rest for three steps after a spike; what arrives has a state of its own."""
    i = 0.7 * s.i + arriving.syn
    v = jnp.where(s.pause > 0, s.v, 0.9 * s.v + i)
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v), i=i, pause=jnp.where(spike, 3, jnp.maximum(s.pause - 1, 0))), spike


RULES = {
    lif: ({"v": 0.0}, {"keep": 0.9, "threshold": 1.0}),
    adaptive: ({"v": 0.0, "a": 0.0}, {}),
    resting: ({"v": 0.0, "i": 0.0, "pause": 0}, {}),
}


def leaky(s, arriving, p):
    v = p.keep * s.v + 0.5 * arriving.syn
    return s.replace(v=v), False


def relay(s, arriving, p):
    return s, arriving.given > 0.5


def made(rule=lif, *, recurrent=True, delay=1, size=6, readouts=2, seed=3, to_out=None, out=leaky, keep=0.8):
    state, params = RULES[rule]
    given = be.Population("given", 4, relay)
    hidden = be.Population("hidden", size, rule, state=state, params=params)
    read = be.Population("out", readouts, out, state={"v": 0.0}, params={"keep": keep})
    normal = be.connect.all_to_all(weight=be.normal(0.3, 0.5))
    projections = [
        be.Projection(given, hidden, be.connect.prob(0.8, weight=be.normal(0.5, 0.5)), into="syn", delay=float(delay)),
        be.Projection(hidden, read, normal, into="syn", **(to_out or {})),
    ]
    if recurrent:
        projections.append(be.Projection(hidden, hidden, normal, into="syn", delay=float(delay)))
    return be.Network([given, hidden, read], projections, dt=1.0).build(backend="jax", seed=seed)


def spikes_in(steps, seed=0):
    return {"given.given": (np.random.default_rng(seed).random((steps, 4)) < 0.4).astype(np.float32)}


def target_of(steps, readouts=2):
    return jnp.asarray(np.random.default_rng(9).normal(size=(steps, readouts)), np.float32)


def squared(target):
    return lambda step, y: ((y - target[step]) ** 2).sum()


def by_eprop(sim, steps, **how):
    loss = squared(target_of(steps, sim.engine.plan.population("out").size))
    return be.eprop(sim, sim.state, sim.params, steps, loss, "out.v", spikes_in(steps), surrogate=SURROGATE, **how)


def by_backpropagation(sim, steps, names):
    target = target_of(steps, sim.engine.plan.population("out").size)

    def loss(weights):
        _, out = be.simulate(
            sim, sim.state, sim.params | weights, steps, spikes_in(steps), "out.v", surrogate=SURROGATE
        )
        return ((out["out.v"] - target) ** 2).sum()

    return jax.value_and_grad(loss)({name: sim.params[name] for name in names})


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("delay", [1, pytest.param(3, marks=pytest.mark.thorough)])
def test_without_connections_within_a_layer_it_is_backpropagation(rule, delay):
    sim = made(rule, recurrent=False, delay=delay)
    loss, gradients, state = by_eprop(sim, 40)
    expected, exact = by_backpropagation(sim, 40, gradients)
    assert set(gradients) == {"given->hidden.syn", "hidden->out.syn"}
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    for name, gradient in gradients.items():
        assert np.abs(exact[name]).max() > 1e-2
        np.testing.assert_allclose(gradient, exact[name], rtol=2e-4, atol=2e-4 * np.abs(exact[name]).max())
    after, _ = be.simulate(sim, sim.state, sim.params, 40, spikes_in(40))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), state.neurons, after.neurons)


def test_the_state_after_a_run_goes_on_as_the_network_does():
    sim = made(delay=3)
    _, _, state = by_eprop(sim, 17)
    expected, _ = be.simulate(sim, sim.state, sim.params, 17, spikes_in(17))
    for name in ("hidden", "out"):
        np.testing.assert_allclose(state.arriving[name]["syn"], expected.arriving[name]["syn"], rtol=1e-5, atol=1e-2)
    loss = squared(target_of(30))
    both = {"given.given": spikes_in(30)["given.given"]}
    whole, _, _ = be.eprop(sim, sim.state, sim.params, 30, loss, "out.v", both)
    first, _, state = be.eprop(sim, sim.state, sim.params, 17, loss, "out.v", {"given.given": both["given.given"][:17]})
    later = {"given.given": both["given.given"][17:]}
    second, _, _ = be.eprop(sim, state, sim.params, 13, lambda step, y: loss(step + 17, y), "out.v", later)
    np.testing.assert_allclose(first + second, whole, rtol=1e-5)


def published(sim, steps, *, adaptation):
    """Return the gradients of recurrent weights by the equations of Bellec et al. 2020, in NumPy, in a loop over pairs.

    eligibility: e_ji = psi_j (zbar_i - beta eps_a), filtered by the readout; signal: the sum of W_jk times the error.
    """
    n, x = 6, spikes_in(steps)["given.given"] > 0.5
    synapses = {s.name: s for s in sim.engine.plan.synapses}

    def dense(name, rows, columns):
        s, out = synapses[name], np.zeros((rows, columns))
        sources = np.repeat(np.arange(rows), np.diff(s.starts))
        np.add.at(out, (sources, s.targets), np.broadcast_to(sim.params[name], s.targets.shape))
        return out

    w_in, w_rec = dense("given->hidden.syn", 4, n), dense("hidden->hidden.syn", n, n)
    w_out, target = dense("hidden->out.syn", n, 2), np.asarray(target_of(steps))
    v, a, y, z, gradient = np.zeros(n), np.zeros(n), np.zeros(2), np.zeros(n), np.zeros((n, n))
    eps_v, eps_a, last, filtered = (np.zeros((n, n)) for _ in range(4))
    given = np.zeros(4)
    for t in range(steps):
        before = v
        v = 0.9 * v + given @ w_in + z @ w_rec
        y = 0.8 * y + 0.5 * z @ w_out
        threshold = 1 + 0.3 * 0.95 * a if adaptation else np.ones(n)
        psi = 1 / (1 + SLOPE * np.abs(v - threshold)) ** 2
        new = (v > threshold).astype(float)
        eps_now = 0.9 * eps_v + z[:, None]
        e = psi * (eps_now - (0.3 * 0.95 * eps_a if adaptation else 0))
        filtered = 0.8 * filtered + 0.5 * last
        last = e
        gradient += filtered * (w_out @ (2 * (y - target[t])))
        # What is reset has no trace; the adaptation's own has no derivative with respect to the spike.
        eps_v = eps_now * (1 - new) if adaptation else eps_now
        eps_a = 0.95 * eps_a
        a = 0.95 * a + new
        v = v * (1 - new) if adaptation else v - (before > 1)
        z, given = new, x[t].astype(float)
    return gradient.reshape(-1)


@pytest.mark.parametrize("rule", [lif, adaptive], ids=lambda rule: rule.__name__)
def test_it_has_the_published_equations(rule):
    sim = made(rule)
    _, gradients, _ = by_eprop(sim, 60)
    expected = published(sim, 60, adaptation=rule is adaptive)
    assert np.abs(expected).max() > 1e-2
    np.testing.assert_allclose(gradients["hidden->hidden.syn"], expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_connections_within_a_layer_differ_from_backpropagation_but_point_the_same_way():
    sim = made()
    _, gradients, _ = by_eprop(sim, 60)
    _, exact = by_backpropagation(sim, 60, gradients)
    a, b = (np.asarray(x["hidden->hidden.syn"]) for x in (gradients, exact))
    assert not np.allclose(a, b, rtol=1e-3)
    assert a @ b / np.linalg.norm(a) / np.linalg.norm(b) > 0.5
    np.testing.assert_allclose(gradients["hidden->out.syn"], exact["hidden->out.syn"], rtol=1e-3, atol=1e-3)


def test_feedback_replaces_the_weights_into_the_readout():
    sim = made()
    dense = np.zeros((6, 2), np.float32)
    s = next(s for s in sim.engine.plan.synapses if s.name == "hidden->out.syn")
    dense[np.repeat(np.arange(6), 2), s.targets] = sim.params["hidden->out.syn"]
    _, own, _ = by_eprop(sim, 30)
    _, same, _ = by_eprop(sim, 30, feedback={"hidden": dense.T})
    _, none, _ = by_eprop(sim, 30, feedback={"hidden": np.zeros((2, 6))})
    np.testing.assert_allclose(same["hidden->hidden.syn"], own["hidden->hidden.syn"], rtol=1e-5)
    assert not none["hidden->hidden.syn"].any()
    np.testing.assert_array_equal(none["hidden->out.syn"], own["hidden->out.syn"])


def test_batches_and_programs_give_what_single_runs_give():
    sim, steps = made(), 25
    inputs = np.stack([spikes_in(steps, seed)["given.given"] for seed in range(3)])

    def one(x):
        loss = squared(target_of(steps))
        return be.eprop(sim, sim.state, sim.params, steps, loss, "out.v", {"given.given": x}, surrogate=SURROGATE)[:2]

    losses, gradients = jax.jit(jax.vmap(one))(inputs)
    for k, x in enumerate(inputs):
        loss, single = one(x)
        np.testing.assert_allclose(losses[k], loss, rtol=1e-5)
        for name in single:
            np.testing.assert_allclose(gradients[name][k], single[name], rtol=1e-3, atol=1e-3)


def test_memory_does_not_depend_on_the_number_of_steps():
    sim = made()

    def bytes_of(steps):
        def run(x):
            given = {"given.given": x}
            return be.eprop(sim, sim.state, sim.params, steps, lambda step, y: (y**2).sum(), "out.v", given)[:2]

        shape = jax.ShapeDtypeStruct((steps,), np.float32)
        return jax.jit(run).lower(shape).compile().memory_analysis().temp_size_in_bytes

    # What grows is the loss of each step, and one copy of the input.
    assert bytes_of(4000) - bytes_of(1000) <= 3000 * 4 * 4


def test_one_weight_for_all_has_one_gradient():
    given = be.Population("given", 4, relay)
    hidden = be.Population("hidden", 5, lif, state={"v": 0.0}, params=RULES[lif][1])
    read = be.Population("out", 2, leaky, state={"v": 0.0}, params={"keep": 0.8})
    projections = [
        be.Projection(given, hidden, be.connect.all_to_all(weight=0.4), into="syn"),
        be.Projection(hidden, read, be.connect.all_to_all(weight=0.7), into="syn"),
    ]
    sim = be.Network([given, hidden, read], projections, dt=1.0).build(backend="jax", seed=0)
    _, gradients, _ = by_eprop(sim, 30)
    _, exact = by_backpropagation(sim, 30, gradients)
    for name, gradient in gradients.items():
        assert gradient.shape == (1,)
        np.testing.assert_allclose(gradient, exact[name], rtol=1e-3)


def test_a_network_learns_a_pattern_by_it():
    """The task of the publication in small: a sum of sines from random input that repeats."""
    sim, steps = made(size=24, readouts=1, seed=1, keep=0.9), 60
    times = np.arange(steps) / steps * 2 * np.pi
    target = jnp.asarray(0.5 * np.sin(times) + 0.3 * np.sin(2 * times + 1), np.float32)[:, None]
    names = [name for name in sim.params if "->" in name]

    @jax.jit
    def learned(weights):
        params = sim.params | weights
        loss, gradients, _ = be.eprop(sim, sim.state, params, steps, squared(target), "out.v", spikes_in(steps))
        size = jnp.sqrt(sum((g**2).sum() for g in gradients.values()))
        return loss, {name: weights[name] - 0.05 * gradients[name] / (1 + size) for name in names}

    weights, losses = {name: sim.params[name] for name in names}, []
    for _ in range(150):
        loss, weights = learned(weights)
        losses.append(float(loss))
    assert min(losses[-10:]) < 0.25 * losses[0]


def nonlinear(s, arriving, p):
    v = p.keep * s.v + arriving.syn**2
    return s.replace(v=v), False


def drawn(s, arriving, p, random):
    return s, random.bernoulli(0.1)


def scalar(step, y):
    return y.sum()


@pytest.mark.parametrize(
    ("network", "how", "error", "words"),
    [
        ({"out": nonlinear}, {}, NetworkError, r"the rule of out\.v is not linear"),
        ({"keep": be.uniform(0.5, 0.9)}, {}, NetworkError, "with the same coefficients for all neurons"),
        (
            {"to_out": {"delay": 2.0}},
            {},
            NetworkError,
            "reaches the readout after 2 steps; give it a delay of one step",
        ),
        ({}, {"readout": "out.w"}, UnknownNameError, "has no 'w'"),
        ({}, {"readout": "read.v"}, UnknownNameError, "has no 'read'"),
        ({}, {"readout": None}, UnknownNameError, "readout has no ''"),
        ({}, {"loss": lambda step, y: y}, NetworkError, r"loss returns shape \(2,\); return a scalar"),
        ({}, {"feedback": {"hidden": np.zeros((6, 2))}}, ShapeError, r"feedback\['hidden'\] has shape \(6, 2\); pass"),
        ({}, {"feedback": {"hid": np.zeros((2, 6))}}, UnknownNameError, "feedback has no 'hid'; did you mean"),
        ({}, {"steps": 0}, NetworkError, "steps is 0"),
    ],
)
def test_what_it_cannot_do_is_refused_in_words(network, how, error, words):
    sim = made(**network)
    with pytest.raises(error, match=words):
        be.eprop(sim, sim.state, sim.params, **{"steps": 5, "loss": scalar, "readout": "out.v", **how})


def test_spikes_that_are_drawn_do_not_learn():
    hidden, read = be.Population("hidden", 3, drawn), be.Population("out", 1, leaky, {"v": 0.0}, {"keep": 0.8})
    to_out = be.Projection(hidden, read, be.connect.all_to_all(weight=1.0), into="syn")
    sim = be.Network([hidden, read], [to_out], dt=1.0).build(backend="jax", seed=0)
    with pytest.raises(RuleError, match="no comparison of floats decides the spike"):
        be.eprop(sim, sim.state, sim.params, 5, scalar, "out.v")
    with pytest.raises(NetworkError, match=r"eprop: sim is dict; pass what network\.build\(\) returns"):
        be.eprop({}, sim.state, sim.params, 5, scalar, "out.v")
