# SPDX-License-Identifier: Apache-2.0
"""Products with matrices whose leaves were changed: every format, change and form of events, against dense arrays."""

import copy
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from forked import run_forked

import brainevent

RANDOM = np.random.default_rng(0)
DENSE = jnp.asarray(RANDOM.integers(-3, 4, (40, 50)) * (RANDOM.random((40, 50)) < 0.2), jnp.float32)
VALUES = {n: jnp.asarray(RANDOM.integers(-1, 3, n), jnp.float32) for n in (40, 50)}


def buffered():
    matrix = brainevent.CSR.fromdense(DENSE)
    matrix.register_buffer("trace", jnp.ones(40))
    matrix.register_buffer("count", jnp.arange(3))
    return matrix


def drawn(kind, *numbers):
    return lambda: getattr(brainevent, f"JITC{kind}")((*numbers, 0.2, 1), shape=(40, 50))


FORMATS = {
    "csr": lambda: brainevent.CSR.fromdense(DENSE),
    "one weight": lambda: brainevent.CSR.fromdense(DENSE).with_data(jnp.array([2.0])),
    "turned": lambda: brainevent.CSR.fromdense(DENSE).precompute_weight_indices(),
    "buffered": buffered,
    "csc": lambda: brainevent.CSC.fromdense(DENSE),
    "coo": lambda: brainevent.COO.fromdense(DENSE),
    "dense": lambda: brainevent.Dense(DENSE),
    "per_pre": lambda: brainevent.FixedNumPerPre.fromdense(DENSE, num_conn=50),
    "per_post": lambda: brainevent.FixedNumPerPost.fromdense(DENSE, num_conn=40),
    "tcsr": lambda: brainevent.TCSR.fromdense(DENSE),
    "tcsc": lambda: brainevent.TCSR.fromdense(DENSE.T).T,
    **{f"scalar {side}": drawn(f"Scalar{side}", 0.5) for side in "RC"},
    **{f"normal {side}": drawn(f"Normal{side}", 0.5, 0.1) for side in "RC"},
    **{f"uniform {side}": drawn(f"Uniform{side}", 0.1, 0.6) for side in "RC"},
}


def mapped(f, *trees):
    return jax.tree.map(f, *trees)


def stacked(m):
    return mapped(lambda a: jnp.stack([a, 3 * a]), m)


def first(m):
    return mapped(lambda a: a[0], m)


def doubled(m):
    return mapped(lambda a: a * 2, m)


CHANGES = {  # each changes weights by a factor
    "doubled": (doubled, 2),
    "scaled": (lambda m: mapped(lambda a: a * 0.9, m), 0.9),
    "stepped": (lambda m: mapped(lambda p, g: p - 0.5 * g, m, doubled(doubled(m))), -1),
    "zeros": (lambda m: mapped(jnp.zeros_like, m), 0),
    "halved": (lambda m: mapped(lambda a: a.astype("float16").astype("float32"), m), 1),
    "stacked": (lambda m: mapped(lambda a: a[1], stacked(m)), 3),
    "moved": (lambda m: jax.device_put(doubled(m), jax.devices()[0]), 2),
    "rebuilt": (lambda m: jax.tree.unflatten(jax.tree.structure(m), jax.tree.leaves(doubled(m))), 2),
    "jitted": (lambda m: jax.jit(doubled)(m), 2),
    "carried": (lambda m: jax.lax.scan(lambda c, _: (doubled(c), None), m, length=3)[0], 8),
    "vmapped": (lambda m: first(jax.vmap(doubled, in_axes=0)(stacked(m))), 2),
    "pickled": (lambda m: pickle.loads(pickle.dumps(doubled(m))), 2),
    "donated": (lambda m: jax.jit(doubled, donate_argnums=0)(copy.deepcopy(m)), 2),
    "slope": (lambda m: jax.grad(lambda p: sum((a**2).sum() for a in jax.tree.leaves(p)))(m), 2),
    "chosen": (lambda m: jax.vmap(lambda m, on: jax.lax.cond(on, doubled, lambda m: m, m), (None, 0))(m, ON), 2),
}
ON = jnp.array([True, False])
EVENTS = {
    "floats": (lambda x: x, lambda x: x),
    "binary": (brainevent.BinaryArray, lambda x: x != 0),
    "booleans": (lambda x: brainevent.BinaryArray(x != 0), lambda x: x != 0),
    "weighted": (brainevent.WeightedArray, lambda x: x),
    "packed": (brainevent.BitPackedBinary, lambda x: x != 0),
    "compact": (brainevent.CompactBinary.from_array, lambda x: x != 0),
    "listed": (brainevent.CompactBinary.compacy_only_vector, lambda x: x != 0),
    "columns": (lambda x: brainevent.BinaryArray(jnp.stack([x, x], -1)), lambda x: jnp.stack([x, x], -1) != 0),
}


