# SPDX-License-Identifier: Apache-2.0
"""Rules that are trained, with surrogates: what the adjoint of a rule is tested with, in every engine."""

import jax
import jax.numpy as jnp
from jax import lax

from brainevent.network.surrogate import arctan, fast_sigmoid, triangle
from brainevent.scalar.trace import trace

__all__ = ["RULES", "SURROGATES", "traced"]


def lif(s, arriving, p):
    v = s.v * p.keep + arriving.syn
    spike = v > 1
    return s.replace(v=jnp.where(spike, 0.0, v)), spike


def subtractive(s, arriving, p):
    v = s.v * p.keep + arriving.syn
    spike = v >= p.threshold
    return s.replace(v=v - p.threshold * spike), spike


def adaptive(s, arriving, p):
    v = s.v * p.keep + arriving.syn - s.a
    spike = v > 1 + p.beta * s.a
    return s.replace(v=jnp.where(spike, 0.0, v), a=s.a * p.slow + jnp.where(spike, p.jump, 0.0)), spike


def synapse(s, arriving, p):
    i = s.i * jnp.exp(-p.dt / p.tau_s) + arriving.syn
    v = jnp.where(s.pause > 0, s.v, s.v + p.dt / p.tau * (i - s.v))
    spike = v >= p.threshold
    pause = jnp.where(spike, 20, jnp.maximum(s.pause - 1, 0))
    return s.replace(v=jnp.where(spike, p.reset, v), i=i, pause=pause), spike


@jax.custom_jvp
def stepped(x):
    return jnp.where(x >= 0, 1.0, 0.0)


stepped.defjvps(lambda t, ans, x: t / (1 + jnp.abs(x)) ** 2)


@jax.custom_vjp
def smooth(x):
    return jnp.where(x >= 0, 1.0, 0.0)


smooth.defvjp(lambda x: (smooth(x), x), lambda x, g: (g * jnp.exp(-x * x),))


def own_reset(s, arriving, p):
    """Subtract a threshold by surrogates of the rule's own: gradients pass through the reset."""
    v = s.v * p.keep + arriving.syn
    spike = v - p.threshold
    return s.replace(v=v - p.threshold * stepped(spike) + 0.1 * smooth(v - 2)), spike >= 0


def noisy(s, arriving, p, random):
    """Draw noise of a size that depends on the state, in two substeps of a loop, and one branch."""
    v = lax.fori_loop(0, 2, lambda k, v: v + p.dt * (jnp.tanh(v) - v * v), s.v) + arriving.syn
    v = lax.cond(s.k > 0, lambda: v * 0.5, lambda: jnp.sin(v))
    v = v + random.normal(0.0, 0.1 * v) * p.noise
    spike = (v > p.threshold) & (s.k < 3)
    return s.replace(v=jnp.where(spike, p.reset, v), k=jnp.where(spike, 3, jnp.maximum(s.k - 1, 0))), spike


def leaky_readout(s, arriving, p):
    v = s.v * p.keep + arriving.syn
    return s.replace(v=v), v > jnp.inf


# By rule: states and parameters.
RULES = {
    lif: ({"v": 0.0}, {"keep": 0.95}),
    subtractive: ({"v": 0.0}, {"keep": 0.95, "threshold": 1.0}),
    adaptive: ({"v": 0.0, "a": 0.0}, {"keep": 0.95, "slow": 0.99, "beta": 0.5, "jump": 0.1}),
    synapse: ({"v": 0.0, "i": 0.0, "pause": 0}, {"tau_s": 5.0, "tau": 20.0, "dt": 1.0, "threshold": 1.0, "reset": 0.0}),
    own_reset: ({"v": 0.0}, {"keep": 0.95, "threshold": 1.0}),
    noisy: ({"v": 0.0, "k": 0}, {"dt": 0.1, "noise": 1.0, "threshold": 0.5, "reset": 0.0}),
    leaky_readout: ({"v": 0.0}, {"keep": 0.95}),
}
SURROGATES = (fast_sigmoid(25.0), arctan(2.0), triangle(1.0))


def traced(rule):
    """Trace one of the rules."""
    state, params = RULES[rule]
    return trace(rule, state, ["syn"], params)
