# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: B007, RUF046, UP018
"""Ways of kernels with arrays and variables that Warp's adjoint gets wrong, and what is said of them."""

import warp as wp
from warp import atomic_add as put_onto

A = wp.array(dtype=wp.float64)
f64 = wp.float64


@wp.func
def power(a: wp.float64, n: int):
    s = f64(1.0)
    for k in range(n):
        s = s * a
    return s


@wp.func
def put(o: A, i: int, v: wp.float64):
    o[i] = v * v


@wp.func
def one_or_other(a: wp.float32, n: int):
    return a


@wp.func
def one_or_other(a: wp.float64, n: int):  # noqa: F811 - the other version of this function
    s = f64(1.0)
    for k in range(n):
        s = s * a
    return s


@wp.func_native("return a * a * a;")
def native_cube(a: wp.float64) -> wp.float64: ...


@wp.func
def drawn_sum(state: wp.uint32, x: A):
    s = f64(0.0)
    for k in range(3):
        s += x[k] * f64(wp.randf(state))
    return s


def used_what_was_there(x: A, y: A, out: A):
    i = wp.tid()
    o = wp.atomic_add(out, i, x[i])
    wp.atomic_add(out, i, o * y[i])


def fibonacci_product(x: A, y: A, out: A):
    i = wp.tid()
    a = x[i]
    b = y[i]
    for j in range(i + 1):
        c = a + b
        a = b
        b = c
    out[i] = a * b