@pytest.mark.covering(strength=1)
@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", FORMATS)
def test_products_with_changed_leaves_are_those_of_dense_arrays(name, change, events):
    matrix, (make, factor), (form, counted) = FORMATS[name](), CHANGES[change], EVENTS[events]
    dense = factor * np.asarray(matrix.todense(), np.float64)
    changed = make(matrix)
    changed = first(changed) if change == "chosen" else changed
    left, right = (jax.tree.unflatten(*jax.tree.flatten(form(VALUES[n]))[::-1]) for n in (40, 50))
    by_left, by_right = (np.asarray(counted(VALUES[n]), np.float64) for n in (40, 50))
    tolerance = 2e-3 if change == "halved" else 1e-5
    for run in (lambda f: f, jax.jit):
        found = run(lambda m, e: m @ e)(changed, right)
        np.testing.assert_allclose(found, dense @ by_right, rtol=tolerance, atol=tolerance * 10)
        if events != "columns":
            found = run(lambda m, e: e @ m)(changed, left)
            np.testing.assert_allclose(found, by_left @ dense, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "chosen"])
def test_deliveries_with_changed_leaves_are_those_of_changed_weights(change):
    matrix, (make, factor) = FORMATS["csr"](), CHANGES[change]
    layout = matrix.delay_layout(jnp.arange(matrix.nse) % 4 + 1, 5)
    deliver = lambda layout, form: layout.deliver(jnp.zeros((5, 50)), form(VALUES[40]), 3)
    changed = make(layout)
    for form in (brainevent.BinaryArray, brainevent.WeightedArray, brainevent.BitPackedBinary):
        wanted = factor * np.asarray(deliver(layout, form))
        np.testing.assert_allclose(deliver(changed, form), wanted, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(jax.jit(deliver, static_argnums=1)(changed, form), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in FORMATS if name not in ("one weight", "buffered")])
def test_leaves_that_became_integers_are_refused(name):
    changed = mapped(lambda a: a.astype("int32"), FORMATS[name]())
    with pytest.raises(TypeError, match="pass floating"):
        brainevent.BinaryArray(VALUES[40]) @ changed


def test_no_format_reaches_beyond_memory():
    said = run_forked(
        """
        import jax, jax.numpy as jnp, numpy as np, brainevent
        dense = np.where(np.random.default_rng(0).random((200, 300)) < 0.05, 1.0, 0.0).astype("float32")
        x = jnp.ones(200)
        kinds = [brainevent.CSC, brainevent.COO, brainevent.TCSR]
        made = [kind.fromdense(jnp.asarray(dense)) for kind in kinds]
        made += [brainevent.FixedNumPerPre.fromdense(jnp.asarray(dense), num_conn=300)]
        made += [brainevent.FixedNumPerPost.fromdense(jnp.asarray(dense), num_conn=200)]
        made += [made[2].precompute_weight_indices()]
        for matrix in made:
            changed = jax.tree.map(lambda a: a * (1 << 20), matrix)
            for events in (brainevent.BinaryArray(x), brainevent.WeightedArray(x), brainevent.BitPackedBinary(x), x):
                assert jnp.allclose(events @ changed, dense.sum(0) * (1 << 20))
        print("done")
        """
    )
    assert "done" in said
