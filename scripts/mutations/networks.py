# SPDX-License-Identifier: Apache-2.0
"""Mistakes in descriptions, models, plans, states, plasticity and files of networks, and in their runs."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_BUILD = ("test_network_build",)
_MODELS = ("test_network_models", "test_network_sources")

MUTANTS = (
    Mutant(
        "couplings-that-are-set-keep-their-weights",
        "network/plan/replaced.py",
        "one.with_weights(weights[one.name]) if one.name in weights else one",
        "one",
        ("test_coupled_networks",),
    ),
    Mutant(
        "pieces-lose-the-last-elements",
        "_pieces.py",
        "min(begin + PIECE, size)",
        "min(begin + PIECE, size - 1)",
        ("test_pieces",),
    ),
    Mutant(
        "runs-forget-ctrl-c-in-the-last-step",
        "network/run/simulation.py",
        "interrupted=stop.pressed",
        "interrupted=stop.pressed and self.steps < first + total",
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
        "[*(p.name for p in self.populations), *self._names]",
        "self._names",
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
        "calls-with-other-weights-have-those-of-now",
        "network/calls/call.py",
        "if not now.has(about.name, given):",
        "if now.has(about.name, given):",
        ("test_network_in_programs",),
    ),
    Mutant(
        "models-adaptation-decays-for-a-whole-step-twice",
        "network/models/adex.py",
        '"half_w": decay(read.dt / 2, tau_w),',
        '"half_w": decay(read.dt, tau_w),',
        _MODELS,
    ),
    Mutant(
        "states-share-what-is-on-its-way",
        "network/state.py",
        "np.array(state.arriving[p.name][r], np.int32)",
        "np.asarray(state.arriving[p.name][r], np.int32)",
        ("test_network_simulation",),
    ),
    Mutant(
        "a-spike-of-the-source-potentiates",
        "network/plasticity/stdp.py",
        "w - p.a_minus * post.y",
        "w + p.a_minus * post.y",
        ("test_plasticity_rules",),
    ),
    Mutant(
        "plastic-weights-are-delivered-twice",
        "network/interpreted_synapses.py",
        "return interpret(self.forms[DELIVERED], [w, per_unit])[0]",
        "return 2 * interpret(self.forms[DELIVERED], [w, per_unit])[0]",
        ("test_plastic_interpreted",),
    ),
    Mutant(
        "simulate-forgets-parameters-that-were-set",
        "network/reference/parted.py",
        "if value is not own[key]}",
        "if value is None}",
        ("test_values_of_parts",),
    ),
    Mutant(
        "sonata-weights-are-read-as-float32",
        "network/sonata/edges.py",
        "if (narrow == data).all():",
        "if narrow.size:",
        ("test_sonata_circuits",),
    ),
    Mutant(
        "sonata-spikes-are-at-the-begin-of-their-step",
        "network/sonata/writing.py",
        "((steps + 1) * one.dt, ids[neurons])",
        "(steps * one.dt, ids[neurons])",
        ("test_sonata_files",),
    ),
    Mutant(
        "sonata-thresholds-do-not-decay-in-the-pause",
        "network/sonata/neurons/glif.py",
        "raised * p.spike_pause + p.spike_add",
        "raised + p.spike_add",
        ("test_sonata_neurons",),
    ),
    Mutant(
        "nir-loops-take-no-time",
        "network/nir/timing.py",
        "return max(delay, int(self.in_loop(source, target)))",
        "return delay",
        (
            "test_reading",
            "test_equations",
        ),
    ),
)
