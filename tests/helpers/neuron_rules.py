# SPDX-License-Identifier: Apache-2.0
"""Rules in ordinary jax.numpy, as functions of six scalars: each is traced, and run by every engine."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from brainevent.scalar.random import Random
from brainevent.scalar.trace import trace

INPUTS = {"x": "float32", "y": "float32", "i": "int32", "j": "int32", "u": "uint32", "b": "bool"}


@jax.custom_jvp
def surrogate(x):
    return jnp.where(x >= 0, 1.0, 0.0)


surrogate.defjvps(lambda t, ans, x: t / (1 + jnp.abs(x)) ** 2)


@jax.custom_vjp
def straight(x):
    return jnp.round(x)


straight.defvjp(lambda x: (straight(x), None), lambda _, g: (g,))


def swapped(x, y, i, j, u, b):
    """Swap two carries in each turn: they must be assigned at once."""
    return lax.fori_loop(0, 5, lambda k, c: (c[1], c[0] + 1), (x, y))[0]


def collatz(x, y, i, j, u, b):
    def more(c):
        n, steps = c
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

    return lax.while_loop(lambda c: (c[0] > 1) & (c[1] < 30), more, (i & 1023, 0))[1]


def nested(x, y, i, j, u, b):
    inner = lambda k, c: lax.fori_loop(0, 3, lambda m, d: d * 0.5 + m, c) + y
    return lax.fori_loop(0, 4, inner, x)


def loop_in_branch(x, y, i, j, u, b):
    long = lambda: lax.while_loop(lambda c: c[1] < (i & 7), lambda c: (c[0] + x, c[1] + 1), (y, 0))[0]
    return lax.cond(b, long, lambda: x * 2)


def branch_in_loop(x, y, i, j, u, b):
    step = lambda k, c: lax.cond(c > y, lambda: c * 0.5, lambda: c + k)
    return lax.fori_loop(0, 6, step, x)


def hashed(x, y, i, j, u, b):
    h = u
    for multiply in (0x7FEB352D, 0x846CA68B):
        h = (h ^ (h >> 16)) * jnp.uint32(multiply)
    return (h >> 8).astype(jnp.float32) * jnp.float32(2**-24)


def adaptive(x, y, i, j, u, b):
    """One step of an adaptive exponential neuron."""
    v, w = jnp.clip(x, -90, -30), jnp.clip(y, -50, 50)
    rise = 2.0 * jnp.exp((v + 50) / 2.0)
    v = v + 0.1 * (-(v + 70) + rise - w) / 20
    return jnp.where(v > -40, -65.0, v)


def izhikevich(x, y, i, j, u, b):
    v = jnp.clip(x, -80, 30)
    return v + 0.5 * (0.04 * v**2 + 5 * v + 140 - jnp.clip(y, -20, 20))


def gating(x, y, i, j, u, b):
    v = jnp.clip(x, -90, 50)
    alpha = 0.1 * (v + 40) / jnp.where(v == -40, 1.0, -jnp.expm1(-(v + 40) / 10))
    return alpha / (alpha + 4 * jnp.exp(-(v + 65) / 18))


def drawn(method):
    """Return a rule that draws: its inputs are neuron, step and key as well."""

    def rule(x, y, i, j, u, b):
        step, key = (lax.bitcast_convert_type(k, jnp.uint32) for k in (i, j))
        random = Random(u, step, jnp.uint32(7), key, dtype=x.dtype)
        return method(random, x, y, i)

    return rule


def drawn_in_a_loop(random, x, y, i):
    return lax.fori_loop(0, i & 3, lambda k, c: c + random.uniform(index=k), random.normal())


GRID, VALUES = np.array([-2.0, -1.0, 0.5, 3.0], np.float32), np.array([0.0, 1.0, -1.0, 4.0], np.float32)

# Names say what a rule is about; all take x, y: float32, i, j: int32, u: uint32, b: bool.
RULES = {
    "arithmetic": lambda x, y, i, j, u, b: (x + y) * 0.5 - x / 3.0,
    "contraction": lambda x, y, i, j, u, b: x * y + 1.5,
    "product": lambda x, y, i, j, u, b: x * y,
    "difference": lambda x, y, i, j, u, b: x - y,
    "difference_compared": lambda x, y, i, j, u, b: jnp.where(x - y == 0, 1, jnp.where(x - y > 0, 2, 3)),
    "divide": lambda x, y, i, j, u, b: x / y,
    "remainder": lambda x, y, i, j, u, b: jnp.fmod(x, y),
    "modulo": lambda x, y, i, j, u, b: x % 3.0,
    "floor_divide": lambda x, y, i, j, u, b: x // 0.7,
    "negative": lambda x, y, i, j, u, b: -x,
    "absolute": lambda x, y, i, j, u, b: jnp.abs(x),
    "sign": lambda x, y, i, j, u, b: jnp.sign(x),
    "maximum": lambda x, y, i, j, u, b: jnp.maximum(x, y),
    "minimum": lambda x, y, i, j, u, b: jnp.minimum(x, y),
    "clip": lambda x, y, i, j, u, b: jnp.clip(x, -1.0, 2.0),
    "clamp": lambda x, y, i, j, u, b: lax.clamp(jnp.float32(-1), x, jnp.float32(2)),
    "floor": lambda x, y, i, j, u, b: jnp.floor(x),
    "ceil": lambda x, y, i, j, u, b: jnp.ceil(x),
    "round": lambda x, y, i, j, u, b: jnp.round(x),
    "round_from_zero": lambda x, y, i, j, u, b: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "trunc": lambda x, y, i, j, u, b: jnp.trunc(x),
    "square_root": lambda x, y, i, j, u, b: jnp.sqrt(x),
    "reciprocal_root": lambda x, y, i, j, u, b: lax.rsqrt(x),
    "squared": lambda x, y, i, j, u, b: x**2,
    "seventh": lambda x, y, i, j, u, b: x**7,
    "minus_third": lambda x, y, i, j, u, b: x**-3,
    "exp": lambda x, y, i, j, u, b: jnp.exp(x),
    "exp2": lambda x, y, i, j, u, b: jnp.exp2(x),
    "expm1": lambda x, y, i, j, u, b: jnp.expm1(x),
    "log": lambda x, y, i, j, u, b: jnp.log(x),
    "log1p": lambda x, y, i, j, u, b: jnp.log1p(x),
    "tanh": lambda x, y, i, j, u, b: jnp.tanh(x),
    "sinh": lambda x, y, i, j, u, b: jnp.sinh(x),
    "cosh": lambda x, y, i, j, u, b: jnp.cosh(x),
    "sigmoid": lambda x, y, i, j, u, b: jax.nn.sigmoid(x),
    "softplus": lambda x, y, i, j, u, b: jax.nn.softplus(x),
    "elu": lambda x, y, i, j, u, b: jax.nn.elu(x),
    "silu": lambda x, y, i, j, u, b: jax.nn.silu(x),
    "relu": lambda x, y, i, j, u, b: jax.nn.relu(x),
    "logaddexp": lambda x, y, i, j, u, b: jnp.logaddexp(x, y),
    "sin": lambda x, y, i, j, u, b: jnp.sin(x),
    "cos": lambda x, y, i, j, u, b: jnp.cos(x),
    "tan": lambda x, y, i, j, u, b: jnp.tan(x),
    "power": lambda x, y, i, j, u, b: x**y,
    "float_to_int_power": lambda x, y, i, j, u, b: lax.pow(x, i & 7),
    "erf": lambda x, y, i, j, u, b: lax.erf(x),
    "erf_inv": lambda x, y, i, j, u, b: lax.erf_inv(x),
    "erfc": lambda x, y, i, j, u, b: lax.erfc(x),
    "gelu": lambda x, y, i, j, u, b: jax.nn.gelu(x, approximate=False),
    "cube_root": lambda x, y, i, j, u, b: jnp.cbrt(x),
    "log2": lambda x, y, i, j, u, b: jnp.log2(x),
    "arcs": lambda x, y, i, j, u, b: jnp.arcsin(x) + 2 * jnp.arccos(y) + jnp.arctan(x),
    "angle": lambda x, y, i, j, u, b: jnp.arctan2(y, x),
    "inverse_hyperbolic": lambda x, y, i, j, u, b: jnp.arcsinh(x) + jnp.arctanh(y) + jnp.arccosh(jnp.abs(y)),
    "hypotenuse": lambda x, y, i, j, u, b: jnp.hypot(x, y) + jnp.sinc(x),
    "next_number": lambda x, y, i, j, u, b: jnp.nextafter(jnp.where(x == 0, 1.0, x), y),
    "where": lambda x, y, i, j, u, b: jnp.where(x > y, x, 20),
    "select": lambda x, y, i, j, u, b: jnp.select([x < 0, x > y, b], [-x, y, 3.0], 7.0),
    "piecewise": lambda x, y, i, j, u, b: jnp.piecewise(x, [x < 0, x > 1], [lambda x: -x, lambda x: x * 2, 0.5]),
    "interp": lambda x, y, i, j, u, b: jnp.interp(x, GRID, VALUES),
    "table": lambda x, y, i, j, u, b: jnp.asarray(VALUES)[jnp.clip(i, 0, 3)],
    "table_fill": lambda x, y, i, j, u, b: jnp.asarray(VALUES).at[i].get(mode="fill", fill_value=-1.0),
    "gathered": lambda x, y, i, j, u, b: jnp.asarray(VALUES)[jnp.stack([i & 3, j & 3])].sum(),
    "polyval": lambda x, y, i, j, u, b: jnp.polyval(jnp.array([0.5, -1.0, 2.0]), x),
    "stacked": lambda x, y, i, j, u, b: jnp.stack([x, y, x + y])[::-1].cumsum()[1],
    "reduced": lambda x, y, i, j, u, b: jnp.array([x, y, 2.0]).max() - jnp.array([x, y]).min(),
    "argmax": lambda x, y, i, j, u, b: jnp.argmax(jnp.array([x, y, 0.5])),
    "argmin": lambda x, y, i, j, u, b: jnp.argmin(jnp.array([i, j, 3])),
    "dot": lambda x, y, i, j, u, b: jnp.dot(jnp.array([x, y]), jnp.array([0.25, 4.0])),
    "updated": lambda x, y, i, j, u, b: lax.dynamic_update_slice(jnp.asarray(VALUES), x[None], (i,))[2],
    "set": lambda x, y, i, j, u, b: jnp.asarray(VALUES).at[i].set(x)[1],
    "add_at": lambda x, y, i, j, u, b: jnp.asarray(VALUES).at[jnp.stack([i & 3, j & 3])].add(x)[2],
    "largest_at": lambda x, y, i, j, u, b: jnp.asarray(VALUES).at[i].max(x, mode="clip")[0],
    "set_rows": lambda x, y, i, j, u, b: jnp.zeros((3, 2)).at[i].set(jnp.stack([x, y])).sum(axis=1)[2],
    "set_column": lambda x, y, i, j, u, b: jnp.zeros((2, 3)).at[1, i % 3].multiply(x).at[:, j & 1].set(y)[1, 1],
    "updated_block": lambda x, y, i, j, u, b: lax.dynamic_update_slice(
        jnp.arange(9.0).reshape(3, 3), jnp.stack([x, y])[None], (i, j)
    )[1].sum(),
    "matrix": lambda x, y, i, j, u, b: (jnp.arange(4.0).reshape(2, 2) @ jnp.stack([x, y]))[1],
    "padded": lambda x, y, i, j, u, b: lax.pad(jnp.stack([x, y]), x, [(2, -1, 1)]).sum(),
    "columns": lambda x, y, i, j, u, b: jnp.cumsum(jnp.tile(jnp.stack([x, y]), (2, 1)), axis=0)[1].sum(),
    "rolled": lambda x, y, i, j, u, b: jnp.roll(jnp.stack([x, y, 1.0]), i)[0],
    "split": lambda x, y, i, j, u, b: jnp.split(jnp.stack([x, y]), 2)[1][0],
    "unstacked": lambda x, y, i, j, u, b: lax.optimization_barrier(jnp.unstack(jnp.stack([x, y])))[0],
    "searched": lambda x, y, i, j, u, b: jnp.searchsorted(jnp.asarray(GRID), x) + jnp.digitize(y, jnp.asarray(GRID)),
    "swap": swapped,
    "fixed_loop": lambda x, y, i, j, u, b: lax.fori_loop(0, 8, lambda k, c: c * 0.5 + k, x),
    "no_turns": lambda x, y, i, j, u, b: lax.fori_loop(0, 0, lambda k, c: c + 1, x),
    "open_loop": collatz,
    "nested_loops": nested,
    "loop_in_branch": loop_in_branch,
    "branch_in_loop": branch_in_loop,
    "scan": lambda x, y, i, j, u, b: lax.scan(lambda c, t: (c * t, c), x, jnp.asarray(GRID))[1].sum(),
    "cond": lambda x, y, i, j, u, b: lax.cond(b & (x > 0), lambda: x * y, lambda: x - y),
    "switch": lambda x, y, i, j, u, b: lax.switch(i, [lambda: x, lambda: y, lambda: x * y]),
    "custom_jvp": lambda x, y, i, j, u, b: surrogate(x - y),
    "custom_vjp": lambda x, y, i, j, u, b: straight(x) + 1,
    "inner_jit": lambda x, y, i, j, u, b: jax.jit(lambda a: a * 2 + y)(x),
    "checkpoint": lambda x, y, i, j, u, b: jax.checkpoint(lambda a: jnp.exp(-a * a))(x),
    "no_gradient": lambda x, y, i, j, u, b: lax.stop_gradient(x) * 2,
    "is_finite": lambda x, y, i, j, u, b: jnp.isfinite(x) & ~jnp.isnan(y),
    "is_infinite": lambda x, y, i, j, u, b: jnp.isinf(x) | (x == 0),
    "sign_bit": lambda x, y, i, j, u, b: jnp.signbit(jnp.where(jnp.isnan(x), 1.0, x)),
    "copysign": lambda x, y, i, j, u, b: jnp.copysign(x, jnp.where(jnp.isnan(y), 1.0, y)),
    "nan_to_num": lambda x, y, i, j, u, b: jnp.nan_to_num(x),
    "logic": lambda x, y, i, j, u, b: ((x < y) ^ b) | ((x >= y) & ~b) | (i != j),
    "int_sum": lambda x, y, i, j, u, b: i + j * 3 - (i >> 2),
    "int_divide": lambda x, y, i, j, u, b: lax.div(i, j),
    "int_remainder": lambda x, y, i, j, u, b: lax.rem(i, j),
    "int_floor_divide": lambda x, y, i, j, u, b: i // 7,
    "int_modulo": lambda x, y, i, j, u, b: i % 7,
    "int_abs": lambda x, y, i, j, u, b: jnp.abs(i) + jnp.sign(j),
    "int_power": lambda x, y, i, j, u, b: i**3,
    "int_clip": lambda x, y, i, j, u, b: jnp.clip(i, -5, j),
    "int_bits": lambda x, y, i, j, u, b: ((i & j) | 5) ^ ~j,
    "uint_divide": lambda x, y, i, j, u, b: lax.div(u, j.astype(jnp.uint32)),
    "uint_remainder": lambda x, y, i, j, u, b: u % jnp.uint32(10) + lax.rem(u, i.astype(jnp.uint32)),
    "uint_product": lambda x, y, i, j, u, b: u * u + jnp.uint32(0x9E3779B9),
    "uint_order": lambda x, y, i, j, u, b: (u < jnp.uint32(2**31)) & (u - jnp.uint32(1) > u),
    "shift_left": lambda x, y, i, j, u, b: u << (j & 63).astype(jnp.uint32),
    "shift_far": lambda x, y, i, j, u, b: lax.shift_right_logical(i, j),
    "shift_sign": lambda x, y, i, j, u, b: lax.shift_right_arithmetic(i, j),
    "shift_by_32": lambda x, y, i, j, u, b: (u >> jnp.uint32(32)) + (u << jnp.uint32(32)),
    "bit_count": lambda x, y, i, j, u, b: lax.population_count(u) + lax.clz(u),
    "high_product": lambda x, y, i, j, u, b: lax.mulhi(i, j) ^ lax.mulhi(u, u + 1).astype(jnp.int32),
    "bits_of_bytes": lambda x, y, i, j, u, b: jnp.bitwise_count(u.astype("uint8")).astype("int32") - lax.clz(i),
    "bytes": lambda x, y, i, j, u, b: (i.astype("int8") * 3 >> 2).astype("int32") + x.astype("uint16").astype("int32"),
    "hash": hashed,
    "to_int": lambda x, y, i, j, u, b: x.astype(jnp.int32),
    "to_uint": lambda x, y, i, j, u, b: x.astype(jnp.uint32),
    "to_bool": lambda x, y, i, j, u, b: x.astype(bool) ^ i.astype(bool),
    "from_int": lambda x, y, i, j, u, b: i.astype(jnp.float32) + u.astype(jnp.float32) + b,
    "bit_cast": lambda x, y, i, j, u, b: lax.bitcast_convert_type(x, jnp.int32) >> 23,
    "bit_cast_back": lambda x, y, i, j, u, b: lax.bitcast_convert_type(u, jnp.float32),
    "adaptive": adaptive,
    "izhikevich": izhikevich,
    "gating": gating,
    "random_bits": drawn(lambda random, x, y, i: random.bits()),
    "random_uniform": drawn(lambda random, x, y, i: random.uniform() + random.uniform(x, y)),
    "random_normal": drawn(lambda random, x, y, i: random.normal(0.5, y)),
    "random_exponential": drawn(lambda random, x, y, i: random.exponential(y)),
    "random_bernoulli": drawn(lambda random, x, y, i: random.bernoulli(jnp.abs(x) / 2) ^ random.bernoulli(0.5)),
    "random_integers": drawn(lambda random, x, y, i: random.integers(-5, i) + random.integers(0, 2**31 - 1)),
    "random_poisson": drawn(lambda random, x, y, i: random.poisson(jnp.minimum(x * x, 200.0)) + random.poisson(1.5)),
    "random_index": drawn(lambda random, x, y, i: random.uniform(index=jnp.arange(3) + i).sum()),
    "random_loop": drawn(drawn_in_a_loop),
    "constant": lambda x, y, i, j, u, b: 1.5,
}  # fmt: skip


def traced(name, dtype="float32"):
    """Trace a rule of the table: its state is its six scalars and `out`, what the function returns."""
    function = RULES[name]
    inputs = {key: dtype if kind == "float32" else kind for key, kind in INPUTS.items()}
    shapes = {key: jax.ShapeDtypeStruct((), kind) for key, kind in inputs.items()}
    with jax.enable_x64(dtype == "float64"):
        out = jax.eval_shape(lambda **k: jnp.asarray(function(**k)), **shapes).dtype

    def rule(s, arriving, p):
        return s.replace(out=function(**{key: getattr(s, key) for key in INPUTS})), s.b

    zeros = {key: np.zeros((), kind) for key, kind in (inputs | {"out": out}).items()}
    return trace(rule, zeros, [], {}, dtype=dtype)


FLOATS = np.array([
    *(0.0, 0.5, 1.0, 1.5, 2.5, 3.0, 1e-3, 7.25, 88.5, 100.0, 1e5, 2.0**23, 2.0**24 + 2, 2.0**31, 2.0**32, 3e9, 1e20),
    *(np.inf, np.nan, 3.4e38, 2.0**-126, 2.0**-127, 1e-40, 1.4e-45, 2.0**-100, 0.9999999, 1.0000001, 2.0**-24),
    *(float.fromhex("0x1.6afb1ap-1"), float.fromhex("0x1.691952p-126")),  # their product rounds up to 2^-126
], np.float32)  # fmt: skip
INTEGERS = np.array([0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 100, 2**23 + 1, 2**24 + 1, 2**30, 2**31 - 1], np.int64)


def hard_values(count, seed=0):
    """Return arrays of the six inputs: limits, special values, random bits, and numbers of everyday size."""
    rng = np.random.default_rng(seed)
    limits = np.concatenate([FLOATS, -FLOATS])
    whole = np.concatenate([INTEGERS, -INTEGERS, [-(2**31)]]).astype(np.int32)

    def floats():
        bits = rng.integers(0, 2**32, count, dtype=np.uint32).view(np.float32)
        plain = rng.normal(size=count).astype(np.float32) * rng.choice(np.float32([0.1, 1, 30]), count)
        return np.choose(rng.integers(0, 3, count), [bits, plain, rng.choice(limits, count)])

    def integers():
        bits = rng.integers(-(2**31), 2**31, count).astype(np.int32)
        return np.choose(rng.integers(0, 3, count), [bits, bits & 31, rng.choice(whole, count)])

    x, y = floats(), floats()
    with np.errstate(all="ignore"):  # products, quotients and differences close to 2^-126
        partner = np.stack([y, 2**-126 / x, x * 2**126, x + rng.choice(np.float32([1, -1, 2]), count) * 2**-126])
        partner = partner.astype(np.float32).view(np.int32) + rng.integers(-2, 3, count, dtype=np.int32)
    y = np.choose(rng.choice(4, count, p=[0.7, 0.1, 0.1, 0.1]), [y, *partner.view(np.float32)[1:]])
    return [x, y, integers(), integers(), integers().view(np.uint32), rng.random(count) < 0.5]


def mild_values(count, seed=1):
    """Return inputs on which rounding and denormals make little difference."""
    rng = np.random.default_rng(seed)
    special = np.float32([0, -0.0, 1, -1, 2, np.inf, -np.inf, np.nan, 0.5])
    x, y = (np.where(rng.random(count) < 0.2, rng.choice(special, count), rng.normal(size=count) * 2) for _ in "xy")
    return [x.astype(np.float32), y.astype(np.float32), *hard_values(count, seed)[2:]]
