# SPDX-License-Identifier: Apache-2.0
"""Mistakes in gradients of networks, in e-prop, and in training as native code."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

_REFERENCE = ("test_network_reference",)

MUTANTS = (
    Mutant(
        "reference-opens-every-gate",
        "scalar/margin.py",
        "slope = jnp.where(gate, lax.stop_gradient(surrogate(margin)), 0)",
        "slope = lax.stop_gradient(surrogate(margin))",
        _REFERENCE,
    ),
    Mutant(
        "a-spike-that-moves-has-no-echo",
        "network/reference/spike_times.py",
        "(states, earlier + d_echo, -earlier)",
        "(states, earlier, -earlier)",
        ("test_spike_times",),
    ),
    Mutant(
        "eprop-forgets-no-spike-of-the-readout",
        "network/eprop.py",
        'carry["filtered"][name] @ out_states.T + ',
        'carry["filtered"][name] + ',
        ("test_eprop",),
    ),
    Mutant(
        "eprop-in-blocks-forgets-a-step-between-blocks",
        "network/training/blocks.py",
        "self._signal(p, errors.before(0))",
        "self._signal(p, errors.before(1))",
        ("test_eprop_in_blocks",),
    ),
    Mutant(
        "eprop-in-blocks-counts-late-spikes-twice",
        "network/training/cpu/on_changes.py",
        "while begin < end and found[begin] + late[which] < 0:",
        "while begin < end and found[begin] + late[which] < -1:",
        ("test_eprop_in_blocks",),
    ),
    Mutant(
        "training-goes-on-with-the-first-spikes",
        "network/training/runner.py",
        "return spikes[len(spikes) - depth :]",
        "return spikes[:depth]",
        ("test_training_on_cpu",),
    ),
    Mutant(
        "adjoints-are-found-again-with-other-derivatives-of-functions",
        "_content/walk.py",
        'if type(value).__module__.startswith("jax."):',
        "if False:",
        ("test_training_kept",),
    ),
    Mutant(
        "adjoints-are-found-again-with-other-settings-of-jax",
        "network/training/adjoints.py",
        "rounded, tracing_settings(), _ours()",
        "rounded, _ours()",
        ("test_training_kept",),
    ),
    Mutant(
        "adjoints-are-found-again-in-another-environment",
        "network/training/adjoints.py",
        "if content.opaque or content.fleeting:",
        "if content.opaque:",
        ("test_training_kept",),
    ),
    Mutant(
        "loops-of-training-are-for-one-number-of-neurons",
        "network/training/cpu/text.py",
        'lines.add(1, f"n{p} = z{p}.shape[2]")',
        'lines.add(1, f"n{p} = {cell.size}")',
        ("test_training_kept",),
    ),
    Mutant(
        "training-on-a-cpu-mixes-samples",
        "network/training/times.py",
        "moved = spikes if first else",
        "moved = spikes[::-1] if first else",
        ("test_training_on_cpu",),
    ),
    Mutant(
        "training-on-a-cpu-takes-nan-for-a-spike",
        "network/training/cpu/events.py",
        "jnp.isnan(spikes), np.uint8(2)",
        "jnp.isnan(spikes), np.uint8(1)",
        ("test_training_on_cpu",),
    ),
    Mutant(
        "matrices-with-a-synapse-twice-count-as-full",
        "network/plan/wiring.py",
        "(rows == np.arange(sources)[:, None]).all() and (columns == np.arange(targets)).all()",
        "(rows >= 0).all() and (columns >= 0).all()",
        ("test_training_kept",),
    ),
    Mutant(
        "training-on-a-gpu-has-weights-of-the-other-way",
        "network/training/gpu/weights.py",
        "ordered.transpose(5, 0, 6, 1, 7, 9, 4, 3, 8, 2)",
        "ordered.transpose(5, 0, 6, 1, 7, 9, 3, 4, 8, 2)",
        ("test_training_kernels",),
    ),
)
