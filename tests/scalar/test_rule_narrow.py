# SPDX-License-Identifier: Apache-2.0
"""Integers of 8 and 16 bits within rules: each operation gives what it gives in JAX, at the limits too."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from brainevent.errors import RuleError
from brainevent.scalar.interpret import interpret
from brainevent.scalar.trace import trace

F = np.float32
OTHER = {"int8": "uint8", "uint8": "int8", "int16": "uint16", "uint16": "int16"}
# Functions of two integers, whose results are compared.
WORK = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "high_product": lax.mulhi,
    "negative": lambda a, b: -a,
    "abs": lambda a, b: jnp.abs(a),
    "not": lambda a, b: ~a,
    "shift_left": lax.shift_left,
    "shift_right_logical": lax.shift_right_logical,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "right_shift": lambda a, b: a >> 3,
    "population_count": lambda a, b: lax.population_count(a),
    "bitwise_count": lambda a, b: jnp.bitwise_count(a) + jnp.bitwise_count(b) * 7,
    "clz": lambda a, b: lax.clz(a),
    "divide": lax.div,
    "remainder": lax.rem,
    "floor_divide": lambda a, b: a // b,
    "modulo": lambda a, b: a % b,
    "sign": lambda a, b: jnp.sign(a),
    "clip": lambda a, b: jnp.clip(a, 3, b),
    "power": lambda a, b: a**3,
    "compared": lambda a, b: (a < b) ^ (a == b),
    "logic": lambda a, b: (a & 15) | (b ^ 3),
    "sum": lambda a, b: jnp.stack([a, b, a]).sum(),
    "narrow_sum": lambda a, b: jnp.stack([a, b, a]).sum(dtype=a.dtype),
    "cumsum": lambda a, b: jnp.cumsum(jnp.stack([a, b, a]), dtype=a.dtype)[2],
    "dot": lambda a, b: jnp.dot(jnp.stack([a, b]), jnp.stack([b, a])),
    "dot_wide": lambda a, b: jnp.dot(jnp.stack([a, b]), jnp.stack([b, a]), preferred_element_type=np.int32),
    "filled": lambda a, b: jnp.stack([a, b]).at[a].get(mode="fill"),
    "added_at": lambda a, b: jnp.stack([a, b]).at[a & 1].add(a)[1],
    "int8": lambda a, b: a.astype("int8"),
    "uint16": lambda a, b: a.astype("uint16"),
    "uint32": lambda a, b: a.astype("uint32"),
    "float32": lambda a, b: a.astype("float32") * 1.5,
    "bitcast": lambda a, b: lax.bitcast_convert_type(a, OTHER[str(a.dtype)]),
    "loop": lambda a, b: lax.fori_loop(0, 5, lambda k, c: c * 3 + b, a),
    "branch": lambda a, b: lax.cond(a > b, lambda: a + b, lambda: a - b),
    "packed": lambda a, b: jnp.packbits(jnp.stack([a > b, a < b, a == b]))[0],
}
LIMITS = [0, 1, 3, 7, 8, 31, 127, 128, 200, 255, 256, 32767, 32768, 65535, -1, -7, -128, -129, -32768, -32769, 100000]


def compared(dtype, names):
    """Return, by name, what a rule and JAX give for all pairs of limits."""
    i, j = (np.array(x, np.int32) for x in zip(*itertools.product(LIMITS, LIMITS), strict=True))

    def results(i, j):
        return [jnp.asarray(WORK[name](i.astype(dtype), j.astype(dtype))).astype(F) for name in names]

    zeros = {name: F(0) for name in names}
    rule = lambda s, arriving, p: (s.replace(**dict(zip(names, results(s.i, s.j), strict=True))), s.i > 0)
    form = trace(rule, {"i": np.int32(0), "j": np.int32(0), **zeros}, [], {}).form
    ours = interpret(form, [i, j, *(np.zeros(i.shape, F) for _ in names)])[2:]
    return {name: pair for name, *pair in zip(names, ours, jax.vmap(results)(i, j), strict=False)}


def check(dtype, names):
    for name, (ours, theirs) in compared(dtype, names).items():
        np.testing.assert_array_equal(ours, theirs, err_msg=name)


@pytest.mark.parametrize("dtype", ["int8", "uint16"])
def test_narrow_integers_wrap_as_in_jax(dtype):
    check(dtype, ("add", "negative", "not", "shift_right_logical", "bitwise_count", "clz", "divide", "filled", "dot"))


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", OTHER)
def test_every_operation_of_narrow_integers_is_that_of_jax(dtype):
    check(dtype, tuple(WORK))


@pytest.mark.parametrize("dtype", OTHER)
def test_floats_saturate_as_narrow_integers(dtype):
    x = F([0, -0.5, 0.99, 127.9, 128, 255.5, 256, -129, 65535.5, 70000, -40000, 1e20, -1e20, np.inf, -np.inf, np.nan])
    rule = lambda s, arriving, p: (s.replace(out=s.x.astype(dtype).astype("int32")), s.x > 0)
    form = trace(rule, {"x": 0.0, "out": np.int32(0)}, [], {}).form
    assert interpret(form, [x, np.zeros(x.size, np.int32)])[1].tolist() == jnp.asarray(x).astype(dtype).tolist()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda u: lax.bitcast_convert_type(u, jnp.uint8).sum(), r"bitcast of uint32 to uint8; use shifts, & and \|"),
        (lambda u: u.astype("float16"), r"makes float16\[\]; a rule may use float32, bool, and integers of 8 to 32"),
    ],
)
def test_operations_without_a_narrow_or_unsigned_meaning_are_refused(function, words):
    rule = lambda s, arriving, p: (s.replace(u=function(s.u).astype("uint32")), s.u > 0)
    with pytest.raises(RuleError, match=words):
        trace(rule, {"u": np.uint32(0)}, [], {})
