# SPDX-License-Identifier: Apache-2.0
"""What NumPy moves in place of JAX is, to the last bit, what JAX would have made."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import quick_eager
from jax import lax

X = np.arange(-6, 6).reshape(3, 4)
ROWS = np.array([2, 0, -1])
DTYPES = ("bool", "int8", "uint16", "int32", "float32", "bfloat16", "float64")
CALLS = {
    "broadcast_in_dim": lambda x: [lax.broadcast_in_dim(x, (2, 3, 5, 4), (1, 3)), jnp.zeros((2, 3), x.dtype)],
    "convert_element_type": lambda x: [
        x.astype(dtype) for dtype in DTYPES[: None if jax.config.jax_enable_x64 else -1]
    ],
    "reshape": lambda x: [x.reshape(4, 3), x.reshape(-1), x[:0].reshape(0, 7)],
    "iota": lambda x: [lax.broadcasted_iota(dtype, (2, 5), 1) for dtype in ("int32", "uint16", "float32", "bfloat16")],
    "dynamic_slice": lambda x: [lax.dynamic_slice(x, starts, (2, 3)) for starts in ((0, 0), (9, -9), (1, 1))],
    "squeeze": lambda x: [lax.squeeze(x[None, :, None], (0, 2)), lax.squeeze(x[:1], (-2,))],
    "transpose": lambda x: [x.T, lax.transpose(x[None], (2, 0, 1))],
    "concatenate": lambda x: [lax.concatenate([x, x[:1]], 0), lax.concatenate([x, x], 1)],
    "gather": lambda x: [
        x[ROWS],
        x[:, ROWS],
        x[ROWS, ROWS + 1],
        x[ROWS[:, None]],
        x.at[ROWS].get(),
        x[jnp.array([7, 0])],
    ],
    "stage": lambda x: [lax.stage(np.asarray(x)), lax.stage(np.asarray(x)[0, 0]), lax.stage(x)],
}


def arrays(name, dtype):
    """Return what an operation makes of an array, of one with a weak type, and of one on a device of its own."""
    given = jnp.asarray(X.astype(dtype))
    placed = jax.device_put(given, jax.devices()[-1])
    weak = lax.broadcast_in_dim(jnp.asarray(2.0), (3, 4), ())
    return [found for x in (given, placed, weak) for found in CALLS[name](x)]


@pytest.fixture
def counted(monkeypatch):
    """Let this test see each operation by NumPy; none is replaced before and after it where the run replaces none."""
    moves, here = [], {}
    for name, moved in quick_eager._MOVES.items():
        primitive = getattr(lax, f"{name}_p")
        left = getattr(primitive.impl, "left_to_jax", primitive.impl)
        here[name] = left
        seen = lambda *xs, moved=moved, name=name, **how: moves.append(name) or moved(*xs, **how)
        monkeypatch.setattr(primitive, "impl", quick_eager._quick(seen, left))
    return moves, here


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("wide", [False, True])
def test_moved_arrays_equal_those_of_jax(name, wide, counted, monkeypatch):
    assert set(CALLS) == set(quick_eager._MOVES)
    moves, left_to_jax = counted
    for dtype in ("bool", "int32", "float32", "bfloat16"):
        with jax.enable_x64(wide):
            found = arrays(name, dtype)
            with monkeypatch.context() as patch:
                for other, left in left_to_jax.items():
                    patch.setattr(getattr(lax, f"{other}_p"), "impl", left)
                wanted = arrays(name, dtype)
        for one, other in zip(found, wanted, strict=True):
            assert (one.aval, one.sharding, one._committed) == (other.aval, other.sharding, other._committed)
            assert np.asarray(one).tobytes() == np.asarray(other).tobytes()
    assert moves.count(name) > 0


def test_a_moved_array_shares_no_memory_with_its_source(counted):
    x = jnp.asarray(X)
    flat = x.reshape(-1)
    x.delete()
    np.testing.assert_array_equal(flat, X.ravel())


def test_conversions_that_numpy_rounds_differently_are_left_to_jax():
    for x, dtype in ((np.float32([1e30]), "int32"), (np.float32([1e-40]), "float64"), (np.float64([1]), "float16")):
        assert quick_eager._convert_element_type(x, new_dtype=np.dtype(dtype), weak_type=False) is None
