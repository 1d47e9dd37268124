# SPDX-License-Identifier: Apache-2.0
"""Mistakes in events, and in the products of matrices with them."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_EVENTS = ("test_events", "test_event_dense")
_CSR = ("test_event_csr",)
_COO = ("test_event_coo",)
_FIXED = ("test_event_fixed",)
_OUT = ("test_event_out_of_range",)
_THREADS = ("test_event_threads",)
_TONGUES = ("test_event_csr_languages",)

MUTANTS = (
    Mutant(
        "activity-negative-numbers-are-events",
        "event/activity.py",
        "return x if x.dtype == bool else x > 0",
        "return x if x.dtype == bool else x != 0",
        (*_EVENTS, *_COO),
    ),
    Mutant(
        "activity-no-derivative-by-events",
        "event/activity.py",
        "weighted(jnp.ones(x.shape, weights.dtype), x) + straight",
        "weighted(jnp.ones(x.shape, weights.dtype), x)",
        (*_COO, *_FIXED),
    ),
    Mutant(
        "arrays-product-not-turned-back",
        "event/arrays.py",
        "return binary_densemm(matrix, events.T, transpose=True).T",
        "return binary_densemm(matrix, events.T, transpose=True)",
        _EVENTS,
    ),
    Mutant(
        "bitpack-negative-axis",
        "event/bitpack.py",
        "return axis % ndim",
        "return axis",
        ("test_events",),
    ),
    Mutant(
        "compact-neurons-of-the-wrong-axis",
        "event/compact.py",
        "active.any(1)",
        "active.any(0)",
        ("test_events",),
    ),
    Mutant(
        "linear-transposed-once-too-little",
        "event/linear.py",
        '"transpose": not params["transpose"], "outs": outs}',
        '"transpose": params["transpose"], "outs": outs}',
        (*_COO, *_FIXED),
    ),
    Mutant(
        "linear-batch-along-the-wrong-axis",
        "event/linear.py",
        "x = jnp.moveaxis(x, axes[-1], -1)",
        "x = jnp.moveaxis(x, axes[-1], 0)",
        (*_COO, *_FIXED),
    ),
    Mutant(
        "structure-an-index-one-too-large",
        "event/structure.py",
        "if high >= bound:",
        "if high > bound:",
        ("test_event_indices", "test_matrices"),
    ),
    Mutant(
        "structure-looked-at-for-another-size",
        "event/structure.py",
        "key = (check, *map(id, arrays), *facts.values())",
        "key = (check, *map(id, arrays))",
        ("test_event_indices", *_CSR),
    ),
    Mutant(
        "structure-known-after-it-is-gone",
        "event/structure.py",
        "weakref.ref(array, lambda _: _passed.pop(key, None))",
        "weakref.ref(array)",
        ("test_event_indices",),
    ),
    Mutant(
        "structure-portions-do-not-overlap",
        "event/structure.py",
        "min(_CHUNK, size - 1 - at) + 1))",
        "min(_CHUNK, size - 1 - at)))",
        ("test_sorted_indices", "test_matrix_corners"),
    ),
    Mutant(
        "structure-wide-indices-wrap-around",
        "event/structure.py",
        "clip(x, least, _INT32 - 1)",
        "clip(x, least, 2 * _INT32)",
        ("test_event_indices", "test_matrix_corners", *_OUT),
    ),
    Mutant(
        "units-last-unit-only",
        "event/units.py",
        "found = unit if found is None else found * unit",
        "found = unit",
        ("test_units",),
    ),
    Mutant(
        "on-cpu-last-term-only",
        "event/on_cpu.py",
        "sums[unsigned(index)] += term",
        "sums[unsigned(index)] = term",
        (*_COO, *_FIXED),
    ),
    Mutant(
        "on-cpu-pointers-beyond-the-end",
        "event/on_cpu.py",
        "return min(unsigned(begin), unsigned(stored)), min(unsigned(end), unsigned(stored))",
        "return unsigned(begin), min(unsigned(end), unsigned(stored))",
        _OUT,
    ),
    Mutant(
        "on-cpu-columns-cut-one-too-late",
        "event/on_cpu_events.py",
        "if indices[np.uint64(middle)] < column:",
        "if indices[np.uint64(middle)] <= column:",
        _THREADS,
    ),
    Mutant(
        "on-cpu-last-thread-not-added",
        "event/on_cpu_threads.py",
        "for other in range(1, threads):",
        "for other in range(1, threads - 1):",
        _THREADS,
    ),
    Mutant(
        "csr-silent-row-times-nan",
        "event/csr/on_cpu.py",
        "            if events:  #",
        "            if True:  #",
        (*_CSR, *_OUT),
    ),
    Mutant(
        "csr-values-of-rows-and-columns-swapped",
        "event/csr/functions.py",
        "place = indices if of_columns else row_of_each(indptr, indices.shape[0])",
        "place = row_of_each(indptr, indices.shape[0]) if of_columns else indices",
        _CSR,
    ),
    Mutant(
        "csr-negative-keys-come-first",
        "event/csr/conversions.py",
        "keys = jnp.where(keys < 0, slices, keys)",
        "keys = jnp.asarray(keys)",
        ("test_matrix_corners", *_OUT),
    ),
    Mutant(
        "csr-permuted-weights-are-cut",
        "event/csr/operators.py",
        '"e" if data.shape == indices.shape and not indexed else "w"',
        '"e" if data.shape == indices.shape else "w"',
        _CSR,
    ),
    Mutant(
        "csr-part-counts-from-the-start",
        "event/csr/operators.py",
        "jnp.maximum(indptr, 0) - begin.astype(indptr.dtype)",
        "jnp.maximum(indptr, 0)",
        _CSR,
    ),
    Mutant(
        "csr-weight-of-slices-not-counted",
        "event/csr/slices.py",
        "found = jnp.vdot(counts, cotangent).reshape(weights.shape)",
        "found = cotangent.sum().reshape(weights.shape)",
        _CSR,
    ),
    Mutant(
        "csr-rows-sorted-against-their-order",
        "event/csr/on_host.py",
        "rows[place] = row",
        "rows[place] = j",
        ("test_matrix_corners", *_CSR),
    ),
    Mutant(
        "csr-cpp-silent-row-times-nan",
        "event/csr/kernels.cc",
        "if (events) total = events * weight(0);",
        "total = events * weight(0);",
        _TONGUES,
    ),
    Mutant(
        "csr-cpp-last-weight-only",
        "event/csr/kernels.cc",
        "out[column(j)] += weight(j);",
        "out[column(j)] = weight(j);",
        _TONGUES,
    ),
    Mutant(
        "csr-tpu-last-block-only",
        "event/csr/on_pallas.py",
        "out[...] += jnp.where(chosen, terms[0], 0)",
        "out[...] = jnp.where(chosen, terms[0], 0)",
        _TONGUES,
    ),
    Mutant(
        "csr-warp-writes-before-the-beginning",
        "event/csr/on_warp.py",
        "if target >= wp.int64(0) and target < wp.int64(out.shape[0]):",
        "if target < wp.int64(out.shape[0]):",
        _TONGUES,
    ),
    Mutant(
        "coo-columns-held-to-rows",
        "event/coo/functions.py",
        '"col", col, bound=shape[1])',
        '"col", col, bound=shape[0])',
        (*_COO, "test_event_indices"),
    ),
    Mutant(
        "coo-reads-out-of-range",
        "event/coo/on_cpu.py",
        "if has(source, x.shape[0]) and has(target, out.shape[0]):",
        "if has(target, out.shape[0]):",
        (*_COO, *_OUT),
    ),
    Mutant(
        "coo-whole-weights-beside-cut-indices",
        "event/coo/operators.py",
        'each = "e" if data.shape == row.shape else " ".join(',
        'each = " ".join(',
        _COO,
    ),
    Mutant(
        "fixed-weights-of-other-rows",
        "event/fixed/on_cpu.py",
        "weights[first * indices.shape[1] : last * indices.shape[1]]",
        "weights[first:last]",
        _THREADS,
    ),
    Mutant(
        "fixed-cut-along-the-wrong-side",
        "event/fixed/operators.py",
        'source, result = ("pre", "post") if transpose else ("post", "pre")',
        'source, result = ("post", "pre") if transpose else ("pre", "post")',
        _FIXED,
    ),
    Mutant(
        "fixed-rows-not-counted",
        "event/fixed/functions.py",
        "if indices.shape[0] != shape[0]:",
        "if indices.ndim != 2:",
        (*_FIXED, "test_event_indices"),
    ),
    Mutant(
        "dense-rest-of-the-rows-forgotten",
        "event/dense/on_cpu.py",
        "for i in range(whole, height):",
        "for i in range(whole, height - 1):",
        ("test_event_dense", "test_events"),
    ),
    Mutant(
        "dense-batch-of-weights-taken-for-one",
        "event/dense/operators.py",
        "if of_weights is not None:",
        "if of_weights is not None and of_x is None:",
        ("test_event_dense",),
    ),
)
