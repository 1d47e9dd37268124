# SPDX-License-Identifier: Apache-2.0
"""Where XLA's loop and a native one are equally fast: the numbers of `brainevent/loops/cost.py`.

    $ python benchmarks/fused_loops.py             # what units cost: functions, products, operators
    $ python benchmarks/fused_loops.py bodies      # bodies on both sides of the border, and what the model says of each
    $ python benchmarks/fused_loops.py bodies gather float16  # those with these words in their names

Each line is a loop in both ways, interleaved in one process: the shortest times of a step, and their ratio. Bodies that
the model makes native although they are slower by 5 % are marked SLOWER, and those that it leaves to XLA although they
would take less than 0.8 of the time LEFT. On a GPU, `bodies` measures other sizes, and compiles in threads.
"""

import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import brainevent as be
from brainevent import config
from brainevent.loops import cost, lowering
from brainevent.loops.gpu import cost as cost_on_gpu
from brainevent.loops.plan import plan_of
from brainevent.loops.values import UnfitError

STEPS, REPEATS, ELEMENTS = 100, 60, 4000
FUNCTIONS = (
    "acos", "asin", "asinh", "atan", "atanh", "cbrt", "cos", "cosh", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1",
    "log", "log1p", "logistic", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip


def measured(body, carry, steps=STEPS, repeats=REPEATS, rows=lambda c: None):
    """Return the shortest time of a step in microseconds: by XLA, and by a native loop."""
    return timed(both_ways(body, carry, steps, rows), carry, steps, repeats)


def both_ways(body, carry, steps, rows=lambda c: None):
    """Return a loop as programs: of XLA's, and of a native one."""

    def run(carry):
        return lax.scan(lambda c, _: (body(c), rows(c)), carry, None, length=steps)

    programs = []
    for fuse in (False, True):
        with config.fuse_loops(fuse):
            programs.append(jax.jit(lambda c: run(c)).lower(carry).compile())
    return programs


def timed(programs, carry, steps, repeats, seconds=np.inf):
    """Return the shortest time of a step in microseconds for each; after some seconds, it ends."""
    best, end = [np.inf] * len(programs), time.perf_counter() + seconds
    for _ in range(repeats):
        for place, program in enumerate(programs):
            begin = time.perf_counter()
            jax.block_until_ready(program(carry))
            best[place] = min(best[place], time.perf_counter() - begin)
        if time.perf_counter() > end:
            break
    return [taken / steps * 1e6 for taken in best]


def show(label, times, unit, count):
    """Print a line: both times, their ratio, and by how many nanoseconds a unit is slower in the native loop."""
    xla, native = times
    print(f"{label:28} XLA {xla:8.2f} us, native {native:8.2f}, ratio {native / xla:5.2f}, "
          f"{(native - xla) / count * 1e3:+8.3f} ns per {unit}", flush=True)  # fmt: skip


def functions():
    """Time elementwise functions, and loops over elements of several sizes."""
    functions_of("float32")
    with jax.enable_x64(True):
        functions_of("float64")
    for count in (100, 1000, 4000, 40_000, 400_000):
        v = jnp.linspace(0, 1, count)
        times = measured(lambda c: jnp.where(c > 0.5, c * 0.5, c + 0.25), v, repeats=20)
        show(f"{count} elements", times, "element", count)


def functions_of(dtype):
    """Time elementwise functions of floats of a type."""
    v = jnp.linspace(0, 1, ELEMENTS, dtype=dtype)
    for name in FUNCTIONS:
        function = getattr(lax, name)
        times = measured(lambda c, f=function: f(c * 0.25 + 0.3) * 0.25, v)
        show(f"{name} of {dtype}", times, "element", ELEMENTS)
    far = measured(lambda c: lax.acosh(c * 0.25 + 1.3) * 0.25, v)
    show(f"acosh of {dtype}", far, "element", ELEMENTS)
    for name, function in {"pow": lax.pow, "atan2": lax.atan2}.items():
        times = measured(lambda c, f=function: f(c * 0.25 + 0.3, c * 0.5), v)
        show(f"{name} of {dtype}", times, "element", ELEMENTS)


def products():
    """Time dense products, whose matrix is an operand of the program, as weights are."""
    for n in (8, 16, 32, 64, 128, 256):
        matrix = jnp.ones((n, n)) / n
        vector = jnp.ones(n), matrix
        show(f"vector times {n} x {n}", measured(lambda c: (c[0] @ c[1], c[1]), vector), "product", n * n)
        show(f"{n} x {n} times vector", measured(lambda c: (c[1] @ c[0], c[1]), vector), "product", n * n)
    for n in (4, 8, 16, 32):
        matrix = jnp.ones((n, n)) / n
        show(f"{n} x {n} times {n} x {n}", measured(lambda c: (c[0] @ c[1], c[1]), (matrix, matrix)), "product", n**3)


def operators():
    """Time operators without events, rows of results, and random numbers."""
    for count in (100, 1000, 4000, 40_000):
        matrix = be.CSR.fromdense(jnp.zeros((1, count)).at[0, 0].set(1))
        v = jnp.zeros(count)
        for calls in (0, 1, 2, 4):

            def body(c, calls=calls, matrix=matrix):
                for _ in range(calls):
                    c = c * 0.5 + be.BinaryArray(c[:1] > 2) @ matrix
                return c * 0.5

            show(f"{count} elements, {calls} operators", measured(body, v, repeats=30), "element", count)
            times = measured(body, v, repeats=30, rows=lambda c: c > 1)
            show(f"{count} elements, {calls}, rows", times, "element", count)
    for count in (100, 4000):

        def drawn(c):
            key, v = c
            key, other = jax.random.split(key)
            return key, v * 0.5 + jax.random.uniform(other, v.shape)

        show(f"{count} random numbers", measured(drawn, (jax.random.key(0), jnp.zeros(count))), "number", count)


random = np.random.default_rng(0)


def lif(n):
    return lambda v: jnp.where(v > 1, 0, v * 0.9 + 0.2), jnp.linspace(0, 1, n)


def with_exp(n):
    return lambda c: (c[0] * jnp.exp(-c[1]), jnp.log1p(c[1]) + c[0] * 0.1), (jnp.ones(n), jnp.ones(n))


def six_arrays(n):
    def step(c):
        total = c[0] * 0.5 + c[1] * 0.25
        return [total, c[2] * 0.5 + total, c[3] + total, c[4] * 0.5, c[5] * 0.9, jnp.where(total > 1, c[0], c[5])]

    return step, [jnp.linspace(0, 1, n)] * 6


def columns(width):
    """Rows of a few elements, each with a number of its own."""

    def made(n):
        factor = jnp.linspace(0, 1, n // width)
        return lambda v: v * factor[:, None] + jnp.linspace(0, 1, width), jnp.ones((n // width, width))

    return made


def reduced(function, axis, width=None):
    """Subtract a sum or another reduction of rows of a width, or of all."""

    def made(n):
        shape = (n,) if width is None else (max(1, n // width), width)
        return lambda v: v * 0.9 + function(v, axis=axis, keepdims=True) * 0.01, jnp.ones(shape) * 0.5

    return made


def summed(n):
    return lambda v: jnp.cumsum(v) * 1e-3 + v * 0.5, jnp.ones(n)


def place_of_largest(n):
    return lambda v: v.at[jnp.argmax(v)].add(-1.0) * 0.99, jnp.linspace(0, 1, n)


def softmax(n):
    return lambda v: jax.nn.softmax(v) * 3 + 0.1, jnp.linspace(0, 1, n)


def gathered(n):
    places = jnp.asarray(random.integers(0, n, n), jnp.int32)
    return lambda c: (c[0] * 0.5 + c[0][c[1]], c[1]), (jnp.ones(n) * 0.1, places)


def gathered_rows(n):
    places = jnp.asarray(random.integers(0, n // 10, n // 10), jnp.int32)
    return lambda c: (c[0] * 0.5 + c[0][c[1]] * 0.1, c[1]), (jnp.ones((n // 10, 10)), places)


def two_indices(n):
    places = jnp.asarray(random.integers(0, 10, (2, n)), jnp.int32)
    return lambda c: (c[0][c[1][0], c[1][1]].sum() * 1e-3 + c[0] * 0.5, c[1]), (jnp.ones((10, 10)), places)


def scattered(how):
    def made(n):
        places = jnp.asarray(random.integers(0, n, n), jnp.int32)
        return lambda c: (getattr((c[0] * 0.5).at[c[1]], how)(c[0]) * 0.3, c[1]), (jnp.ones(n), places)

    return made


def counted(n):
    places = jnp.asarray(random.integers(0, 100, n), jnp.int32)
    start = jnp.zeros(100, jnp.int32), places
    return lambda c: (jnp.zeros(100, jnp.int32).at[(c[1] + c[0][0]) % 100].add(1), c[1]), start


def rolled(n):
    return lambda v: jnp.roll(v, 1) * 0.5 + v * 0.5, jnp.linspace(0, 1, n)


def stencil(n):
    def step(v):
        return v + 0.1 * (sum(jnp.roll(v, by, axis) for by in (1, -1) for axis in (0, 1)) - 4 * v)

    return step, jnp.ones((n // 50, 50))


def transposed(n):
    side = int(n**0.5)
    return lambda v: v.T * 0.5 + v, jnp.ones((side, side)) * 1e-3


def padded(n):
    return lambda v: jnp.pad(v, (1, 1))[:-2] * 0.5 + v * 0.4, jnp.ones(n)


def joined(n):
    return lambda v: jnp.concatenate([v[n // 2 :] * 0.5, v[: n // 2] + 0.1]), jnp.linspace(0, 1, n)


def ring(n):
    def step(c):
        t, ring = c
        row = lax.dynamic_index_in_dim(ring, t % 8, keepdims=False)
        return t + 1, lax.dynamic_update_index_in_dim(ring, row * 0.5 + 0.1, (t + 3) % 8, 0)

    return step, (jnp.int32(0), jnp.ones((8, n)))


def with_cond(n):
    return lambda c: (c[0] + 1, lax.cond(c[0] % 4 == 0, lambda v: v * 0.5, lambda v: v + 0.1, c[1])), (
        jnp.int32(0), jnp.ones(n)
    )  # fmt: skip


def with_switch(n):
    choices = [lambda v: v, lambda v: jnp.exp(-v), lambda v: v.at[0].set(0.0)]
    return lambda c: (c[0] + 1, lax.switch(c[0] % 3, choices, c[1])), (jnp.int32(0), jnp.ones(n))


def with_while(n):
    def step(v):
        return lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 0.5 + 0.1), (0, v))[1]

    return step, jnp.ones(n)


def inner_scan(n):
    return lambda v: lax.scan(lambda v, _: (v * 0.5 + 0.1, None), v, None, length=10)[0], jnp.ones(n)


def inner_rows(n):
    def step(v):
        total, rows = lax.scan(lambda c, row: (c * 0.9 + row, c), v[0], v)
        return rows * 0.9 + total * 1e-3

    return step, jnp.ones((10, n // 10))


def vector_product(n):
    side = max(2, int(n**0.5))
    return lambda c: (jnp.tanh(c[0] @ c[1]), c[1]), (jnp.ones(side), jnp.ones((side, side)) / side)


def batch_of_products(n):
    side = 8
    return lambda c: (jnp.einsum("bi,bij->bj", c[0], c[1]), c[1]), (
        jnp.ones((n // 64, side)), jnp.ones((n // 64, side, side)) / side
    )  # fmt: skip


def thin_product(n):
    return lambda c: (jnp.tanh(c[0] @ c[1]), c[1]), (jnp.ones((n // 4, 4)), jnp.eye(4))


def outer(n):
    side = int(n**0.5)
    return lambda v: v * 0.9 + jnp.outer(v[0], v[:, 0]) * 0.01, jnp.ones((side, side))


def events(weights, function):
    """Spikes that reach 20 targets each."""

    def made(n):
        targets = jnp.asarray(random.integers(0, n, (n, 20)), jnp.int32)
        weight = jnp.asarray(random.random((n, 20)), jnp.float32) if weights else 1.0
        matrix = be.FixedNumPerPre((weight, targets), shape=(n, n))
        threshold = 0.99

        def step(v):
            arrived = function(be.BinaryArray(v > threshold), matrix)
            return jnp.where(v > threshold, 0, v * 0.99 + 0.002 * arrived + 0.012)

        return step, jnp.asarray(random.random(n), jnp.float32)

    return made


def dtype(name):
    """Numbers of a type: multiplied, added, and compared."""

    def step(v):
        grown = v + v // 4 + 1 if v.dtype.kind in "iu" else v * 1.5 + 1
        return jnp.where(v > 50, v - 40, grown).astype(name)

    return lambda n: (step, (jnp.arange(n) % 40).astype(name))


def converted(name):
    def made(n):
        start = jnp.ones(n), jnp.ones(n, name)
        return lambda c: (c[0] * 0.5 + c[1].astype("float32"), (c[0] * 3).astype(name)), start

    return made


def exp_of(name):
    return lambda n: (lambda v: jnp.exp(-v) * v, jnp.ones(n, name) * 0.5)


def sum_of(name):
    def step(v):
        return v // 2 + v.sum(dtype=name) % 7 if v.dtype.kind in "iu" else v * 0.5 + v.sum() * 1e-3

    return lambda n: (lambda v: step(v).astype(name), jnp.ones(n, name))


def drawn(function):
    def made(n):
        def step(c):
            key, other = jax.random.split(c[0])
            return key, c[1] * 0.5 + function(other, (n,))

        return step, (jax.random.key(0), jnp.zeros(n))

    return made


def drawn_in_blocks(n):
    """Uniform numbers of blocks of 64 neurons, each with a key of its own."""

    def step(c):
        keys = jax.vmap(lambda block: jax.random.fold_in(c[0], block))(jnp.arange(n // 64))
        found = jax.vmap(lambda key: jax.random.uniform(key, (64,)))(keys).reshape(n)
        return jax.random.split(c[0])[0], c[1] * 0.5 + found

    return step, (jax.random.key(0), jnp.zeros(n))


def product_of(function):
    """A dense product of n neurons, whose vector is made in the loop."""

    def made(n):
        matrix = jnp.asarray(random.random((n, n)), jnp.float32) / n
        return lambda v: jnp.where(v > 1, 0, v * 0.9) + 0.1 + function(v, matrix), jnp.linspace(0, 1, n)

    return made


NARROW = ("int8", "int16", "uint8", "float16", "bfloat16")
WIDE = ("int64", "uint64", "float64")
NEURONS = (16, 32, 64, 100, 200, 400, 700, 1000)  # of dense products
BODIES = {
    "elementwise": (lif, (1, 10, 100, 1000, 4000, 40_000, 200_000)),
    "exp and log1p": (with_exp, (10, 1000, 40_000)),
    "six arrays": (six_arrays, (10, 100, 1000, 40_000)),
    **{f"rows of {width}": (columns(width), (1000, 40_000)) for width in (2, 5, 20)},
    "sum of all": (reduced(jnp.sum, 0), (10, 1000, 40_000)),
    "max of all": (reduced(jnp.max, 0), (10, 1000, 40_000)),
    "deviation of all": (reduced(jnp.std, 0), (1000,)),
    **{f"sum of rows of {width}": (reduced(jnp.sum, 1, width), (1000, 40_000)) for width in (2, 8, 16, 64)},
    **{f"max of rows of {width}": (reduced(jnp.max, 1, width), (1000, 40_000)) for width in (2, 8, 16, 64)},
    **{f"sum of columns of {width}": (reduced(jnp.sum, 0, width), (1000, 40_000)) for width in (2, 8, 64)},
    **{f"max of columns of {width}": (reduced(jnp.max, 0, width), (1000, 40_000)) for width in (2, 8, 64)},
    "cumsum": (summed, (100, 4000, 40_000)),
    "argmax": (place_of_largest, (100, 4000)),
    "softmax": (softmax, (10, 1000)),
    "gather": (gathered, (10, 1000, 40_000)),
    "gather of rows": (gathered_rows, (1000, 40_000)),
    "gather by two indices": (two_indices, (10, 1000)),
    "scatter-add": (scattered("add"), (10, 1000, 40_000)),
    "scatter": (scattered("set"), (10, 1000, 40_000)),
    "scatter-max": (scattered("max"), (1000,)),
    "counts": (counted, (1000, 40_000)),
    "roll": (rolled, (10, 1000, 40_000)),
    "stencil": (stencil, (1000, 40_000)),
    "transpose": (transposed, (100, 4000, 40_000)),
    "pad": (padded, (100, 4000, 40_000)),
    "concatenate": (joined, (100, 4000, 40_000)),
    "ring": (ring, (10, 4000, 40_000)),
    "cond": (with_cond, (1, 1000, 40_000)),
    "switch": (with_switch, (10, 1000)),
    "while_loop": (with_while, (1, 1000, 40_000)),
    "inner scan": (inner_scan, (1, 1000, 40_000)),
    "inner scan of rows": (inner_rows, (100, 4000)),
    "vector times matrix, tanh": (vector_product, (16, 100, 400, 1000, 4000)),
    "batch of products of 8": (batch_of_products, (640, 6400)),
    "product with 4 x 4": (thin_product, (40, 400, 4000)),
    "outer product": (outer, (100, 4000)),
    "operator, one weight": (events(False, lambda s, m: s @ m), (10, 100, 1000, 10_000)),
    "operator, weights": (events(True, lambda s, m: s @ m), (10, 100, 1000, 10_000)),
    "operator, transposed": (events(True, lambda s, m: m @ s), (100, 1000, 10_000)),
    **{f"numbers of {name}": (dtype(name), (100, 4000, 40_000)) for name in NARROW + WIDE},
    **{f"converted to {name}": (converted(name), (4000,)) for name in NARROW + WIDE},
    **{f"exp of {name}": (exp_of(name), (4000,)) for name in ("float16", "bfloat16", "float64")},
    **{f"sum of {name}": (sum_of(name), (4000,)) for name in NARROW + WIDE},
    "uniform numbers": (drawn(jax.random.uniform), (10, 4000)),
    "normal numbers": (drawn(jax.random.normal), (10, 4000)),
    "bernoulli numbers": (drawn(lambda key, shape: jax.random.bernoulli(key, 0.1, shape)), (100,)),
    "integers": (drawn(lambda key, shape: jax.random.randint(key, shape, 0, 10)), (100,)),
    "uniform 64-bit numbers": (drawn(lambda key, shape: jax.random.uniform(key, shape, "float64")), (10, 1000)),
    "normal 64-bit numbers": (drawn(lambda key, shape: jax.random.normal(key, shape, "float64")), (1000,)),
    "uniform numbers of blocks": (drawn_in_blocks, (64, 4096)),
    "product of spikes": (product_of(lambda v, m: (v > 1) @ m), NEURONS),
    "product of spikes, transposed": (product_of(lambda v, m: m @ (v > 1)), NEURONS),
    "product of rates": (product_of(lambda v, m: v @ m), NEURONS),
    "product of rates, transposed": (product_of(lambda v, m: m @ v), NEURONS),
}  # fmt: skip


# On a GPU: elements, whatever the body.
ON_GPU = (100, 4000, 40_000, 1_000_000)
BODY_STEPS = 64


def bodies(calibration, words):
    """Print for each body what the model says, and whether that is right."""
    wanted = [name for name in BODIES if not words or any(word in name for word in words)]
    on_gpu = jax.default_backend() == "gpu"
    cases = [(name, n) for name in wanted for n in (ON_GPU if on_gpu else BODIES[name][1])]
    if not on_gpu:
        for case in cases:
            show_body(*case, *planned_body(*case, calibration), repeats=REPEATS)
        return
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        futures = [pool.submit(planned_body, *case, calibration) for case in cases]
        found = [future.result() for future in futures]
    for case, each in zip(cases, found, strict=True):
        show_body(*case, *each, repeats=20, seconds=0.2)


def planned_body(name, n, calibration):
    """Return the carry, the programs of a body, and what the model says, or why it is no native loop."""
    platform = "cuda" if jax.default_backend() == "gpu" else "cpu"
    with jax.enable_x64("64" in name):
        body, carry = BODIES[name][0](n)
        closed = jax.make_jaxpr(lambda c: lax.scan(lambda c, _: (body(c), None), c, None, length=BODY_STEPS)[0])(carry)
        try:
            [params] = [eqn.params for eqn in closed.jaxpr.eqns if eqn.primitive.name == "scan"]
            plan = plan_of(params, platform)
            lowering.check_written(plan, platform)
        except UnfitError as problem:
            return carry, None, str(problem), 0.0
        if platform == "cpu":
            why_not, time = cost.why_not_faster(plan, calibration), sum(cost.extra_time(plan, calibration).values())
        else:
            why_not, time = cost_on_gpu.why_not_faster(plan), 0.0
        return carry, both_ways(body, carry, BODY_STEPS), why_not, time


def show_body(name, n, carry, programs, why_not, time, *, repeats, seconds=np.inf):
    """Print the line of a body."""
    label = f"{name}, {n:,}"
    if programs is None:
        print(f"{label:36} is no native loop: {why_not}", flush=True)
        return
    with jax.enable_x64("64" in name):
        xla, native = timed(programs, carry, BODY_STEPS, repeats, seconds)
    ratio = native / xla
    verdict = "SLOWER" if why_not is None and ratio > 1.05 else "LEFT" if why_not and ratio < 0.8 else ""
    print(f"{label:36} XLA {xla:9.2f} us, native {native:9.2f}, ratio {ratio:5.2f}, {'XLA' if why_not else 'native':6} "
          f"{time:+9.0f} ns, measured {(native - xla) * 1e3:+9.0f} {verdict}", flush=True)  # fmt: skip


def main(what, *words):
    """Measure without the cost model."""
    calibration, cost.CALIBRATION = cost.CALIBRATION, cost.Calibration(most_elements=2**40, step=-np.inf)
    if what == "bodies":
        lowering._why_not_faster = lambda plan, platform: None
        bodies(calibration, words)
        return
    functions()
    products()
    operators()


if __name__ == "__main__":
    main(*sys.argv[1:] or ["units"])
