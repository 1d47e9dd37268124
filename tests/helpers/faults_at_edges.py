# SPDX-License-Identifier: Apache-2.0
"""Operators that are wrong at the edge: sizes, zeros, duplicates, memory beside arrays, what a call leaves behind."""

import ctypes
import functools

import jax.numpy as jnp
import numba
import numpy as np
from faults import MATRIX, Fault, X, fault, operator, plain, twice
from faults_by_data import from_numba
from zoo import like, numba_generator

import brainevent
from brainevent.backends.numba.floats import flush_floats

INDEX = np.array([3, 1, 2, 0, 7, 6, 5, 4], np.int32)
ROWS = np.array([[2, 0], [1, 4], [3, 5], [0, 2]], np.int32)  # where the connections of four neurons go

# ---- sizes ---------------------------------------------------------------------------------------------------------


@fault
def forgets_the_last_of_an_odd_number_above_eight():
    def kernel(x, out):
        for i in range(x.size - (x.size > 8 and x.size % 2)):
            out[i] = 2 * x[i]

    return Fault(from_numba(kernel, twice), "other sizes", "element [126] keeps what its memory held")


@fault
def is_wrong_for_odd_numbers_above_eight_though_jax_compiles_it():
    def kernel(x):
        return [2 * x.at[-1].multiply(-1.0 if x.size > 8 and x.size % 2 else 1.0)]

    return Fault(
        operator(plain(kernel), twice), "other sizes", "with operands float32[127]: output 0: element [126] is"
    )


@fault
def forgets_what_follows_blocks_of_32():
    def kernel(x, out):
        for i in range(x.size if x.size < 32 else x.size // 32 * 32):
            out[i] = 2 * x[i]

    return Fault(from_numba(kernel, twice), "other sizes", "with operands float32[127]: output 0: element [96] keeps")


@fault
def forgets_the_last_of_whole_blocks_of_32():
    def kernel(x, out):
        for i in range(x.size - (x.size % 32 == 0)):
            out[i] = 2 * x[i]

    return Fault(from_numba(kernel, twice), "other sizes", "with operands float32[32]: output 0: element [31] keeps")


@fault
def has_room_for_64_columns():
    def kernel(x, y, out):
        for i in range(x.size):
            for j in range(y.size):
                out[i, j] = x[i] * y[j] if j < 64 or j > 1000 else 0

    words = "float32[129]: output 0: element [0, 64] is 0.0"
    return Fault(from_numba(kernel, jnp.outer), "other sizes", words, (X[:4], X))


@fault
def sums_pairs_of_one():
    def kernel(x, out):
        out[()] = x[0] + x[1] if x.size == 1 else x.sum()

    return Fault(from_numba(kernel, jnp.sum), "other sizes", "with operands float32[1]: operand 0: output 0 depends")


@fault
def divides_by_the_size_less_one():
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i] if x.size > 1 else 0

    return Fault(from_numba(kernel, twice), "other sizes", "with operands float32[1]: output 0: element [0] is 0.0")


@fault
def has_room_for_40000():
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i] if i < 40_000 else 0

    return Fault(
        from_numba(kernel, twice), "other sizes", "with operands float32[65539]: output 0: element [40990] is 0.0"
    )


@fault
def counts_columns_in_16_bits():
    def kernel(w, out):
        for i in range(w.shape[0]):
            out[i] = 0
            for j in range(w.shape[1]):
                out[i] += w[i, np.uint16(j)]

    op = from_numba(kernel, lambda w: w.sum(axis=1))
    op.def_sharding_rule("m k -> m", reduction_factors=("k",))
    return Fault(op, "other sizes", "output 0: element [", (MATRIX,))


@fault
def indices_are_of_16_bits():
    def kernel(x, index, out):
        for i in range(index.size):
            out[i] = x[np.uint16(index[i])]

    return Fault(from_numba(kernel, lambda x, index: x[index]), "other sizes", "output 0: element [", (X, INDEX))


