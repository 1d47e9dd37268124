# SPDX-License-Identifier: Apache-2.0
"""Operators that are right for the operands of one call, and wrong for other values, sizes, threads or devices."""

import ctypes

import jax
import jax.numpy as jnp
import numba
import numpy as np
from faults import MATRIX, Fault, X, fault, operator, plain, twice
from zoo import like, numba_generator

POSITIVE = np.array([0.5, 1.5, 2.0, 1.0, 0.25, 3.0, 0.75, 2.5], np.float32)
EVENTS = np.array([1, 0, 0, 1, 0, 1, 0, 0], np.float32)
WEIGHTS = (np.arange(32, dtype=np.float32).reshape(8, 4) - 11) / 7


def from_numba(function, reference):
    return operator(numba_generator(numba.njit(function)), reference)


# ---- memory that calls share ---------------------------------------------------------------------------------------

_scratch = (ctypes.c_float * 64)()


def address_of(memory):
    """Return a function for Numba kernels that gives the address of memory which all calls share."""
    address = ctypes.addressof(memory)

    @numba.extending.intrinsic
    def pointer(typing_context):
        def codegen(context, builder, signature, args):
            kind = context.get_value_type(signature.return_type)
            return builder.inttoptr(context.get_constant(numba.intp, address), kind)

        return numba.types.CPointer(numba.float32)(), codegen

    return pointer


def in_shared_memory():
    pointer = address_of(_scratch)

    def kernel(x, out):
        scratch = numba.carray(pointer(), 64)
        for i in range(64):
            scratch[i] = x[i]
        for turn in range(100):
            for i in range(64):
                scratch[i] += turn
                scratch[i] -= turn
        for i in range(64):
            out[i] = 2 * scratch[i]

    return numba.njit(kernel)


@fault
def quick_kernel_with_shared_scratch_memory():
    op = operator(numba_generator(in_shared_memory()), twice)
    return Fault(op, "calls at once", "in one of several threads: output 0", (np.resize(X, 64),))


@fault
def shared_scratch_memory_and_sorted_integers():
    kernel = in_shared_memory()
    op = operator(numba_generator(kernel), lambda x: 2.0 * x)
    return Fault(op, "calls at once", "in one of several threads: output 0", (np.arange(64, dtype=np.int32),))


@fault
def shared_scratch_memory_and_booleans_that_are_all_true():
    op = operator(numba_generator(in_shared_memory()), lambda x: 2.0 * x)
    return Fault(op, "calls at once", "in one of several threads: output 0", (np.ones(64, bool),))


# ---- inputs that are written and restored --------------------------------------------------------------------------


@fault
def negates_its_input_and_back():
    def kernel(x, out):
        for i in range(x.size):
            x[i] = -x[i]
        for i in range(x.size):
            out[i] = -2 * x[i]
            x[i] = -x[i]

    words = "the call wrote to the caller's array, and then restored it: operand 0"
    return Fault(from_numba(kernel, twice), "inputs unchanged", words)


@fault
def puts_a_sentinel_at_the_end():
    def kernel(x, limit, out):
        last = x[x.size - 1]
        x[x.size - 1] = np.inf
        i = 0
        while x[i] < limit[0]:
            i += 1
        x[x.size - 1] = last
        out[()] = i if i < x.size - 1 or last >= limit[0] else x.size

    op = from_numba(kernel, lambda x, limit: jnp.where((x >= limit).any(), (x >= limit).argmax(), x.size))
    words = "and then restored it: operand 0"
    return Fault(op, "inputs unchanged", words, (X, np.float32([2.5])))


@fault
def restores_booleans():
    def kernel(keep, x, out):
        for i in range(x.size):
            out[i] = x[i] if keep[i] else 0
            keep[i] = not keep[i]
        for i in range(x.size):
            keep[i] = not keep[i]

    op = from_numba(kernel, lambda keep, x: jnp.where(keep, x, 0))
    return Fault(op, "inputs unchanged", "and then restored it: operand 0", (X > 0, X))


# ---- sizes ---------------------------------------------------------------------------------------------------------


