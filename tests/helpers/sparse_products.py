# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices drawn at random in two formats, with a dense one beside each: what the tests of products share."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import strategies as st

import brainevent

FLOATS = ("float16", "bfloat16", "float32", "float64")
NUMBERS = ("bool", "int8", "uint8", "int32", "float16", "bfloat16", "float32", "float64")
TOLERANCE = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}


@dataclass(frozen=True)
class Sparse:
    """Weights, the arrays of indices of a format, the shape, and where each stored element is."""

    weights: Any
    indices: tuple[Any, ...]
    shape: tuple[int, int]
    rows: np.ndarray  # in the order of the weights, flat
    columns: np.ndarray

    def dense(self, weights: Any = None) -> np.ndarray:
        """Return the matrix in float64; duplicates add up."""
        matrix = np.zeros(self.shape)
        each = np.asarray(self.weights if weights is None else weights, np.float64).reshape(-1)
        np.add.at(matrix, (self.rows, self.columns), np.broadcast_to(each, self.rows.shape))
        return matrix

    def product(self, x: Any, *, transpose: bool, event: bool) -> np.ndarray:
        """Return the product in float64; what is silent is left out, not multiplied by zero."""
        values = np.asarray(x).astype(np.float64)
        into, out_of, size = self._directed(transpose)
        each = np.broadcast_to(np.asarray(self.weights, np.float64).reshape(-1), self.rows.shape)
        each = each.reshape(-1, *[1] * (x.ndim - 1))
        terms = np.where(values[out_of] != 0, each, 0) if event else each * values[out_of]
        found = np.zeros((size, *x.shape[1:]))
        np.add.at(found, into, terms)
        return found

    def _directed(self, transpose: bool) -> tuple[np.ndarray, np.ndarray, int]:
        m, k = self.shape
        return (self.columns, self.rows, k) if transpose else (self.rows, self.columns, m)


def fixed(seed, n_pre, n_post, connections, *, homogeneous, dtype="float32", index="int32"):
    """Return a matrix of equally long rows, with duplicates; an empty one if there are no columns."""
    random = np.random.default_rng(seed)
    indices = random.integers(0, max(1, n_post), (n_pre, connections if n_post else 0))
    weights = random.normal(size=1 if homogeneous else indices.shape)
    rows = np.repeat(np.arange(n_pre), indices.shape[1])
    return Sparse(jnp.asarray(weights, dtype), (jnp.asarray(indices, index),), (n_pre, n_post), rows, indices.ravel())


def coordinates(seed, m, k, connections, *, homogeneous, dtype="float32", index="int32"):
    """Return a matrix in coordinates, in no order, with duplicates."""
    random = np.random.default_rng(seed)
    stored = m * connections if k else 0
    rows, columns = (random.integers(0, max(1, size), stored) for size in (m, k))
    weights = random.normal(size=() if homogeneous else stored)
    indices = jnp.asarray(rows, index), jnp.asarray(columns, index)
    return Sparse(jnp.asarray(weights, dtype), indices, (m, k), rows, columns)


def operand(seed, size, columns, dtype="bool", active=0.3):
    """Return a vector or matrix of numbers, of which some are negative where the type has such numbers."""
    random = np.random.default_rng(seed)
    shape = (size,) if columns is None else (size, columns)
    numbers = np.where(random.random(shape) < active, random.integers(1, 4, shape), -random.integers(0, 3, shape))
    return jnp.asarray(np.maximum(numbers, 0) if dtype in ("bool", "uint8") else numbers).astype(dtype)


def numbers(seed, size, columns=None, dtype="float32"):
    """Return normal numbers."""
    shape = (size,) if columns is None else (size, columns)
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), dtype)


def taken(sparse, *, transpose):
    """Return how many rows an operand x has."""
    return sparse.shape[0 if transpose else 1]


def called(sparse, x, kind, weights=None, **options):
    """Call a public function: `kind` is "fcn" or "coo", or either after "binary_"."""
    function = getattr(brainevent, f"{kind}{'mv' if x.ndim == 1 else 'mm'}")
    weights = sparse.weights if weights is None else weights
    return function(weights, *sparse.indices, x, shape=sparse.shape, **options)


def close(found, wanted, dtype="float32"):
    wanted = np.asarray(wanted, np.float64)
    scale = 1 + abs(wanted).max(initial=0)
    np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=0, atol=scale * TOLERANCE[dtype])


def loops(function, *args):
    """Return how many loops a lowered function has, and how many custom calls."""
    text = jax.jit(function).lower(*args).as_text()
    return text.count("stablehlo.while"), text.count("stablehlo.custom_call")


SIZES = st.integers(0, 70)
CALLS = {
    "seed": st.integers(0, 99),
    "m": SIZES,
    "k": SIZES,
    "connections": st.integers(0, 9),
    "columns": st.none() | st.integers(0, 40),
    "dtype": st.sampled_from(FLOATS),
    "index": st.sampled_from(["int32", "int64"]),
    "of_x": st.sampled_from(NUMBERS),
    "active": st.sampled_from([0.0, 0.02, 0.3, 1.0]),
    "homogeneous": st.booleans(),
    "transpose": st.booleans(),
    "event": st.booleans(),
}
