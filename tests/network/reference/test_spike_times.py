# SPDX-License-Identifier: Apache-2.0
"""Gradients by spike times: against finite differences, the published adjoint equations, and on a task."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import brainevent as be
from brainevent.errors import NetworkError
from brainevent.scalar.forced import with_spike

TAU_M, TAU_S, LENGTH = 10.0, 5.0, 40.0  # ms
W_IN = np.array([[3.0, 2.5], [2.8, 3.2], [2.2, 2.9]])
W_REC = np.array([[0.0, 0.8], [0.6, 0.0]])
W_OUT = np.array([[1.0], [-0.7]])
TIMES = [[1.0, 12.0, 20.0], [2.3, 9.0, 26.0], [3.1, 15.0, 22.0]]
DELAY = 1.0  # ms, of all projections
SPIKE_TIMES = be.surrogate.spike_times()


def relay(s, arriving, p):
    return s, arriving.given > 0.5


def lif(s, arriving, p):
    i = p.fall * s.i + arriving.syn
    v = p.keep * s.v + (1 - p.keep) * i
    spike = v > 1
    return s.replace(i=i, v=jnp.where(spike, 0.0, v)), spike


def leaky(s, arriving, p):
    i = p.fall * s.i + arriving.syn
    v = p.keep * s.v + (1 - p.keep) * i
    return s.replace(i=i, v=v), False


@functools.cache
def made(dt, dtype="float64"):
    params = {"keep": float(np.exp(-dt / TAU_M)), "fall": float(np.exp(-dt / TAU_S))}
    state = {"v": 0.0, "i": 0.0}
    given, hidden = be.Population("given", 3, relay), be.Population("hidden", 2, lif, state, params)
    out = be.Population("out", 1, leaky, state, params)
    projections = [
        be.Projection(given, hidden, W_IN, into="syn", delay=DELAY),
        be.Projection(hidden, hidden, W_REC, into="syn", delay=DELAY),
        be.Projection(hidden, out, W_OUT, into="syn", delay=DELAY),
    ]
    return be.Network([given, hidden, out], projections, dt=dt).build(backend="jax", seed=0, dtype=dtype)


def given_spikes(dt):
    x = np.zeros((round(LENGTH / dt), 3))
    for neuron, times in enumerate(TIMES):
        x[[round(time / dt) for time in times], neuron] = 1
    return {"given.given": x}


def weighting(dt):
    return np.exp(-(((np.arange(round(LENGTH / dt)) * dt - 25) / 8) ** 2))


def first_weights(sim):
    return {name: jnp.asarray(sim.params[name], float) for name in sim.params if "->" in name}


def loss_of(dt, every=None):
    """Return the weighted integral of the squared potential of the readout, and how often neurons spiked."""
    sim, x, weights_of_time = made(dt), given_spikes(dt), weighting(dt)

    def loss(weights):
        record = ["out.v", "hidden.counts"]
        out = be.simulate(
            sim, sim.state, sim.params | weights, len(x["given.given"]), x, record, SPIKE_TIMES, checkpoint_every=every
        )[1]
        return ((out["out.v"][:, 0] + 0.3) ** 2 * weights_of_time).sum() * dt, out["hidden.counts"]

    return loss


@functools.cache
def gradients(dt, every=None):
    with jax.enable_x64(True):
        return jax.jit(jax.grad(lambda w: loss_of(dt, every)(w)[0]))(first_weights(made(dt)))


def test_gradients_are_those_of_finite_differences():
    dt, size = 0.002, 0.015
    with jax.enable_x64(True):
        weights = first_weights(made(dt))
        changes = [(name, k, sign) for name, w in weights.items() for k in range(w.size) for sign in (1, -1)]
        changed = {
            name: jnp.stack([w.at[k].add(sign * size) if name == of else w for of, k, sign in changes])
            for name, w in weights.items()
        }
        losses, counts = map(np.asarray, jax.jit(jax.vmap(loss_of(dt)))(changed))
    assert (counts == counts[0]).all()  # no spike appears or vanishes, where the loss would jump
    differences = (losses[::2] - losses[1::2]) / (2 * size)
    found = np.concatenate([gradients(0.01)[name] for name in weights])
    np.testing.assert_allclose(found, differences, rtol=0.05, atol=0.02 * np.abs(differences).max())


def test_the_error_is_of_the_order_of_a_step():
    best = np.concatenate(list(gradients(0.01).values()))
    errors = [np.abs(np.concatenate(list(gradients(dt).values())) - best).max() for dt in (0.2, 0.1)]
    assert errors[1] < 0.7 * errors[0]
    assert errors[1] < 0.1 * np.abs(best).max()


def adjoint(dt):
    """Return the gradients by the equations of Wunderlich and Pehle 2021, by Euler steps backward in time, in NumPy.

    tau_m l_V' = -l_V - dl/dV and tau_s l_I' = -l_I + l_V backward; at a spike of neuron n, l_V of n grows by
    (threshold l_V + sum over its targets of w (l_V - l_I)) / (tau_m dV/dt); the gradient of w is -tau_s l_I there.
    """
    steps, late = round(LENGTH / dt), round(DELAY / dt)
    v, i, spikes = np.zeros(3), np.zeros(3), np.zeros((steps, 5), bool)  # hidden, hidden, readout; spikes of given too
    spikes[:, 2:] = given_spikes(dt)["given.given"] > 0
    into = np.zeros((5, 3))  # from hidden and given, into hidden and readout
    into[:2, :2], into[:2, 2:], into[2:, :2] = W_REC, W_OUT, W_IN
    potential, rising = np.zeros(steps), np.ones((steps, 3))
    for t in range(steps):
        arriving = spikes[t - late] @ into if t >= late else np.zeros(3)
        i = i * np.exp(-dt / TAU_S) + arriving
        rising[t] = (i - v) / TAU_M
        v = v + dt * rising[t]
        potential[t] = v[2]
        fired = v[:2] > 1
        spikes[t, :2] = fired
        v[:2][fired] = 0
    by_v, by_i = np.zeros((steps + late + 1, 3)), np.zeros((steps + late + 1, 3))
    gradient = np.zeros((5, 3))
    for t in range(steps - 1, -1, -1):
        slope = np.array([0, 0, 2 * (potential[t] + 0.3) * weighting(dt)[t]])
        by_v[t] = by_v[t + 1] - dt / TAU_M * (by_v[t + 1] + slope)
        by_i[t] = by_i[t + 1] + dt / TAU_S * (by_v[t + 1] - by_i[t + 1])
        for n in np.flatnonzero(spikes[t]):
            gradient[n] -= TAU_S * by_i[t + late]
            if n < 2:
                moved = into[n] @ (by_v[t + late] - by_i[t + late])
                by_v[t, n] += (by_v[t, n] + moved) / (TAU_M * rising[t, n])
    return gradient


def test_gradients_are_those_of_the_published_equations():
    found, expected = gradients(0.01), adjoint(0.01)
    blocks = {"given->hidden.syn": expected[2:, :2], "hidden->out.syn": expected[:2, 2:]}
    for name, block in blocks.items():
        np.testing.assert_allclose(found[name].reshape(block.shape), block, rtol=0.03, atol=0.03 * np.abs(block).max())
    recurrent = np.sort(np.asarray(found["hidden->hidden.syn"]))  # the matrix stores no zeros
    np.testing.assert_allclose(recurrent, np.sort(expected[:2, :2][W_REC > 0]), rtol=0.03)


def test_runs_in_chunks_have_the_same_gradients():
    for name, gradient in gradients(0.1, every=70).items():
        np.testing.assert_allclose(gradient, gradients(0.1)[name], rtol=1e-9)


def test_the_run_itself_is_that_without_derivatives():
    sim, x = made(0.1, "float32"), given_spikes(0.1)
    runs = [
        be.simulate(sim, sim.state, sim.params, 400, x, ["out.v", "hidden.spikes"], surrogate=surrogate)
        for surrogate in (SPIKE_TIMES, None)
    ]
    jax.tree.map(np.testing.assert_array_equal, *runs)


def test_silent_neurons_have_no_gradient_and_nothing_is_nan():
    sim, x = made(0.1, "float32"), given_spikes(0.1)
    weights = {"given->hidden.syn": np.full(6, 0.1, np.float32)}

    def loss(weights):
        out = be.simulate(sim, sim.state, sim.params | weights, 400, x, "out.v", SPIKE_TIMES)[1]["out.v"]
        return (out**2).sum()

    gradient = jax.grad(loss)(weights)["given->hidden.syn"]
    np.testing.assert_array_equal(gradient, np.zeros(6))


def test_a_network_learns_when_to_answer():
    """Train the time course of the readout; a silent network could not, and the number of spikes alone does not."""
    sim, x = made(0.2, "float32"), given_spikes(0.2)
    times = np.arange(200) * 0.2
    target = jnp.asarray(
        0.5 * np.exp(-(((times - 14) / 4) ** 2)) - 0.2 * np.exp(-(((times - 28) / 4) ** 2)), np.float32
    )

    @jax.jit
    def improved(weights, mean, square, k):
        def loss(weights):
            out = be.simulate(sim, sim.state, sim.params | weights, 200, x, "out.v", SPIKE_TIMES)[1]["out.v"][:, 0]
            return ((out - target) ** 2).mean()

        value, gradient = jax.value_and_grad(loss)(weights)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, gradient)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, square, gradient)
        rate = 0.02 * jnp.sqrt(1 - 0.99**k) / (1 - 0.9**k)
        weights = jax.tree.map(lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8), weights, mean, square)
        return weights, mean, square, value

    weights = {name: w.astype(np.float32) for name, w in first_weights(sim).items()}
    mean = square = jax.tree.map(jnp.zeros_like, weights)
    losses = []
    for k in range(1, 121):
        weights, mean, square, value = improved(weights, mean, square, float(k))
        losses.append(float(value))
    assert min(losses) < 0.3 * losses[0]


def test_native_code_leaves_it_to_plain_jax():
    found = []
    for backend in ("jax", "numba"):
        sim, x = made(0.2, "float32"), given_spikes(0.2)
        sim = sim.network.build(backend=backend, seed=0)

        def loss(weights, sim=sim, x=x):
            return be.simulate(sim, sim.state, sim.params | weights, 200, x, "out.v", SPIKE_TIMES)[1]["out.v"].sum()

        found.append(jax.grad(loss)({name: np.float32(w) for name, w in first_weights(sim).items()}))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4), *found)


def test_it_has_no_derivative_by_the_margin_alone():
    with pytest.raises(NetworkError, match="spike_times: has no derivative by the margin alone"):
        SPIKE_TIMES(1.0)


def test_a_spike_is_replaced_wherever_the_rule_compares():
    def flat(v, u):
        return [jnp.where(v > 1, 0.0, v), u + jnp.where((v > 1.0) & (u > 0), 1.0, 0.0), (v > 1.0) & (u > 0)]

    quiet, loud = (with_spike(flat, spike)(jnp.float32(2.0), jnp.float32(0.0)) for spike in (False, True))
    assert [float(x) for x in quiet] == [0.0, 0.0]
    assert [float(x) for x in loud] == [0.0, 1.0]
