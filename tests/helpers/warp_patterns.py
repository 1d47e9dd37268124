# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: SIM108
"""Ways of kernels with arrays and variables that Warp's adjoint gets right."""

import warp as wp

A = wp.array(dtype=wp.float64)
f64 = wp.float64


@wp.func
def square(a: wp.float64):
    return a * a


@wp.func
def sum_of_squares(x: A, n: int):
    s = f64(0.0)
    for k in range(n):
        s += x[k] * x[k]
    return s


def added(x: A, y: A, out: A):
    i = wp.tid()
    wp.atomic_add(out, i % 2, x[i] * wp.sin(y[i]))


def maximum(x: A, y: A, out: A):
    i = wp.tid()
    wp.atomic_max(out, i % 2, x[i] * x[i])


def subtracted(x: A, y: A, out: A):
    i = wp.tid()
    wp.atomic_sub(out, i % 2, x[i] * wp.sin(y[i]))


def either_branch(x: A, y: A, out: A):
    i = wp.tid()
    if x[i] > f64(0.0):
        out[i] = x[i] * x[i]
    else:
        out[i] = wp.sin(y[i])


def changed_in_branch(x: A, y: A, out: A):
    i = wp.tid()
    t = x[i] * y[i]
    if x[i] > f64(0.0):
        t = t * t
    out[i] = t


def decayed(x: A, y: A, out: A):
    i = wp.tid()
    s = x[i]
    for j in range(i + 1):
        s = s * f64(0.5) + y[j]
    out[i] = s


