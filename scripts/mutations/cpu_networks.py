# SPDX-License-Identifier: Apache-2.0
"""Mistakes in networks on a CPU: bundles, deliveries, couplings, and how a run ends."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_CPU = ("test_network_cpu",)
_COUPLINGS = ("test_couplings",)
_BUNDLES = ("test_network_bundles",)

MUTANTS = (
    Mutant(
        "couplings-on-a-cpu-read-the-row-that-is-written",
        "network/cpu/on_coupling.py",
        "word(table, COUPLING.size), step & 1",
        "word(table, COUPLING.size), (step + 1) & 1",
        _COUPLINGS,
    ),
    Mutant(
        "couplings-of-one-receptor-begin-anew",
        "network/cpu/memory.py",
        "self.plan.coupled[coupling.place][0] is coupling",
        "True",
        _COUPLINGS,
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
        "engine-records-all-steps-of-a-run-that-was-stopped",
        "network/cpu/engine.py",
        "recording.recorded(memory.step - recording.first, full)",
        "recording.recorded(steps, full)",
        ("test_network_interrupts",),
    ),
)
