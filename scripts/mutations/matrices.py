# SPDX-License-Identifier: Apache-2.0
"""Mistakes in matrices and what they give to kernels, random connectivity, recorded spikes and saved programs."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_MATRICES = ("test_matrix_corners", "test_matrices")
_SORTED = ("test_sorted_indices", "test_matrices")
_RANDOM = ("test_random_connectivity",)
_SPIKES = ("test_spikes",)

MUTANTS = (
    Mutant(
        "delays-a-slot-late",
        "event/delays/calls.py",
        'return jnp.full(1, number % slots, "int32")',
        'return jnp.full(1, (number + 1) % slots, "int32")',
        ("test_delays",),
    ),
    Mutant(
        "delays-ends-of-equal-delays-missed",
        "event/delays/layout.py",
        "(begins[:-1, None] + counts.cumsum(1)).astype",
        "(begins[:-1, None] + counts.cumsum(1) - (counts > 1)).astype",
        ("test_delays",),
    ),
    Mutant(
        "delays-threads-leave-a-place",
        "event/on_cpu/deliveries.py",
        "(lambda here, first, last: first <= here < last)",
        "(lambda here, first, last: first < here < last)",
        ("test_delays",),
    ),
    Mutant(
        "dense-batch-of-weights-taken-for-one",
        "event/laws/products.py",
        "if any(axis is not None for axis in axes[:-1]) or",
        "if",
        ("test_event_dense",),
    ),
    Mutant(
        "synapses-unit-of-neurons-in-compressed-rows",
        "event/synapses/functions.py",
        "units.product(unit, other_unit if unit_of_y else None)",
        "units.product(unit, other_unit)",
        ("test_synapses",),
    ),
    Mutant(
        "kernels-spikes-and-trace-swapped",
        "event/kernels/numba.py",
        "spikes, trace = (second, first) if of.post else (first, second)",
        "spikes, trace = first, second",
        ("test_plasticity",),
    ),
    Mutant(
        "matrix-changed-indices-stay-sorted",
        "event/matrices/base.py",
        "            self.indices_sorted = self.indices_within = False",
        "            self.indices_within = False",
        (*_SORTED, "test_event_out_of_range"),
    ),
    Mutant(
        "matrix-sum-of-one-weight",
        "event/matrices/arithmetic.py",
        "* (self.nse if numbers.size == 1 else 1)",
        "* 1",
        _MATRICES,
    ),
    Mutant(
        "matrix-length-of-the-other-side",
        "event/matrices/base.py",
        "length = self.shape[0] if transpose else self.shape[1]",
        "length = self.shape[1] if transpose else self.shape[0]",
        _MATRICES,
    ),
    Mutant(
        "matrix-padding-not-zero",
        "event/matrices/build.py",
        "jnp.where(filled, numbers[rows, columns], 0)",
        "numbers[rows, columns]",
        _MATRICES,
    ),
    Mutant(
        "csr-diagonal-in-the-next-row",
        "event/matrices/diagonal.py",
        "np.searchsorted(missing, np.arange(shape[0] + 1))",
        'np.searchsorted(missing, np.arange(shape[0] + 1), side="right")',
        _MATRICES,
    ),
    Mutant(
        "csc-random-by-rows",
        "event/matrices/csr.py",
        "num_per_row=num_per_column, num_per_column=num_per_row,",
        "num_per_row=num_per_row, num_per_column=num_per_column,",
        _RANDOM,
    ),
    Mutant(
        "fixed-filled-rows-stay-sorted",
        "event/matrices/fixed.py",
        "ordered = cut.indices_sorted and bool((counts == number).all())",
        "ordered = cut.indices_sorted",
        _SORTED,
    ),
    Mutant(
        "dense-product-in-low-precision",
        "event/matrices/dense.py",
        '"preferred_element_type": precise(dtype)}',
        '"preferred_element_type": dtype}',
        (*_MATRICES, "test_event_dense"),
    ),
    Mutant(
        "coo-only-the-shape-is-turned",
        "event/matrices/coo.py",
        "(self.col, self.row), turned,",
        "(self.row, self.col), turned,",
        _MATRICES,
    ),
    Mutant(
        "indexing-far-below-zero",
        "event/matrices/indexing.py",
        "jnp.where((chosen < 0) | (chosen > size), size, chosen)",
        "jnp.where(chosen > size, size, chosen)",
        _MATRICES,
    ),
    Mutant(
        "random-gaps-of-other-draws",
        "event/random/on_cpu.py",
        "_gap(stream, position - first + 1, scale)",
        "_gap(stream, position - first, scale)",
        _RANDOM,
    ),
    Mutant(
        "random-places-in-the-wrong-order",
        "event/random/on_cpu.py",
        "indices[place] = first + i // number",
        "indices[place] = i // number",
        _RANDOM,
    ),
    Mutant(
        "random-more-columns-than-there-are",
        "event/random/__init__.py",
        '_check_number(number := checked_count("random", "the number of connections", number), rows)',
        '_check_number(number := checked_count("random", "the number of connections", number), columns)',
        _RANDOM,
    ),
    Mutant(
        "saved-tuples-come-back-as-lists",
        "event/saved.py",
        "lambda saved: _tuples(json.loads(saved))",
        "json.loads",
        ("test_saved",),
    ),
    Mutant(
        "record-last-steps-dropped",
        "spikes/record.py",
        "if whole < steps:",
        "if whole < steps - 1:",
        _SPIKES,
    ),
    Mutant(
        "statistics-steps-rounded-up",
        "spikes/statistics.py",
        "as_float(time) / self.dt - 1e-6",
        "as_float(time) / self.dt",
        _SPIKES,
    ),
    Mutant(
        "statistics-intervals-between-neurons",
        "spikes/statistics.py",
        "np.diff(steps[order])[np.diff(neurons[order]) == 0]",
        "np.diff(steps[order])",
        _SPIKES,
    ),
    Mutant(
        "trains-second-choice-forgets-the-first",
        "spikes/trains.py",
        "return mask if self.mask is None else mask & np.asarray(self.mask)",
        "return np.asarray(mask)",
        _SPIKES,
    ),
    Mutant(
        "pictures-edges-on-the-steps",
        "spikes/pictures.py",
        "return (np.unique(np.round(wished)) - 0.5) * dt",
        "return np.unique(np.round(wished)) * dt",
        _SPIKES,
    ),
)