# ---- values --------------------------------------------------------------------------------------------------------


def scatter(values, index):
    return jnp.zeros(8, values.dtype).at[index].add(values)


@fault
def sets_instead_of_adding():
    def kernel(values, index, out):
        out[:] = 0
        for i in range(index.size):
            out[index[i]] = values[i]

    words = "with operand 1 with duplicates: output 0: element ["
    return Fault(from_numba(kernel, scatter), "other values", words, (X, INDEX))


@fault
def sets_instead_of_adding_though_jax_compiles_it():
    op = operator(plain(lambda values, index: [jnp.zeros(8).at[index].set(values)]), scatter)
    return Fault(op, "other values", "with operand 1 with duplicates: output 0: element [", (X, INDEX))


@fault
def neurons_set_what_they_share():
    def kernel(spikes, rows, out):
        out[:] = 0
        for i in range(spikes.size):
            for j in range(rows.shape[1]):
                if spikes[i] and j and rows[i, j] == rows[i, j - 1]:
                    continue
                out[rows[i, j]] += spikes[i]

    op = from_numba(kernel, lambda spikes, rows: jnp.zeros(6).at[rows].add(spikes[:, None]))
    return Fault(op, "other values", "with operand 1 with duplicates", (np.float32([1, 0, 1, 1]), ROWS))


@fault
def takes_one_array_for_a_square():
    def kernel(x, y, out):
        for i in range(x.size):
            out[i] = x[i] * y[i] if x.ctypes.data != y.ctypes.data else 2 * x[i]

    words = "with one array for operands 0 and 1: output 0: element [0] is"
    return Fault(from_numba(kernel, jnp.multiply), "other values", words, (X, X + 1))


@fault
def loses_the_sign_of_zero():
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i] + np.float32(0)

    words = "with operand 0 all zero, negated: output 0: element [0] is 0.0, expected -0.0"
    return Fault(from_numba(kernel, twice), "other values", words, options={"signed_zeros": True})


@fault
def makes_zero_negative():
    op = operator(plain(lambda x: [jnp.where(x == 0, -0.0, jnp.abs(x))]), jnp.abs)
    words = "output 0: element [0] is -0.0, expected 0.0"
    return Fault(op, "values", words, (X * 0,), {"signed_zeros": True})


# ---- memory beside arrays ------------------------------------------------------------------------------------------


@fault
def writes_one_element_more():
    def kernel(x, out):
        for i in range(x.size + 1):
            out[i] = 2 * x[min(i, x.size - 1)]

    words = "output 0: 4 bytes were written past the end of its memory"
    return Fault(from_numba(kernel, twice), "within bounds", words)


@fault
def writes_whole_blocks():
    def kernel(x, out):
        for i in range((x.size + 3) // 4 * 4):
            out[i] = 2 * x[min(i, x.size - 1)]

    words = "output 0: 4 bytes were written past the end of its memory"
    return Fault(from_numba(kernel, twice), "other sizes", f"with operands float32[7]: {words}")


@fault
def reads_one_element_more():
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i] + 0 * x[i + 1]

    words = "operand 0: element [7] of output 0 depends on what is past the end of its memory"
    return Fault(from_numba(kernel, twice), "within bounds", words)


@fault
def reads_one_index_more():
    def kernel(x, index, out):
        for i in range(index.size):
            out[i] = x[index[i]] + 0 * index[i + 1] + (0 if index[i] <= index[i + 1] or i < index.size - 1 else 1e-3)

    op = from_numba(kernel, lambda x, index: x[index])
    words = "operand 1: element [7] of output 0 depends on what is past the end of its memory"
    return Fault(op, "within bounds", words, (X, INDEX), {"tolerance": 1e-2})


