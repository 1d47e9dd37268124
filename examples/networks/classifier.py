# SPDX-License-Identifier: Apache-2.0
"""A spiking classifier, trained by surrogate gradients through event-driven products.

Each class is a pattern of spikes in time. All input neurons spike as often in every class, so only the times tell them
apart. A sample loses some spikes, moves others, and gets some that belong to none.
`python -m examples.networks.classifier` trains it.
"""

import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

import brainevent

INPUTS, HIDDEN, CLASSES, STEPS = 60, 80, 4, 40
CONNECTIONS = 40  # of an input neuron to hidden ones
DECAY, DECAY_OUT = 0.9, 0.95  # of potentials, in a step
SPIKES_EACH, KEPT, NOISE = 2, 0.8, 0.02


# ---- data


def patterns(random):
    """Draw the times of each class, (classes, inputs, spikes)."""
    return random.integers(2, STEPS - 2, (CLASSES, INPUTS, SPIKES_EACH))


def samples(random, times, count):
    """Draw samples, (steps, count, inputs), and the class of each."""
    labels = random.integers(0, CLASSES, count)
    moved = times[labels] + random.integers(-1, 2, (count, INPUTS, SPIKES_EACH))
    kept = random.random(moved.shape) < KEPT
    spikes = ((moved == np.arange(STEPS)[:, None, None, None]) & kept).any(-1)
    return jnp.asarray(spikes | (random.random(spikes.shape) < NOISE)), jnp.asarray(labels)


# ---- the network


@jax.custom_jvp
def fires(v):
    """Return 1 where the potential is over the threshold of 1, else 0."""
    return (v > 1).astype(v.dtype)


@fires.defjvp
def _surrogate(primals, tangents):
    (v,), (change,) = primals, tangents
    return fires(v), change / (1 + 5 * jnp.abs(v - 1)) ** 2  # near the threshold, as if a spike grew with v


def first_weights(random):
    """Draw who is connected, and the weights: sparse ones to hidden neurons, dense ones to the outputs."""
    indices = random.permuted(np.tile(np.arange(HIDDEN, dtype=np.int32), (INPUTS, 1)), axis=1)[:, :CONNECTIONS]
    scales = {(INPUTS, CONNECTIONS): 0.4, (HIDDEN, CLASSES): 0.2}
    weights = tuple(jnp.asarray(scale * random.normal(size=shape), jnp.float32) for shape, scale in scales.items())
    return jnp.asarray(indices), weights


def outputs(weights, indices, spikes):
    """Run the network over samples (steps, count, inputs); return the mean potential of each output."""
    to_hidden = brainevent.FixedNumPerPre((weights[0], indices), shape=(INPUTS, HIDDEN))

    def step(state, arriving):
        v, out = state
        v = DECAY * v + brainevent.BinaryArray(arriving) @ to_hidden
        hidden = fires(v)
        out = DECAY_OUT * out + brainevent.BinaryArray(hidden) @ weights[1]
        return (v * (1 - hidden), out), out

    count = spikes.shape[1]
    _, potentials = jax.lax.scan(step, (jnp.zeros((count, HIDDEN)), jnp.zeros((count, CLASSES))), spikes)
    return potentials.mean(0)


# ---- training


def loss(weights, indices, spikes, labels):
    scores = jax.nn.log_softmax(outputs(weights, indices, spikes))
    return -jnp.take_along_axis(scores, labels[:, None], 1).mean()


@functools.partial(jax.jit, static_argnums=4)
def train(weights, indices, spikes, labels, rounds):
    """Return the weights after so many rounds of Adam, each with another part of the samples; and all losses."""

    def improve(state, part):
        weights, mean, square, i = state
        found, slope = jax.value_and_grad(loss)(weights, indices, *part)
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, slope)
        square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g**2, square, slope)
        rate = 0.02 * jnp.sqrt(1 - 0.99**i) / (1 - 0.9**i)
        weights = jax.tree.map(lambda w, m, s: w - rate * m / (jnp.sqrt(s) + 1e-8), weights, mean, square)
        return (weights, mean, square, i + 1), found

    nothing = jax.tree.map(jnp.zeros_like, weights)
    parts = jnp.moveaxis(spikes.reshape(STEPS, rounds, -1, INPUTS), 1, 0), labels.reshape(rounds, -1)
    (weights, *_), losses = jax.lax.scan(improve, (weights, nothing, nothing, 1.0), parts)
    return weights, losses


def accuracy(weights, indices, spikes, labels):
    """Return the share of samples whose class has the highest output."""
    return (outputs(weights, indices, spikes).argmax(1) == labels).mean()


def main(seed=0, rounds=60):
    """Train, and return the share of new samples that are told right."""
    random = np.random.default_rng(seed)
    times = patterns(random)
    indices, weights = first_weights(random)
    start = time.perf_counter()
    weights, losses = train(weights, indices, *samples(random, times, 64 * rounds), rounds)
    right = float(accuracy(weights, indices, *samples(random, times, 1000)))
    print(f"  loss              {losses[0]:.2f}, after {rounds} rounds {losses[-10:].mean():.2f}")
    print(f"  right             {right:.1%} of 1000 new samples of {CLASSES} classes")
    print(f"  time              {time.perf_counter() - start:.1f} s, with compiling")
    return right


if __name__ == "__main__":
    main()
