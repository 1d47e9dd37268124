# SPDX-License-Identifier: Apache-2.0
"""Every operator of the zoo under every transformation, against its jax.numpy twin."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transforming import TRANSFORMATIONS, batched_operands, jvp_float, same
from zoo import ANIMALS

N = 3


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("name", ANIMALS)
def test_an_operator_is_transformed_like_its_twin(name, transformation):
    animal, apply = ANIMALS[name], TRANSFORMATIONS[transformation]
    if "transpose" in transformation and not animal.linear:
        pytest.skip("not linear")
    operands = animal.operands(N)
    expected, found = (jax.jit(lambda f=f: apply(animal, f, operands))() for f in (animal.twin, animal.call))
    same(found, expected)


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize(
    "transformation", ["jit", "vmap", "vmap sized 0", "jvp", "vjp", "grad", "vmap of grad", "scan"]
)
@pytest.mark.parametrize("name", ["product", "masked", "callback"])
def test_eager_transformations_too(name, transformation):
    animal, apply = ANIMALS[name], TRANSFORMATIONS[transformation]
    operands = animal.operands(N)
    same(apply(animal, animal.call, operands), apply(animal, animal.twin, operands))


@pytest.mark.parametrize("name", ANIMALS)
def test_compiled_ahead_of_time(name):
    animal = ANIMALS[name]
    operands = animal.operands(N)
    same(jax.jit(animal.call).lower(*operands).compile()(*operands), jax.jit(animal.twin)(*operands))


@pytest.mark.parametrize("name", ANIMALS)
def test_types_are_known_without_running(name):
    animal = ANIMALS[name]
    operands = animal.operands(N)
    found, expected = (jax.eval_shape(f, *operands) for f in (animal.call, animal.twin))
    assert jax.tree.map(lambda x: (x.shape, x.dtype), found) == jax.tree.map(lambda x: (x.shape, x.dtype), expected)
    jaxpr = str(jax.make_jaxpr(animal.call)(*operands))
    assert f"zoo_{name}" in jaxpr


# ---- drawn at random -----------------------------------------------------------------------------------------------


@st.composite
def vmaps(draw, operands):
    """Draw in_axes for these operands, of which one at least is mapped, with out_axes and a size."""
    axes = [draw(st.none() | st.integers(-np.ndim(x) - 1, np.ndim(x))) for x in operands]
    if all(axis is None for axis in axes):
        axes[draw(st.integers(0, len(axes) - 1))] = 0
    return tuple(axes), draw(st.sampled_from([0, -1])), draw(st.sampled_from([2, 1, 3, 0]))


@st.composite
def compositions(draw):
    """Draw an animal, operands, and a way to transform a function of them."""
    animal = ANIMALS[draw(st.sampled_from(sorted(ANIMALS)))]
    operands = list(animal.operands(draw(st.integers(1, 4))))
    steps = []
    for kind in draw(
        st.lists(st.sampled_from(["vmap", "vmap", "jvp", "vjp", "jit", "checkpoint", "scan"]), min_size=1, max_size=4)
    ):
        if kind == "vmap":
            axes, out_axes, size = draw(vmaps(operands))
            operands = batched_operands(operands, size, axes)
            steps.append((kind, lambda f, axes=axes, out=out_axes, size=size: jax.vmap(f, axes, out, axis_size=size)))
        else:
            steps.append((kind, STEPS[kind]))
    return animal, operands, steps


def pulled_back(f):
    """Return the gradient of a function by its float operands, for all float results."""

    def gradient(*operands):
        moving = [i for i, x in enumerate(operands) if x.dtype == jnp.float32]

        def scalar(*values):
            filled = list(operands)
            for i, x in zip(moving, values, strict=True):
                filled[i] = x
            return sum(jnp.tanh(x).sum() for x in jax.tree.leaves(f(*filled)) if x.dtype == jnp.float32)

        return jax.grad(scalar, range(len(moving)))(*(operands[i] for i in moving))

    return gradient


STEPS = {
    "jvp": lambda f: lambda *xs: jvp_float(f, xs, xs),
    "vjp": pulled_back,
    "jit": jax.jit,
    "checkpoint": jax.checkpoint,
    "scan": lambda f: lambda *xs: jax.lax.scan(lambda c, _: (c, f(*xs)), 0, None, length=2)[1],
}


@settings(max_examples=3)
@given(compositions())
def test_any_composition(drawn):
    animal, operands, steps = drawn
    found, expected = animal.call, animal.twin
    for _, step in steps:
        found, expected = step(found), step(expected)
    same(jax.jit(found)(*operands), jax.jit(expected)(*operands))


# ---- in JAX's other surroundings -----------------------------------------------------------------------------------


def doubled(operands):
    return [np.asarray(x, np.float64) if x.dtype == np.float32 else x for x in map(np.asarray, operands)]


SURROUNDINGS = {
    "disable_jit": (jax.disable_jit, lambda xs: xs),
    "checking_leaks": (jax.checking_leaks, lambda xs: xs),
    "another device": (lambda: jax.default_device(jax.devices()[1]), lambda xs: xs),
    "64 bits": (lambda: jax.enable_x64(True), doubled),
    "strict promotion": (lambda: jax.numpy_dtype_promotion("strict"), lambda xs: xs),
}


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("surroundings", SURROUNDINGS)
@pytest.mark.parametrize("name", ["product", "masked", "callback", "by_author"])
def test_contexts_of_jax_change_no_result(name, surroundings):
    animal, (context, prepare) = ANIMALS[name], SURROUNDINGS[surroundings]
    operands = prepare(animal.operands(N))
    batch = [np.stack([x, x]) for x in operands]
    with context():
        same(animal.call(*operands), animal.twin(*(jnp.asarray(x) for x in operands)))
        found, expected = (jax.jit(jax.vmap(f))(*batch) for f in (animal.call, animal.twin))
        same(found, expected)
        if surroundings == "another device":
            assert {x.device for x in jax.tree.leaves((found, animal.call(*operands)))} == {jax.devices()[1]}


def test_operands_stay_on_their_device():
    animal = ANIMALS["product"]
    operands = [jax.device_put(x, jax.devices()[2]) for x in animal.operands(N)]
    for f in (animal.call, jax.jit(animal.call), jax.vmap(lambda x, y: animal.call(x[None], y[None])[0])):
        assert f(*operands).device == jax.devices()[2]
        same(f(*operands), animal.twin(*operands))