@fault
def reads_one_element_more_if_nobody_spikes():
    def kernel(keep, x, out):
        for i in range(x.size):
            out[i] = x[i] if keep[i] else 0
        if not keep.any():
            out[0] = min(abs(x[x.size]), 0)

    op = from_numba(kernel, lambda keep, x: jnp.where(keep, x, 0))
    return Fault(op, "other values", "with operand 0 all false: operand 1: element [0] of output 0", (X > 0, X))


# ---- C++, and what a call leaves behind ----------------------------------------------------------------------------

SOURCE = r"""
#include <cfenv>
#include <cstdlib>
#include "brainevent/common.h"

static void twice(const float* x, float* out, int64_t n) { for (int64_t i = 0; i < n; ++i) out[i] = 2 * x[i]; }

// @BE writes_before arg ret
void writes_before(const BE::Tensor x, BE::Tensor out) {
  twice(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  out.data_ptr<float>()[-2] = 0;
}

// @BE reads_before arg ret
void reads_before(const BE::Tensor x, BE::Tensor out) {
  twice(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
  volatile const float* before = x.data_ptr<float>() - 1;
  if (*before != 0) out.data_ptr<float>()[2] += 1e-6f;
}

// @BE leaks arg ret attr.size:int64
void leaks(const BE::Tensor x, BE::Tensor out, int64_t size) {
  static volatile char* lost;
  lost = static_cast<char*>(std::malloc(size));
  for (int64_t i = 0; i < size; i += 512) lost[i] = 1;
  twice(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
}

// @BE rounds_up arg ret
void rounds_up(const BE::Tensor x, BE::Tensor out) {
  std::fesetround(FE_UPWARD);
  twice(x.data_ptr<float>(), out.data_ptr<float>(), x.numel());
}
"""


@functools.cache
def compiled():
    return brainevent.load_cpp_inline("faults_at_edges", SOURCE, auto_register=False)


def in_cpp(name, **attributes):
    return operator(lambda *, outs: lambda x: [getattr(compiled(), name)(x, outs=outs[0], **attributes)], twice)


@fault
def writes_before_the_beginning():
    words = "output 0: 4 bytes were written before the beginning of its memory"
    return Fault(in_cpp("writes_before"), "within bounds", words)


@fault
def reads_before_the_beginning():
    words = "operand 0: element [2] of output 0 depends on what is before the beginning of its memory"
    return Fault(in_cpp("reads_before"), "within bounds", words)


@fault
def leaks_a_megabyte():
    return Fault(in_cpp("leaks", size=1 << 20), "memory released", "each call leaves 1,0")


@fault
def leaks_a_thousand_bytes():
    return Fault(in_cpp("leaks", size=1000), "memory released", "each call leaves ")


@fault
def leaks_what_numba_allocates():
    allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(("malloc", ctypes.CDLL(None)))

    def kernel(x, out):
        allocate(1 << 20)
        for i in range(x.size):
            out[i] = 2 * x[i]

    return Fault(from_numba(kernel, twice), "memory released", "each call leaves 1,0")


@fault
def leaves_another_rounding():
    words = "the call changes how the processor computes with floats: rounding"
    return Fault(in_cpp("rounds_up"), "floating-point mode", words)


@fault
def leaves_denormal_numbers_flushed():
    @numba.njit
    def kernel(x, out):
        flush_floats()
        for i in range(x.size):
            out[i] = 2 * x[i]

    words = "the call changes how the processor computes with floats: flushing of denormal numbers"
    return Fault(operator(numba_generator(kernel), twice), "floating-point mode", words)


@fault
def leaves_them_flushed_if_nobody_spikes():
    @numba.njit
    def kernel(x, out):
        for i in range(x.size):
            out[i] = 2 * x[i]
        if not x.any():
            flush_floats()

    words = "with operand 0 all zero: the call changes how the processor computes with floats"
    return Fault(operator(numba_generator(kernel)), "other values", words, options={"outs": like(X)})
