# SPDX-License-Identifier: Apache-2.0
"""Mistakes in networks on several GPUs and on several hosts."""

from .mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "spikes-of-several-gpus-by-gpu",
        "network/run/merging.py",
        'keys.sort(kind="stable")  # which merges what is in order',
        "pass",
        ("test_several_gpus",),
    ),
    Mutant(
        "rows-pushed-first-are-those-of-other-lanes",
        "network/gpu/several/push.cu",
        "if (tid % PIECE < desk.quads[begin + k]) return",
        "if (tid % PIECE < desk.quads[begin + k] && k < THREADS / PIECE) return",
        ("test_several_gpus", "test_neurons_in_fours"),
    ),
    Mutant(
        "spikes-between-hosts-a-step-late",
        "network/hosts/engine.py",
        "self.apart = 1 if checked else min(self.least_delay, _MOST, self._own.most_apart)",
        "self.apart = 1 if checked else min(self.least_delay + 1, _MOST, self._own.most_apart)",
        ("test_network_hosts", "test_owned_gpus"),
    ),
    Mutant(
        "gpus-of-hosts-deliver-what-is-not-whole",
        "network/gpu/afar.cu",
        "if (message[0] & (FAILED | EARLY) || message[1] > (of.row - HEAD) / of.size) return false;",
        "if (message[0] & FAILED) return false;",
        ("test_owned_gpus",),
    ),
    Mutant(
        "gpus-of-hosts-go-back-to-the-other-list",
        "network/hosts/gpus.py",
        "if exchanges % 2:",
        "if not exchanges % 2:",
        ("test_owned_gpus",),
    ),
    Mutant(
        "gpus-of-a-process-go-back-by-the-steps-of-the-first",
        "network/hosts/gpus.py",
        "status = int(heads[gpu.shares.number, 0])",
        "status = int(heads[self.gpus[0].shares.number, 0])",
        ("test_owned_gpus",),
    ),
    Mutant(
        "gpus-of-a-process-do-not-wait-for-launches-that-end-early",
        "network/hosts/gpus.py",
        "while going := [one for one in self.each if one.turn < turn and not one.is_strange]:",
        "while self.turn < turn and (going := [one for one in self.each if not one.is_strange]):",
        ("test_owned_gpus",),
    ),
    Mutant(
        "gpus-of-hosts-pass-over-what-is-not-finite",
        "network/hosts/gpus.py",
        "gpu.engine.is_strange = bool(status & NOT_FINITE)",
        "gpu.engine.is_strange = False",
        ("test_owned_gpus",),
    ),
    Mutant(
        "gpus-of-hosts-tell-no-values-of-neurons-without-rows",
        "network/gpu/neurons.cu",
        "put_word(net.told + dealt_number(net, own.place, block), own.value);",
        "if (row != NOBODY) put_word(net.told + dealt_number(net, own.place, block), own.value);",
        ("test_owned_gpus",),
    ),
    Mutant(
        "gpus-of-hosts-deliver-values-as-weights",
        "network/gpu/afar.cu",
        "return value == NO_VALUE ? weight : (int)rintf((float)weight * __uint_as_float(value));",
        "return weight;",
        ("test_owned_gpus",),
    ),
    Mutant(
        "gpus-of-hosts-draw-for-neurons-from-0-on",
        "network/gpu/partition.py",
        "return self.begins[population], self.firsts.get(population, 0), size",
        "return self.begins[population], 0, size",
        ("test_owned_gpus",),
    ),
    Mutant(
        "hosts-deliver-only-what-waits-in-lists",
        "network/cpu/on_exchange.py",
        "for k in range(word(table, EXCHANGE.deliveries)):",
        "for k in range(0):",
        ("test_network_hosts",),
    ),
    Mutant(
        "each-gpu-owns-the-first-blocks",
        "network/gpu/several/part.py",
        "first=own * self.number, own=own",
        "first=0, own=own",
        ("test_several_gpus",),
    ),
    Mutant(
        "spikes-of-other-gpus-are-late",
        "network/gpu/rows.cu",
        "if (!is_here(of, source)) delay -= of.extra;",
        "if (false) delay -= of.extra;",
        ("test_several_placed",),
    ),
    Mutant(
        "delays-between-parts-taken-as-longer",
        "network/gpu/several/placement.py",
        "lag_for(near), lag_for(far)",
        "lag_for(near), lag_for(far + 1)",
        ("test_several_placed",),
    ),
    Mutant(
        "messages-leave-out-rows-of-lists",
        "network/gpu/several/courier.cu",
        "(all - unit + MESSAGE - 1) / MESSAGE",
        "(all - unit) / MESSAGE",
        ("test_several_messages",),
    ),
    Mutant(
        "events-of-sources-stay-on-their-gpu",
        "network/gpu/plastic_words.py",
        "event == SPIKE and name in sources",
        "event != SPIKE and name in sources",
        ("test_several_plastic",),
    ),
)