@fault
def forgets_the_rest_of_blocks_of_eight():
    def kernel(x, out):
        for i in range(x.size // 8 * 8):
            out[i] = 2 * x[i]

    words = "with operands float32[15]: output 0: element [8] keeps what its memory held before the call (7 of 15"
    return Fault(from_numba(kernel, twice), "other sizes", words, (np.resize(X, 16),))


@fault
def forgets_the_rest_of_blocks_of_columns():
    def kernel(x, out):
        for i in range(x.shape[0]):
            for j in range(x.shape[1] // 4 * 4):
                out[i, j] = 2 * x[i, j]

    op = from_numba(kernel, twice)
    op.def_sharding_rule("i j -> i j")
    return Fault(op, "other sizes", "with operands float32[3, 7]: output 0: element [0, 4] keeps", (MATRIX,))


@fault
def sums_whole_blocks_only():
    def kernel(x, out):
        out[()] = 0
        for i in range(x.size // 8 * 8):
            out[()] += x[i]

    op = from_numba(kernel, jnp.sum)
    return Fault(op, "other sizes", "with operands float32[7]: output 0: is 0.0, expected", (X,))


@fault
def knows_the_size_it_was_written_for():
    def kernel(x, out):
        for i in range(min(x.size, 8)):
            out[7 - i if x.size == 8 else i] = x[i]

    return Fault(from_numba(kernel, jnp.flip), "other sizes", "with operands float32[7]: output 0: element [0] is")


@fault
def product_of_no_columns_is_not_written():
    def kernel(w, x, out):
        for i in range(w.shape[0]):
            for j in range(w.shape[1]):
                out[i] = w[i, j] * x[j] + (out[i] if j else 0)

    words = "with operands float32[4, 0], float32[0]: output 0: element [0] keeps"
    return Fault(from_numba(kernel, jnp.matmul), "other sizes", words, (MATRIX, X))


@fault
def sum_of_nothing_is_not_written():
    def kernel(x, out):
        if x.size:
            out[()] = x.sum()

    words = "with operands float32[0]: output 0: element [] keeps what its memory held"
    return Fault(from_numba(kernel, jnp.sum), "other sizes", words)


@fault
def divides_by_its_size():
    def kernel(x, out):
        out[()] = x.sum() / x.size * x.size

    return Fault(from_numba(kernel, jnp.sum), "other sizes", "with operands float32[0]: JaxRuntimeError", (POSITIVE,))


@fault
def no_row_with_a_rule_and_no_reference():
    def kernel(w, out):
        for j in range(w.shape[1]):
            for i in range(w.shape[0]):
                out[j] = w[i, j] + (out[j] if i else 0)

    op = operator(numba_generator(numba.njit(kernel)))
    op.def_sharding_rule("m k -> k", reduction_factors=("m",))
    words = "with operands float32[0, 8]: output 0: element [0] keeps"
    return Fault(op, "other sizes", words, (MATRIX,), {"outs": like(X)})


@fault
def gathers_whole_blocks_only():
    def kernel(x, index, out):
        for i in range(index.size // 4 * 4):
            out[i] = x[index[i]]

    index = np.array([3, 1, 2, 0, 7, 6, 5, 4], np.int32)
    op = from_numba(kernel, lambda x, index: x[index])
    return Fault(op, "other sizes", "with operands float32[7], int32[7]: output 0: element [4] keeps", (X, index))


# ---- values --------------------------------------------------------------------------------------------------------


def product_of_events(spikes, weights):
    return spikes @ weights


@fault
def returns_early_where_nobody_spikes():
    def kernel(spikes, weights, out):
        if not spikes.any():
            return
        for j in range(out.size):
            out[j] = 0
        for i in range(spikes.size):
            if spikes[i] != 0:
                for j in range(out.size):
                    out[j] += spikes[i] * weights[i, j]

    words = "with operand 0 all zero: output 0: element [0] keeps what its memory held before the call (4 of 4"
    return Fault(from_numba(kernel, product_of_events), "other values", words, (EVENTS, WEIGHTS))


@fault
def returns_early_where_no_boolean_is_true():
    def kernel(spikes, weights, out):
        if spikes.any():
            for j in range(out.size):
                out[j] = 0
            for i in range(spikes.size):
                if spikes[i]:
                    for j in range(out.size):
                        out[j] += weights[i, j]

    op = from_numba(kernel, product_of_events)
    words = "with operand 0 all false: output 0: element [0] keeps"
    return Fault(op, "other values", words, (EVENTS > 0, WEIGHTS))


@fault
def leaves_zeros_unwritten():
    def kernel(x, out):
        for i in range(x.size):
            if x[i] != 0:
                out[i] = 2 * x[i]

    return Fault(from_numba(kernel, twice), "other values", "with operand 0 all zero: output 0: element [0] keeps")


@fault
def leaves_zeros_unwritten_without_a_reference():
    def kernel(x, out):
        for i in range(x.size):
            if x[i] != 0:
                out[i] = 2 * x[i]

    op = operator(numba_generator(numba.njit(kernel)))
    return Fault(op, "other values", "with operand 0 all zero: output 0", options={"outs": like(X)})


@fault
def second_result_is_left_where_nobody_spikes():
    def kernel(x, out, first):
        for i in range(x.size):
            out[i] = 2 * x[i]
        for i in range(x.size):
            if x[i] > 0:
                first[()] = i
                break

    op = from_numba(kernel, lambda x: (2 * x, (x > 0).argmax()))
    return Fault(op, "other values", "with operand 0 all zero: output 1: element [] keeps")


@fault
def has_room_for_half_of_the_events():
    def kernel(spikes, weights, out):
        active = np.empty(4, np.int64)
        count = 0
        for i in range(spikes.size):
            if spikes[i] and count < 4:
                active[count] = i
                count += 1
        for j in range(out.size):
            out[j] = 0
        for k in range(count):
            for j in range(out.size):
                out[j] += weights[active[k], j]

    op = from_numba(kernel, product_of_events)
    return Fault(op, "other values", "with operand 0 all true: output 0: element [0] is", (EVENTS > 0, WEIGHTS))


@fault
def loses_the_sign():
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * abs(x[i])

    words = "with operand 0 negated: output 0: element [0] is 1.0, expected -1.0"
    return Fault(from_numba(kernel, twice), "other values", words, (POSITIVE,))


@fault
def divides_zero_by_zero():
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] * x[i] / x[i]

    op = from_numba(kernel, lambda x: x)
    return Fault(op, "other values", "with operand 0 all zero: JaxRuntimeError")


@fault
def swallows_nan():
    def kernel(x, out):
        for i in range(x.size):
            out[i] = x[i] if x[i] > 0 else 0

    words = "with operand 0 with NaN in it: output 0: element [4] is 0.0, expected nan"
    return Fault(from_numba(kernel, lambda x: jnp.maximum(x, 0)), "other values", words)


@fault
def maximum_swallows_nan():
    def kernel(x, out):
        out[()] = x[0]
        for value in x:
            out[()] = value if value > out[()] else out[()]

    return Fault(
        from_numba(kernel, jnp.max), "other values", "with operand 0 with NaN in it: output 0: is 3.0, expected nan"
    )


@fault
def skips_weights_that_are_no_number():
    def kernel(spikes, weights, out):
        for j in range(out.size):
            out[j] = 0
        for i in range(spikes.size):
            if spikes[i] != 0:
                for j in range(out.size):
                    if weights[i, j] == weights[i, j]:
                        out[j] += spikes[i] * weights[i, j]

    words = "with operand 1 with NaN in it: output 0"
    return Fault(from_numba(kernel, product_of_events), "other values", words, (EVENTS, WEIGHTS))


@fault
def clips_infinity():
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * min(x[i], np.float32(1e30))

    words = "with operand 0 with infinity in it: output 0: element [4] is"
    return Fault(from_numba(kernel, twice), "other values", words)


# ---- several devices -----------------------------------------------------------------------------------------------


@fault
def derivative_calls_an_operator_that_sees_the_whole_shape():
    op = operator(plain(lambda x: [x * x / 2]), lambda x: x * x / 2)
    inner = operator(plain(lambda x: [x * x.shape[0] / 8]))
    op.def_sharding_rule("i -> i")
    inner.def_sharding_rule("i -> i")
    op.def_jvp_rule2(lambda t, x, **_: t * inner(x, outs=jax.ShapeDtypeStruct(x.shape, x.dtype)))
    words = "operand 0 mapped, the batch split, and factor 'i': the gradient for operand 0"
    return Fault(op, "sharded grad of vmap", words)