def counted_index(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    k = int(0)
    for j in range(i + 1):
        s += x[k] * x[k]
        k = k + 1
    out[i] = s


def product(x: A, y: A, out: A):
    i = wp.tid()
    s = y[i]
    for j in range(i + 2):
        s = s * x[j % 4]
    out[i] = s


def square_of_sum(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        s += x[j] * wp.sin(y[j])
    out[i] = s * s * y[i]


def with_product_function(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = power(x[i], i + 1) * y[i]


def put_by_function(x: A, y: A, out: A):
    i = wp.tid()
    put(out, i, x[i])


def in_place_twice(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = out[i] * x[i]
    out[i] = out[i] * out[i]


def left_early(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 3):
        if j > i:
            break
        s += x[j] * x[j]
    out[i] = s


def left_by_break(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(4):
        if j > i:
            break
        s += x[j] * x[j]
    out[i] = s


def largest(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(-10.0)
    for j in range(i + 1):
        s = wp.max(s, x[j] * y[j])
    out[i] = s


def two_loops_squared(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        s += x[j]
    for j in range(i + 1):
        s += y[j] * y[j]
    out[i] = s * s


def squares_of_sums(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        t = f64(0.0)
        for k in range(j + 1):
            t += x[k] * y[j]
        s += t * t
    out[i] = s


def output_read(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = x[i] * x[i]
    y2 = out[i] * y[i]
    out[i] = y2


def square_before_loop(x: A, y: A, out: A):
    i = wp.tid()
    s = x[i]
    q = s * s
    for j in range(i + 1):
        s += y[j]
    out[i] = q + s


def square_between_loops(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        s += x[j]
    q = s * s
    for j in range(i + 1):
        s += y[j] * y[j]
    out[i] = q * s


def component_changed(x: A, y: A, out: A):
    i = wp.tid()
    v = wp.vec3d()
    v[0] = x[i]
    v[0] = v[0] * y[i]
    v[0] = v[0] * v[0]
    out[i] = wp.dot(v, v)


def component_summed(x: A, y: A, out: A):
    i = wp.tid()
    v = wp.vec3d()
    for j in range(i + 1):
        v[0] += x[j] * y[j]
    out[i] = wp.dot(v, v)


def while_loop(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    j = int(0)
    while j <= i:
        s += x[j] * x[j]
        j += 1
    out[i] = s


def returned_from_loop(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        if x[j] < f64(-0.1):
            return
        s += x[j] * x[j]
    out[i] = s


def maximum_with_start(x: A, y: A, out: A):
    i = wp.tid()
    wp.atomic_max(out, i, x[i] * x[i])


def long_product(x: A, y: A, out: A):
    i = wp.tid()
    s = y[i]
    for j in range(17):
        s = s * x[j % 4]
    out[i] = s


def variable_from_before(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    t = y[i] * y[i]
    u = t * x[i]
    for j in range(i + 1):
        t = x[j] * x[j]
        s += t * t
    out[i] = s + u


def continued_after_change(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        s += x[j] * x[j]
        if j == 1:
            continue
        s -= x[j] * y[j]
    out[i] = s


def with_other_version(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = one_or_other(x[i], i + 2)


def with_static_function(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = wp.static(power)(x[i], i + 2)


def with_function_as_value(x: A, y: A, out: A):
    i = wp.tid()
    f = power
    out[i] = f(x[i], i + 2)


def with_native_function(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = native_cube(x[i])


def added_by_name(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        s += x[j]
    wp.atomic_add(out, i, value=s * s)


def renamed_addition(x: A, y: A, out: A):
    i = wp.tid()
    for j in range(i + 1):
        v = out[i]
        put_onto(out, i, v * x[j])


def drawn_in_loop(x: A, y: A, out: A):
    i = wp.tid()
    state = wp.rand_init(42, i)
    s = f64(0.0)
    for j in range(i + 2):
        s += x[j % 4] * f64(wp.randf(state))
    out[i] = s


def drawn_by_function(x: A, y: A, out: A):
    i = wp.tid()
    state = wp.rand_init(42, i)
    out[i] = drawn_sum(state, x) * f64(wp.randf(state))


def remainder(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = (x[i] * f64(3.3)) % y[i]


def vector_remainder(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = wp.mod(wp.vec2d(x[i], y[i]), wp.vec2d(f64(0.55), f64(0.45)))[0]


def fraction(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = wp.frac(x[i] * f64(1.3))


WRONG = {
    continued_after_change: "uses continue after changing a variable",
    with_other_version: "'one_or_other': it uses 's', which a loop changes",
    with_static_function: "'power': it uses 's', which a loop changes",
    with_function_as_value: "calls a function by another name",
    with_native_function: "calls 'native_cube', native code without an adjoint",
    added_by_name: "uses 's', which a loop changes",
    renamed_addition: "reads 'out' after writing to it, or in a loop that writes",
    drawn_in_loop: "draws repeatedly from 'state'",
    drawn_by_function: "'drawn_sum': it draws repeatedly from 'state'",
    remainder: "computes a remainder by more than a number",
    vector_remainder: "computes a remainder by more than a number",
    fraction: "uses frac",
    used_what_was_there: "uses the return value of atomic_add",
    fibonacci_product: "uses 'a', which a loop changes, for more than a sum",
    counted_index: "uses 'k', which a loop changes",
    product: "uses 's', which a loop changes",
    square_of_sum: "uses 's', which a loop changes",
    with_product_function: "'power': it uses 's', which a loop changes",
    put_by_function: "uses the output 'out' as a whole",
    in_place_twice: "reads 'out' after writing to it",
    left_early: "leaves a loop with break",
    left_by_break: "leaves a loop with break",
    largest: "uses 's', which a loop changes",
    two_loops_squared: "uses 's', which",
    squares_of_sums: "uses 't', which a loop changes",
    output_read: "reads the output 'out'",
    square_before_loop: "uses 's', which",
    square_between_loops: "uses 's', which",
    component_changed: "changes a part of a vector or matrix",
    component_summed: "changes a part of a vector or matrix",
    while_loop: "has a while loop",
    returned_from_loop: "returns from within a loop",
    maximum_with_start: "uses atomic_max on 'out', which has values",
    long_product: "uses 's', which",
    variable_from_before: "uses 't', which",
}
STARTS_AS_ARGUMENT = {
    renamed_addition,
    in_place_twice,
    maximum_with_start,
}
