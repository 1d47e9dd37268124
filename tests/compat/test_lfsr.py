# SPDX-License-Identifier: Apache-2.0
"""Random generators for Pallas kernels: published sequences, mixed seeds, ranges, and states that JAX carries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import brainevent
from brainevent import PallasLFSR88RNG, PallasLFSR113RNG, PallasLFSR128RNG, config

GENERATORS = (PallasLFSR88RNG, PallasLFSR113RNG, PallasLFSR128RNG)
every = pytest.mark.parametrize("generator", GENERATORS)
MASK = 2**32 - 1


def taus88(a, b, c, _):
    """Return what L'Ecuyer's C code gives, in Python's integers."""
    a = ((a & 4294967294) << 12 & MASK) ^ (((a << 13 & MASK) ^ a) >> 19)
    b = ((b & 4294967288) << 4 & MASK) ^ (((b << 2 & MASK) ^ b) >> 25)
    c = ((c & 4294967280) << 17 & MASK) ^ (((c << 3 & MASK) ^ c) >> 11)
    return (a, b, c, _), a ^ b ^ c


def lfsr113(a, b, c, d):
    a = ((a & 4294967294) << 18 & MASK) ^ (((a << 6 & MASK) ^ a) >> 13)
    b = ((b & 4294967288) << 2 & MASK) ^ (((b << 2 & MASK) ^ b) >> 27)
    c = ((c & 4294967280) << 7 & MASK) ^ (((c << 13 & MASK) ^ c) >> 21)
    d = ((d & 4294967168) << 13 & MASK) ^ (((d << 3 & MASK) ^ d) >> 12)
    return (a, b, c, d), a ^ b ^ c ^ d


def xorshift128(x, y, z, w):
    t = x ^ (x << 11 & MASK)
    new = w ^ (w >> 19) ^ t ^ (t >> 8)
    return (y, z, w, new), new


@pytest.mark.parametrize(("generator", "step"), [*zip(GENERATORS, (taus88, lfsr113, xorshift128), strict=True)])
def test_sequences_are_the_published_ones(generator, step):
    rng = generator(12345)
    state = tuple(int(word) for word in rng.key)
    for _ in range(20):
        state, wanted = step(*state)
        assert int(rng.randint()) == wanted
    assert tuple(int(word) for word in rng.key) == state


def draws(generator, method, number, seeds):
    def one(seed):
        def step(rng, _):
            found = method(rng)
            return rng, found

        return jax.lax.scan(step, generator(seed), None, number)[1]

    return np.asarray(jax.jit(jax.vmap(one))(seeds))


@every
def test_first_draws_of_seeds_in_a_row_are_uniform(generator):
    first = np.sort(draws(generator, lambda rng: rng.rand(), 1, jnp.arange(2000))[:, 0])
    assert first.min() >= 0
    assert first.max() < 1
    assert abs(first - np.arange(2000) / 2000).max() < 0.04  # Kolmogorov and Smirnov: once in 500 for chance


@every
def test_numbers_have_their_distributions(generator):
    normal = draws(generator, lambda rng: rng.normal(2.0, 3.0), 4000, jnp.arange(4))
    assert abs(normal.mean() - 2) < 4 * 3 / 16000**0.5
    assert abs(normal.std() - 3) < 4 * 3 / 32000**0.5
    uniform = draws(generator, lambda rng: rng.uniform(-1.0, 3.0), 4000, jnp.arange(4))
    assert -1 <= uniform.min() < uniform.max() < 3
    assert abs(uniform.mean() - 1) < 4 * 4 / (12 * 16000) ** 0.5


@every
def test_integers_are_drawn_from_both_ends(generator):
    found = draws(generator, lambda rng: rng.random_integers(-3, 2), 3000, jnp.arange(2))
    assert found.dtype == np.int32
    counts = np.bincount(found.ravel() + 3, minlength=6)
    assert counts.size == 6
    assert abs(counts - 1000).max() < 4 * 1000**0.5


@settings(max_examples=10)
@given(low=st.integers(-(2**31), 2**31 - 1), high=st.integers(-(2**31), 2**31 - 1), seed=st.integers(0, 99))
def test_integers_of_any_range(low, high, seed):
    low, high = sorted((low, high))
    assert low <= int(PallasLFSR88RNG(seed).random_integers(low, high)) <= high


def test_all_integers_are_a_range():
    found = PallasLFSR88RNG(1)
    other = PallasLFSR88RNG(1)
    assert np.int32(found.random_integers(-(2**31), 2**31 - 1)) == (int(other.randint()) - 2**31)


@every
def test_states_are_trees_of_four_words(generator):
    rng = generator(7)
    assert [(leaf.dtype.name, leaf.shape) for leaf in jax.tree.leaves(rng)] == [("uint32", ())] * 4
    before = rng.key
    after = rng.generate_next_key()
    assert rng.key is before
    rng.key = after
    other = jax.jit(lambda rng: rng)(generator(7))
    other.randint()
    assert all(int(a) == int(b) for a, b in zip(rng.key, other.key, strict=True))
    assert len({int(generator(seed).rand() * 2**24) for seed in range(50)}) == 50
    with pytest.raises(TypeError, match=rf"{generator.__name__}.key: pass a tuple of four arrays of uint32"):
        rng.key = [1, 2, 3, 4]
    with pytest.raises(ValueError, match="1 is not an array of uint32; pass four"):
        rng.key = (1, 2, 3, 4)
    with pytest.raises(TypeError, match="RNG: seed is None; pass an integer"):
        generator(None)
    assert [int(word) for word in generator(2**70 + 3).key] == [int(word) for word in generator(3).key]  # low 32 bits
    with pytest.raises(TypeError, match="seed is float32; pass an integer"):
        generator(1.5)
    with pytest.raises(ValueError, match=r"random_integers: low is 2 and high 1; pass low <= high"):
        rng.random_integers(2, 1)


def test_the_class_is_the_configured_one():
    for name, generator in (("lfsr113", GENERATORS[1]), ("lfsr128", GENERATORS[2]), ("lfsr88", GENERATORS[0])):
        config.set_lfsr_algorithm(name)
        assert brainevent.get_pallas_lfsr_rng_class() is generator
        assert type(brainevent.PallasLFSRRNG(3)) is generator


def test_it_draws_inside_a_pallas_kernel():
    from jax.experimental import pallas

    def kernel(out):
        rng = PallasLFSR88RNG(5)
        out[...] = rng.rand() * jnp.ones(4) + rng.random_integers(-2, -2)

    found = pallas.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((4,), "float32"), interpret=True)()
    np.testing.assert_allclose(found, float(PallasLFSR88RNG(5).rand()) - 2, rtol=1e-6)
