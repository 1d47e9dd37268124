# SPDX-License-Identifier: Apache-2.0
"""Mistakes in networks: what rules of neurons mean, and how they are traced."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_RULE = ("test_rule_interpreter", "test_rule_trace", "test_rule_engines")
_PRIMITIVES = "scalar/primitives.py"
_CPU = ("test_network_cpu",)
_BUNDLES = ("test_network_bundles",)
_REFERENCE = ("test_network_reference",)
_BUILD = ("test_network_build",)
_MODELS = ("test_network_models", "test_network_sources")

MUTANTS = (
    Mutant(
        "rule-max-loses-nan",
        _PRIMITIVES,
        "np.where((a > b) | np.not_equal(a, a), a, b)",
        "np.where(a > b, a, b)",
        _RULE,
    ),
    Mutant(
        "rule-integers-by-zero-are-zero",
        _PRIMITIVES,
        "np.where(b == 0, -1, quotient)",
        "np.where(b == 0, 0, quotient)",
        _RULE,
    ),
    Mutant(
        "rule-shifts-by-32-and-more-are-by-31",
        _PRIMITIVES,
        "np.where(amount < 32, function(a, np.minimum(amount, 31).astype(a.dtype)), beyond)",
        "function(a, np.minimum(amount, 31).astype(a.dtype))",
        _RULE,
    ),
    Mutant(
        "rule-nan-as-an-integer-is-not-zero",
        _PRIMITIVES,
        "np.where(np.isnan(wide), 0, wide)",
        "np.where(np.isnan(wide), 1, wide)",
        _RULE,
    ),
    Mutant(
        "rule-products-that-round-up-to-the-smallest-number-stay",
        _PRIMITIVES,
        "np.abs(exact) < ROUNDS_TO_SMALLEST",
        "np.abs(exact) < 0",
        _RULE,
    ),
    Mutant(
        "rule-denormals-are-kept",
        "backends/numba/floats.py",
        "_FLUSHING = 0x9FC0",
        "_FLUSHING = 0x1F80",
        (*_RULE, *_CPU),
    ),
    Mutant(
        "bundles-mix-up-projections",
        "network/plan/on_cpu_bundles.py",
        "(place >= low) & (place < high)",
        "(place >= low) & (place <= high)",
        _BUNDLES,
    ),
    Mutant(
        "bundles-send-what-has-not-spiked-yet",
        "network/cpu/on_delivery.py",
        "if sent >= before:",
        "if sent > before:",
        _BUNDLES,
    ),
    Mutant(
        "given-sums-are-dropped",
        "network/cpu/memory.py",
        "self._use_ring(max(left, self._least))",
        "self._use_ring(self._least)",
        _BUNDLES,
    ),
    Mutant(
        "pieces-lose-the-last-elements",
        "_pieces.py",
        "min(begin + PIECE, size)",
        "min(begin + PIECE, size - 1)",
        ("test_pieces",),
    ),
    Mutant(
        "rule-another-branch-is-chosen",
        "scalar/control.py",
        "constant(place, index.dtype)",
        "constant(place + 1, index.dtype)",
        _RULE,
    ),
    Mutant(
        "poisson-counts-a-threshold-too-few",
        "scalar/poisson.py",
        "return grew & (u >= c)",
        "return grew & (u > c)",
        ("test_rule_random",),
    ),
    Mutant(
        "engine-numbers-the-rows-of-sums-from-the-step-after",
        "network/cpu/on_delivery.py",
        "place = ((step + np.int64(delays[entry])) & mask) * row",
        "place = ((step + np.int64(delays[entry]) + 1) & mask) * row",
        _CPU,
    ),
    Mutant(
        "engine-stops-for-the-spikes-of-the-step-before",
        "network/cpu/on_driver.py",
        "if keep_spikes(record, step, turn):",
        "if keep_spikes(record, step - 1, turn):",
        _CPU,
    ),
    Mutant(
        "runs-forget-ctrl-c-in-the-last-step",
        "network/run/simulation.py",
        "interrupted=stop.pressed",
        "interrupted=stop.pressed and self.steps < first + total",
        ("test_network_interrupts",),
    ),
    Mutant(
        "engine-records-all-steps-of-a-run-that-was-stopped",
        "network/cpu/engine.py",
        "recording.recorded(memory.step - recording.first, full)",
        "recording.recorded(steps, full)",
        ("test_network_interrupts",),
    ),
    Mutant(
        "checkpoints-read-arrays-of-any-size",
        "network/run/checkpoint.py",
        "if (dtype, shape) in kinds:",
        "if kinds:",
        ("test_network_checkpoint",),
    ),
    Mutant(
        "descriptions-name-a-projection-like-a-population",
        "network/description/network.py",
        "[*(p.name for p in self.populations), *self.projection_names]",
        "self.projection_names",
        _BUILD,
    ),
    Mutant(
        "quanta-that-are-given-make-all-weights-zero",
        "network/plan/quantum.py",
        "if 0 < largest <= number / 2:",
        "if 0 < largest <= number / 4:",
        _BUILD,
    ),
    Mutant(
        "reference-opens-every-gate",
        "network/reference/update.py",
        "slope = jnp.where(gate, jax.lax.stop_gradient(surrogate(margin)), 0)",
        "slope = jax.lax.stop_gradient(surrogate(margin))",
        _REFERENCE,
    ),
    Mutant(
        "models-adaptation-decays-for-a-whole-step-twice",
        "network/models/adex.py",
        '"half_w": decay(read.dt / 2, tau_w),',
        '"half_w": decay(read.dt, tau_w),',
        _MODELS,
    ),
    Mutant(
        "gpu-shifts-a-neuron-to-the-next-block",
        "network/gpu/partition.py",
        "return numbers % self.blocks * self.per + numbers // self.blocks",
        "return (numbers + 1) % self.blocks * self.per + numbers // self.blocks",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-keeps-denormals-that-are-given",
        "network/gpu/arrays.py",
        "self.of.where(words & _EXPONENT, words, words & _SIGN)",
        "words",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-pushes-to-the-sums-of-one-block",
        "network/gpu/rows.cu",
        "of.reach + target / of.owners + target % of.owners * of.share",
        "of.reach + target / of.owners",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-leaves-pushed-sums-where-they-are",
        "network/gpu/neurons.cu",
        "if (!RING_IN_BLOCK && sum) now[",
        "if (!RING_IN_BLOCK && sum > 99) now[",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-never-writes-integers-back",
        "network/gpu/neurons.cu",
        "else if (!(WHOLE_WORDS >> k & 1) || x != before)",
        "else if (!(WHOLE_WORDS >> k & 1))",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-sorts-many-spikes-of-a-step-in-part",
        "network/gpu/spikes.cu",
        "for (u32 width = 2; width <= size; width *= 2)",
        "for (u32 width = 2; width < size; width *= 2)",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-asks-for-one-unit-of-a-packet-twice",
        "network/gpu/exchange.cu",
        "if (unit * INLINE < n) get_pair(post.at + unit * words_of_unit(net), v[unit], w[unit]);",
        "if (unit * INLINE < n) get_pair(post.at + words_of_unit(net), v[unit], w[unit]);",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-records-no-spikes-beyond-a-list",
        "network/gpu/exchange.cu",
        "for (u32 k = lane; k < listed + desk.others; k += 32)",
        "for (u32 k = lane; k < listed; k += 32)",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-gives-each-lane-the-first-part-of-a-row",
        "network/gpu/exchange.cu",
        "read_row(start) + q % PARTS * 4, read_row",
        "read_row(start), read_row",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-reads-spikes-of-a-launch-that-still-runs",
        "network/gpu/spikes.py",
        "        self._rooms.reverse()\n",
        "",
        ("test_network_gpu",),
    ),
    Mutant(
        "gpu-in-jax-counts-steps-of-each-launch-from-zero",
        "network/gpu/program.py",
        'net["turn"] = turn',
        'net["turn"] = 0',
        ("test_network_in_jax",),
    ),
    Mutant(
        "gpu-in-jax-begins-the-ring-at-slot-zero",
        "network/gpu/arrays.py",
        "(self.of.asarray(step, np.uint32) % np.uint32(self.slots)).astype(np.int32)",
        "np.int32(0)",
        ("test_network_in_jax",),
    ),
    Mutant(
        "gpu-in-jax-frees-what-programs-read",
        "network/gpu/program.py",
        "_kept.update((memory.address, memory) for memory in self.memories)",
        "pass",
        ("test_network_in_jax",),
    ),
    Mutant(
        "states-share-what-is-on-its-way",
        "network/state.py",
        "np.array(state.arriving[p.name][r], np.int32)",
        "np.asarray(state.arriving[p.name][r], np.int32)",
        ("test_network_simulation",),
    ),
)