def summed(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        s += x[j] * y[i]
    out[i] = s


def returned_early(x: A, y: A, out: A):
    i = wp.tid()
    if x[i] < f64(0.0):
        return
    out[i] = x[i] * y[i]


def with_function(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = square(x[i]) * y[i]


def gathered(x: A, y: A, out: A):
    i = wp.tid()
    j = (i * 3) % 4
    out[i] = x[j] * y[i]


def changed_in_round(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        t = x[j]
        if t > f64(0.0):
            t = t * t * y[j]
        s += t
    out[i] = s


def scaled_in_place(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = out[i] * x[i]


def added_to_itself(x: A, y: A, out: A):
    i = wp.tid()
    out[i] += out[i] * y[i]


def function_in_place(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = wp.sin(out[i]) * x[i]


def subtracted_in_place(x: A, y: A, out: A):
    i = wp.tid()
    out[i % 2] -= x[i] * y[i]


def summed_if(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        if x[j] > f64(0.0):
            s += x[j] * x[j]
    out[i] = s


def skipped(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        if j == 1:
            continue
        s += x[j] * x[j]
    out[i] = s


def accumulated_in_loop(x: A, y: A, out: A):
    i = wp.tid()
    for j in range(i + 1):
        out[i] += x[j] * x[j] * y[i]


def written_in_rounds(x: A, y: A, out: A):
    i = wp.tid()
    for j in range(i + 1):
        out[i] = x[j] * y[i]


def summed_functions(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        t = x[j] * y[i]
        t = t * t
        s = s + wp.exp(t)
    out[i] = s


def larger_and_size(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = wp.max(x[i], y[i]) * wp.abs(x[i])


def some_overwritten(x: A, y: A, out: A):
    i = wp.tid()
    if x[i] > f64(0.0):
        out[i] = x[i] * y[i]


def plain(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = x[i] * wp.sin(y[i])


def changed_variable(x: A, y: A, out: A):
    i = wp.tid()
    t = x[i]
    t = t * t
    t = t * y[i]
    out[i] = wp.sin(t)


def placed(x: A, y: A, out: A):
    i = wp.tid()
    j = 3 - i
    out[j] = x[i] * x[i] * y[i]


def read_first(x: A, y: A, out: A):
    i = wp.tid()
    t = out[i]
    s = x[i]
    out[i] = t * s + y[i]


def short_product(x: A, y: A, out: A):
    i = wp.tid()
    s = y[i]
    for j in range(3):
        s = s * x[j]
    out[i] = s


def conditional(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = x[i] * x[i] if x[i] > f64(0.0) else wp.sin(y[i])


def written_twice(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = x[i] * x[i]
    out[i] = wp.sin(y[i])


def with_vector(x: A, y: A, out: A):
    i = wp.tid()
    v = wp.vec3d(x[i], y[i], x[i] * y[i])
    out[i] = wp.dot(v, v)


def added_then_written(x: A, y: A, out: A):
    i = wp.tid()
    out[i] += x[i] * x[i]
    out[i] = y[i] * y[i]


def loop_under_condition(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        if y[j] > f64(0.0):
            for k in range(j + 1):
                s += x[k] * y[j]
    out[i] = s


def written_by_one_thread(x: A, y: A, out: A):
    i = wp.tid()
    if i == 0:
        for j in range(out.shape[0]):
            out[j] = x[j] * x[j] * y[j]


def functions_in_loop(x: A, y: A, out: A):
    i = wp.tid()
    t = f64(0.0)
    for j in range(i + 1):
        s = sum_of_squares(x, j + 1)
        t += s * s * y[j]
    out[i] = t


def square_of_function_sum(x: A, y: A, out: A):
    i = wp.tid()
    s = sum_of_squares(x, i + 1)
    out[i] = s * s * y[i]


def added_after_loop(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        s += x[j] * x[j]
    if y[i] > f64(0.0):
        s += y[i] * y[i]
    out[i] = s


def loop_in_branch(x: A, y: A, out: A):
    i = wp.tid()
    if y[i] > f64(0.0):
        s = f64(0.0)
        for j in range(i + 1):
            s += x[j] * x[j]
        out[i] = s
    else:
        out[i] = y[i] * y[i]


def divided_in_place(x: A, y: A, out: A):
    i = wp.tid()
    out[i] /= x[i]


def scaled_sum(x: A, y: A, out: A):
    i = wp.tid()
    s = y[i] * y[i]
    for j in range(i + 1):
        s += x[j] * x[j]
    q = f64(2.0) * s - x[i]
    out[i] = -q / f64(3.0)


def changed_in_branches(x: A, y: A, out: A):
    i = wp.tid()
    t = x[i]
    if y[i] > f64(0.0):
        t = t * y[i]
        if x[i] > f64(0.0):
            t = t * t
    out[i] = t * t


def sum_of_sums(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        t = f64(0.0)
        for k in range(j + 1):
            t += x[k] * y[j]
        s += t
    out[i] = s


def prefix_added(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        s += x[j] * y[i]
        wp.atomic_add(out, j, s)


def prefix_written(x: A, y: A, out: A):
    i = wp.tid()
    if i == 0:
        s = f64(0.0)
        for j in range(out.shape[0]):
            s += x[j] * y[j]
            out[j] = s


def skipped_in_short_loop(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(4):
        if j == 1:
            continue
        s += x[j] * x[j] * y[i]
    out[i] = s


def long_loop_in_short(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for k in range(2):
        for j in range(i + 1):
            s += x[j] * y[k]
    out[i] = s


def written_then_added(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = x[i] * x[i]
    out[i] += y[i] * y[i]


def variable_used_again(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        t = x[j] * x[j]
        s += t * t
    for j in range(i + 1):
        t = y[j] * x[j]
        s += wp.sin(t)
    out[i] = s


def swapped(x: A, y: A, out: A):
    i = wp.tid()
    a = x[i]
    b = y[i]
    a, b = b, a
    out[i] = a * a * b


def read_write_add(x: A, y: A, out: A):
    i = wp.tid()
    v = out[i]
    out[i] = v * x[i]
    wp.atomic_add(out, i, v * y[i])


def named_between_loops(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        s += x[j] * x[j]
    q = s
    for j in range(i + 1):
        s += y[j] * y[j]
    out[i] = q + s


def alternating(x: A, y: A, out: A):
    i = wp.tid()
    s = y[i]
    for j in range(i + 1):
        if x[j] > f64(0.0):
            s = -s + x[j]
        else:
            s = f64(3.0) * s - y[j] * x[j]
    out[i] = s


def fibonacci(x: A, y: A, out: A):
    i = wp.tid()
    a = x[i]
    b = y[i]
    for j in range(i + 1):
        c = a + b
        a = b
        b = c + x[j] * x[j]
    out[i] = a + b


def range_from_input(x: A, y: A, out: A):
    i = wp.tid()
    n = int(wp.abs(y[i]) * f64(2.2))
    s = f64(0.0)
    for j in range(n):
        s += x[j] * x[i]
    out[i] = s


def in_place_branches(x: A, y: A, out: A):
    i = wp.tid()
    if x[i] > f64(0.0):
        out[i] = out[i] * x[i]
    else:
        out[i] = wp.sin(out[i]) * y[i]


def read_before_loop(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    t = out[i]
    for j in range(i + 1):
        s += t * x[j]
    out[i] = s


def backwards(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(3, i - 1, -1):
        s += x[j] * x[j] * y[i]
    out[i] = s


def function_of_round(x: A, y: A, out: A):
    i = wp.tid()
    s = f64(0.0)
    for j in range(i + 1):
        t = x[j]
        if y[j] > f64(0.0):
            t = t * t
        s += square(t) * y[j]
    out[i] = s


def added_by_name(x: A, y: A, out: A):
    i = wp.tid()
    wp.atomic_add(arr=out, i=i, value=x[i] * x[i])


def drawn_in_rounds(x: A, y: A, out: A):
    i = wp.tid()
    state = wp.rand_init(7, i)
    s = x[i] * f64(wp.randf(state))
    for j in range(i + 1):
        fresh = wp.rand_init(i, j)
        s += x[j] * y[j] * f64(wp.randf(fresh)) * f64(wp.randf(fresh))
    out[i] = s


def remainders(x: A, y: A, out: A):
    i = wp.tid()
    out[i] = wp.mod(x[i] * f64(3.3), f64(0.5)) * y[(i + 1) % x.shape[0]]


RIGHT = [
    added_by_name,
    drawn_in_rounds,
    remainders,
    added,
    maximum,
    subtracted,
    either_branch,
    changed_in_branch,
    decayed,
    summed,
    returned_early,
    with_function,
    gathered,
    changed_in_round,
    scaled_in_place,
    added_to_itself,
    function_in_place,
    subtracted_in_place,
    summed_if,
    skipped,
    accumulated_in_loop,
    written_in_rounds,
    summed_functions,
    larger_and_size,
    some_overwritten,
    plain,
    changed_variable,
    placed,
    read_first,
    short_product,
    conditional,
    written_twice,
    with_vector,
    added_then_written,
    loop_under_condition,
    written_by_one_thread,
    functions_in_loop,
    square_of_function_sum,
    added_after_loop,
    loop_in_branch,
    divided_in_place,
    scaled_sum,
    changed_in_branches,
    sum_of_sums,
    prefix_added,
    prefix_written,
    skipped_in_short_loop,
    long_loop_in_short,
    written_then_added,
    variable_used_again,
    swapped,
    read_write_add,
    named_between_loops,
    alternating,
    fibonacci,
    range_from_input,
    in_place_branches,
    read_before_loop,
    backwards,
    function_of_round,
]
STARTS_AS_ARGUMENT = {
    scaled_in_place,
    added_to_itself,
    function_in_place,
    some_overwritten,
    read_first,
    added_then_written,
    divided_in_place,
    written_then_added,
    read_write_add,
    in_place_branches,
    read_before_loop,
}
